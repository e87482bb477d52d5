/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/text.h"

#include <string.h>

#include "shim/base/edit_distance.h"

bool text_ends_in(const char *text, const char *end) {
    size_t length = strlen(text), part = strlen(end);
    return length >= part && strcmp(text + length - part, end) == 0;
}

const char *nearest_name(const char *name, const char *const *names, size_t count) {
    size_t length = strlen(name), best = edit_distance_most(name, length);
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(name, length, names[i]);
        if (distance < best || (distance == best && !nearest)) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}
