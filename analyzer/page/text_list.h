/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that columns of a page refer to by number.
 * Lives here: numbering them, each once, in the order of appearance.
 * Must not live here: which columns there are.
 */
#ifndef COMMTAP_PAGE_TEXT_LIST_H
#define COMMTAP_PAGE_TEXT_LIST_H

#include <jansson.h>
#include <stdbool.h>

#include "analyzer/base/hash_table.h"

struct text_list {
    json_t *texts; /* what the page gets */
    struct hash_table numbers;
    bool no_memory;
};

/* Freed with text_list_free in every case. */
void text_list_begin(struct text_list *list);
void text_list_free(struct text_list *list);

/* The number of a text, which lives as long as the list; NULL stands for memory that is short. */
json_t *text_list_number(struct text_list *list, const char *text);

#endif
