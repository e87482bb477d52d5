/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree in its forms.
 * Lives here: text in the layout of PyTorch's CommDebugMode, commtap.calls/1, CommDebugMode's JSON, folded stacks.
 * Must not live here: figures.
 */
#ifndef COMMTAP_RENDER_CALL_TREE_H
#define COMMTAP_RENDER_CALL_TREE_H

#include <jansson.h>
#include <stdio.h>

#include "analyzer/profile/call_tree.h"

/* What is said beside the tree. */
struct call_tree_context {
    unsigned noise;
    bool waits;                /* the tree has them */
    bool filtered;             /* it holds some calls only */
    const struct scope *scope; /* the tree's */
    const char *run_id;
    const char *const *notes; /* of the symbols */
    size_t note_count;
    size_t top; /* text: frames shown below each, those that took longest; 0: all */
};

/* A node's function at 4 blanks per level; below it, further in by 2, the pass where it is known, and by 4, one line
 * per operation; a node includes its children. */
void call_tree_print_text(FILE *stream, const struct call_tree *tree, const struct call_tree_context *context,
                          bool color);

/* commtap.calls/1. NULL when memory is short. */
json_t *call_tree_to_json(const struct call_tree *tree, const struct call_tree_context *context);

/* The JSON that CommDebugMode writes and its browser view reads. A node is a module: fqn is its path, module_type its
 * kind. Passes that are not known count as forward, calls that only set up are left out. Operations (noise 1 and up)
 * are the communication calls that a node makes itself; their shapes and shardings are not known here, device_mesh
 * names the communicator's ranks. NULL when memory is short. */
json_t *call_tree_to_commdebug(const struct call_tree *tree, unsigned noise);

enum call_weight { WEIGHT_TIME = 0, WEIGHT_IN_FLIGHT, WEIGHT_WAIT, WEIGHT_BYTES, WEIGHT_COUNT };

/* One line per node and operation that it calls itself: frames joined by semicolons, a blank, the weight (times in
 * ns). Lines of weight 0 are left out. Returns false when memory is short. */
bool call_tree_print_folded(FILE *stream, const struct call_tree *tree, enum call_weight weight);

#endif
