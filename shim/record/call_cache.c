/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of call_cache.h: its slow halves.
 */
#include "shim/record/call_cache.h"

#include <string.h>

uint32_t shapes_generation = 1;

static uint64_t last_serial;

void shapes_attach(struct thread *self) {
    struct thread_part *part = &self->parts[PART_CALL_CACHE];
    if (part->memory) /* of a thread that ended, with rows of its lane */
        memset(part->memory, 0, part->bytes);
    else
        *part = (struct thread_part){os_memory(SHAPES * sizeof(struct shape)), SHAPES * sizeof(struct shape)};
}

void shape_learn(struct shape *s, struct lane *lane, const struct operation_sample *sample) {
    if (!s || lane->shared || sample->bytes == BYTES_UNKNOWN)
        return;
    uint64_t key = operation_key(sample->call, SOURCE_HOST, sample->peer_class, comm_and_epoch(sample->comm));
    s->operation = operations_find(lane, key, sample->bytes);
    s->row_bytes = sample->bytes;
}

struct shape *shape_make(struct thread *self, const struct call *call, const uintptr_t *a, uintptr_t pc,
                         uint32_t stack) {
    if (!shapes_of(self))
        return NULL;
    uint64_t serial = __atomic_add_fetch(&last_serial, 1, __ATOMIC_RELAXED);
    uint32_t generation = __atomic_load_n(&shapes_generation, __ATOMIC_ACQUIRE);
    struct shape *s = shape_places(self, call, a, pc);
    if (s->generation == generation) /* in use: the other one, or any of the two */
        s += s[1].generation != generation || serial % 2;
    s->call = call;
    s->object = a[(call->comm | call->win | call->file) - 1];
    s->count = a[call->count - 1];
    s->type = a[call->type - 1];
    s->partner = a[(call->peer | call->root) - 1];
    s->redop = a[call->redop - 1];
    s->stack = stack;
    s->generation = generation;
    s->channel = 0;
    s->operation = NULL;
    s->site = NULL;
    s->peer = NULL;
    s->serial = serial;
    return s;
}
