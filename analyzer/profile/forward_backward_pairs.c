/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairing backward collectives with forward ones.
 * Lives here: one walk over a dump's records.
 * Must not live here: the tree.
 */
#include "analyzer/profile/forward_backward_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/match/stream.h"

enum { FORWARDS_MAX = 4096 }; /* forward collectives that wait for their backward one */

/* A forward collective that was not paired yet. */
struct forward {
    uint32_t stack, comm;
    uint64_t bytes;
};

struct vote {
    uint32_t stack, comm, forward;
    uint64_t count;
};

enum pass_of_stack { OF_NEITHER = 0, OF_FORWARD, OF_BACKWARD };

struct forward_backward_pairs {
    const struct dump *dump;
    uint8_t *passes; /* enum pass_of_stack of each of the dump's stacks */
    struct forward *forwards;
    size_t forward_count;
    struct vote *votes;
    size_t vote_count;
};

static enum pass_of_stack pass_of(const struct forward_backward_pairs *pairs, uint32_t id) {
    const struct dump_stack *stack = dump_stack(pairs->dump, id);
    return stack ? (enum pass_of_stack)pairs->passes[stack - pairs->dump->stacks] : OF_NEITHER;
}

/* Returns -1 when memory is short, 1 when some stack cannot say where it belongs, else 0. */
static int find_passes(struct forward_backward_pairs *pairs, const struct symbols *symbols,
                       const struct skip_list *skip, size_t dump) {
    struct frames frames = {0};
    int needed = 0;
    for (size_t i = 0; needed >= 0 && i < pairs->dump->stack_count; i++) {
        if (!frames_of(&frames, symbols, skip, dump, pairs->dump->stacks[i].id)) {
            needed = -1;
        } else if (frames.pass == PASS_BACKWARD && !frames.has_python) {
            pairs->passes[i] = OF_BACKWARD;
            needed = 1;
        } else if (frames.pass == PASS_FORWARD && frames.has_python) {
            pairs->passes[i] = OF_FORWARD;
        }
    }
    frames_free(&frames);
    return needed;
}

static void push_forward(struct forward_backward_pairs *pairs, const struct record *record) {
    if (pairs->forward_count == FORWARDS_MAX) /* the oldest half will find no partner any more */
        memmove(pairs->forwards, pairs->forwards + FORWARDS_MAX / 2,
                (pairs->forward_count -= FORWARDS_MAX / 2) * sizeof *pairs->forwards);
    pairs->forwards[pairs->forward_count++] = (struct forward){record->stack, record->comm, record->bytes};
}

static bool vote(struct forward_backward_pairs *pairs, uint32_t stack, uint32_t comm, uint32_t forward) {
    for (size_t i = 0; i < pairs->vote_count; i++) {
        struct vote *vote = &pairs->votes[i];
        if (vote->stack == stack && vote->comm == comm && vote->forward == forward) {
            vote->count++;
            return true;
        }
    }
    if (!grow_list(pairs->votes, pairs->vote_count))
        return false;
    pairs->votes[pairs->vote_count++] = (struct vote){stack, comm, forward, 1};
    return true;
}

static bool pair(struct forward_backward_pairs *pairs, const struct record *record) {
    for (size_t i = pairs->forward_count; i-- > 0;) {
        struct forward forward = pairs->forwards[i];
        if (forward.comm != record->comm || forward.bytes != record->bytes)
            continue;
        memmove(pairs->forwards + i, pairs->forwards + i + 1, (--pairs->forward_count - i) * sizeof forward);
        return vote(pairs, record->stack, record->comm, forward.stack);
    }
    return true;
}

static bool walk_collectives(struct forward_backward_pairs *pairs) {
    struct record_stream stream;
    bool enough_memory = record_stream_begin(&stream, pairs->dump);
    for (const struct record *record; enough_memory && (record = record_stream_next(&stream));) {
        if (!(record->flags & FLAG_COLLECTIVE) || (record->kind != RECORD_CALL && record->kind != RECORD_POST))
            continue;
        enum pass_of_stack pass = pass_of(pairs, record->stack);
        if (pass == OF_FORWARD)
            push_forward(pairs, record);
        else if (pass == OF_BACKWARD)
            enough_memory = pair(pairs, record);
    }
    record_stream_end(&stream);
    return enough_memory;
}

struct forward_backward_pairs *forward_backward_pairs_new(const struct symbols *symbols, const struct skip_list *skip,
                                                          size_t dump) {
    struct forward_backward_pairs *pairs = calloc(1, sizeof *pairs);
    if (!pairs)
        return NULL;
    pairs->dump = symbols_dump(symbols, dump);
    pairs->passes = calloc(pairs->dump->stack_count + 1, sizeof *pairs->passes);
    pairs->forwards = malloc(FORWARDS_MAX * sizeof *pairs->forwards);
    int needed = pairs->passes && pairs->forwards ? find_passes(pairs, symbols, skip, dump) : -1;
    if (needed == 0 || (needed == 1 && walk_collectives(pairs)))
        return pairs;
    forward_backward_pairs_free(pairs);
    return NULL;
}

void forward_backward_pairs_free(struct forward_backward_pairs *pairs) {
    if (!pairs)
        return;
    free(pairs->passes);
    free(pairs->forwards);
    free(pairs->votes);
    free(pairs);
}

uint32_t forward_backward_pairs_forward(const struct forward_backward_pairs *pairs, uint32_t stack, uint32_t comm) {
    const struct vote *best = NULL;
    for (size_t i = 0; i < pairs->vote_count; i++) {
        const struct vote *vote = &pairs->votes[i];
        if (vote->stack == stack && vote->comm == comm &&
            (!best || vote->count > best->count || (vote->count == best->count && vote->forward < best->forward)))
            best = vote;
    }
    return best ? best->forward : STACK_NONE;
}
