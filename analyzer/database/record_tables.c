/* SPDX-License-Identifier: Apache-2.0
 *
 * Times are nanoseconds since the job's start, on the clock of all ranks.
 */
#include "analyzer/database/record_tables.h"

#include <stdlib.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/cli/progress.h"
#include "analyzer/match/match.h"
#include "analyzer/render/export_table.h"
#include "analyzer/render/steps_table.h"
#include "analyzer/render/summary_table.h"

struct known_communicator {
    uint64_t key; /* uid */
    int64_t id;
};
HASH_TABLE_OF(known_communicators, struct known_communicator, uint64_t);

struct known_stack {
    uint32_t key; /* the dump's id of it */
    uint32_t id;
};
HASH_TABLE_OF(known_stacks, struct known_stack, uint32_t);

struct writer {
    struct database *database;
    const struct session *session;
    struct hash_table communicators, stacks; /* stacks: of the dump at hand */
    int64_t *comm_ids;                       /* of the dump at hand, by local index; 0: none */
    size_t comm_room;
    uint32_t last_stack;
    struct database_table records, stack_rows, collectives, messages;
    int64_t record_count, collective_count, message_count;
    struct progress_line progress;
    bool failed;
};

static struct cell since_start(const struct session *session, int64_t ns) {
    return cell_integer(add_ns(ns, -session->start_ns));
}

static struct cell id_cell(int64_t id) {
    return id > 0 ? cell_integer(id) : cell_unknown();
}

static struct cell bytes_cell(uint64_t bytes) {
    return bytes == BYTES_UNKNOWN ? cell_unknown() : cell_unsigned(bytes);
}

#define VALUE(NAME, CELL)                                                                                              \
    static struct cell NAME(const void *item) { return CELL; }

/* ---- communicators and functions ----------------------------------------------------------------------------- */

struct communicator_row {
    int64_t id;
    struct export_row row;
};

#define COMMUNICATOR ((const struct communicator_row *)item)
VALUE(comm_row_id, cell_integer(COMMUNICATOR->id))
VALUE(comm_row_uid, cell_hex(COMMUNICATOR->row.communicator->definition->uid))
VALUE(comm_row_name,
      COMMUNICATOR->row.communicator->name[0] ? cell_text(COMMUNICATOR->row.communicator->name) : cell_unknown())
VALUE(comm_row_size, cell_unsigned(dump_communicator_size(COMMUNICATOR->row.communicator)))
VALUE(comm_row_kind, table_column(export_communicators.columns, "kind")->value(&COMMUNICATOR->row))

static const struct column communicator_columns[] = {
    {"id", NULL, .value = comm_row_id, .doc = "what comm_id of other tables refers to"},
    {"uid", NULL, .value = comm_row_uid, .doc = "its number, the same on all ranks: comm of other tables"},
    {"name", NULL, .value = comm_row_name, .doc = "the first that a rank gave it"},
    {"size", NULL, .value = comm_row_size, .doc = "processes; of both groups of an intercommunicator"},
    {"kind", NULL, .value = comm_row_kind, .doc = "intra, inter, window, file"},
    {NULL, NULL, .value = NULL},
};

static bool add_communicator(struct writer *writer, struct database_table *table, const struct dump *dump,
                             const struct dump_communicator *communicator) {
    struct known_communicator *known = known_communicators_add(&writer->communicators, &communicator->definition->uid);
    if (!known || known->id != 0)
        return known != NULL;
    known->id = (int64_t)writer->communicators.count;
    const struct communicator_row row = {known->id, {.dump = dump, .communicator = communicator, .peer = PEER_NONE}};
    return database_insert(table, &row);
}

static bool add_communicators(struct writer *writer) {
    struct database_table table;
    const struct job *job = &writer->session->job;
    bool done = database_table_open(&table, writer->database, "communicators", communicator_columns);
    for (size_t d = 0; done && d < job->count; d++)
        for (uint32_t i = 0; done && i < job->dumps[d]->communicator_count; i++) {
            const struct dump_communicator *communicator = dump_communicator(job->dumps[d], i);
            done = !communicator || add_communicator(writer, &table, job->dumps[d], communicator);
        }
    database_table_close(&table);
    return done;
}

static int64_t communicator_id(const struct writer *writer, uint64_t uid) {
    const struct known_communicator *known = known_communicators_find(&writer->communicators, &uid);
    return known ? known->id : 0;
}

struct function_row {
    int64_t id;
    const struct call_name *name;
};

