/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/knobs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/text.h"
#include "shim/base/knob_values.h"
#include "shim/base/policy_file.h"

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
    if (strcmp(knob->type, "PERCENT") == 0)
        return knob_percent(text, number);
    if (strcmp(knob->name, "COMMTAP_VERBOSE") == 0)
        return knob_verbose_is_sound(text);
    if (strcmp(knob->name, "COMMTAP_REGION") == 0)
        return knob_region_is_sound(text);
    return !words || knob_is_one_of(words, text);
}

/* What the library makes of `text`, which it understands; complains where that is something else. */
static void put_value(struct knob_setting *setting, const char *text, knob_complain *complain, void *context) {
    const char *name = setting->knob->name;
    uint64_t given = 0;
    setting->value = text;
    if (strcmp(setting->knob->type, "NUMBER") != 0 || !knob_number(text, &given) ||
        number_in_force(name, given) == given)
        return;
    snprintf(setting->number, sizeof setting->number, "%s%" PRIu64, strcmp(name, "COMMTAP_MODE") == 0 ? "0" : "",
             number_in_force(name, given));
    setting->value = setting->number;
    complain(context,
             &(struct knob_complaint){
                 .name = name, .given = text, .why = "is rounded to what is possible", .used = setting->value});
}

/* ---- the policy -------------------------------------------------------------------------------- */

/* Reads what `fd` has open. The text is the caller's; NULL: *trouble says why, maybe in `room`, or memory is short. */
static char *read_policy(int fd, const char **trouble, char room[96]) {
    struct stat status;
    size_t used = 0;
    *trouble = fstat(fd, &status) != 0 ? "it cannot be read" : policy_objection(&status, geteuid());
    char *text = *trouble ? NULL : calloc(1, POLICY_BYTES);
    while (text && used + 1 < POLICY_BYTES) {
        ssize_t got = read(fd, text + used, POLICY_BYTES - 1 - used);
        if (got == 0)
            break;
        if (got < 0) {
            *trouble = "it cannot be read";
            free(text);
            return NULL;
        }
        used += (size_t)got;
    }
    if (!text || strlen(text) == used)
        return text;
    snprintf(room, 96, POLICY_ZERO_BEFORE "%zu" POLICY_ZERO_BEHIND, strlen(text));
    *trouble = room;
    free(text);
    return NULL;
}

const char *knob_name_at(size_t index) {
    return index < KNOBS ? knobs[index].name : NULL;
}

/* KNOBS: there is none of that name. */
static size_t find_knob(const char *name, size_t length) {
    size_t i = 0;
    while (i < KNOBS && (strlen(knobs[i].name) != length || memcmp(knobs[i].name, name, length) != 0))
        i++;
    return i;
}

static const char *nearest_knob(const char *name) {
    const char *names[KNOBS];
    for (size_t i = 0; i < KNOBS; i++)
        names[i] = knobs[i].name;
    return nearest_name(name, names, KNOBS);
}

/* False where memory is short. */
static bool take_line(struct knobs_here *here, const struct policy_line *line, knob_complain *complain, void *context) {
    char where[POLICY_LINE_BYTES], name[128];
    uint64_t number;
    snprintf(where, sizeof where, "%s line %u", here->policy, line->number);
    struct knob_complaint complaint = {.where = where, .why = line->wrong};
    size_t knob = line->wrong ? KNOBS : find_knob(line->name, line->name_length);
    struct knob_setting *setting = knob < KNOBS ? &here->settings[knob] : NULL;
    snprintf(name, sizeof name, "%.*s", (int)line->name_length, line->name);
    if (!line->wrong && !setting) {
        complaint.name = name;
        complaint.near = nearest_knob(name);
    } else if (setting && *line->value && !is_understood(setting->knob, line->value, &number)) {
        complaint.name = name;
        complaint.given = line->value;
        complaint.why = "is not understood";
        complaint.used = setting->from_policy ? setting->from_policy : setting->knob->fallback;
    } else if (setting && *line->value) {
        free(setting->from_policy);
        setting->from_policy = strdup(line->value);
        setting->is_fixed = line->fixed;
        return setting->from_policy != NULL;
    }
    if (complaint.why || complaint.name)
        complain(context, &complaint);
    return true;
}

