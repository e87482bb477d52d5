/* SPDX-License-Identifier: Apache-2.0
 *
 * What several trace formats need: times, lists of ranks, PyTorch's names and groups.
 * Lives here: conversions of single values, and of lists of process groups.
 * Must not live here: any one format.
 */
#include "analyzer/import/formats.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzer/base/grow.h"

bool import_time(const json_t *microseconds, int64_t *ns) {
    if (json_is_integer(microseconds)) {
        json_int_t value = json_integer_value(microseconds);
        if (value > INT64_MAX / 4000 || value < -(INT64_MAX / 4000))
            return false;
        *ns = (int64_t)value * 1000;
        return true;
    }
    double value = json_is_real(microseconds) ? json_real_value(microseconds) * 1e3 : NAN;
    if (!(fabs(value) < (double)INT64_MAX / 4))
        return false;
    *ns = llround(value);
    return true;
}

static uint32_t ranks_of_text(const char *text, int32_t *ranks, uint32_t most) {
    uint32_t count = 0;
    while (*text) {
        if (!isdigit((unsigned char)*text)) {
            text++;
            continue;
        }
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtol(end + 1, &end, 10);
        if (last >= TRACE_RANKS_MOST || last < first)
            return 0;
        for (long rank = first; rank <= last; rank++) {
            if (count == most)
                return 0;
            ranks[count++] = (int32_t)rank;
        }
        text = end;
    }
    return count;
}

uint32_t import_ranks(const json_t *value, int32_t *ranks, uint32_t most) {
    if (json_is_string(value))
        return strstr(json_string_value(value), "...") ? 0 : ranks_of_text(json_string_value(value), ranks, most);
    if (json_array_size(value) > most)
        return 0;
    uint32_t count = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= TRACE_RANKS_MOST)
            return 0;
        ranks[count++] = (int32_t)json_integer_value(item);
    }
    return count;
}

/* Without ".json", ".pkl", ".gz" and the like, each of which has a letter. */
static size_t without_endings(const char *base) {
    size_t end = strlen(base);
    for (size_t at = end; at > 0;) {
        bool letters = false;
        while (at > 0 && isalnum((unsigned char)base[at - 1]))
            letters |= isalpha((unsigned char)base[--at]) != 0;
        if (at < 2 || !letters || base[at - 1] != '.')
            break;
        end = --at;
    }
    return end;
}

int32_t import_rank_of_name(const char *name, size_t *before) {
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    const char *last = base + without_endings(base), *first = last;
    while (first > base && isdigit((unsigned char)first[-1]))
        first--;
    *before = (size_t)(first - name);
    return first == last || last - first > 6 ? -1 : (int32_t)strtol(first, NULL, 10);
}

static size_t before_digits(const char *name, size_t end, char mark) {
    size_t at = end;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < end && at > 1 && name[at - 1] == mark ? at - 1 : 0;
}

size_t import_worker_name(const char *name) {
    const char *end = strstr(name, ".pt.trace.json");
    return end ? before_digits(name, (size_t)(end - name), '.') : 0;
}

size_t import_host_name(const char *name) {
    return before_digits(name, import_worker_name(name), '_');
}

enum datatype_code import_dtype(const char *name, uint32_t *bytes) {
    static const struct {
        const char *name;
        enum datatype_code code;
        uint32_t bytes;
    } types[] = {
        {"float", DATATYPE_FLOAT, 4},
        {"double", DATATYPE_DOUBLE, 8},
        {"half", DATATYPE_HALF, 2},
        {"bfloat16", DATATYPE_BFLOAT16, 2},
        {"int", DATATYPE_INT32, 4},
        {"long", DATATYPE_INT64, 8},
        {"long int", DATATYPE_INT64, 8},
        {"short", DATATYPE_INT16, 2},
        {"char", DATATYPE_INT8, 1},
        {"signed char", DATATYPE_INT8, 1},
        {"byte", DATATYPE_UINT8, 1},
        {"unsigned char", DATATYPE_UINT8, 1},
        {"bool", DATATYPE_BYTE, 1},
        {"c10::half", DATATYPE_HALF, 2},
        {"c10::bfloat16", DATATYPE_BFLOAT16, 2},
        {"float8_e4m3fn", DATATYPE_FP8_E4M3, 1},
        {"float8_e5m2", DATATYPE_FP8_E5M2, 1},
    };
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
        if (strcasecmp(name, types[i].name) == 0) {
            *bytes = types[i].bytes;
            return types[i].code;
        }
    *bytes = 0;
    return DATATYPE_OTHER;
}

/* ---- operations of NCCL ---------------------------------------------------------------------- */

/* Rows that are no operation that a trace names. */
enum { ROW_GROUP = 10, ROW_MEMORY_ALLOCATED = 14, ROW_MEMORY_RESERVED, ROW_KERNELS, ROW_COPIES, ROW_NCCL };

