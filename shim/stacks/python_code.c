/* SPDX-License-Identifier: Apache-2.0
 *
 * Line tables: Objects/lnotab_notes.txt of CPython 3.8 to 3.10 and Objects/locations.md (InternalDocs/code_objects.md)
 * from 3.11 on.
 */
#include "shim/stacks/python_code.h"

#include <stdbool.h>

/* ---- text ------------------------------------------------------------------------------------ */

enum { KIND_SHIFT = 2, KIND_MASK = 7, COMPACT = 1 << 5, ASCII = 1 << 6 };

static uint32_t character(const uint8_t *data, unsigned kind, size_t i) {
    if (kind == 1)
        return data[i];
    return kind == 2 ? ((const uint16_t *)(const void *)data)[i] : ((const uint32_t *)(const void *)data)[i];
}

static size_t utf8(uint32_t c, uint8_t *to) {
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (uint8_t)(0xc0 | c >> 6);
        to[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (uint8_t)(0xe0 | c >> 12);
        to[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        to[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (uint8_t)(0xf0 | (c >> 18 & 7));
    to[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    to[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    to[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

static size_t encode(const uint8_t *data, unsigned kind, size_t length, char *to, size_t room) {
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t bytes[4];
        uint32_t c = character(data, kind, i);
        bool encodable = c < 0x110000 && (c < 0xd800 || c > 0xdfff);
        size_t n = utf8(encodable ? c : 0xfffd, bytes);
        if (written + n > room)
            break;
        if (to)
            memcpy(to + written, bytes, n);
        written += n;
    }
    return written;
}

size_t python_text(const struct python_runtime *python, uintptr_t object, char *to, size_t room) {
    const struct python_layout *at = &python->at;
    if (!object || python_word(object, at->object_type) != python->text_type)
        return 0;
    uint32_t state = python_u32(object, at->text_state);
    unsigned kind = state >> KIND_SHIFT & KIND_MASK;
    size_t length = python_word(object, at->text_length);
    uintptr_t data = object + (state & ASCII ? at->text_ascii : at->text_other);
    if (!(state & COMPACT)) /* the data lies elsewhere */
        data = python_word(object, at->text_other);
    if (!data || (kind != 1 && kind != 2 && kind != 4))
        return 0;
    if (!(state & ASCII))
        return encode((const uint8_t *)data, kind, length, to, room);
    size_t n = length < room ? length : room;
    if (to)
        memcpy(to, (const void *)data, n);
    return n;
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct line_table {
    const uint8_t *at, *end;
    int64_t line;
};

/* 3.8, 3.9: pairs (bytes of code, signed lines), each the start of a line's code. */
static int64_t line_by_lnotab(struct line_table t, int64_t offset) {
    int64_t address = 0;
    for (; t.at + 1 < t.end; t.at += 2) {
        address += t.at[0];
        if (address > offset)
            break;
        t.line += (int8_t)t.at[1];
    }
    return t.line;
}

/* 3.10: pairs (bytes of code, signed lines), each a stretch of code; -128 = it has no line. */
static int64_t line_by_stretches(struct line_table t, int64_t offset) {
    int64_t end = 0;
    for (; t.at + 1 < t.end; t.at += 2) {
        int delta = t.at[1] < 128 ? t.at[1] : t.at[1] - 256;
        end += t.at[0];
        if (delta != -128)
            t.line += delta;
        if (offset < end)
            return delta == -128 ? 0 : t.line;
    }
    return 0;
}

static int64_t signed_varint(const uint8_t *at, const uint8_t *end) {
    uint64_t value = 0;
    for (unsigned shift = 0; at < end && shift < 60; at++, shift += 6) {
        value |= (uint64_t)(*at & 0x3f) << shift;
        if (!(*at & 0x40))
            break;
    }
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* From 3.11: entries that begin with a byte 1 kind:4 length:3; bytes below 128 follow. */
static int64_t line_by_locations(struct line_table t, int64_t offset) {
    enum { ONE_LINE0 = 10, ONE_LINE2 = 12, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    int64_t end = 0;
    while (t.at < t.end) {
        unsigned kind = *t.at >> 3 & 15;
        end += (int64_t)2 * ((*t.at & 7) + 1);
        t.at++;
        if (kind == NO_COLUMNS || kind == LONG)
            t.line += signed_varint(t.at, t.end);
        else if (kind >= ONE_LINE0 && kind <= ONE_LINE2)
            t.line += kind - ONE_LINE0;
        if (offset < end)
            return kind == NONE ? 0 : t.line;
        while (t.at < t.end && *t.at < 128)
            t.at++;
    }
    return 0;
}

uint32_t python_line(const struct python_runtime *python, uintptr_t code, uintptr_t instruction) {
    const struct python_layout *at = &python->at;
    uintptr_t bytes = python_word(code, at->code_lines);
    int64_t offset, line, first = (int32_t)python_u32(code, at->code_first_line);
    if (at->version >= PYTHON_INTERPRETER_FRAMES)
        offset = (int64_t)(instruction - (code + at->code_start));
    else
        offset = (int64_t)(int32_t)instruction * (at->version >= 0x030a ? 2 : 1);
    if (!bytes || python_word(bytes, at->object_type) != python->bytes_type)
        return 0;
    const uint8_t *data = (const uint8_t *)bytes + at->bytes_data;
    struct line_table table = {data, data + python_word(bytes, at->bytes_size), first};
    if (offset < 0) /* not begun */
        line = first;
    else if (at->version >= PYTHON_INTERPRETER_FRAMES)
        line = line_by_locations(table, offset);
    else
        line = at->version >= 0x030a ? line_by_stretches(table, offset) : line_by_lnotab(table, offset);
    return line > 0 && line <= UINT32_MAX ? (uint32_t)line : 0;
}
