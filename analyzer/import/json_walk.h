/* SPDX-License-Identifier: Apache-2.0
 *
 * A large JSON document, one piece at a time.
 * Lives here: cutting a document into the elements of its outermost arrays; jansson parses each.
 * Must not live here: what the pieces mean.
 *
 * The pieces of `[a, b]` are a and b, without a key; those of `{"k": [a, b], "m": c}` are a and b with key "k", and c
 * with key "m". Memory is bounded by the largest piece.
 */
#ifndef COMMTAP_IMPORT_JSON_WALK_H
#define COMMTAP_IMPORT_JSON_WALK_H

#include <jansson.h>

#include "analyzer/import/source.h"

struct json_error {
    uint64_t offset; /* in the document, decompressed */
    char text[160];  /* what is wrong there */
};

/* Takes one piece; borrows it. Returns false to end the walk: out of memory. */
typedef bool (*json_piece)(void *context, const char *key, const json_t *piece);

/* Walks the source's present document. Returns false with `error` filled. */
bool json_walk(struct import_source *source, json_piece take, void *context, struct json_error *error);

#endif