/* clang-format off */
const struct trace_call import_nccl_calls[] = {
    {"ncclAllReduce", "all_reduce", API_NCCL, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE},
    {"ncclReduceScatter", "reduce_scatter_tensor", API_NCCL, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_SHARE},
    {"ncclAllGather", "all_gather_into_tensor", API_NCCL, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_SHARE},
    {"ncclAlltoAll", "all_to_all_single", API_NCCL, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_SHARE},
    {"ncclBroadcast", "broadcast", API_NCCL, CLASS_COLLECTIVE, FLOW_FROM_ROOT, BUSBW_ONE},
    {"ncclReduce", "reduce", API_NCCL, CLASS_COLLECTIVE, FLOW_TO_ROOT, BUSBW_ONE},
    {"ncclGather", "gather", API_NCCL, CLASS_COLLECTIVE, FLOW_TO_ROOT, BUSBW_SHARE},
    {"ncclScatter", "scatter", API_NCCL, CLASS_COLLECTIVE, FLOW_FROM_ROOT, BUSBW_SHARE},
    {"ncclSend", "send", API_NCCL, CLASS_SEND, FLOW_NONE, BUSBW_ONE},
    {"ncclRecv", "recv", API_NCCL, CLASS_RECV, FLOW_NONE, BUSBW_ONE},
    [ROW_GROUP] = {"ncclGroupEnd", "batch_isend_irecv", API_NCCL, CLASS_GROUP, FLOW_NONE, BUSBW_NONE},
    {"coalesced collectives", "coalesced", API_NCCL, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_NONE},
    {"barrier", "barrier", API_NCCL, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_NONE},
    {"other collective", NULL, API_NCCL, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_NONE},
    [ROW_MEMORY_ALLOCATED] = {"memory allocated by PyTorch", NULL, API_TRACE, CLASS_OTHER, FLOW_NONE, BUSBW_NONE},
    [ROW_MEMORY_RESERVED] = {"memory reserved by PyTorch", NULL, API_TRACE, CLASS_OTHER, FLOW_NONE, BUSBW_NONE},
    [ROW_KERNELS] = {GPU_WORK_KERNELS, NULL, API_TRACE, CLASS_OTHER, FLOW_NONE, BUSBW_NONE},
    [ROW_COPIES] = {GPU_WORK_COPIES, NULL, API_TRACE, CLASS_OTHER, FLOW_NONE, BUSBW_NONE},
    [ROW_NCCL] = {GPU_WORK_NCCL, NULL, API_TRACE, CLASS_OTHER, FLOW_NONE, BUSBW_NONE},
};
/* clang-format on */
const size_t import_nccl_call_count = sizeof import_nccl_calls / sizeof *import_nccl_calls;
const uint16_t import_nccl_group = ROW_GROUP;
const uint16_t import_memory_allocated = ROW_MEMORY_ALLOCATED;
const uint16_t import_memory_reserved = ROW_MEMORY_RESERVED;
const uint16_t import_gpu_work = ROW_KERNELS;
const uint16_t import_gpu_copies = ROW_COPIES;
const uint16_t import_gpu_nccl = ROW_NCCL;

/* Letters only, small: "nccl:all_reduce" and "AllReduce" become alike. */
static void squeeze(const char *text, char *out, size_t size) {
    size_t length = 0;
    for (; *text && length + 1 < size; text++)
        if (isalpha((unsigned char)*text))
            out[length++] = (char)tolower((unsigned char)*text);
    out[length] = '\0';
}

int import_nccl_call(const char *name) {
    /* the longer words first: "reduce" is in three of them. A barrier of PyTorch is an all-reduce of one number. */
    static const struct {
        const char *word, *call;
    } words[] = {
        {"allreduce", "ncclAllReduce"}, {"reducescatter", "ncclReduceScatter"},
        {"allgather", "ncclAllGather"}, {"alltoall", "ncclAlltoAll"},
        {"barrier", "ncclAllReduce"},   {"broadcast", "ncclBroadcast"},
        {"reduce", "ncclReduce"},       {"scatter", "ncclScatter"},
        {"gather", "ncclGather"},       {"sendrecv", "ncclAlltoAll"},
        {"send", "ncclSend"},           {"recv", "ncclRecv"},
    };
    char plain[128];
    squeeze(name, plain, sizeof plain);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(plain, words[i].word))
            for (size_t c = 0; c < import_nccl_call_count; c++)
                if (strcmp(import_nccl_calls[c].name, words[i].call) == 0)
                    return (int)c;
    return -1;
}

/* ---- process groups -------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool read_group(struct process_group *group, const json_t *item, struct import_limits *limits) {
    const json_t *ranks = json_object_get(item, "ranks");
    size_t most = json_array_size(ranks);
    snprintf(group->name, sizeof group->name, "%s", text_of(item, "pg_name"));
    snprintf(group->description, sizeof group->description, "%s", text_of(item, "pg_desc"));
    if (most == 0 || most > TRACE_RANKS_MOST)
        return true;
    if (!limits_keep(limits, most * sizeof *group->ranks) || !(group->ranks = malloc(most * sizeof *group->ranks)))
        return false;
    group->size = import_ranks(ranks, group->ranks, (uint32_t)most);
    return true;
}

bool process_groups_read(struct process_groups *groups, const json_t *list, struct import_limits *limits) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!limits_keep(limits, 2 * sizeof *groups->items) || !grow_list(groups->items, groups->count))
            return false;
        struct process_group *group = &groups->items[groups->count++];
        *group = (struct process_group){0};
        if (!read_group(group, json_array_get(list, i), limits))
            return false;
    }
    return true;
}

void process_groups_free(struct process_groups *groups) {
    for (size_t i = 0; i < groups->count; i++)
        free(groups->items[i].ranks);
    free(groups->items);
    *groups = (struct process_groups){0};
}

const struct process_group *process_groups_find(const struct process_groups *groups, const char *name) {
    for (size_t i = 0; i < groups->count; i++)
        if (strcmp(groups->items[i].name, name) == 0)
            return &groups->items[i];
    return NULL;
}

void process_group_title(char *title, size_t size, const char *name, const char *description) {
    bool described = description && description[0] && strcmp(description, "undefined") != 0;
    if (described)
        snprintf(title, size, "%s%s%s", description, name[0] ? " " : "", name);
    else
        snprintf(title, size, "%s", name);
}
