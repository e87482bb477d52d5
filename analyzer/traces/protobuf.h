/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages in protobuf's wire format (protobuf.dev, "Encoding"): varints, 64-bit and length-delimited fields.
 * Lives here: writing fields into memory.
 * Must not live here: any particular message.
 */
#ifndef COMMTAP_TRACES_PROTOBUF_H
#define COMMTAP_TRACES_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is empty; can be used again after setting count to 0. */
struct bytes {
    char *data;
    size_t count, room;
    bool no_memory; /* something could not be added */
};

void bytes_add(struct bytes *bytes, const void *data, size_t count);
void bytes_free(struct bytes *bytes);

void protobuf_varint(struct bytes *bytes, uint32_t field, uint64_t value);
void protobuf_fixed64(struct bytes *bytes, uint32_t field, uint64_t value);
void protobuf_double(struct bytes *bytes, uint32_t field, double value);
void protobuf_text(struct bytes *bytes, uint32_t field, const char *text);
void protobuf_message(struct bytes *bytes, uint32_t field, const struct bytes *message);

#endif
