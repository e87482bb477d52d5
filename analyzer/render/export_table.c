/* SPDX-License-Identifier: Apache-2.0
 *
 * The stable column sets of `commtap export`.
 * Lives here: names of codes and flags, columns.
 * Must not live here: walking dumps.
 */
#include "analyzer/render/export_table.h"

#include "analyzer/load/code_names.h"
#include "analyzer/render/summary_table.h"

#define NAME_OF(NAMES, CODE)                                                                                           \
    ((size_t)(CODE) < sizeof(NAMES) / sizeof *(NAMES) && (NAMES)[CODE] ? cell_text((NAMES)[CODE]) : cell_unknown())

static const char *const kind_names[] = {
    [RECORD_CALL] = "call",     [RECORD_POST] = "post",       [RECORD_DONE] = "done",       [RECORD_GPU] = "gpu",
    [RECORD_KERNEL] = "kernel", [RECORD_PROXY] = "proxy",     [RECORD_GROUP] = "group",     [RECORD_MARK] = "mark",
    [RECORD_THREAD] = "thread", [RECORD_EXPOSED] = "exposed", [RECORD_MEMORY] = "memory",   [RECORD_POLL] = "poll",
    [RECORD_REPLAY] = "replay", [RECORD_PARTNER] = "partner", [RECORD_AWAITED] = "awaited", [RECORD_TOLD] = "told",
};
static const char *const peer_class_names[] = {
    [PEER_CLASS_NONE] = "none", [PEER_CLASS_RANK] = "rank", [PEER_CLASS_SELF] = "self",
    [PEER_CLASS_NULL] = "null", [PEER_CLASS_ROOT] = "root",
};
static const char *const communicator_kind_names[] = {
    [COMMUNICATOR_INTRA] = "intra",
    [COMMUNICATOR_INTER] = "inter",
    [COMMUNICATOR_WINDOW] = "window",
    [COMMUNICATOR_FILE] = "file",
};

static struct cell name_or_unknown(const char *name) {
    return name ? cell_text(name) : cell_unknown();
}

static struct cell world_rank(const struct dump_communicator *communicator, int32_t peer) {
    int32_t rank = dump_peer_rank(communicator, peer);
    return rank >= 0 ? cell_integer(rank) : cell_unknown();
}

static const struct call_name *row_call(const struct export_row *row) {
    return dump_call(row->dump, row->call);
}

static struct cell bytes_cell(uint64_t bytes) {
    return bytes == BYTES_UNKNOWN ? cell_unknown() : cell_unsigned(bytes);
}

static struct cell time_cell(const struct export_row *row, uint64_t ticks) {
    uint8_t source = row->operation ? row->operation->source & ~SOURCE_SIZE_CLASS : SOURCE_HOST;
    bool device = source == SOURCE_GPU_EVENT || source == SOURCE_IN_KERNEL;
    return device ? cell_unsigned(ticks) : cell_integer(dump_duration_ns(row->dump, ticks));
}

static int64_t realtime_ns(const struct export_row *row, uint64_t time) {
    return dump_realtime_ns(row->dump, record_is_device(row->record) ? dump_ticks_at(row->dump, time) : time);
}

static int64_t duration_ns(const struct export_row *row) {
    uint64_t length = row->record->t1 - row->record->t0;
    if (!record_is_device(row->record))
        return dump_duration_ns(row->dump, length);
    return length < INT64_MAX ? (int64_t)length : INT64_MAX;
}

static struct cell epoch_cell(uint32_t comm_epoch) {
    return cell_unsigned(comm_epoch >> 24);
}

#define VALUE(NAME, EXPRESSION)                                                                                        \
    static struct cell NAME(const void *item) {                                                                        \
        const struct export_row *row = item;                                                                           \
        return EXPRESSION;                                                                                             \
    }
#define DEFINITION (row->communicator->definition)
#define PROGRESS   (row->communicator->progress)

/* ---- who and what ---------------------------------------------------------------------------- */

