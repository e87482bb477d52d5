/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/knobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/text.h"
#include "shim/base/knob_values.h"

extern char **environ;

static const struct knob knobs[] = {
#define KNOB(field, name, type, fallback, doc) {#name, #type, fallback, doc},
#include "shim/knobs.def"
#undef KNOB
};

/* What the library makes of a number. */
static uint64_t number_in_force(const char *name, uint64_t given) {
    if (strcmp(name, "COMMTAP_RING") == 0)
        return knob_ring(given);
    if (strcmp(name, "COMMTAP_STACK_DEPTH") == 0)
        return knob_stack_depth(given);
    return strcmp(name, "COMMTAP_MODE") == 0 ? knob_mode(given) : given;
}

static bool is_understood(const struct knob *knob, const char *text, uint64_t *number) {
    bool on;
    const char *words = knob_words(knob->name);
    if (strcmp(knob->type, "NUMBER") == 0)
        return knob_number(text, number);
    if (strcmp(knob->type, "SWITCH") == 0)
        return knob_switch(text, &on);
    if (strcmp(knob->name, "COMMTAP_VERBOSE") == 0)
        return knob_verbose_is_sound(text);
    if (strcmp(knob->name, "COMMTAP_REGION") == 0)
        return knob_region_is_sound(text);
    return !words || knob_is_one_of(words, text);
}

/* What is given, but for a number that the library takes for another one, or what it cannot read. */
static void find_value(struct knob_setting *setting, knob_complain *complain, void *context) {
    const char *name = setting->knob->name, *text = getenv(name), *why = NULL;
    uint64_t given = 0;
    setting->value = setting->knob->fallback;
    if (!text || !*text)
        return;
    setting->value = text;
    if (!is_understood(setting->knob, text, &given)) {
        setting->value = setting->knob->fallback;
        why = "is not understood";
    } else if (strcmp(setting->knob->type, "NUMBER") == 0 && number_in_force(name, given) != given) {
        snprintf(setting->number, sizeof setting->number, "%s%" PRIu64, strcmp(name, "COMMTAP_MODE") == 0 ? "0" : "",
                 number_in_force(name, given));
        setting->value = setting->number;
        why = "is rounded to what is possible";
    }
    if (why)
        complain(context, &(struct knob_complaint){.name = name, .given = text, .why = why, .used = setting->value});
}

void knobs_in_force(struct knob_setting *settings, knob_complain *complain, void *context) {
    for (size_t i = 0; i < KNOBS; i++) {
        settings[i] = (struct knob_setting){.knob = &knobs[i]};
        find_value(&settings[i], complain, context);
    }
}

/* COMMTAP_LIBRARY tells `commtap run` which library to preload. */
void knobs_unknown(knob_complain *complain, void *context) {
    const char *names[KNOBS];
    for (size_t i = 0; i < KNOBS; i++)
        names[i] = knobs[i].name;
    for (char **entry = environ; *entry; entry++) {
        char given[128];
        size_t length = strcspn(*entry, "="), i = 0;
        if (strncmp(*entry, "COMMTAP_", 8) != 0 || length >= sizeof given)
            continue;
        memcpy(given, *entry, length);
        given[length] = '\0';
        while (i < KNOBS && strcmp(given, names[i]) != 0)
            i++;
        if (i < KNOBS || strcmp(given, "COMMTAP_LIBRARY") == 0)
            continue;
        complain(context, &(struct knob_complaint){.name = given, .near = nearest_name(given, names, KNOBS)});
    }
}
