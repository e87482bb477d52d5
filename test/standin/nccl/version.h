/* SPDX-License-Identifier: Apache-2.0
 *
 * The version the stand-in claims to be. Lives here: that number.
 */
#ifndef STANDIN_NCCL_VERSION_H
#define STANDIN_NCCL_VERSION_H

/* 22809, or what STANDIN_NCCL_VERSION says. */
int standin_nccl_version(void);

#endif
