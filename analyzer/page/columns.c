/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/columns.h"

#include <stdbool.h>

static bool is_all_alike(const json_t *column) {
    for (size_t i = 1; i < json_array_size(column); i++)
        if (!json_equal(json_array_get(column, i), json_array_get(column, 0)))
            return false;
    return json_array_size(column) > 1;
}

void columns_add(json_t *object, const char *key, json_t *column) {
    if (is_all_alike(column)) {
        json_object_set(object, key, json_array_get(column, 0));
        json_decref(column);
    } else {
        json_object_set_new(object, key, column);
    }
}
