/* SPDX-License-Identifier: Apache-2.0
 *
 * Values are copied: the job may change its environment later.
 */
#include "shim/record/knobs.h"

#include <string.h>

#include "shim/base/directory_pattern.h"
#include "shim/base/edit_distance.h"
#include "shim/base/os.h"
#include "shim/call.h"
#include "shim/record/policy.h"

extern char **environ;

static char lower(char c) {
    return (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
}

static bool parse_STRING(const char *text, knob_STRING *value) {
    if (strlen(text) >= sizeof *value)
        return false;
    copy_text(*value, sizeof *value, text);
    return true;
}

static bool parse_SWITCH(const char *text, bool *value) {
    return knob_switch(text, value);
}

static bool parse_NUMBER(const char *text, uint64_t *value) {
    return knob_number(text, value);
}

static bool parse_PERCENT(const char *text, uint64_t *value) {
    return knob_percent(text, value);
}

AT_START static bool is_variable(const char *entry, const char *name, size_t length) {
    return !strncmp(entry, name, length) && entry[length] == '=' && entry[length + 1];
}

/* Which knob `entry` sets, as a bit, unless it is one of `but`; 0: none, or to nothing that can be read. */
AT_START static uint32_t read_variable(struct knobs *knobs, const char *entry, uint32_t but) {
#define KNOB(field, name, type, fallback, doc)                                                                         \
    if (!(but >> KNOB_##field & 1) && is_variable(entry, #name, sizeof #name - 1) &&                                   \
        parse_##type(entry + sizeof #name, &knobs->field))                                                             \
        return 1u << KNOB_##field;
#include "shim/knobs.def"
#undef KNOB
    return 0;
}

static struct policy_line line; /* of the policy: large, and threads may have small stacks */

/* Returns the knobs that it fixes. */
AT_START static uint32_t read_policy(struct knobs *knobs) {
    uint32_t fixed = 0;
    for (const char *at = NULL; policy_line_next(&at, &line);) {
        uint32_t knob = line.wrong ? 0 : read_variable(knobs, line.name, 0);
        knobs->given |= knob;
        fixed = line.fixed ? fixed | knob : fixed & ~knob;
    }
    return fixed;
}

/* The first letter by itself: without a variable that starts like ours neither the text nor strncmp is touched. */
AT_START static bool is_ours(const char *entry) {
    return *entry == 'C' && !strncmp(entry, "COMMTAP_", 8);
}

AT_START bool knobs_read(struct knobs *knobs) {
    static const char name[] = "COMMTAP_POLICY";
    const char *named = NULL;
    bool any = false;
    for (char **entry = environ; entry && *entry; entry++)
        if (is_ours(*entry)) {
            any = true;
            named = is_variable(*entry, name, sizeof name - 1) ? *entry + sizeof name : named;
        }
    bool policy = policy_read(named);
    if (policy)
        knobs->fixed = read_policy(knobs);
    for (char **entry = environ; any && entry && *entry; entry++)
        if (is_ours(*entry))
            knobs->given |= read_variable(knobs, *entry, knobs->fixed);
    return any || policy;
}

void knobs_default(struct knobs *knobs) {
#define KNOB(field, name, type, fallback, doc)                                                                         \
    if (!(knobs->given >> KNOB_##field & 1))                                                                           \
        parse_##type(fallback, &knobs->field);
#include "shim/knobs.def"
#undef KNOB
}

bool knobs_enabled(const struct knobs *knobs) {
    return !(knobs->given >> KNOB_enable & 1) || knobs->enable;
}

const char *knobs_stack(const struct knobs *knobs) {
    return knobs->given >> KNOB_stack & 1 ? knobs->stack : ""; /* its page stays untouched */
}

bool knobs_quiet(const struct knobs *knobs) {
    return knobs->given >> KNOB_quiet & 1 && knobs->quiet;
}

static bool known_value(const char *name, size_t length, const char *text) {
    union {
        knob_STRING as_STRING;
        knob_SWITCH as_SWITCH;
        knob_NUMBER as_NUMBER;
        knob_PERCENT as_PERCENT;
    } value;
#define KNOB(field, knob, type, fallback, doc)                                                                         \
    if (strlen(#knob) == length && !memcmp(#knob, name, length))                                                       \
        return !*text || parse_##type(text, &value.as_##type);
#include "shim/knobs.def"
#undef KNOB
    return true;
}

static const char *nearest(const char *name, size_t length, bool *exact) {
    const char *best = NULL;
    size_t best_distance = edit_distance_most(name, length) + 1;
#define KNOB(field, knob, type, fallback, doc)                                                                         \
    if (edit_distance(name, length, #knob) < best_distance) {                                                          \
        best_distance = edit_distance(name, length, #knob);                                                            \
        best = #knob;                                                                                                  \
    }
#include "shim/knobs.def"
#undef KNOB
    *exact = best_distance == 0;
    return best;
}

static void add_place(struct text *t, unsigned number) {
    text_add(t, policy_path());
    if (number > 0) {
        text_add(t, " line ");
        text_add_unsigned(t, number);
    }
    text_add(t, ": ");
}

/* `number`: the line of the policy that it is about; 0: the environment. */
static void complain(unsigned number, const char *what, const char *name, size_t length, const char *hint) {
    char text[512], shown[96];
    struct text t;
    copy_text(shown, length + 1 < sizeof shown ? length + 1 : sizeof shown, name);
    text_begin(&t, text, sizeof text);
    if (number > 0)
        add_place(&t, number);
    text_add(&t, what);
    text_add(&t, shown);
    if (hint) {
        text_add(&t, " (did you mean ");
        text_add(&t, hint);
        text_add(&t, "?)");
    }
    message(text);
}

/* * and ? as in the shell, letters in either case. */
static bool glob(const char *pattern, const char *end, const char *text) {
    for (; pattern < end; pattern++, text++) {
        if (*pattern == '*') {
            do
                if (glob(pattern + 1, end, text))
                    return true;
            while (*text++);
            return false;
        }
        if (!*text || (*pattern != '?' && lower(*pattern) != lower(*text)))
            return false;
    }
    return !*text;
}

static const char *without_prefix(const char *name) {
    if (!strncmp(name, "MPI_", 4) || !strncmp(name, "nccl", 4))
        return name + 4;
    return name;
}

bool knobs_match(const char *patterns, const char *name) {
    bool included = false, any_inclusion = false;
    for (const char *p = patterns; *p;) {
        const char *end = strchr(p, ',');
        end = end ? end : p + strlen(p);
        bool exclude = *p == '!';
        const char *pattern = p + exclude;
        bool hit = glob(pattern, end, name) || glob(pattern, end, without_prefix(name));
        if (exclude && hit)
            return false;
        any_inclusion |= !exclude && pattern < end;
        included |= !exclude && hit;
        p = *end ? end + 1 : end;
    }
    return included || !any_inclusion;
}

/* ---- values that can be read and still mean nothing, or something else than they say ---------- */

static bool hits_a_function(const char *pattern, const char *end) {
    for (unsigned i = 0; i < commtap_call_count; i++)
        if (glob(pattern, end, commtap_calls[i].name) || glob(pattern, end, without_prefix(commtap_calls[i].name)))
            return true;
    return false;
}

static const char *doubt_ops(const char *text) {
    for (const char *p = text; *p;) {
        const char *end = p + strcspn(p, ","), *pattern = p + (*p == '!');
        if (p < end && !hits_a_function(pattern, end))
            return "a pattern matches no function that is intercepted: ";
        p = *end ? end + 1 : end;
    }
    for (unsigned i = 0; i < commtap_call_count; i++)
        if (knobs_match(text, commtap_calls[i].name))
            return NULL;
    return "it leaves no function to record: ";
}

static const char *doubt_verbose(const char *text) {
    return knob_verbose_is_sound(text) ? NULL : "value not understood, not one of off, all, ranks:LIST: ";
}

static const char *doubt_ring(const char *text) {
    uint64_t records = 0;
    parse_NUMBER(text, &records);
    if (records == knob_ring(records))
        return NULL;
    return records > KNOBS_RING_MAX ? "more than 16M, which is used: "
                                    : "no power of two from 16 to 16M, the next one is used: ";
}

static const char *doubt_dir(const char *text) {
    return directory_pattern_mistake(text)
               ? "a % that stands for nothing, none of %j %u %h %p %r %%: ./commtap-<run id> is used: "
               : NULL;
}

static const char *doubt_run_id(const char *text) {
    static const char kept[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(text);
    if (length >= sizeof((struct dump_header *)NULL)->run_id)
        return "longer than 63 characters, the rest is cut off: ";
    return text[0] != '.' && strspn(text, kept) == length
               ? NULL
               : "a run's name is made of letters, digits, _ - and no leading dot, others become _: ";
}

static const char *doubt_mode(const char *text) {
    uint64_t mode = 0;
    parse_NUMBER(text, &mode);
    return mode == knob_mode(mode) ? NULL : "neither 0600 nor 0640, 0600 is used: ";
}

static const char *doubt_stack_depth(const char *text) {
    uint64_t frames = 0;
    parse_NUMBER(text, &frames);
    return frames == knob_stack_depth(frames) ? NULL : "not from 1 to 1024, the nearest is used: ";
}

static const char *doubt_stack(const char *text) {
    return knob_is_one_of(knob_words("COMMTAP_STACK"), text)
               ? NULL
               : "value not understood, none of off, site, native, python, full; full is used: ";
}

static const char *doubt_gpu_timing(const char *text) {
    return knob_is_one_of(knob_words("COMMTAP_GPU_TIMING"), text) ? NULL : "value not understood, auto is used: ";
}

static const char *doubt_keep(const char *text) {
    return knob_is_one_of(knob_words("COMMTAP_KEEP"), text) ? NULL : "value not understood, all is kept: ";
}

static const char *doubt_region(const char *text) {
    return knob_region_is_sound(text)
               ? NULL
               : "value not understood, not one of nvtx:NAME, profiler, pcontrol; everything is recorded: ";
}

static bool is_called(const char *entry, size_t length, const char *name) {
    return strlen(name) == length && !memcmp(name, entry, length);
}

/* What is to be said of the variable `entry`, whose name is known and whose value could be read; NULL = nothing. No
 * table of functions: each would be a relocation in every process below a preload. */
static const char *doubtful(const char *entry, size_t length) {
    const char *text = entry + length + 1;
#define DOUBT(name, doubt)                                                                                             \
    if (is_called(entry, length, name))                                                                                \
        return doubt(text);
    DOUBT("COMMTAP_DIR", doubt_dir)
    DOUBT("COMMTAP_MODE", doubt_mode)
    DOUBT("COMMTAP_RUN_ID", doubt_run_id)
    DOUBT("COMMTAP_OPS", doubt_ops)
    DOUBT("COMMTAP_VERBOSE", doubt_verbose)
    DOUBT("COMMTAP_REGION", doubt_region)
    DOUBT("COMMTAP_RING", doubt_ring)
    DOUBT("COMMTAP_STACK", doubt_stack)
    DOUBT("COMMTAP_STACK_DEPTH", doubt_stack_depth)
    DOUBT("COMMTAP_GPU_TIMING", doubt_gpu_timing)
    DOUBT("COMMTAP_KEEP", doubt_keep)
#undef DOUBT
    return NULL;
}

/* `entry` is "NAME=VALUE", the name `length` long. */
static void judge(unsigned number, const char *entry, size_t length) {
    const char *doubt, *text = entry + length + 1;
    bool exact = false;
    const char *hint = length < 64 ? nearest(entry, length, &exact) : NULL;
    if (!exact)
        complain(number, "unknown variable ", entry, length, hint);
    else if (!known_value(entry, length, text))
        complain(number,
                 number > 0 ? "value not understood, the line is skipped: " : "value not understood, default used: ",
                 entry, strlen(entry), NULL);
    else if (*text && (doubt = doubtful(entry, length)))
        complain(number, doubt, entry, strlen(entry), NULL);
}

static void judge_policy(void) {
    char text[512];
    struct text t;
    memset(&line, 0, sizeof line);
    for (const char *at = NULL; !policy_trouble() && policy_line_next(&at, &line);) {
        if (!line.wrong)
            judge(line.number, line.name, line.name_length);
        else
            complain(line.number, line.wrong, "", 0, NULL);
    }
    if (!policy_trouble())
        return;
    text_begin(&t, text, sizeof text);
    add_place(&t, 0);
    text_add(&t, "the policy is not used: ");
    policy_add_trouble(&t);
    message(text);
}

/* The policy fixes it to something else. */
static bool is_overruled(const char *entry, size_t length) {
    bool overruled = false;
    memset(&line, 0, sizeof line);
    for (const char *at = NULL; policy_line_next(&at, &line);)
        if (!line.wrong && line.name_length == length && !memcmp(line.name, entry, length) &&
            known_value(line.name, length, line.value))
            overruled = line.fixed && strcmp(line.name, entry) != 0;
    return overruled;
}

void knobs_complain(void) {
    if (policy_path())
        judge_policy();
    for (char **entry = environ; entry && *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        if (strncmp(*entry, "COMMTAP_", 8) != 0 || !equals)
            continue;
        size_t length = (size_t)(equals - *entry);
        if (policy_path() && is_overruled(*entry, length))
            complain(0, "the policy fixes another value: ", *entry, strlen(*entry), NULL);
        else
            judge(0, *entry, length);
    }
}
