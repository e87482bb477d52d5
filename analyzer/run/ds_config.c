/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSpeed's comms_logger section -> our settings.
 * Lives here: reading that section, its names of operations.
 * Must not live here: any other part of a DeepSpeed configuration.
 */
#include "analyzer/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/base/text.h"
#include "shim/call.h"

static const struct call calls[] = {
#define CALL(NUMBER, NAME, ARITY, KIND, ...) {.id = NUMBER, .kind = KIND, .name = #NAME, __VA_ARGS__},
#include "shim/calls.def"
#undef CALL
};
#define CALL_COUNT (sizeof calls / sizeof *calls)

/* DeepSpeed's own variants of torch.distributed operations, each of which runs the operation named beside it. */
static const struct {
    const char *deepspeed;
    const char *torch;
} variants[] = {
    {"inference_all_reduce", "all_reduce"},
    {"all_reduce_coalesced", "all_reduce"},
    {"all_gather", "all_gather_into_tensor"},
    {"all_gather_base", "all_gather_into_tensor"},
    {"allgather_fn", "all_gather_into_tensor"},
    {"all_gather_coalesced", "all_gather_into_tensor"},
    {"all_gather_object", "all_gather_into_tensor"},
    {"reduce_scatter", "reduce_scatter_tensor"},
    {"reduce_scatter_base", "reduce_scatter_tensor"},
    {"reduce_scatter_fn", "reduce_scatter_tensor"},
    {"all_to_all", "all_to_all_single"},
    {"broadcast_object_list", "broadcast"},
    {"monitored_barrier", "barrier"},
};
#define VARIANT_COUNT (sizeof variants / sizeof *variants)

static const char *torch_name(const char *deepspeed) {
    for (size_t i = 0; i < VARIANT_COUNT; i++)
        if (!strcmp(variants[i].deepspeed, deepspeed))
            return variants[i].torch;
    return deepspeed;
}

/* Appends `,name` to the list of functions. */
static bool append_name(char **list, const char *name) {
    char *longer;
    if (asprintf(&longer, "%s%s%s", *list ? *list : "", *list ? "," : "", name) < 0)
        return false;
    free(*list);
    *list = longer;
    return true;
}

static void note_unknown(const char *name, const char *path, struct run_notes *notes) {
    const char *known[CALL_COUNT + VARIANT_COUNT];
    size_t count = 0;
    for (size_t i = 0; i < CALL_COUNT; i++)
        if (*calls[i].torch)
            known[count++] = calls[i].torch;
    for (size_t i = 0; i < VARIANT_COUNT; i++)
        known[count++] = variants[i].deepspeed;
    const char *near = nearest_name(name, known, count);
    run_note(notes, "%s: comms_logger.prof_ops: no such operation '%s'%s%s%s", path, name, near ? " (maybe: " : "",
             near ? near : "", near ? "?)" : "");
}

/* The functions that `prof_ops` means, as COMMTAP_OPS wants them. */
static char *functions_of(const json_t *prof_ops, const char *path, struct run_notes *notes) {
    char *list = NULL;
    size_t index;
    json_t *item;
    json_array_foreach(prof_ops, index, item) {
        const char *name = json_string_value(item);
        bool known = false;
        for (size_t i = 0; i < CALL_COUNT; i++) {
            if (!*calls[i].torch ||
                (strcmp(calls[i].torch, name) != 0 && strcmp(calls[i].torch, torch_name(name)) != 0))
                continue;
            known = true;
            if (!append_name(&list, calls[i].name))
                break;
        }
        if (!known)
            note_unknown(name, path, notes);
    }
    return list ? list : strdup("!*");
}

struct comms_logger {
    bool enabled, verbose, prof_all, debug;
    const json_t *prof_ops; /* an array of strings, or NULL */
};

static bool read_switch(const json_t *section, const char *key, bool *value, char *error, size_t error_bytes) {
    const json_t *item = json_object_get(section, key);
    if (!item)
        return true;
    *value = json_is_true(item);
    if (json_is_boolean(item))
        return true;
    snprintf(error, error_bytes, "comms_logger.%s is not true or false", key);
    return false;
}

static bool read_logger_section(const json_t *section, struct comms_logger *logger, char *error, size_t error_bytes) {
    *logger = (struct comms_logger){.prof_all = true};
    if (!json_is_object(section)) {
        snprintf(error, error_bytes, "comms_logger is not an object");
        return false;
    }
    if (!read_switch(section, "enabled", &logger->enabled, error, error_bytes) ||
        !read_switch(section, "verbose", &logger->verbose, error, error_bytes) ||
        !read_switch(section, "prof_all", &logger->prof_all, error, error_bytes) ||
        !read_switch(section, "debug", &logger->debug, error, error_bytes))
        return false;
    logger->prof_ops = json_object_get(section, "prof_ops");
    bool names = !logger->prof_ops || json_is_array(logger->prof_ops);
    for (size_t i = 0; names && i < json_array_size(logger->prof_ops); i++)
        names = json_is_string(json_array_get(logger->prof_ops, i));
    if (!names)
        snprintf(error, error_bytes, "comms_logger.prof_ops is not a list of names");
    return names;
}

static bool apply(const struct comms_logger *logger, const char *path, struct run_settings *settings,
                  struct run_notes *notes) {
    if (!logger->enabled)
        run_note(notes, "%s: comms_logger.enabled is not true: nothing is recorded", path);
    char *ops = logger->prof_all ? strdup("*") : functions_of(logger->prof_ops, path, notes);
    /* their log goes to rank 0 only */
    bool done = ops && run_settings_set(settings, "COMMTAP_OPS", ops) &&
                run_settings_set(settings, "COMMTAP_ENABLE", logger->enabled ? "1" : "0") &&
                run_settings_set(settings, "COMMTAP_VERBOSE", logger->verbose ? "ranks:0" : "off") &&
                run_settings_set(settings, "COMMTAP_STACK", logger->debug ? "python" : "off");
    free(ops);
    return done;
}

bool run_ds_config(const char *path, struct run_settings *settings, struct run_notes *notes, char *error,
                   size_t error_bytes) {
    json_error_t trouble;
    int file = regular_file_open(AT_FDCWD, path, 0);
    if (file < 0) {
        snprintf(error, error_bytes, "%s: %s", path, regular_file_error(errno));
        return false;
    }
    json_t *root = json_loadfd(file, JSON_REJECT_DUPLICATES, &trouble);
    close(file);
    if (!root) {
        snprintf(error, error_bytes, "%s:%d: %s", path, trouble.line, trouble.text);
        return false;
    }
    const json_t *section = json_object_get(root, "comms_logger");
    struct comms_logger logger;
    char wrong[128];
    bool done = true;
    if (!section)
        run_note(notes, "%s has no comms_logger section: nothing taken from it", path);
    else if (!read_logger_section(section, &logger, wrong, sizeof wrong)) {
        snprintf(error, error_bytes, "%s: %s", path, wrong);
        done = false;
    } else if (!apply(&logger, path, settings, notes)) {
        snprintf(error, error_bytes, "out of memory");
        done = false;
    }
    json_decref(root);
    return done;
}
