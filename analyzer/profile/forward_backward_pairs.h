/* SPDX-License-Identifier: Apache-2.0
 *
 * Backward collectives paired with forward ones, for one dump.
 * Lives here: the pairing rule of call_tree.h.
 * Must not live here: the tree.
 */
#ifndef COMMTAP_PROFILE_FORWARD_BACKWARD_PAIRS_H
#define COMMTAP_PROFILE_FORWARD_BACKWARD_PAIRS_H

#include "analyzer/symbols/frames.h"

struct forward_backward_pairs;

/* Walks the records of dump number `dump`, in time order, where any of its stacks needs it. NULL when memory is
 * short; the caller frees with forward_backward_pairs_free. */
struct forward_backward_pairs *forward_backward_pairs_new(const struct symbols *symbols, const struct skip_list *skip,
                                                          size_t dump);
void forward_backward_pairs_free(struct forward_backward_pairs *pairs);

/* The forward stack that the collectives of a backward stack on a communicator (local index) belong to, STACK_NONE
 * where none was found. */
uint32_t forward_backward_pairs_forward(const struct forward_backward_pairs *pairs, uint32_t stack, uint32_t comm);

#endif
