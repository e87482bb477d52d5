/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/operations.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/base/grow.h"
#include "analyzer/page/columns.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/table.h"

/* ---- numbers --------------------------------------------------------------------------------- */

struct communicator_number {
    uint64_t key;
    uint32_t number;
};

HASH_TABLE_OF(communicator_numbers, struct communicator_number, uint64_t);

static json_t *number_of_communicator(struct operations *operations, const struct dump *dump, uint32_t index) {
    const struct dump_communicator *communicator = dump_communicator(dump, index);
    if (!communicator || !communicator->definition)
        return json_integer(-1);
    struct hash_table *table = &operations->communicator_numbers;
    uint64_t uid = communicator->definition->uid;
    size_t before = table->count;
    struct communicator_number *item = communicator_numbers_add(table, &uid);
    if (item && table->count > before) {
        char text[17];
        snprintf(text, sizeof text, "%016" PRIx64, uid);
        item->number = (uint32_t)before;
        json_array_append_new(operations->communicators,
                              json_pack("{s:s, s:o, s:I}", "uid", text, "name", escape_json(communicator->name), "size",
                                        (json_int_t)communicator->definition->size));
    }
    operations->no_memory |= !item;
    return json_integer(item ? (json_int_t)item->number : -1);
}

static json_t *number_of_track(struct operations *operations, const struct track *track) {
    static const char *const kinds[TRACK_KINDS] = {[TRACK_THREAD] = "thread",
                                                   [TRACK_IN_FLIGHT] = "in flight",
                                                   [TRACK_DEVICE] = "GPU",
                                                   [TRACK_EXPOSED] = "exposed",
                                                   [TRACK_PROXY] = "network"};
    size_t room = operations->track_room;
    if (!grow_to(operations->track_numbers, operations->track_room, (size_t)track->id + 1)) {
        operations->no_memory = true;
        return json_integer(0);
    }
    for (; room < operations->track_room; room++)
        operations->track_numbers[room] = 0;
    uint32_t *number = &operations->track_numbers[track->id];
    if (*number == 0) {
        json_array_append_new(operations->tracks,
                              json_pack("{s:I, s:s, s:I, s:I}", "dump", (json_int_t)track->dump, "kind",
                                        kinds[track->kind] ? kinds[track->kind] : "other", "which",
                                        (json_int_t)track->which, "number", (json_int_t)track->number));
        *number = (uint32_t)json_array_size(operations->tracks);
    }
    return json_integer(*number - 1);
}

/* ---- columns --------------------------------------------------------------------------------- */

struct row {
    struct operations *operations;
    const struct track *track;
    const struct slice *slice;
    const struct dump *dump;
};

static json_t *track_of(const struct row *row) {
    return number_of_track(row->operations, row->track);
}

static json_t *name_of(const struct row *row) {
    const struct call_name *call = dump_call(row->dump, row->slice->record->call);
    struct operations *operations = row->operations;
    json_t *number =
        text_list_number(&operations->names, row->slice->record->kind == RECORD_EXPOSED ? "exposed communication"
                                             : call && call->name[0]                    ? call->name
                                                                                        : "unknown call");
    if (json_array_size(operations->own_work) < json_array_size(operations->names.texts))
        json_array_append_new(operations->own_work, json_boolean(call && call_is_own_work(call)));
    return number;
}

static json_t *communicator_of(const struct row *row) {
    return number_of_communicator(row->operations, row->dump, row->slice->record->comm);
}

static json_t *site_of(const struct row *row) {
    return text_list_number(&row->operations->sites,
                            site_label(row->operations->labels, row->slice->dump, row->slice->record->stack));
}

static json_t *begin_of(const struct row *row) {
    return json_integer(row->slice->begin - row->operations->from);
}

static json_t *length_of(const struct row *row) {
    return json_integer(row->slice->end - row->slice->begin);
}

static json_t *wait_from_of(const struct row *row) {
    return json_integer(row->slice->waited ? row->slice->wait_from - row->slice->begin : 0);
}