#define FUNCTION ((const struct function_row *)item)
VALUE(function_id, cell_integer(FUNCTION->id))
VALUE(function_name, cell_text(FUNCTION->name->name))
VALUE(function_api, api_name(FUNCTION->name->api) ? cell_text(api_name(FUNCTION->name->api)) : cell_unknown())

static const struct column function_columns[] = {
    {"id", NULL, .value = function_id, .doc = "what op_id of other tables refers to"},
    {"name", NULL, .value = function_name, .doc = "the function's own name: op of other tables"},
    {"api", NULL, .value = function_api, .doc = "mpi or nccl"},
    {NULL, NULL, .value = NULL},
};

static bool add_functions(struct writer *writer) {
    struct database_table table;
    const struct match_directory *directory = &writer->session->directory;
    bool done = database_table_open(&table, writer->database, "functions", function_columns);
    for (size_t i = 0; done && i < directory->call_count; i++)
        done = database_insert(&table, &(struct function_row){(int64_t)i + 1, directory->calls[i].name});
    database_table_close(&table);
    return done;
}

static int64_t function_id_of(uint16_t call) {
    return call == CALL_UNKNOWN ? 0 : (int64_t)call + 1;
}

/* ---- how far it is ------------------------------------------------------------------------------------------- */

/* Of 1000: the records' rows are there, then those of what was matched; then come the indexes. */
enum { RECORDS_THERE = 600, MATCHED_THERE = 850 };

static void show_matched(void *context, unsigned permille) {
    struct writer *writer = context;
    progress_show(&writer->progress, RECORDS_THERE + permille * (MATCHED_THERE - RECORDS_THERE) / 1000);
}

/* ---- records ------------------------------------------------------------------------------------------------- */

struct record_row {
    struct export_row row; /* first: columns of export are this row's, too */
    const struct session *session;
    size_t d;
    int64_t id, op, comm;
    uint32_t stack;
};

#define RECORD  ((const struct record_row *)item)
#define SESSION (RECORD->session)
VALUE(record_id, cell_integer(RECORD->id))
VALUE(record_rank,
      RECORD->row.dump->header->rank == RANK_UNKNOWN ? cell_unknown() : cell_integer(RECORD->row.dump->header->rank))
VALUE(record_op, id_cell(RECORD->op))
VALUE(record_comm, id_cell(RECORD->comm))
VALUE(record_start, since_start(SESSION, record_begin(&SESSION->clock, RECORD->d, RECORD->row.record)))
VALUE(record_end_time, since_start(SESSION, record_end(&SESSION->clock, RECORD->d, RECORD->row.record)))
VALUE(record_stack, id_cell(RECORD->stack))

static const struct column own_record_columns[] = {
    {"id", NULL, .value = record_id, .doc = "number of the record, by rank, thread and time"},
    {"rank", NULL, .value = record_rank, .doc = "world rank"},
    {"op_id", NULL, .value = record_op, .doc = "function: functions.id"},
    {"comm_id", NULL, .value = record_comm, .doc = "communicator: communicators.id"},
    {"stack_id", NULL, .value = record_stack, .doc = "where the call was made: stacks.id"},
    {"start_ns", NULL, .value = record_start, .doc = "since the job's start, on the clock of all ranks"},
    {"end_ns", NULL, .value = record_end_time, .doc = "likewise"},
};

/* Columns of commtap export, with what they mean. */
static const struct {
    const char *key, *doc;
} exported[] = {
    {"duration_ns", "by the rank's own clock, or its GPU's"},
    {"kind", "call, post and done (of a non-blocking operation), gpu, kernel, group ..."},
    {"lane", "thread, or the GPU's"},
    {"seq", "number of the collective on its communicator, or of the message in its channel"},
    {"operation", "joins the records of one operation"},
    {"peer_rank", "world rank of the partner or root"},
    {"tag", "of a message"},
    {"bytes", "message size"},
    {"send", "it sends"},
    {"recv", "it receives"},
    {"collective", "it is part of a collective"},
    {"failed", "it returned an error"},
};
enum {
    OWN_COLUMNS = sizeof own_record_columns / sizeof *own_record_columns,
    EXPORTED_COLUMNS = sizeof exported / sizeof *exported,
};

static void choose_record_columns(struct column columns[OWN_COLUMNS + EXPORTED_COLUMNS + 1]) {
    memcpy(columns, own_record_columns, sizeof own_record_columns);
    for (size_t i = 0; i < EXPORTED_COLUMNS; i++) {
        columns[OWN_COLUMNS + i] = *table_column(export_records.columns, exported[i].key);
        columns[OWN_COLUMNS + i].doc = exported[i].doc;
    }
    columns[OWN_COLUMNS + EXPORTED_COLUMNS] = (struct column){0};
}

