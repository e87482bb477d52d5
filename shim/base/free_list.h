/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a fixed pool's free entries, for any number of threads, without locks. Entries never used before come
 * last, so that memory nobody needs is never touched.
 * Must not live here: the entries.
 */
#ifndef COMMTAP_SHIM_BASE_FREE_LIST_H
#define COMMTAP_SHIM_BASE_FREE_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct free_list {
    uint64_t head;  /* first number given back, low half, 0 = none; a count of changes, high half */
    uint32_t fresh; /* numbers handed out so far for the first time; may exceed capacity */
    uint32_t capacity;
    uint32_t *next; /* by number - 1 */
};

/* A number from 1 to capacity, 0 when all are in use. */
static inline uint32_t free_list_take(struct free_list *list) {
    uint64_t head = __atomic_load_n(&list->head, __ATOMIC_ACQUIRE);
    while ((uint32_t)head) {
        uint32_t next = __atomic_load_n(&list->next[(uint32_t)head - 1], __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&list->head, &head, ((head >> 32) + 1) << 32 | next, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_ACQUIRE))
            return (uint32_t)head;
    }
    if (__atomic_load_n(&list->fresh, __ATOMIC_RELAXED) >= list->capacity)
        return 0;
    uint32_t number = __atomic_add_fetch(&list->fresh, 1, __ATOMIC_RELAXED);
    return number <= list->capacity ? number : 0;
}

static inline void free_list_put(struct free_list *list, uint32_t number) {
    uint64_t head = __atomic_load_n(&list->head, __ATOMIC_RELAXED);
    do
        __atomic_store_n(&list->next[number - 1], (uint32_t)head, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&list->head, &head, ((head >> 32) + 1) << 32 | number, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
}

/* False while all are in use, as far as other threads let one tell. */
static inline bool free_list_has_any(const struct free_list *list) {
    return (uint32_t)__atomic_load_n(&list->head, __ATOMIC_RELAXED) ||
           __atomic_load_n(&list->fresh, __ATOMIC_RELAXED) < list->capacity;
}

/* How many numbers have ever been handed out: entries above were never touched. */
static inline uint32_t free_list_limit(const struct free_list *list) {
    uint32_t fresh = __atomic_load_n(&list->fresh, __ATOMIC_ACQUIRE);
    return fresh < list->capacity ? fresh : list->capacity;
}

#endif