static json_t *wait_of(const struct row *row) {
    return json_integer(row->slice->waited ? row->slice->wait_to - row->slice->wait_from : 0);
}

static json_t *waited_for_of(const struct row *row) {
    return json_integer(row->slice->waited ? (json_int_t)row->slice->waited_for : -1);
}

static json_t *flow_of(const struct row *row) {
    return json_integer((json_int_t)row->slice->flow);
}

static json_t *place_of(const struct row *row) {
    return json_integer(row->slice->place);
}

static json_t *bytes_of(const struct row *row) {
    uint64_t bytes = row->slice->record->bytes;
    return bytes == BYTES_UNKNOWN ? json_integer(-1) : unsigned_to_json(bytes);
}

static json_t *peer_of(const struct row *row) {
    return json_integer(row->slice->record->peer);
}

static json_t *sequence_of(const struct row *row) {
    uint32_t seq = row->slice->record->seq;
    return json_integer(seq == SEQ_NONE ? -1 : (json_int_t)seq);
}

static const struct {
    const char *key;
    json_t *(*value)(const struct row *row);
} columns[OPERATION_COLUMNS] = {
    {"track", track_of},
    {"op", name_of},
    {"communicator", communicator_of},
    {"site", site_of},
    {"begin_ns", begin_of},
    {"length_ns", length_of},
    {"wait_from_ns", wait_from_of},
    {"wait_ns", wait_of},
    {"waited_for", waited_for_of},
    {"flow", flow_of},
    {"place", place_of},
    {"bytes", bytes_of},
    {"peer", peer_of},
    {"seq", sequence_of},
};

/* ---- the block ------------------------------------------------------------------------------- */

void operations_begin(struct operations *operations) {
    operations->tracks = json_array();
    operations->communicators = json_array();
    operations->own_work = json_array();
    text_list_begin(&operations->names);
    text_list_begin(&operations->sites);
    for (size_t i = 0; i < OPERATION_COLUMNS; i++)
        operations->columns[i] = json_array();
}

void operations_free(struct operations *operations) {
    json_decref(operations->tracks);
    json_decref(operations->communicators);
    for (size_t i = 0; i < OPERATION_COLUMNS; i++)
        json_decref(operations->columns[i]);
    json_decref(operations->own_work);
    text_list_free(&operations->names);
    text_list_free(&operations->sites);
    hash_table_free(&operations->communicator_numbers);
    free(operations->track_numbers);
}

void operations_add(struct operations *operations, const struct track *track, const struct slice *slice) {
    if (slice->instant || slice->end < operations->from || slice->begin >= operations->to)
        return;
    if (operations->kept == operations->most) {
        operations->left_out++;
        return;
    }
    const struct row row = {operations, track, slice, operations->directory->dumps[slice->dump]};
    operations->kept++;
    for (size_t i = 0; i < OPERATION_COLUMNS; i++)
        operations->no_memory |= json_array_append_new(operations->columns[i], columns[i].value(&row)) != 0;
}

json_t *operations_to_json(struct operations *operations) {
    json_t *all = json_object();
    for (size_t i = 0; i < OPERATION_COLUMNS; i++)
        columns_add(all, columns[i].key, json_incref(operations->columns[i]));
    json_t *json =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:O, s:O, s:O, s:O, s:O, s:o}", "schema", "commtap.page.operations/1",
                  "from_ns", (json_int_t)operations->from, "to_ns", (json_int_t)operations->to, "operations",
                  (json_int_t)operations->kept, "left_out", (json_int_t)operations->left_out, "tracks",
                  operations->tracks, "names", operations->names.texts, "own_work", operations->own_work,
                  "communicators", operations->communicators, "sites", operations->sites.texts, "columns", all);
    if (operations->no_memory || operations->names.no_memory || operations->sites.no_memory) {
        json_decref(json);
        return NULL;
    }
    return json;
}