struct stack_row {
    uint32_t id;
    int32_t rank;
    const char *label;
};

#define STACK ((const struct stack_row *)item)
VALUE(stack_id, cell_unsigned(STACK->id))
VALUE(stack_rank, STACK->rank == RANK_UNKNOWN ? cell_unknown() : cell_integer(STACK->rank))
VALUE(stack_label, cell_text(STACK->label))

static const struct column stack_columns[] = {
    {"id", NULL, .value = stack_id, .doc = "what stack_id of records refers to"},
    {"rank", NULL, .value = stack_rank, .doc = "world rank that it is of"},
    {"label", NULL, .value = stack_label,
     .doc = "the frame nearest to the call that is no library's: site of other tables"},
    {NULL, NULL, .value = NULL},
};

/* 0: the record has none. */
static uint32_t stack_of(struct writer *writer, size_t d, uint32_t stack) {
    if (stack == STACK_NONE)
        return 0;
    struct known_stack *known = known_stacks_add(&writer->stacks, &stack);
    if (known && known->id == 0) {
        const char *label = site_label(writer->session->labels, d, stack);
        const struct stack_row row = {writer->last_stack + 1, writer->session->job.dumps[d]->header->rank, label};
        if (!label || !database_insert(&writer->stack_rows, &row)) {
            writer->failed = true;
            return 0;
        }
        known->id = ++writer->last_stack;
    }
    writer->failed |= !known;
    return known ? known->id : 0;
}

static bool enter_dump(struct writer *writer, const struct dump *dump) {
    hash_table_clear(&writer->stacks);
    if (dump->communicator_count > writer->comm_room) {
        free(writer->comm_ids);
        writer->comm_room = dump->communicator_count;
        writer->comm_ids = malloc(writer->comm_room * sizeof *writer->comm_ids);
        if (!writer->comm_ids) {
            writer->comm_room = 0;
            return false;
        }
    }
    for (uint32_t i = 0; i < dump->communicator_count; i++) {
        const struct dump_communicator *communicator = dump_communicator(dump, i);
        writer->comm_ids[i] = communicator ? communicator_id(writer, communicator->definition->uid) : 0;
    }
    return true;
}

static bool add_record(struct writer *writer, size_t d, uint32_t lane, const struct record *record) {
    const struct session *session = writer->session;
    const struct dump *dump = session->job.dumps[d];
    const struct record_row row = {.row = {.dump = dump,
                                           .lane = lane,
                                           .call = record->call,
                                           .communicator = dump_communicator(dump, record->comm),
                                           .peer = record->peer,
                                           .record = record},
                                   .session = session,
                                   .d = d,
                                   .id = ++writer->record_count,
                                   .op = function_id_of(match_call_of(&session->directory, d, record->call)),
                                   .comm = record->comm < dump->communicator_count ? writer->comm_ids[record->comm] : 0,
                                   .stack = stack_of(writer, d, record->stack)};
    return !writer->failed && database_insert(&writer->records, &row);
}

static bool add_records(struct writer *writer) {
    const struct job *job = &writer->session->job;
    for (size_t d = 0; d < job->count; d++) {
        struct scope_walk walk;
        bool done = enter_dump(writer, job->dumps[d]);
        progress_show(&writer->progress, (unsigned)(d * RECORDS_THERE / job->count));
        scope_walk_begin(&walk, NULL, job->dumps[d], d);
        for (const struct record *record; done && (record = scope_walk_next(&walk));)
            done = !dump_shows(job->dumps[d], record) || add_record(writer, d, walk.lane - 1, record);
        scope_walk_end(&walk);
        if (!done || walk.no_memory)
            return false;
    }
    return true;
}

/* ---- what was matched ---------------------------------------------------------------------------------------- */

struct collective_row {
    const struct writer *writer;
    const struct match_instance *instance;
    int64_t first_enter, last_enter, first_leave, last_leave;
    uint32_t last; /* member that came last */
};

