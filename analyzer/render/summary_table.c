/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary's columns.
 * Lives here: keys and looks.
 * Must not live here: sums.
 */
#include "analyzer/render/summary_table.h"

#include <inttypes.h>

#include "analyzer/render/wrapped_text.h"

const char *api_name(uint8_t api) {
    static const char *const names[] = {[API_MPI] = "mpi", [API_NCCL] = "nccl", [API_TRACE] = "trace"};
    return api < sizeof names / sizeof *names ? names[api] : NULL;
}

const char *source_name(uint8_t source) {
    static const char *const names[] = {[SOURCE_HOST] = "host",
                                        [SOURCE_GPU_EVENT] = "gpu-event",
                                        [SOURCE_IN_KERNEL] = "in-kernel",
                                        [SOURCE_INFERRED] = "inferred"};
    return source < sizeof names / sizeof *names ? names[source] : NULL;
}

static struct cell text_or_unknown(const char *text) {
    return text ? cell_text(text) : cell_unknown();
}

#define VALUE(NAME, EXPRESSION)                                                                                        \
    static struct cell NAME(const void *row) {                                                                         \
        const struct summary_entry *entry = row;                                                                       \
        return EXPRESSION;                                                                                             \
    }
#define MICROSECONDS(NS) cell_real((double)(NS) / 1e3)

/* Cells of times inside the calls, and of those in flight. */
static struct cell total_of(const struct summary_times *times) {
    return times->count > 0 ? MICROSECONDS(times->total_ns) : cell_unknown();
}

static struct cell average_of(const struct summary_times *times) {
    return times->count > 0 ? MICROSECONDS((double)times->total_ns / (double)times->count) : cell_unknown();
}

/* Of the least and the longest, which sums alone do not tell. */
static struct cell extreme_of(const struct summary_times *times, uint64_t ns) {
    bool known = times->count > 0 && (times->sums_only == 0 || times->percentiles == PERCENTILES_EXACT);
    return known ? MICROSECONDS(ns) : cell_unknown();
}

static struct cell percentile_of(const struct summary_times *times, uint64_t ns) {
    return times->percentiles != PERCENTILES_NONE ? MICROSECONDS(ns) : cell_unknown();
}

/* A table of call sites does not hold the shortest call. */
static bool tells_least(const struct summary_entry *entry, const struct summary_times *times) {
    return !(entry->site || entry->caller) || times->percentiles == PERCENTILES_EXACT;
}

VALUE(api, text_or_unknown(api_name(entry->api)))
VALUE(op, text_or_unknown(entry->op))
VALUE(comm, entry->has_comm ? cell_hex(entry->comm) : cell_unknown())
VALUE(comm_role, entry->has_comm && entry->comm_role[0] ? cell_text(entry->comm_role) : cell_unknown())
VALUE(comm_name, entry->has_comm && entry->comm_name[0] ? cell_text(entry->comm_name) : cell_unknown())
VALUE(comm_size, entry->comm_size ? cell_unsigned(entry->comm_size) : cell_unknown())
VALUE(bytes, entry->bytes != BYTES_UNKNOWN ? cell_bound(entry->bytes, entry->estimated_bytes > 0 && !entry->size_class)
                                           : cell_unknown())
