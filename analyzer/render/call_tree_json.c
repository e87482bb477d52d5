/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree as JSON: commtap.calls/1 and CommDebugMode's.
 * Lives here: keys.
 * Must not live here: figures, text (call_tree_text.c).
 */
#include <inttypes.h>
#include <string.h>

#include "analyzer/render/call_tree.h"
#include "analyzer/load/code_names.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/summary_table.h"
#include "analyzer/render/scope_text.h"
#include "analyzer/render/table.h"

/* ---- commtap.calls/1 ------------------------------------------------------------------------- */

static double microseconds(uint64_t ns) {
    return (double)ns / 1e3;
}

static json_t *text_or_null(const char *text) {
    return text && *text ? escape_json(text) : json_null();
}

/* Time on GPUs and launches on record, null where there are none. */
static json_t *gpu_time(const struct call_sums *sums) {
    return sums->gpu_count ? json_real(microseconds(sums->gpu_ns)) : json_null();
}

static json_t *replay_time(const struct call_sums *sums) {
    return sums->replay_count ? json_real(microseconds(sums->replay_ns)) : json_null();
}

static json_t *sums_to_json(const struct call_sums *sums, bool waits) {
    json_t *object = json_pack("{s:I, s:I, s:f, s:f, s:o, s:I, s:o, s:I}", "count", (json_int_t)sums->count, "bytes",
                               (json_int_t)sums->bytes, "time_us", microseconds(sums->time_ns), "in_flight_us",
                               microseconds(sums->in_flight_ns), "gpu_time_us", gpu_time(sums), "gpu_count",
                               (json_int_t)sums->gpu_count, "replay_time_us", replay_time(sums), "replay_count",
                               (json_int_t)sums->replay_count);
    if (object && waits)
        json_object_set_new(object, "wait_us", json_real(microseconds(sums->wait_ns)));
    return object;
}

static void add_number(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, json_real(json_real_value(json_object_get(object, key)) + value));
}

static void add_count(json_t *object, const char *key, uint64_t value) {
    json_object_set_new(object, key,
                        json_integer(json_integer_value(json_object_get(object, key)) + (json_int_t)value));
}

static void add_gpu_time(json_t *object, const struct call_sums *sums) {
    if (sums->gpu_count > 0)
        add_number(object, "gpu_time_us", microseconds(sums->gpu_ns));
    if (sums->replay_count > 0)
        add_number(object, "replay_time_us", microseconds(sums->replay_ns));
    add_count(object, "gpu_count", sums->gpu_count);
    add_count(object, "replay_count", sums->replay_count);
}

/* Counts by type of data, as far as records tell. */
static void add_types(json_t *sums, const struct call_op *op) {
    json_t *types = json_object_get(sums, "datatypes");
    for (size_t i = 0; i < op->type_count; i++) {
        const char *name = datatype_name(op->types[i].dtype);
        if (!name)
            continue;
        if (!types) {
            types = json_object();
            json_object_set_new(sums, "datatypes", types);
        }
        add_count(types, name, op->types[i].count);
    }
}

/* Names come from a dump: as keys they must be UTF-8, too. */
static void add_to_op(json_t *ops, const struct call_op *op, bool waits) {
    json_t *name = escape_json(op->op);
    const char *key = name ? json_string_value(name) : "";
    json_t *sums = json_object_get(ops, key);
    if (!sums) {
        sums = sums_to_json(&op->sums, waits);
        json_object_set_new(ops, key, sums);
    } else {
        add_count(sums, "count", op->sums.count);
        add_count(sums, "bytes", op->sums.bytes);
        add_number(sums, "time_us", microseconds(op->sums.time_ns));
        add_number(sums, "in_flight_us", microseconds(op->sums.in_flight_ns));
        add_gpu_time(sums, &op->sums);
        if (waits)
            add_number(sums, "wait_us", microseconds(op->sums.wait_ns));
    }
    add_types(sums, op);
    json_decref(name);
}

/* Of one pass, or of all of them together (PASSES). */
static json_t *ops_to_json(const struct call_node *node, enum pass pass, bool waits) {
    json_t *ops = json_object();
    for (size_t i = 0; ops && i < node->op_count; i++)
        if (pass == PASSES || node->ops[i].pass == pass)
            add_to_op(ops, &node->ops[i], waits);
    return ops;
}

static json_t *passes_to_json(const struct call_node *node, bool waits) {
    json_t *passes = json_object();
    for (int pass = PASS_FORWARD; passes && pass < PASSES; pass++) {
        json_t *ops = ops_to_json(node, (enum pass)pass, waits);
        if (json_object_size(ops) > 0)
            json_object_set_new(passes, pass_name((enum pass)pass), ops);
        else
            json_decref(ops);
    }
    return passes;
}

static json_t *entry_ranks_to_json(const struct call_entry *entry) {
    if (!entry->ranks)
        return json_null();
    json_t *ranks = json_array();
    for (uint32_t i = 0; ranks && i < entry->rank_count; i++)
        json_array_append_new(ranks, json_integer(entry->ranks[i]));
    return ranks;
}

