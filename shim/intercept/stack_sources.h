/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands behind the native frames of a stack.
 * Lives here: which sources there are, and where. Must not live here: how they find their frames (stacks/, nvtx.h).
 */
#ifndef COMMTAP_SHIM_INTERCEPT_STACK_SOURCES_H
#define COMMTAP_SHIM_INTERCEPT_STACK_SOURCES_H

/* Adds what stacks are to hold now: once there is a dump to define things in, and whenever they are to hold more. */
void stack_sources_add(void);

#endif
