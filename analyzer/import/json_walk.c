/* SPDX-License-Identifier: Apache-2.0
 *
 * A large JSON document, one piece at a time.
 * Lives here: finding where a piece ends; errors with their place.
 * Must not live here: what the pieces mean.
 */
#include "analyzer/import/json_walk.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

_Static_assert(LIMIT_VALUE_BYTES == 16 << 20 && LIMIT_DEPTH == 512 && LIMIT_VALUES == 262144, "what messages say");

enum { KEY_MOST = 256 };

struct walker {
    struct import_source *source;
    json_piece take;
    void *context;
    struct json_error *error;
    int next; /* the byte not yet taken, -1 at the end */
    char *piece;
    size_t length, room;
    uint64_t piece_offset;
};

static bool fail(struct walker *walker, const char *text) {
    const char *reason = source_error(walker->source);
    walker->error->offset = source_offset(walker->source);
    snprintf(walker->error->text, sizeof walker->error->text, "%s", reason ? reason : text);
    return false;
}

static void step(struct walker *walker) {
    walker->next = source_byte(walker->source);
}

static void skip_blanks(struct walker *walker) {
    while (walker->next >= 0 && isspace(walker->next))
        step(walker);
}

/* Takes the next byte into the piece. */
static bool keep_piece(struct walker *walker) {
    if (walker->next < 0)
        return fail(walker, "the document ends too early");
    if (walker->length == LIMIT_VALUE_BYTES)
        return fail(walker, "one value is larger than 16 MB");
    if (!grow_by_one(walker->piece, walker->length, walker->room))
        return fail(walker, "no memory");
    walker->piece[walker->length++] = (char)walker->next;
    step(walker);
    return true;
}

static bool keep_string(struct walker *walker) {
    bool escaped = false;
    if (!keep_piece(walker))
        return false;
    for (;;) {
        int byte = walker->next;
        if (!keep_piece(walker))
            return false;
        if (!escaped && byte == '"')
            return true;
        escaped = !escaped && byte == '\\';
    }
}

static bool keep_nested(struct walker *walker) {
    unsigned depth = 0, values = 0;
    do {
        if (walker->next == '"') {
            if (!keep_string(walker))
                return false;
            continue;
        }
        depth += walker->next == '{' || walker->next == '[';
        depth -= walker->next == '}' || walker->next == ']';
        values += walker->next == '{' || walker->next == '[' || walker->next == ',';
        if (depth > LIMIT_DEPTH)
            return fail(walker, "values are nested more than 512 deep");
        if (values > LIMIT_VALUES)
            return fail(walker, "one value holds more than 262144 others");
        if (!keep_piece(walker))
            return false;
    } while (depth > 0);
    return true;
}

/* One value as text; jansson says later whether it is one. */
static bool keep_value(struct walker *walker) {
    walker->length = 0;
    walker->piece_offset = source_offset(walker->source);
    if (walker->next == '{' || walker->next == '[')
        return keep_nested(walker);
    if (walker->next == '"')
        return keep_string(walker);
    while (walker->next >= 0 && !isspace(walker->next) && !strchr(",]}", walker->next))
        if (!keep_piece(walker))
            return false;
    return walker->length > 0 || fail(walker, "a value is missing");
}

static bool hand_out_piece(struct walker *walker, const char *key) {
    json_error_t error;
    json_t *piece = json_loadb(walker->piece, walker->length, JSON_DECODE_ANY, &error);
    if (!piece) {
        uint64_t within = error.position > 0 ? (uint64_t)error.position : 0;
        walker->error->offset = walker->piece_offset + within;
        snprintf(walker->error->text, sizeof walker->error->text, "%.150s", error.text);
        return false;
    }
    bool done = walker->take(walker->context, key, piece);
    json_decref(piece);
    return done || fail(walker, "no memory");
}

/* What follows an element: another one (1), the end of its container (0), or something else (-1). */
static int after_element(struct walker *walker, char end) {
    skip_blanks(walker);
    int byte = walker->next;
    if (byte != ',' && byte != end) {
        fail(walker, byte < 0 ? "the document ends too early" : "a comma is missing");
        return -1;
    }
    step(walker);
    skip_blanks(walker);
    return byte == ',';
}

static bool walk_array(struct walker *walker, const char *key) {
    step(walker);
    skip_blanks(walker);
    if (walker->next == ']') {
        step(walker);
        return true;
    }
    for (int more = 1; more > 0;) {
        if (!keep_value(walker) || !hand_out_piece(walker, key))
            return false;
        more = after_element(walker, ']');
        if (more < 0)
            return false;
    }
    return true;
}

static bool walk_key(struct walker *walker, char key[KEY_MOST]) {
    walker->length = 0;
    if (walker->next != '"')
        return fail(walker, "a key is missing");
    if (!keep_string(walker))
        return false;
    size_t length = walker->length - 2 < KEY_MOST - 1 ? walker->length - 2 : KEY_MOST - 1;
    memcpy(key, walker->piece + 1, length);
    key[length] = '\0';
    skip_blanks(walker);
    if (walker->next != ':')
        return fail(walker, "a colon is missing");
    step(walker);
    skip_blanks(walker);
    return true;
}

static bool walk_object(struct walker *walker) {
    char key[KEY_MOST];
    step(walker);
    skip_blanks(walker);
    if (walker->next == '}') {
        step(walker);
        return true;
    }
    for (int more = 1; more > 0;) {
        if (!walk_key(walker, key))
            return false;
        bool done = walker->next == '[' ? walk_array(walker, key) : keep_value(walker) && hand_out_piece(walker, key);
        if (!done)
            return false;
        more = after_element(walker, '}');
        if (more < 0)
            return false;
    }
    return true;
}

bool json_walk(struct import_source *source, json_piece take, void *context, struct json_error *error) {
    struct walker walker = {.source = source, .take = take, .context = context, .error = error};
    step(&walker);
    skip_blanks(&walker);
    bool done = walker.next == '['   ? walk_array(&walker, NULL)
                : walker.next == '{' ? walk_object(&walker)
                : walker.next < 0
                    ? fail(&walker, "the file is empty")
                    : fail(&walker, "neither an array nor an object of JSON, nor a pickle of protocol 2 or later");
    if (done) {
        skip_blanks(&walker);
        if (walker.next >= 0 || source_error(source))
            done = fail(&walker, "something follows the document");
    }
    free(walker.piece);
    return done;
}