static bool take_policy(struct knobs_here *here, knob_complain *complain, void *context) {
    const char *named = getenv("COMMTAP_POLICY"), *path = named && *named ? named : POLICY_FILE, *trouble = NULL;
    char room[96];
    if (policy_is_off(path))
        return true;
    int fd = open(path, POLICY_OPEN_FLAGS);
    if (fd < 0 && errno == ENOENT && path != named)
        return true;
    if (fd < 0)
        trouble = errno == ELOOP ? "it is a link" : "it cannot be opened";
    char *text = fd >= 0 ? read_policy(fd, &trouble, room) : NULL;
    if (fd >= 0)
        close(fd);
    here->policy = strdup(path);
    bool enough_memory = here->policy && (text || trouble);
    if (trouble)
        complain(context, &(struct knob_complaint){.where = path, .why = trouble});
    struct policy_line line = {0};
    for (const char *at = text; enough_memory && at && policy_next(&at, &line);)
        enough_memory = take_line(here, &line, complain, context);
    free(text);
    return enough_memory;
}

/* ---- both -------------------------------------------------------------------------------------- */

static void find_value(struct knob_setting *setting, knob_complain *complain, void *context) {
    const char *given = getenv(setting->knob->name), *policy = setting->from_policy;
    uint64_t number;
    given = given && *given ? given : NULL;
    bool understood = given && is_understood(setting->knob, given, &number);
    setting->source = policy && setting->is_fixed ? KNOB_FIXED_BY_POLICY
                      : understood                ? KNOB_FROM_ENVIRONMENT
                      : policy                    ? KNOB_FROM_POLICY
                                                  : KNOB_FROM_DEFAULT;
    const char *text = setting->source == KNOB_FROM_ENVIRONMENT ? given
                       : setting->source == KNOB_FROM_DEFAULT   ? setting->knob->fallback
                                                                : policy;
    put_value(setting, text, complain, context);
    const char *why = !given || text == given                   ? NULL
                      : setting->source != KNOB_FIXED_BY_POLICY ? "is not understood"
                      : strcmp(given, text) != 0                ? "is overruled by the policy"
                                                                : NULL;
    if (why)
        complain(context, &(struct knob_complaint){
                              .name = setting->knob->name, .given = given, .why = why, .used = setting->value});
}

bool knobs_in_force(struct knobs_here *here, knob_complain *complain, void *context) {
    *here = (struct knobs_here){0};
    for (size_t i = 0; i < KNOBS; i++)
        here->settings[i].knob = &knobs[i];
    bool enough_memory = take_policy(here, complain, context);
    for (size_t i = 0; i < KNOBS; i++)
        find_value(&here->settings[i], complain, context);
    return enough_memory;
}

void knobs_free(struct knobs_here *here) {
    for (size_t i = 0; i < KNOBS; i++)
        free(here->settings[i].from_policy);
    free(here->policy);
    *here = (struct knobs_here){0};
}

const char *knobs_value(const struct knobs_here *here, const char *name) {
    size_t knob = find_knob(name, strlen(name));
    return knob < KNOBS ? here->settings[knob].value : "";
}

/* COMMTAP_LIBRARY tells `commtap run` which library to preload. */
void knobs_unknown(knob_complain *complain, void *context) {
    for (char **entry = environ; *entry; entry++) {
        char given[128];
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, "COMMTAP_", 8) != 0 || length >= sizeof given)
            continue;
        snprintf(given, sizeof given, "%.*s", (int)length, *entry);
        if (find_knob(given, length) == KNOBS && strcmp(given, "COMMTAP_LIBRARY") != 0)
            complain(context, &(struct knob_complaint){.name = given, .near = nearest_knob(given)});
    }
}
