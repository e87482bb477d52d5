/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that one thread writes all the time, beside that of others.
 * Lives here: keeping the two out of each other's cache lines. Must not live here: the threads (side_by_side.h).
 */
#ifndef COMMTAP_BASE_CACHE_LINES_H
#define COMMTAP_BASE_CACHE_LINES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Two lines of 64 bytes: processors fetch them in pairs (Intel 64 and IA-32 Architectures Optimization Reference
 * Manual, "spatial prefetcher"). */
enum { OWN_LINES_BYTES = 128 };

/* Before the first field of a struct of which each thread has one. */
#define ON_OWN_LINES _Alignas(OWN_LINES_BYTES)

/* As calloc, for an array of such structs; to be freed with free(). */
static inline void *calloc_on_own_lines(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - OWN_LINES_BYTES)
        return NULL;
    bytes = (bytes + OWN_LINES_BYTES - 1) / OWN_LINES_BYTES * OWN_LINES_BYTES;
    void *memory = aligned_alloc(OWN_LINES_BYTES, bytes);
    return memory ? memset(memory, 0, bytes) : NULL;
}

#endif
