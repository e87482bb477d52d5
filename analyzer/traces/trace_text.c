/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/traces/trace_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyzer/render/escape.h"

HASH_TABLE_OF_TEXTS(numbered_texts, struct trace_text);

/* Cuts at the end of a character. */
static void cut(char *text, size_t most) {
    if (strlen(text) <= most)
        return;
    size_t end = most - 3;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, "...", 4);
}

static char *make_valid(const char *text) {
    char *valid = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&valid, &bytes);
    if (!stream)
        return NULL;
    escape_text(stream, text);
    if (fclose(stream) != 0) {
        free(valid);
        return NULL;
    }
    cut(valid, TRACE_TEXT_MOST);
    return valid;
}

struct trace_text *trace_text(struct trace_texts *texts, const char *text) {
    struct trace_text *found = numbered_texts_find(&texts->table, text);
    if (found)
        return found;
    char *key = strdup(text), *valid = make_valid(text);
    found = key && valid ? numbered_texts_add(&texts->table, key) : NULL;
    if (!found) {
        free(key);
        free(valid);
        return NULL;
    }
    found->key = key;
    found->valid = valid;
    found->number = (uint32_t)texts->table.count;
    return found;
}

void trace_texts_free(struct trace_texts *texts) {
    for (size_t i = 0; i < texts->table.count; i++) {
        free((char *)numbered_texts_items(&texts->table)[i].key);
        free((char *)numbered_texts_items(&texts->table)[i].valid);
    }
    hash_table_free(&texts->table);
}
