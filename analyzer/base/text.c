/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/text.h"

#include <stdlib.h>
#include <string.h>

#include "shim/base/edit_distance.h"

bool text_ends_in(const char *text, const char *end) {
    size_t length = strlen(text), part = strlen(end);
    return length >= part && strcmp(text + length - part, end) == 0;
}

bool text_seconds(const char *text, double least, double most, double *seconds) {
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits), point = text[whole] == '.';
    size_t fraction = point ? strspn(text + whole + 1, digits) : 0;
    double value = strtod(text, NULL);
    if (whole + fraction == 0 || text[whole + point + fraction] != '\0' || value < least || value > most)
        return false;
    *seconds = value;
    return true;
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