VALUE(run_id, cell_text(row->dump->run_id))
VALUE(generation, cell_unsigned(row->generation))
VALUE(rank, row->dump->header->rank == RANK_UNKNOWN ? cell_unknown() : cell_integer(row->dump->header->rank))
VALUE(host, cell_text(row->dump->host))
VALUE(lane, cell_unsigned(row->lane))
VALUE(api, row_call(row) && api_name(row_call(row)->api) ? cell_text(api_name(row_call(row)->api)) : cell_unknown())
VALUE(op, row_call(row) ? cell_text(row_call(row)->name) : cell_unknown())
VALUE(comm, row->communicator ? cell_hex(DEFINITION->uid) : cell_unknown())
VALUE(comm_name, row->communicator && row->communicator->name[0] ? cell_text(row->communicator->name) : cell_unknown())
VALUE(comm_size, row->communicator ? cell_unsigned(DEFINITION->size) : cell_unknown())
VALUE(peer, row->peer >= 0 ? cell_integer(row->peer) : cell_unknown())
VALUE(peer_rank, world_rank(row->communicator, row->peer))

/* ---- records --------------------------------------------------------------------------------- */

VALUE(ticket, cell_unsigned(row->record->commit - 1))
VALUE(kind, NAME_OF(kind_names, row->record->kind))
VALUE(seq, row->record->seq == SEQ_NONE || row->record->kind == RECORD_POLL ? cell_unknown()
                                                                            : cell_unsigned(row->record->seq))
VALUE(operation, row->record->op ? cell_unsigned(row->record->op) : cell_unknown())
VALUE(tag, row->record->tag > TAG_ANY ? cell_integer(row->record->tag) : cell_unknown())
VALUE(bytes, bytes_cell(row->record->bytes))
VALUE(start, cell_integer(realtime_ns(row, row->record->t0)))
VALUE(end, cell_integer(realtime_ns(row, row->record->t1)))
VALUE(duration, row->record->t1 >= row->record->t0 ? cell_integer(duration_ns(row)) : cell_unknown())
VALUE(datatype, name_or_unknown(datatype_name(row->record->dtype)))
VALUE(redop, name_or_unknown(redop_name(row->record->redop)))
VALUE(parts, cell_unsigned(record_parts(row->record)))
VALUE(result, row->record->flags &FLAG_FAILED ? cell_unsigned(row->record->result) : cell_unknown())

#define FLAG(NAME, BIT) VALUE(NAME, cell_switch((row->record->flags & (BIT)) != 0))
FLAG(is_send, FLAG_SEND)
FLAG(is_recv, FLAG_RECV)
FLAG(is_collective, FLAG_COLLECTIVE)
FLAG(is_root, FLAG_ROOT)
FLAG(is_wildcard, FLAG_WILDCARD)
FLAG(is_bytes_posted, FLAG_BYTES_POSTED)
FLAG(is_receive_half, FLAG_RECEIVE_HALF)
FLAG(is_cancelled, FLAG_CANCELLED)
FLAG(is_failed, FLAG_FAILED)
FLAG(is_started, FLAG_STARTED)
FLAG(is_unobserved, FLAG_UNOBSERVED)
VALUE(is_share, cell_switch(record_is_share(row->record)))
FLAG(is_ordinal_unknown, FLAG_ORDINAL_UNKNOWN)

#define WHO                                                                                                            \
    {"run_id", NULL, .value = run_id}, {"generation", NULL, .value = generation}, {"rank", NULL, .value = rank}, {     \
        "host", NULL, .value = host                                                                                    \
    }
#define WHAT                                                                                                           \
    {"lane", NULL, .value = lane}, {"api", NULL, .value = api}, {"op", NULL, .value = op},                             \
        {"comm", NULL, .value = comm}, {"comm_name", NULL, .value = comm_name}, {                                      \
        "comm_size", NULL, .value = comm_size                                                                          \
    }
#define COLUMNS_END                                                                                                    \
    { NULL, NULL, .value = NULL }

static const struct column record_columns[] = {
    WHO,
    WHAT,
    {"ticket", NULL, .value = ticket},
    {"kind", NULL, .value = kind},
    {"seq", NULL, .value = seq},
    {"operation", NULL, .value = operation},
    {"peer", NULL, .value = peer},
    {"peer_rank", NULL, .value = peer_rank},
    {"tag", NULL, .value = tag},
    {"bytes", NULL, .value = bytes},
    {"start_ns", NULL, .value = start},
    {"end_ns", NULL, .value = end},
    {"duration_ns", NULL, .value = duration},
    {"datatype", NULL, .value = datatype},
    {"redop", NULL, .value = redop},
    {"send", NULL, .value = is_send},
    {"recv", NULL, .value = is_recv},
    {"collective", NULL, .value = is_collective},
    {"root", NULL, .value = is_root},
    {"wildcard", NULL, .value = is_wildcard},
    {"bytes_posted", NULL, .value = is_bytes_posted},
    {"receive_half", NULL, .value = is_receive_half},
    {"cancelled", NULL, .value = is_cancelled},
    {"failed", NULL, .value = is_failed},
    {"started", NULL, .value = is_started},
    {"unobserved", NULL, .value = is_unobserved},
    {"share", NULL, .value = is_share},
    {"ordinal_unknown", NULL, .value = is_ordinal_unknown},
    {"result", NULL, .value = result},
    {"parts", NULL, .value = parts},
    COLUMNS_END,
};

