/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/faults.h"

/* What of a step says where: an entry of the section table that is in use. */
static struct section *section_of(struct dump_builder *builder, unsigned number) {
    struct section *sections = dump_builder_header(builder)->sections;
    unsigned used = 0;
    while (used < SECTIONS_MAX && sections[used].item_bytes > 0)
        used++;
    return &sections[used > 0 ? number % used : 0];
}

/* Entries may be damaged already: nothing outside the file is touched. */
static uint8_t *place(struct dump_builder *builder, uint64_t offset, uint64_t bytes) {
    size_t all;
    uint8_t *base = (uint8_t *)dump_builder_data(builder, &all);
    return offset <= all && bytes <= all - offset ? base + offset : NULL;
}

static void put(struct dump_builder *builder, uint64_t offset, unsigned width_code, uint64_t value) {
    static const uint8_t widths[] = {1, 2, 4, 8};
    uint8_t width = widths[width_code % 4];
    uint8_t *to = place(builder, offset / width * width, width);
    if (to)
        memcpy(to, &value, width);
}

/* Low items are those in use: half of the numbers mean one of the first eight. */
static uint64_t item_of(const struct section *section, unsigned number) {
    uint32_t count = number & 1 && section->count > 8 ? 8 : section->count;
    return count > 0 ? (uint64_t)(number / 2 % count) * section->item_bytes : 0;
}

static void damage_item(struct dump_builder *builder, const struct fuzz_step *step) {
    const struct section *section = section_of(builder, step->where);
    uint32_t bytes = section->item_bytes > 0 ? section->item_bytes : 1;
    put(builder, section->offset + item_of(section, step->x) + (step->y & 0x3fff) % bytes, step->y >> 14, step->value);
}

/* An item, or a field of it, over another of the same kind: what was sound twice. */
static void copy_item(struct dump_builder *builder, struct dump_builder *other, const struct fuzz_step *step) {
    const struct section *section = section_of(builder, step->where), *source = section_of(other, step->where);
    uint32_t item = section->item_bytes, bytes = item;
    uint64_t to = section->offset + item_of(section, step->x), from = source->offset + item_of(source, step->y);
    if (item > 8 && step->what & 1) {
        bytes = 8;
        to += step->value % item / 8 * 8;
        from += step->value % item / 8 * 8;
    }
    uint8_t *target = place(builder, to, bytes), *origin = place(other, from, bytes);
    if (target && origin)
        memmove(target, origin, bytes);
}

static void damage_section(struct dump_builder *builder, const struct fuzz_step *step) {
    struct section *section = section_of(builder, step->where);
    const struct section *other = section_of(builder, step->what >> 3);
    switch (step->what % 8) {
    case 0:
        section->count = (uint32_t)step->value;
        break;
    case 1:
        section->offset = step->value & 1 ? other->offset : step->value;
        break;
    case 2:
        section->bytes = step->value;
        break;
    case 3:
        section->kind = (uint32_t)(step->value % (SECTION_TRANSFERS + 2));
        break;
    case 4:
        section->index = (uint32_t)step->value;
        break;
    case 5: /* another kind of the same contents, sound in itself */
        section->kind = other->kind;
        section->count = other->item_bytes ? (uint32_t)(section->bytes / other->item_bytes) : 0;
        section->item_bytes = other->item_bytes;
        break;
    case 6:
        section->item_bytes = (uint32_t)step->value;
        break;
    default:
        *section = *other;
    }
}

/* Where the `number`-th definition of the first area lies, and its length; 0 when there are fewer. Earlier faults may
 * have moved the area anywhere. */
static uint64_t definition_at(struct dump_builder *builder, unsigned number, uint32_t *length) {
    const struct section *section = dump_builder_section(builder, SECTION_DEFINITIONS, 0);
    for (uint64_t at = 0; section && at + 16 <= section->bytes;) {
        struct definition head;
        const void *in_file = place(builder, section->offset + at, sizeof head);
        if (!in_file)
            return 0;
        memcpy(&head, in_file, sizeof head);
        *length = head.bytes;
        if (head.bytes < 16 || head.bytes % 16 != 0)
            return 0;
        if (number-- == 0)
            return section->offset + at;
        at += head.bytes;
    }
    return 0;
}

static void damage_definition(struct dump_builder *builder, const struct fuzz_step *step) {
    uint32_t length;
    uint64_t at = definition_at(builder, step->where % 64, &length);
    if (at)
        put(builder, at + step->x % length, step->y % 4, step->value);
}

static void damage_header(struct dump_builder *builder, const struct fuzz_step *step) {
    static const size_t offsets[] = {
        offsetof(struct dump_header, state),          offsetof(struct dump_header, world_id),
        offsetof(struct dump_header, generation),     offsetof(struct dump_header, rank),
        offsetof(struct dump_header, world_size),     offsetof(struct dump_header, local_rank),
        offsetof(struct dump_header, local_size),     offsetof(struct dump_header, rank_source),
        offsetof(struct dump_header, time_namespace), offsetof(struct dump_header, pid),
        offsetof(struct dump_header, clock_kind),     offsetof(struct dump_header, tick_hz_hint),
        offsetof(struct dump_header, gpu_timing),     offsetof(struct dump_header, section_limit),
        offsetof(struct dump_header, version),        offsetof(struct dump_header, activated_ticks)};
    if (step->what & 1) {
        put(builder, offsets[step->x % (sizeof offsets / sizeof *offsets)], 2 + (step->y & 1), step->value);
        return;
    }
    put(builder, step->x % offsetof(struct dump_header, sections), step->y % 4, step->value);
}

size_t fault_apply(enum fault fault, struct dump_builder *builder, struct dump_builder *other, size_t bytes,
                   const struct fuzz_step *step) {
    switch (fault) {
    case FAULT_ITEM:
        damage_item(builder, step);
        break;
    case FAULT_COPY:
        copy_item(builder, other, step);
        break;
    case FAULT_SECTION:
        damage_section(builder, step);
        break;
    case FAULT_DEFINITION:
        damage_definition(builder, step);
        break;
    case FAULT_HEADER:
        damage_header(builder, step);
        break;
    case FAULT_BYTES:
        put(builder, (uint64_t)step->where * SECTION_ALIGN + (uint64_t)step->x * 8 + step->what % 8, step->y % 4,
            step->value);
        break;
    default:
        return step->value % (bytes + 1);
    }
    return bytes;
}
