/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of areas, each handed out by one atomic addition.
 */
#include "shim/record/definitions.h"

#include <string.h>

#include "shim/base/os.h"

#define FIRST_AREA_BYTES (256u << 10)

static bool add_area(struct definitions *d, uint32_t index, size_t at_least) {
    uint64_t bytes = FIRST_AREA_BYTES << (index < 6 ? index : 6);
    if (bytes < at_least)
        bytes = at_least;
    char *area = (index == 0 ? dumpfile_next_section : dumpfile_further_section)(d->file, SECTION_DEFINITIONS, index,
                                                                                 (uint32_t)bytes, 1);
    if (!area)
        return false;
    d->sizes[index] = bytes;
    __atomic_store_n(&d->areas[index], area, __ATOMIC_RELEASE);
    return true;
}

void definitions_begin(struct definitions *d, struct dumpfile *file, struct losses *losses) {
    *d = (struct definitions){.file = file, .losses = losses};
    if (add_area(d, 0, 0))
        d->area_count = 1;
}

static void *take(struct definitions *d, uint32_t index, size_t bytes) {
    char *area = __atomic_load_n(&d->areas[index], __ATOMIC_ACQUIRE);
    if (!area || __atomic_load_n(&d->used[index], __ATOMIC_RELAXED) + bytes > d->sizes[index])
        return NULL;
    uint64_t at = __atomic_fetch_add(&d->used[index], bytes, __ATOMIC_RELAXED);
    return at + bytes <= d->sizes[index] ? area + at : NULL;
}

/* An area whose file has no room for its next page ends there: what stays zero readers step over. */
static struct definition *take_with_room(struct definitions *d, uint32_t index, size_t bytes) {
    struct definition *definition = take(d, index, bytes);
    if (!definition || dumpfile_make_room(d->file, definition, bytes))
        return definition;
    __atomic_store_n(&d->used[index], d->sizes[index], __ATOMIC_RELAXED);
    return NULL;
}

void *definitions_reserve(struct definitions *d, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    for (;;) {
        uint32_t count = __atomic_load_n(&d->area_count, __ATOMIC_ACQUIRE);
        struct definition *definition = count ? take_with_room(d, count - 1, bytes) : NULL;
        if (definition) {
            __atomic_store_n(&definition->bytes, (uint32_t)bytes, __ATOMIC_RELAXED);
            return definition;
        }
        /* One thread makes the next area; another one that comes meanwhile finds it missing and gives up. */
        uint32_t next = count + 1;
        if (count >= DEFINITION_AREAS || bytes > UINT32_MAX / 2 ||
            !__atomic_compare_exchange_n(&d->area_count, &count, next, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) ||
            !add_area(d, next - 1, bytes)) {
            __atomic_fetch_add(&d->losses->definitions_full, 1, __ATOMIC_RELAXED);
            return NULL;
        }
    }
}

void definitions_commit(void *definition, enum definition_kind kind) {
    struct definition *head = definition;
    __atomic_store_n(&head->commit, DEFINITION_MAGIC | (uint32_t)kind, __ATOMIC_RELEASE);
}

uint32_t definitions_string(struct definitions *d, const char *text, size_t length) {
    struct string_definition *string = definitions_reserve(d, sizeof *string + length);
    if (!string)
        return 0;
    string->id = __atomic_add_fetch(&d->last_string, 1, __ATOMIC_RELAXED);
    string->length = (uint32_t)length;
    memcpy(string->text, text, length);
    definitions_commit(string, DEFINITION_STRING);
    return string->id;
}