/* ---- operations ------------------------------------------------------------------------------ */

#define TIMED (row->operation->count > row->operation->untimed)
VALUE(operation_bytes, bytes_cell(row->operation->bytes))
VALUE(size_class, cell_switch((row->operation->source & SOURCE_SIZE_CLASS) != 0))
VALUE(source, source_name(row->operation->source & ~SOURCE_SIZE_CLASS)
                  ? cell_text(source_name(row->operation->source & ~SOURCE_SIZE_CLASS))
                  : cell_unknown())
VALUE(peer_class, NAME_OF(peer_class_names, row->operation->peer_class))
VALUE(operation_epoch, epoch_cell(row->operation->comm_epoch))
VALUE(operation_count, cell_unsigned(row->operation->count))
VALUE(untimed, cell_unsigned(row->operation->untimed))
VALUE(failed, cell_unsigned(row->operation->failed))
VALUE(operation_bytes_total, cell_unsigned(row->operation->bytes_total))
VALUE(received_bytes, cell_unsigned(row->operation->received_bytes))
VALUE(operation_time_total, TIMED ? time_cell(row, row->operation->time_total) : cell_unknown())
VALUE(operation_time_min, TIMED ? time_cell(row, row->operation->time_min) : cell_unknown())
VALUE(operation_time_max, TIMED ? time_cell(row, row->operation->time_max) : cell_unknown())
VALUE(posting_total, time_cell(row, row->operation->posting_total))
VALUE(torn, cell_switch(row->torn))

static const struct column operation_columns[] = {
    WHO,
    WHAT,
    {"bytes", NULL, .value = operation_bytes},
    {"size_class", NULL, .value = size_class},
    {"source", NULL, .value = source},
    {"peer_class", NULL, .value = peer_class},
    {"epoch", NULL, .value = operation_epoch},
    {"count", NULL, .value = operation_count},
    {"untimed", NULL, .value = untimed},
    {"failed", NULL, .value = failed},
    {"bytes_total", NULL, .value = operation_bytes_total},
    {"received_bytes", NULL, .value = received_bytes},
    {"time_total_ns", NULL, .value = operation_time_total},
    {"time_min_ns", NULL, .value = operation_time_min},
    {"time_max_ns", NULL, .value = operation_time_max},
    {"posting_total_ns", NULL, .value = posting_total},
    {"torn", NULL, .value = torn},
    COLUMNS_END,
};

/* ---- peers ----------------------------------------------------------------------------------- */

VALUE(direction, cell_text(row->peer_row->direction &FLAG_SEND ? "send" : "recv"))
VALUE(peer_epoch, epoch_cell(row->peer_row->comm_epoch))
VALUE(peer_count, cell_unsigned(row->peer_row->count))
VALUE(peer_bytes_total, cell_unsigned(row->peer_row->bytes_total))
VALUE(peer_time_total, time_cell(row, row->peer_row->time_total))
VALUE(peer_time_max, time_cell(row, row->peer_row->time_max))
VALUE(peer_wait_total, time_cell(row, row->peer_row->wait_total))

static const struct column peer_columns[] = {
    WHO,
    WHAT,
    {"peer", NULL, .value = peer},
    {"peer_rank", NULL, .value = peer_rank},
    {"direction", NULL, .value = direction},
    {"epoch", NULL, .value = peer_epoch},
    {"count", NULL, .value = peer_count},
    {"bytes_total", NULL, .value = peer_bytes_total},
    {"time_total_ns", NULL, .value = peer_time_total},
    {"time_max_ns", NULL, .value = peer_time_max},
    {"wait_total_ns", NULL, .value = peer_wait_total},
    COLUMNS_END,
};

