/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/doctor/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

static bool add(struct checks *checks, struct check check) {
    char *remedy = strchr(check.text, '\n');
    if (remedy) {
        *remedy = '\0';
        check.remedy = strdup(remedy + 1);
    }
    if ((remedy && !check.remedy) || !grow_list(checks->items, checks->count)) {
        free(check.remedy);
        return false;
    }
    checks->items[checks->count++] = check;
    return true;
}

void checks_add(struct checks *checks, enum check_state state, const char *subject, const char *format, ...) {
    struct check check = {.state = state, .subject = subject};
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&check.text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        checks->no_memory = true;
    } else if (!add(checks, check)) {
        checks->no_memory = true;
        free(check.text);
    }
}

void checks_free(struct checks *checks) {
    for (size_t i = 0; i < checks->count; i++) {
        free(checks->items[i].text);
        free(checks->items[i].remedy);
    }
    free(checks->items);
    *checks = (struct checks){0};
}

const char *check_state_name(enum check_state state) {
    static const char *const names[] = {"fine", "part", "blocked"};
    return names[state];
}

enum check_state checks_worst(const struct checks *checks) {
    enum check_state worst = CHECK_FINE;
    for (size_t i = 0; i < checks->count; i++)
        worst = checks->items[i].state > worst ? checks->items[i].state : worst;
    return worst;
}