VALUE(count, cell_unsigned(entry->count))
VALUE(bytes_total, cell_bound(entry->bytes_total, entry->estimated_bytes > 0))
VALUE(posted_sizes, cell_unsigned(entry->estimated_bytes))
VALUE(shared_times, cell_unsigned(entry->shared_times))
VALUE(site, text_or_unknown(entry->site))
VALUE(caller, text_or_unknown(entry->caller))
VALUE(epoch, entry->epoch != EPOCH_SEVERAL ? cell_unsigned(entry->epoch) : cell_unknown())
VALUE(time_total, total_of(&entry->time))
VALUE(time_avg, average_of(&entry->time))
VALUE(time_min, tells_least(entry, &entry->time) ? extreme_of(&entry->time, entry->time.min_ns) : cell_unknown())
VALUE(time_max, extreme_of(&entry->time, entry->time.max_ns))
VALUE(time_p50, percentile_of(&entry->time, entry->time.p50_ns))
VALUE(time_p95, percentile_of(&entry->time, entry->time.p95_ns))
VALUE(time_p99, percentile_of(&entry->time, entry->time.p99_ns))
VALUE(in_flight_total, total_of(&entry->in_flight))
VALUE(in_flight_avg, average_of(&entry->in_flight))
VALUE(in_flight_min,
      tells_least(entry, &entry->in_flight) ? extreme_of(&entry->in_flight, entry->in_flight.min_ns) : cell_unknown())
VALUE(in_flight_max, extreme_of(&entry->in_flight, entry->in_flight.max_ns))
VALUE(in_flight_p50, percentile_of(&entry->in_flight, entry->in_flight.p50_ns))
VALUE(in_flight_p95, percentile_of(&entry->in_flight, entry->in_flight.p95_ns))
VALUE(in_flight_p99, percentile_of(&entry->in_flight, entry->in_flight.p99_ns))
VALUE(algbw_gbps, entry->algbw_bytes_per_s >= 0 ? cell_real(entry->algbw_bytes_per_s * 8 / 1e9) : cell_unknown())
VALUE(busbw_gbps, entry->busbw_bytes_per_s >= 0 ? cell_real(entry->busbw_bytes_per_s * 8 / 1e9) : cell_unknown())
VALUE(algbw_gb, entry->algbw_bytes_per_s >= 0 ? cell_real(entry->algbw_bytes_per_s / 1e9) : cell_unknown())
VALUE(busbw_gb, entry->busbw_bytes_per_s >= 0 ? cell_real(entry->busbw_bytes_per_s / 1e9) : cell_unknown())
#define BANDWIDTH(FIELD, FACTOR) (entry->FIELD >= 0 ? cell_real(entry->FIELD * (FACTOR)) : cell_unknown())
#define TRANSFERRED              (entry->transfer_members > 0)
VALUE(transfer_count, TRANSFERRED ? cell_unsigned(entry->transfer_members) : cell_unknown())
VALUE(transfer_avg,
      TRANSFERRED ? cell_real((double)entry->transfer_ns / 1e3 / (double)entry->transfer_members) : cell_unknown())
VALUE(transfer_seconds, TRANSFERRED ? cell_real((double)entry->transfer_ns / 1e9) : cell_unknown())
VALUE(wait_seconds, TRANSFERRED ? cell_real((double)entry->transfer_wait_ns / 1e9) : cell_unknown())
VALUE(completion_seconds, TRANSFERRED ? cell_real((double)entry->completion_ns / 1e9) : cell_unknown())
VALUE(transfer_algbw_gbps, BANDWIDTH(transfer_algbw_bytes_per_s, 8 / 1e9))
VALUE(transfer_busbw_gbps, BANDWIDTH(transfer_busbw_bytes_per_s, 8 / 1e9))
VALUE(transfer_algbw_gb, BANDWIDTH(transfer_algbw_bytes_per_s, 1 / 1e9))
VALUE(transfer_busbw_gb, BANDWIDTH(transfer_busbw_bytes_per_s, 1 / 1e9))
VALUE(source, text_or_unknown(source_name(entry->source)))
VALUE(percentiles, entry->time.percentiles != PERCENTILES_NONE
                       ? cell_text(entry->time.percentiles == PERCENTILES_EXACT ? "exact" : "approximate")
                       : cell_unknown())
VALUE(size_class, cell_switch(entry->size_class))
VALUE(rank, entry->rank != RANK_UNKNOWN ? cell_integer(entry->rank) : cell_unknown())
VALUE(untimed, cell_unsigned(entry->untimed))
VALUE(failed, cell_unsigned(entry->failed))
VALUE(posting, entry->posting_total_ns ? MICROSECONDS(entry->posting_total_ns) : cell_unknown())

