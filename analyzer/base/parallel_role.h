/* SPDX-License-Identifier: Apache-2.0
 *
 * What a communicator is for in a model that is trained or served in parallel, by its name: "mesh_tp", Megatron's
 * "TENSOR_AND_DATA_PARALLEL_GROUP", "dp_cp", as PyTorch's descriptions of process groups have it. Behind a comma are
 * places in the other dimensions ("data-parallel, pp 1 tp 0").
 * Lives here: the words. Must not live here: communicators.
 */
#ifndef COMMTAP_BASE_PARALLEL_ROLE_H
#define COMMTAP_BASE_PARALLEL_ROLE_H

enum { PARALLEL_ROLE_TEXT = 16 };

/* "TP", "DP", "PP", "CP", "EP", "SP", several as "TP+DP" in the order of the name, at most four; empty: the name does
 * not tell. Returns `role`. */
const char *parallel_role(char role[PARALLEL_ROLE_TEXT], const char *name);

#endif
