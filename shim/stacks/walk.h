/* SPDX-License-Identifier: Apache-2.0
 *
 * Walking a stack: from the caller of a wrapper outwards, frame by frame.
 * Lives here: the cache of rules, one step, the fallbacks. Must not live here: remembering and numbering stacks.
 */
#ifndef COMMTAP_WALK_H
#define COMMTAP_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/stacks/view.h"

#define WALK_SLOTS_PER_FRAME 3u
#define FP_OF_CALLER         1u /* no word has this address */

/* A word that the walk read and that its frames follow from, and what it held: as long as all still hold the same, a
 * walk from the same registers gives the same frames. Of most code no frame follows from the frame pointer, which is
 * then a register like others: where it was saved is no slot, and the caller's need not be the same. */
struct stack_slot {
    const uintptr_t *at;
    uintptr_t value;
};

struct walk {
    uintptr_t pc, sp, fp; /* where it is: a return address, and the two registers once that is reached */
    uintptr_t fp_at;      /* where `fp` was read, if no slot says so yet; FP_OF_CALLER at the begin; 0 = nowhere */
    bool needs_fp;        /* the frames follow from the caller's frame pointer, too */
    uintptr_t link;       /* aarch64: return address still in its register (below a signal), 0 = none */
    struct stack_view *view;
    uint64_t *frames; /* room for `limit` and one more */
    uint32_t limit, depth;
    struct stack_slot *slots; /* room for WALK_SLOTS_PER_FRAME * limit */
    uint32_t slot_count;
    bool cut;       /* frames are missing beyond the last one; the last entry of `frames` says so */
    bool foreign;   /* read memory beyond the thread's own stack: a coroutine's, or nobody's */
    bool transient; /* not a function of the slots alone, or these may vanish: must not be remembered */
};

/* Empties the cache of rules: a new activation. False when there is no memory. */
bool walk_begin(void);

/* Forgets the rules of code in [start, end): it was unloaded. */
void walk_forget(uintptr_t start, uintptr_t end);

/* Walks from pc, sp, fp, with fp_at = FP_OF_CALLER. Reads nothing but what `view` allows; never fails: at worst one
 * frame and a cut. */
void walk_stack(struct walk *w);

#endif
