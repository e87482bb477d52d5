/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/doctor/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

/* `parted`: where the remedy begins, behind one byte more; negative: there is none. */
static bool add(struct checks *checks, struct check check, int parted) {
    if (parted >= 0) {
        check.text[parted] = '\0';
        check.remedy = strdup(check.text + parted + 1);
    }
    if ((parted >= 0 && !check.remedy) || !grow_list(checks->items, checks->count)) {
        free(check.remedy);
        return false;
    }
    checks->items[checks->count++] = check;
    return true;
}

/* How long the text is in front of the format's newline: names of files may have newlines, too. Negative: it has none,
 * or memory is short. */
static int length_before_remedy(const char *format, va_list arguments) {
    const char *newline = strchr(format, '\n');
    char *before = newline ? strndup(format, (size_t)(newline - format)) : NULL;
    int length = before ? vsnprintf(NULL, 0, before, arguments) : -1;
    free(before);
    return length;
}

void checks_add(struct checks *checks, enum check_state state, const char *subject, const char *format, ...) {
    struct check check = {.state = state, .subject = subject};
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vasprintf(&check.text, format, arguments), parted = length_before_remedy(format, again);
    va_end(again);
    va_end(arguments);
    if (length < 0) {
        checks->no_memory = true;
    } else if (!add(checks, check, parted)) {
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
