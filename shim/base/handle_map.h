/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from a library's handles to one word each: communicators, windows, files, messages, datatype sizes.
 * Open addressing, fixed size, no locks: readers never wait, writers claim a key by compare-and-swap.
 */
#ifndef COMMTAP_SHIM_BASE_HANDLE_MAP_H
#define COMMTAP_SHIM_BASE_HANDLE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/base/os.h"

#define HANDLE_MAP_SIZE  8192u
#define HANDLE_MAP_REACH 128u /* entries looked at: a map full of freed ones costs a miss no more than that */
#define HANDLE_FREED     1u   /* no library has a handle 1 */

struct handle_map {
    struct handle_entry {
        uintptr_t handle; /* 0 never used, HANDLE_FREED reusable */
        uintptr_t value;  /* never 0 while valid */
    } entries[HANDLE_MAP_SIZE];
};

static inline uint32_t handle_slot(uintptr_t handle) {
    return (uint32_t)(hash_spread(handle ^ handle >> 29) >> 40) & (HANDLE_MAP_SIZE - 1);
}

static inline struct handle_entry *handle_map_entry(struct handle_map *map, uintptr_t handle) {
    uint32_t at = handle_slot(handle);
    for (uint32_t i = 0; i < HANDLE_MAP_REACH; i++) {
        struct handle_entry *entry = &map->entries[(at + i) & (HANDLE_MAP_SIZE - 1)];
        uintptr_t key = __atomic_load_n(&entry->handle, __ATOMIC_ACQUIRE);
        if (likely(key == handle))
            return entry;
        if (key == 0)
            return NULL;
    }
    return NULL;
}

/* The value of `handle`, 0 when it is not there. */
static inline uintptr_t handle_map_get(struct handle_map *map, uintptr_t handle) {
    struct handle_entry *entry = handle_map_entry(map, handle);
    return entry ? __atomic_load_n(&entry->value, __ATOMIC_ACQUIRE) : 0;
}

/* Sets or replaces. False when there is no room in reach. */
static inline bool handle_map_set(struct handle_map *map, uintptr_t handle, uintptr_t value) {
    struct handle_entry *entry = handle_map_entry(map, handle);
    if (entry) {
        __atomic_store_n(&entry->value, value, __ATOMIC_RELEASE);
        return true;
    }
    uint32_t at = handle_slot(handle);
    for (uint32_t i = 0; i < HANDLE_MAP_REACH; i++) {
        entry = &map->entries[(at + i) & (HANDLE_MAP_SIZE - 1)];
        uintptr_t key = __atomic_load_n(&entry->handle, __ATOMIC_RELAXED);
        if (key > HANDLE_FREED ||
            !__atomic_compare_exchange_n(&entry->handle, &key, handle, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&entry->value, value, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

static inline void handle_map_remove(struct handle_map *map, uintptr_t handle) {
    struct handle_entry *entry = handle_map_entry(map, handle);
    if (entry) {
        __atomic_store_n(&entry->value, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&entry->handle, HANDLE_FREED, __ATOMIC_RELEASE);
    }
}

#endif
