/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/traces/protobuf.h"

#include <string.h>

#include "analyzer/base/grow.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LENGTH = 2 };

void bytes_add(struct bytes *bytes, const void *data, size_t count) {
    if (!grow_to(bytes->data, bytes->room, bytes->count + count)) {
        bytes->no_memory = true;
        return;
    }
    if (count > 0)
        memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

void bytes_free(struct bytes *bytes) {
    free(bytes->data);
    *bytes = (struct bytes){0};
}

static void add_varint(struct bytes *bytes, uint64_t value) {
    unsigned char digits[10];
    size_t count = 0;
    for (; value >= 0x80; value >>= 7)
        digits[count++] = (unsigned char)(value | 0x80);
    digits[count++] = (unsigned char)value;
    bytes_add(bytes, digits, count);
}

static void add_tag(struct bytes *bytes, uint32_t field, enum wire_type type) {
    add_varint(bytes, (uint64_t)field << 3 | type);
}

void protobuf_varint(struct bytes *bytes, uint32_t field, uint64_t value) {
    add_tag(bytes, field, WIRE_VARINT);
    add_varint(bytes, value);
}

void protobuf_fixed64(struct bytes *bytes, uint32_t field, uint64_t value) {
    unsigned char little[8];
    for (unsigned i = 0; i < 8; i++)
        little[i] = (unsigned char)(value >> 8 * i);
    add_tag(bytes, field, WIRE_FIXED64);
    bytes_add(bytes, little, sizeof little);
}

void protobuf_double(struct bytes *bytes, uint32_t field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    protobuf_fixed64(bytes, field, bits);
}

void protobuf_text(struct bytes *bytes, uint32_t field, const char *text) {
    add_tag(bytes, field, WIRE_LENGTH);
    add_varint(bytes, strlen(text));
    bytes_add(bytes, text, strlen(text));
}

void protobuf_message(struct bytes *bytes, uint32_t field, const struct bytes *message) {
    add_tag(bytes, field, WIRE_LENGTH);
    add_varint(bytes, message->count);
    bytes_add(bytes, message->data, message->count);
    bytes->no_memory |= message->no_memory;
}