static json_t *sizes_to_json(const struct call_entry *entry) {
    json_t *sizes = json_array();
    for (size_t i = 0; sizes && i < entry->size_count; i++) {
        const struct call_size *size = &entry->sizes[i];
        json_array_append_new(
            sizes, json_pack("{s:o, s:o, s:I}", "bytes",
                             size->bytes == BYTES_UNKNOWN ? json_null() : unsigned_to_json(size->bytes), "datatype",
                             text_or_null(datatype_name(size->dtype)), "count", (json_int_t)size->count));
    }
    return sizes;
}

static json_t *entry_to_json(const struct call_entry *entry, bool waits) {
    char uid[17];
    snprintf(uid, sizeof uid, "%016" PRIx64, entry->comm);
    json_t *object = sums_to_json(&entry->sums, waits);
    json_t *more =
        json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "op", escape_json(entry->op), "api",
                  text_or_null(api_name(entry->api)), "pass", text_or_null(pass_name(entry->pass)), "inferred",
                  entry->inferred || entry->pass != PASS_NONE, "comm", entry->has_comm ? json_string(uid) : json_null(),
                  "comm_name", text_or_null(entry->comm_name), "comm_size",
                  entry->comm_size ? json_integer(entry->comm_size) : json_null(), "ranks", entry_ranks_to_json(entry),
                  "sizes", sizes_to_json(entry));
    if (object && more)
        json_object_update(object, more);
    json_decref(more);
    return object;
}

static json_t *record_to_json(const struct call_node *node, const struct call_record *record) {
    return json_pack("{s:o, s:o, s:I, s:f, s:o, s:o, s:s}", "op", escape_json(node->entries[record->entry].op), "rank",
                     record->rank >= 0 ? json_integer(record->rank) : json_null(), "realtime_ns",
                     (json_int_t)record->realtime_ns, "time_us", microseconds(record->ns), "bytes",
                     record->bytes == BYTES_UNKNOWN ? json_null() : unsigned_to_json(record->bytes), "seq",
                     record->seq == SEQ_NONE ? json_null() : json_integer(record->seq), "kind",
                     record->kind == RECORD_POST   ? "post"
                     : record->kind == RECORD_DONE ? "done"
                                                   : "call");
}

/* What the node did itself. */
static void add_details(json_t *object, const struct call_node *node, const struct call_tree_context *context) {
    json_t *calls = json_array();
    for (size_t i = 0; i < node->entry_count; i++)
        json_array_append_new(calls, entry_to_json(&node->entries[i], context->waits));
    json_object_set_new(object, "calls", calls);
    if (context->noise < 3)
        return;
    json_t *records = json_array();
    for (size_t i = 0; i < node->record_count; i++)
        json_array_append_new(records, record_to_json(node, &node->records[i]));
    json_object_set_new(object, "records", records);
}

static const char *kind_name(enum frame_kind kind) {
    static const char *const names[] = {
        [FRAME_ROOT] = "root", [FRAME_NATIVE] = "native", [FRAME_PYTHON] = "python", [FRAME_NVTX] = "nvtx"};
    return names[kind];
}

static json_t *node_to_json(const struct call_node *node, const struct call_tree *tree,
                            const struct call_tree_context *context) {
    json_t *children = json_array();
    for (size_t i = 0; i < node->child_count; i++)
        json_array_append_new(children, node_to_json(node->children[i], tree, context));
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:s, s:I, s:f, s:f, s:o, s:I, s:o, s:I, s:I, s:o, s:o}", "name", escape_json(node->frame.name),
        "file", text_or_null(node->frame.file), "line", node->frame.line ? json_integer(node->frame.line) : json_null(),
        "kind", kind_name(node->frame.kind), "count", (json_int_t)node->sums.count, "time_us",
        microseconds(node->sums.time_ns), "in_flight_us", microseconds(node->sums.in_flight_ns), "gpu_time_us",
        gpu_time(&node->sums), "gpu_count", (json_int_t)node->sums.gpu_count, "replay_time_us",
        replay_time(&node->sums), "replay_count", (json_int_t)node->sums.replay_count, "bytes",
        (json_int_t)node->sums.bytes, "ops", ops_to_json(node, PASSES, context->waits), "children", children);
    if (!object)
        return NULL;
    if (context->waits)
        json_object_set_new(object, "wait_us", json_real(microseconds(node->sums.wait_ns)));
    if (node->frame.module[0])
        json_object_set_new(object, node->frame.kind == FRAME_NVTX ? "domain" : "module",
                            escape_json(node->frame.module));
    if (tree->passes)
        json_object_set_new(object, "passes", passes_to_json(node, context->waits));
    if (context->noise >= 1)
        add_details(object, node, context);
    return object;
}