#define COLLECTIVE ((const struct collective_row *)item)
#define OF_ALL     (COLLECTIVE->writer->session)
VALUE(collective_id, cell_integer(COLLECTIVE->writer->collective_count))
VALUE(collective_comm, id_cell(communicator_id(COLLECTIVE->writer, COLLECTIVE->instance->communicator->uid)))
VALUE(collective_seq, cell_unsigned(COLLECTIVE->instance->seq))
VALUE(collective_op, id_cell(function_id_of(COLLECTIVE->instance->call)))
VALUE(collective_bytes, bytes_cell(COLLECTIVE->instance->bytes))
VALUE(collective_members, cell_unsigned(COLLECTIVE->instance->seen))
VALUE(collective_complete, cell_switch(COLLECTIVE->instance->complete))
VALUE(collective_alike, cell_switch(COLLECTIVE->instance->others == 0))
VALUE(collective_first_enter, since_start(OF_ALL, COLLECTIVE->first_enter))
VALUE(collective_last_enter, since_start(OF_ALL, COLLECTIVE->last_enter))
VALUE(collective_first_leave, since_start(OF_ALL, COLLECTIVE->first_leave))
VALUE(collective_last_leave, since_start(OF_ALL, COLLECTIVE->last_leave))
VALUE(collective_last_gpu, gpu_cell(OF_ALL->job.dumps[COLLECTIVE->instance->communicator->dump_of[COLLECTIVE->last]]))
VALUE(collective_last,
      cell_integer(OF_ALL->job.dumps[COLLECTIVE->instance->communicator->dump_of[COLLECTIVE->last]]->header->rank))