/* ---- NCCL's transfers over the network --------------------------------------------------------- */

VALUE(transfer_direction, cell_text(row->transfer->sends == 1 ? "send" : "recv"))
VALUE(transfer_channels, cell_unsigned(row->transfer->channels))
VALUE(transfer_count, cell_unsigned(row->transfer->operations))
VALUE(transfer_steps, cell_unsigned(row->transfer->steps))
VALUE(transfer_bytes, cell_unsigned(row->transfer->bytes))
VALUE(transfer_wait_gpu, cell_unsigned(row->transfer->wait_gpu))
VALUE(transfer_wait_peer, cell_unsigned(row->transfer->wait_peer))
VALUE(transfer_wait_wire, cell_unsigned(row->transfer->wait_wire))
VALUE(transfer_wait_flush, cell_unsigned(row->transfer->wait_flush))

static const struct column transfer_columns[] = {
    WHO,
    {"comm", NULL, .value = comm},
    {"comm_name", NULL, .value = comm_name},
    {"comm_size", NULL, .value = comm_size},
    {"peer", NULL, .value = peer},
    {"peer_rank", NULL, .value = peer_rank},
    {"direction", NULL, .value = transfer_direction},
    {"channels", NULL, .value = transfer_channels},
    {"count", NULL, .value = transfer_count},
    {"proxy_steps", NULL, .value = transfer_steps},
    {"bytes_total", NULL, .value = transfer_bytes},
    {"wait_gpu_ns", NULL, .value = transfer_wait_gpu},
    {"wait_peer_ns", NULL, .value = transfer_wait_peer},
    {"wait_wire_ns", NULL, .value = transfer_wait_wire},
    {"wait_flush_ns", NULL, .value = transfer_wait_flush},
    COLUMNS_END,
};

/* ---- communicators --------------------------------------------------------------------------- */

VALUE(index_of, cell_unsigned(DEFINITION->index))
VALUE(parent, DEFINITION->parent_uid ? cell_hex(DEFINITION->parent_uid) : cell_unknown())
VALUE(communicator_kind, NAME_OF(communicator_kind_names, DEFINITION->kind))
VALUE(my_rank, DEFINITION->my_rank == RANK_UNKNOWN ? cell_unknown() : cell_integer(DEFINITION->my_rank))
VALUE(remote_size, DEFINITION->remote_size ? cell_unsigned(DEFINITION->remote_size) : cell_unknown())
VALUE(freed, cell_switch(row->communicator->freed))
VALUE(lives, row->communicator->lives ? cell_unsigned(row->communicator->lives) : cell_unknown())
VALUE(foreign, cell_switch((DEFINITION->flags & COMMUNICATOR_FOREIGN) != 0))
VALUE(uid_unsure, cell_switch((DEFINITION->flags & COMMUNICATOR_UID_UNSURE) != 0))
VALUE(enqueued, PROGRESS ? cell_unsigned(PROGRESS->enqueued) : cell_unknown())
VALUE(completed, PROGRESS ? cell_unsigned(PROGRESS->completed) : cell_unknown())
VALUE(prefix_hash, PROGRESS ? cell_hex(PROGRESS->prefix_hash) : cell_unknown())

static const struct column communicator_columns[] = {
    WHO,
    {"index", NULL, .value = index_of},
    {"comm", NULL, .value = comm},
    {"comm_name", NULL, .value = comm_name},
    {"comm_size", NULL, .value = comm_size},
    {"parent", NULL, .value = parent},
    {"kind", NULL, .value = communicator_kind},
    {"my_rank", NULL, .value = my_rank},
    {"remote_size", NULL, .value = remote_size},
    {"freed", NULL, .value = freed},
    {"foreign", NULL, .value = foreign},
    {"uid_unsure", NULL, .value = uid_unsure},
    {"enqueued", NULL, .value = enqueued},
    {"completed", NULL, .value = completed},
    {"prefix_hash", NULL, .value = prefix_hash},
    {"lives", NULL, .value = lives},
    COLUMNS_END,
};

const struct export_table export_records = {"records", record_columns};
const struct export_table export_operations = {"operations", operation_columns};
const struct export_table export_peers = {"peers", peer_columns};
const struct export_table export_transfers = {"transfers", transfer_columns};
const struct export_table export_communicators = {"communicators", communicator_columns};
