/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/text_list.h"

#include "analyzer/render/escape.h"

struct text_number {
    const char *key;
    uint32_t number;
};

HASH_TABLE_OF_TEXTS(text_numbers, struct text_number);

void text_list_begin(struct text_list *list) {
    *list = (struct text_list){.texts = json_array()};
}

void text_list_free(struct text_list *list) {
    json_decref(list->texts);
    hash_table_free(&list->numbers);
}

json_t *text_list_number(struct text_list *list, const char *text) {
    size_t before = list->numbers.count;
    struct text_number *item = text ? text_numbers_add(&list->numbers, text) : NULL;
    if (item && list->numbers.count > before) {
        item->number = (uint32_t)before;
        json_array_append_new(list->texts, escape_json(text));
    }
    list->no_memory |= !item;
    return json_integer(item ? item->number : 0);
}