/* clang-format off */
static const struct column collective_columns[] = {
    {"id", NULL, .value = collective_id, .doc = "number of the row"},
    {"comm_id", NULL, .value = collective_comm, .doc = "communicator: communicators.id"},
    {"seq", NULL, .value = collective_seq, .doc = "its number on the communicator: records.seq"},
    {"op_id", NULL, .value = collective_op, .doc = "function: functions.id"},
    {"bytes", NULL, .value = collective_bytes, .doc = "the largest of the members' message sizes"},
    {"members", NULL, .value = collective_members, .doc = "ranks whose records were found"},
    {"complete", NULL, .value = collective_complete, .doc = "1: all of those that left a dump"},
    {"same_op", NULL, .value = collective_alike, .doc = "0: some called another function"},
    {"first_enter_ns", NULL, .value = collective_first_enter, .doc = "when the first rank came, since the job's start"},
    {"last_enter_ns", NULL, .value = collective_last_enter, .doc = "when the last one did"},
    {"last_rank", NULL, .value = collective_last, .doc = "world rank that came last"},
    {"last_gpu", NULL, .value = collective_last_gpu, .doc = "its GPU, where its process has several"},
    {"first_leave_ns", NULL, .value = collective_first_leave, .doc = "when the first rank left"},
    {"last_leave_ns", NULL, .value = collective_last_leave, .doc = "when the last one did"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

static void take_instance(void *state, const struct match_instance *instance) {
    struct writer *writer = state;
    struct collective_row row = {.writer = writer,
                                 .instance = instance,
                                 .first_enter = INT64_MAX,
                                 .last_enter = INT64_MIN,
                                 .first_leave = INT64_MAX,
                                 .last_leave = INT64_MIN};
    for (uint32_t i = 0; i < instance->communicator->dump_count; i++) {
        const struct match_member *member = &instance->members[i];
        if (member->enter == MATCH_ABSENT || member->bystander)
            continue;
        if (member->enter >= row.last_enter) {
            row.last_enter = member->enter;
            row.last = i;
        }
        row.first_enter = member->enter < row.first_enter ? member->enter : row.first_enter;
        row.first_leave = member->leave < row.first_leave ? member->leave : row.first_leave;
        row.last_leave = member->leave > row.last_leave ? member->leave : row.last_leave;
    }
    if (writer->failed || row.last_enter == INT64_MIN)
        return;
    writer->collective_count++;
    writer->failed = !database_insert(&writer->collectives, &row);
}

struct message_row {
    const struct writer *writer;
    const struct match_message *message;
};

#define ROW        ((const struct message_row *)item)
#define MESSAGE    (ROW->message)
#define OF_MESSAGE (ROW->writer->session)
VALUE(message_id, cell_integer(ROW->writer->message_count))
VALUE(message_from, cell_integer(OF_MESSAGE->job.dumps[MESSAGE->from_dump]->header->rank))
VALUE(message_to, cell_integer(OF_MESSAGE->job.dumps[MESSAGE->to_dump]->header->rank))
VALUE(message_from_gpu, gpu_cell(OF_MESSAGE->job.dumps[MESSAGE->from_dump]))
VALUE(message_to_gpu, gpu_cell(OF_MESSAGE->job.dumps[MESSAGE->to_dump]))
VALUE(message_comm,
      id_cell(communicator_id(ROW->writer, OF_MESSAGE->directory.communicators[MESSAGE->communicator].uid)))
VALUE(message_tag, cell_integer(MESSAGE->tag))
VALUE(message_bytes, bytes_cell(MESSAGE->bytes))
VALUE(message_synchronous, cell_switch(MESSAGE->synchronous))
VALUE(message_send, since_start(OF_MESSAGE, MESSAGE->send.enter))
VALUE(message_sent, since_start(OF_MESSAGE, MESSAGE->send.leave))
VALUE(message_receive, since_start(OF_MESSAGE, MESSAGE->receive.enter))
VALUE(message_received, since_start(OF_MESSAGE, MESSAGE->receive.leave))

/* clang-format off */
static const struct column message_columns[] = {
    {"id", NULL, .value = message_id, .doc = "number of the row"},
    {"from", NULL, .value = message_from, .doc = "world rank that sends"},
    {"to", NULL, .value = message_to, .doc = "world rank that receives"},
    {"from_gpu", NULL, .value = message_from_gpu, .doc = "GPU of the sender, where its process has several"},
    {"to_gpu", NULL, .value = message_to_gpu, .doc = "GPU of the receiver, likewise"},
    {"comm_id", NULL, .value = message_comm, .doc = "communicator: communicators.id"},
    {"tag", NULL, .value = message_tag, .doc = "of the message"},
    {"bytes", NULL, .value = message_bytes, .doc = "that were sent"},
    {"synchronous", NULL, .value = message_synchronous, .doc = "1: the send is over only when the receive was posted"},
    {"send_enter_ns", NULL, .value = message_send, .doc = "when it was sent, since the job's start"},
    {"send_leave_ns", NULL, .value = message_sent, .doc = "when the send returned, or was seen complete"},
    {"receive_enter_ns", NULL, .value = message_receive, .doc = "when the receive was posted"},
    {"receive_leave_ns", NULL, .value = message_received, .doc = "when the receive returned, or was seen complete"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

static void take_message(void *state, const struct match_message *message) {
    struct writer *writer = state;
    if (writer->failed)
        return;
    writer->message_count++;
    writer->failed = !database_insert(&writer->messages, &(struct message_row){writer, message});
}

/* One worker: rows come in the same order each time. */
static bool add_matched(struct writer *writer) {
    const struct session *session = writer->session;
    const struct match_sink sink = {.instance = take_instance,
                                    .message = take_message,
                                    .covered = &session->analysis.covered,
                                    .progress = show_matched,
                                    .progress_context = writer};
    struct match_totals totals;
    void *states[] = {writer};
    return match_run(&session->clock, &session->directory, &sink, states, 1, &totals) && !writer->failed;
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

static const char indexes[] =
    "CREATE INDEX records_by_rank ON records (rank, start_ns);"
    "CREATE INDEX collectives_by_seq ON collectives (comm_id, seq);"
    "CREATE INDEX messages_by_ends ON messages (from_rank, to_rank);"
    "CREATE VIEW calls AS SELECT r.*, f.name AS op, f.api AS api, c.uid AS comm, c.name AS comm_name, s.label AS site "
    "FROM records r LEFT JOIN functions f ON f.id = r.op_id LEFT JOIN communicators c ON c.id = r.comm_id "
    "LEFT JOIN stacks s ON s.id = r.stack_id;"
    "INSERT INTO documentation SELECT 'calls', column_name, meaning FROM documentation WHERE table_name = 'records';"
    "INSERT INTO documentation VALUES ('calls', 'op', 'function'), ('calls', 'api', 'mpi or nccl'), "
    "('calls', 'comm', 'uid of the communicator'), ('calls', 'comm_name', 'name of the communicator'), "
    "('calls', 'site', 'call site: the frame nearest to the call that is no library''s and no framework''s')";

static bool add_all(struct writer *writer) {
    struct database *database = writer->database;
    struct column columns[OWN_COLUMNS + EXPORTED_COLUMNS + 1];
    choose_record_columns(columns);
    bool done = add_communicators(writer) && add_functions(writer) &&
                database_table_open(&writer->records, database, "records", columns) &&
                database_table_open(&writer->stack_rows, database, "stacks", stack_columns) &&
                database_table_open(&writer->collectives, database, "collectives", collective_columns) &&
                database_table_open(&writer->messages, database, "messages", message_columns) && add_records(writer) &&
                add_matched(writer);
    database_table_close(&writer->records);
    database_table_close(&writer->stack_rows);
    database_table_close(&writer->collectives);
    database_table_close(&writer->messages);
    progress_show(&writer->progress, MATCHED_THERE);
    return done && database_execute(database, indexes);
}

bool record_tables_add(struct database *database, const struct session *session) {
    struct writer writer = {.database = database, .session = session, .progress = progress_begin("writing")};
    bool done = add_all(&writer);
    progress_end(&writer.progress);
    hash_table_free(&writer.communicators);
    hash_table_free(&writer.stacks);
    free(writer.comm_ids);
    return done;
}
