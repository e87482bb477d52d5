/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/call_cache.h"

#include <string.h>

uint32_t call_cache_generation = 1;

static uint64_t last_serial;

void call_cache_attach(struct thread *self) {
    struct thread_part *part = &self->parts[PART_CALL_CACHE];
    if (part->memory) /* of a thread that ended, with rows of its lane */
        memset(part->memory, 0, part->bytes);
    else
        *part = (struct thread_part){os_memory(CALL_CACHE_ENTRIES * sizeof(struct cached_call)),
                                     CALL_CACHE_ENTRIES * sizeof(struct cached_call)};
}

void cached_call_learn(struct cached_call *c, struct lane *lane, const struct operation_sample *sample) {
    if (!c || lane->shared || sample->bytes == BYTES_UNKNOWN)
        return;
    uint64_t key = operation_key(sample->call, SOURCE_HOST, sample->peer_class, comm_and_epoch(sample->comm));
    c->operation = operations_find(lane, key, sample->bytes);
    c->row_bytes = sample->bytes;
}

struct cached_call *call_cache_add(struct thread *self, const struct call *call, const uintptr_t *a, uintptr_t pc,
                                   uint32_t stack) {
    if (!call_cache_of(self))
        return NULL;
    uint64_t serial = __atomic_add_fetch(&last_serial, 1, __ATOMIC_RELAXED);
    uint32_t generation = __atomic_load_n(&call_cache_generation, __ATOMIC_ACQUIRE);
    struct cached_call *c = call_cache_places(self, call, a, pc);
    if (c->generation == generation) /* in use: the other one, or any of the two */
        c += c[1].generation != generation || serial % 2;
    c->call = call;
    c->object = a[(call->comm | call->win | call->file) - 1];
    c->count = a[call->count - 1];
    c->type = a[call->type - 1];
    c->partner = a[(call->peer | call->root) - 1];
    c->redop = a[call->redop - 1];
    c->stack = stack;
    c->generation = generation;
    c->channel = 0;
    c->operation = NULL;
    c->site = NULL;
    c->peer = NULL;
    c->recorded.flags = c->done.flags = NO_KNOWN_TEMPLATE;
    c->serial = serial;
    return c;
}
