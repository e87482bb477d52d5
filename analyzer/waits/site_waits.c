/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table of call sites.
 * Lives here: finding and adding.
 * Must not live here: how a wait is worked out.
 */
#include "analyzer/waits/site_waits.h"

#include <stdlib.h>

#include "analyzer/base/ns.h"
#include "shim/format.h"

static size_t slot_of(const struct site_wait *slots, size_t size, uint32_t dump, uint32_t stack) {
    uint64_t hash = ((uint64_t)dump << 32 | stack) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & (size - 1);
    while (slots[at].stack != STACK_NONE && (slots[at].dump != dump || slots[at].stack != stack))
        at = (at + 1) & (size - 1);
    return at;
}

static bool grow(struct site_waits *waits) {
    size_t size = waits->size ? 2 * waits->size : 64;
    struct site_wait *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < waits->size; i++)
        if (waits->slots[i].stack != STACK_NONE)
            slots[slot_of(slots, size, waits->slots[i].dump, waits->slots[i].stack)] = waits->slots[i];
    free(waits->slots);
    waits->slots = slots;
    waits->size = size;
    return true;
}

void site_waits_add(struct site_waits *waits, size_t dump, uint32_t stack, int64_t wait_ns, int64_t waited_for_ns) {
    if (stack == STACK_NONE || (wait_ns == 0 && waited_for_ns == 0))
        return;
    if (2 * waits->count >= waits->size && !grow(waits)) {
        waits->no_memory = true;
        return;
    }
    struct site_wait *slot = &waits->slots[slot_of(waits->slots, waits->size, (uint32_t)dump, stack)];
    waits->count += slot->stack == STACK_NONE;
    slot->dump = (uint32_t)dump;
    slot->stack = stack;
    slot->wait_ns = add_ns(slot->wait_ns, wait_ns);
    slot->waited_for_ns = add_ns(slot->waited_for_ns, waited_for_ns);
}

void site_waits_merge(struct site_waits *into, const struct site_waits *from) {
    for (size_t i = 0; i < from->size; i++)
        site_waits_add(into, from->slots[i].dump, from->slots[i].stack, from->slots[i].wait_ns,
                       from->slots[i].waited_for_ns);
    into->no_memory |= from->no_memory;
}

void site_waits_free(struct site_waits *waits) {
    free(waits->slots);
    *waits = (struct site_waits){0};
}

struct site_wait site_waits_of(const struct site_waits *waits, size_t dump, uint32_t stack) {
    if (waits->size > 0 && stack != STACK_NONE) {
        const struct site_wait *slot = &waits->slots[slot_of(waits->slots, waits->size, (uint32_t)dump, stack)];
        if (slot->stack == stack)
            return *slot;
    }
    return (struct site_wait){.dump = (uint32_t)dump, .stack = stack};
}