/* clang-format off */
const struct column summary_columns[] = {
    {"rank", "rank", .value = rank, .optional = true, .doc = "world rank (--by rank)"},
    {"site", "call site", .value = site, .left = true, .optional = true, .doc = "the frame nearest to the call that is no library's and no framework's (--by site)"},
    {"caller", "caller", .value = caller, .left = true, .optional = true, .doc = "function that the call site lies in (--by caller)"},
    {"epoch", "epoch", .value = epoch, .optional = true, .doc = "number of the epoch, counted by MPI_Pcontrol(2) (--by epoch)"},
    {"api", NULL, .value = api, .doc = "mpi or nccl"},
    {"op", "op", .value = op, .left = true, .optional = true, .doc = "function"},
    {"comm", "uid", .value = comm, .left = true, .optional = true, .doc = "communicator's uid"},
    {"comm_name", "communicator", .value = comm_name, .left = true, .optional = true, .doc = "communicator's name"},
    {"comm_role", "role", .value = comm_role, .left = true, .optional = true, .doc = "what the communicator is for, by its name: TP, DP, PP, CP, EP, SP"},
    {"comm_size", "procs", .value = comm_size, .optional = true, .doc = "processes in the communicator", .legend = "size of the communicator"},
    {"bytes", "size", LOOK_SIZE, .value = bytes, .optional = true, .doc = "message size of one call"},
    {"size_class", "or more", LOOK_MARK, .value = size_class, .left = true, .optional = true, .doc = "bytes is the lower bound of a class of sizes"},
    {"count", "count", .value = count, .doc = "calls, summed over ranks; of a GPU's rows operations with a time there: their calls are in rows of source host"},
    {"bytes_total", NULL, LOOK_SIZE, .value = bytes_total, .doc = "bytes of all calls"},
    {"time_total_us", "total", LOOK_MICROSECONDS, .value = time_total, .doc = "time inside the calls, summed over ranks", .legend = "time inside the calls, over all ranks"},
    {"time_avg_us", "avg", LOOK_MICROSECONDS, .value = time_avg, .doc = "time_total_us / calls with a time"},
    {"time_min_us", NULL, LOOK_MICROSECONDS, .value = time_min, .doc = "shortest call"},
    {"time_max_us", "max", LOOK_MICROSECONDS, .value = time_max, .doc = "longest call"},
    {"time_p50_us", "p50", LOOK_MICROSECONDS, .value = time_p50, .optional = true, .doc = "median"},
    {"time_p95_us", NULL, LOOK_MICROSECONDS, .value = time_p95, .doc = "95th percentile"},
    {"time_p99_us", "p99", LOOK_MICROSECONDS, .value = time_p99, .optional = true, .doc = "99th percentile"},
    {"in_flight_total_us", "in flight", LOOK_MICROSECONDS, .value = in_flight_total, .optional = true, .doc = "non-blocking operations: from posting until they were seen complete, summed; not in time_total_us", .legend = "from posting until an operation was seen complete; no cost by itself"},
    {"in_flight_avg_us", NULL, LOOK_MICROSECONDS, .value = in_flight_avg, .doc = "the same per operation"},
    {"in_flight_min_us", NULL, LOOK_MICROSECONDS, .value = in_flight_min, .doc = "shortest"},
    {"in_flight_max_us", NULL, LOOK_MICROSECONDS, .value = in_flight_max, .doc = "longest"},
    {"in_flight_p50_us", NULL, LOOK_MICROSECONDS, .value = in_flight_p50, .doc = "median"},
    {"in_flight_p95_us", NULL, LOOK_MICROSECONDS, .value = in_flight_p95, .doc = "95th percentile"},
    {"in_flight_p99_us", NULL, LOOK_MICROSECONDS, .value = in_flight_p99, .doc = "99th percentile"},
    {"algbw_gbps", NULL, .value = algbw_gbps, .doc = "algorithm bandwidth, Gbit/s"},
    {"busbw_gbps", NULL, .value = busbw_gbps, .doc = "bus bandwidth, Gbit/s"},
    {"algbw_gb_per_s", "algbw", LOOK_GB_PER_S, .value = algbw_gb, .optional = true, .doc = "algorithm bandwidth, 1e9 bytes/s", .legend = "bytes / time"},
    {"busbw_gb_per_s", "busbw", LOOK_GB_PER_S, .value = busbw_gb, .optional = true, .doc = "bus bandwidth, 1e9 bytes/s", .legend = "algbw x nccl-tests' factor"},
    {"transfer_count", NULL, .value = transfer_count, .doc = "calls matched with all of their partners'"},
    {"wait_seconds", NULL, .value = wait_seconds, .doc = "of these, time until the last partner had come, summed"},
    {"transfer_seconds", NULL, .value = transfer_seconds, .doc = "of these, time after the last partner had come, summed"},
    {"transfer_avg_us", "transfer avg", LOOK_MICROSECONDS, .value = transfer_avg, .optional = true, .doc = "the same per call", .legend = "time of a call after the last rank had come"},
    {"completion_seconds", NULL, .value = completion_seconds, .doc = "of these, N to N: time after the first one had left, summed"},
    {"transfer_algbw_gbps", NULL, .value = transfer_algbw_gbps, .doc = "algorithm bandwidth of the transfer, Gbit/s"},
    {"transfer_busbw_gbps", NULL, .value = transfer_busbw_gbps, .doc = "bus bandwidth of the transfer, Gbit/s"},
    {"transfer_algbw_gb_per_s", NULL, .value = transfer_algbw_gb, .doc = "algorithm bandwidth of the transfer, 1e9 bytes/s"},
    {"transfer_busbw_gb_per_s", "transfer busbw", LOOK_GB_PER_S, .value = transfer_busbw_gb, .optional = true, .doc = "bus bandwidth of the transfer, 1e9 bytes/s"},
    {"source", "source", .value = source, .left = true, .optional = true, .doc = "where the times come from"},
    {"percentiles", NULL, .value = percentiles, .doc = "exact, or approximate: from a histogram of 4 buckets per octave"},
    {"untimed", NULL, .value = untimed, .doc = "calls without a time: completion was not seen"},
    {"failed", NULL, .value = failed, .doc = "calls that returned an error"},
    {"posted_sizes", NULL, .value = posted_sizes, .doc = "receives without a status: their size is that of the buffer, and there is no bandwidth"},
    {"shared_times", NULL, .value = shared_times, .doc = "operations of NCCL groups over several communicators on one stream, whose launches have one interval between two events: each has a share of it by its number of operations, and no bandwidth"},
    {"posting_total_us", NULL, LOOK_MICROSECONDS, .value = posting, .doc = "of time_total_us, inside the calls that posted non-blocking operations"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

void summary_print_notes(FILE *stream, const struct summary *summary) {
    uint64_t receives = 0, shares = 0;
    char text[256];
    for (size_t i = 0; i < summary->count; i++) {
        receives += summary->entries[i].estimated_bytes;
        shares += summary->entries[i].shared_times;
    }
    snprintf(text, sizeof text,
             "%" PRIu64
             " receives had no status: their sizes are those of their buffers (<=), not of what came; rows with such "
             "have no bandwidth",
             receives);
    if (receives > 0)
        print_wrapped(stream, text, 0, 0);
    snprintf(text, sizeof text,
             "the times of %" PRIu64
             " GPU operations are shares: NCCL ran several communicators of a group on one stream, and their common "
             "time is told by their numbers of operations; no bandwidth is told of them",
             shares);
    if (shares > 0)
        print_wrapped(stream, text, 0, 0);
}

struct table summary_table(const struct summary *summary) {
    return (struct table){summary_columns, summary->entries, sizeof *summary->entries, summary->count};
}