static json_t *coverage_to_json(const struct call_tree *tree, const struct scope *scope) {
    json_t *coverage =
        json_pack("{s:I, s:I, s:I, s:b, s:b}", "calls_without_stack", (json_int_t)tree->without_stack, "calls_lost",
                  (json_int_t)tree->sites_lost, "records_left_out", (json_int_t)tree->records_left_out,
                  "ranks_left_out", tree->ranks_left_out, "posting_unknown", tree->posting_unknown);
    if (scope_is_limited(scope)) /* how many there were is known of the whole run only */
        json_object_set_new(coverage, "calls_lost", json_null());
    scope_add_to_json(coverage, scope);
    return coverage;
}

json_t *call_tree_to_json(const struct call_tree *tree, const struct call_tree_context *context) {
    json_t *notes = json_array();
    for (size_t i = 0; i < context->note_count; i++)
        json_array_append_new(notes, escape_json(context->notes[i]));
    return json_pack("{s:s, s:o, s:i, s:b, s:o, s:o, s:o}", "schema", "commtap.calls/1", "run_id",
                     escape_json(context->run_id), "noise", (int)context->noise, "passes_inferred", tree->passes,
                     "coverage", coverage_to_json(tree, context->scope), "notes", notes, "root",
                     node_to_json(tree->root, tree, context));
}

/* ---- CommDebugMode --------------------------------------------------------------------------- */

/* [[op, count], ...] of the backward pass, or of all others; a recomputation counts as backward, as it does there. */
static json_t *collectives(const struct call_node *node, bool backward) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < node->op_count; i++) {
        const struct call_op *op = &node->ops[i];
        uint64_t count = call_times(&op->sums);
        bool is_backward = op->pass == PASS_BACKWARD || op->pass == PASS_CHECKPOINT;
        if (is_backward != backward || !op->collective)
            continue;
        /* ops are sorted by name: passes of one name are neighbours */
        for (; i + 1 < node->op_count && strcmp(node->ops[i + 1].op, op->op) == 0; i++) {
            bool next = node->ops[i + 1].pass == PASS_BACKWARD || node->ops[i + 1].pass == PASS_CHECKPOINT;
            if (next != backward)
                break;
            count += call_times(&node->ops[i + 1].sums);
        }
        json_array_append_new(array, json_pack("[o, I]", escape_json(op->op), (json_int_t)count));
    }
    return array;
}

static json_t *mesh_of(const struct call_entry *entry) {
    char text[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; entry->ranks && i < entry->rank_count && used + 16 < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId32, i ? ", " : "", entry->ranks[i]);
    return entry->ranks ? json_sprintf("DeviceMesh([%s%s])", text, used + 16 < sizeof text ? "" : ", ...")
                        : json_string("");
}

static json_t *operations(const struct call_node *node, bool forward, enum pass pass, unsigned noise) {
    json_t *array = json_array();
    for (size_t i = 0; array && noise >= 1 && i < node->entry_count; i++) {
        const struct call_entry *entry = &node->entries[i];
        if (entry->setup)
            continue;
        if (forward ? entry->pass != PASS_NONE && entry->pass != PASS_FORWARD : entry->pass != pass)
            continue;
        json_array_append_new(array, json_pack("{s:o, s:[], s:[], s:o, s:b, s:b}", "name", escape_json(entry->op),
                                               "input_shape", "input_sharding", "device_mesh", mesh_of(entry), "is_bw",
                                               entry->pass == PASS_BACKWARD || entry->pass == PASS_CHECKPOINT,
                                               "is_activation_checkpointing", entry->pass == PASS_CHECKPOINT));
    }
    return array;
}

/* A module and what is below it; a path is the names down to it, joined by dots. */
static json_t *module_to_json(const struct call_node *node, const char *path, unsigned noise) {
    static const char *const types[] = {
        [FRAME_ROOT] = "", [FRAME_NATIVE] = "native", [FRAME_PYTHON] = "python", [FRAME_NVTX] = "nvtx"};
    json_t *children = json_array();
    for (size_t i = 0; i < node->child_count; i++) {
        char label[512];
        frame_label(&node->children[i]->frame, label, sizeof label);
        json_t *name = escape_json(label);
        json_t *fqn = node->parent ? json_sprintf("%s.%s", path, json_string_value(name)) : json_incref(name);
        json_array_append_new(children, fqn ? module_to_json(node->children[i], json_string_value(fqn), noise) : NULL);
        json_decref(fqn);
        json_decref(name);
    }
    return json_pack("{s:s, s:s, s:[], s:o, s:o, s:o, s:o, s:o, s:o}", "fqn", path, "module_type",
                     noise >= 1 ? types[node->frame.kind] : "", "parameters", "children", children,
                     "collectives_forward", collectives(node, false), "collectives_backward", collectives(node, true),
                     "operations_forward", operations(node, true, PASS_NONE, noise), "operations_backward",
                     operations(node, false, PASS_BACKWARD, noise), "operations_checkpointing",
                     operations(node, false, PASS_CHECKPOINT, noise));
}

json_t *call_tree_to_commdebug(const struct call_tree *tree, unsigned noise) {
    return module_to_json(tree->root, "Global", noise);
}
