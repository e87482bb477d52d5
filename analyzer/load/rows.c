/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading rows of a dump's tables.
 * Lives here: the version protocol of operation rows, what makes a row sound, the bounds of histogram buckets.
 * Must not live here: sums over rows.
 */
#include "analyzer/load/rows.h"

#include <string.h>

enum { ROW_READ_TRIES = 64, SITES_TELL_POSTING = 1 /* since format 2.1 */ };
/* Several threads may write one row: its counters can be this many calls apart. */
enum { WRITERS_MAX = 4096 };

static bool comm_is_sound(const struct dump *dump, uint32_t comm_epoch) {
    uint32_t comm = comm_epoch & ROW_COMM_NONE;
    return comm == ROW_COMM_NONE || comm < dump->communicator_count || dump->header->losses.communicators_untracked > 0;
}

static bool is_sound(const struct dump *dump, const struct operation_row *row) {
    uint8_t source = row->source & (uint8_t)~SOURCE_SIZE_CLASS;
    return source >= SOURCE_HOST && source <= SOURCE_INFERRED && row->peer_class <= PEER_CLASS_ROOT &&
           row->untimed <= row->count + WRITERS_MAX && row->failed <= row->count + WRITERS_MAX &&
           row->posted_size <= row->count + WRITERS_MAX && row->shares <= row->count &&
           row->shares_total <= row->time_total && row->count < UINT64_MAX / 2 && dump_call(dump, row->call) &&
           comm_is_sound(dump, row->comm_epoch);
}

enum row_state operation_row_read(const struct dump *dump, const struct operation_row *row,
                                  struct operation_row *copy) {
    for (int i = 0; i < ROW_READ_TRIES; i++) {
        uint64_t version = __atomic_load_n(&row->version, __ATOMIC_ACQUIRE);
        if (version == 0)
            return ROW_UNUSED;
        memcpy(copy, row, offsetof(struct operation_row, histogram));
        memset(copy->histogram, 0, sizeof copy->histogram);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (version % 2 == 0 && __atomic_load_n(&row->version, __ATOMIC_RELAXED) == version)
            return is_sound(dump, copy) ? ROW_STABLE : ROW_DAMAGED;
    }
    return is_sound(dump, copy) ? ROW_TORN : ROW_DAMAGED;
}

static bool site_is_sound(const struct dump *dump, const struct site_row *row) {
    return row->count < UINT64_MAX / 2 && dump_call(dump, row->call) && comm_is_sound(dump, row->comm_epoch);
}

enum row_state site_row_read(const struct dump *dump, const struct site_row *row, struct site_row *copy) {
    for (int i = 0; i < ROW_READ_TRIES; i++) {
        uint64_t version = __atomic_load_n(&row->version, __ATOMIC_ACQUIRE);
        if (version == 0)
            return ROW_UNUSED;
        memcpy(copy, row, sizeof *copy);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (version % 2 == 0 && __atomic_load_n(&row->version, __ATOMIC_RELAXED) == version)
            return site_is_sound(dump, copy) ? ROW_STABLE : ROW_DAMAGED;
    }
    return site_is_sound(dump, copy) ? ROW_TORN : ROW_DAMAGED;
}

/* A call of NCCL only enqueues: its time is the host's, inside the call. */
static bool is_posted(const struct dump *dump, uint16_t call, uint64_t posting_total) {
    const struct call_name *name = dump_call(dump, call);
    return posting_total > 0 && name && name->api != API_NCCL;
}

enum row_time operation_row_time(const struct dump *dump, const struct operation_row *row) {
    return is_posted(dump, row->call, row->posting_total) ? ROW_TIME_IN_FLIGHT : ROW_TIME_INSIDE;
}

enum row_time site_row_time(const struct dump *dump, const struct site_row *row) {
    const struct call_name *name = dump_call(dump, row->call);
    uint32_t version = dump->header->version;
    bool told = FORMAT_MAJOR_OF(version) == FORMAT_MAJOR && FORMAT_MINOR_OF(version) >= SITES_TELL_POSTING;
    if (!told && name && name->api == API_MPI && (name->nonblocking || name->call_class == CLASS_START))
        return ROW_TIME_IN_FLIGHT_ALONE;
    return is_posted(dump, row->call, row->posting_total) ? ROW_TIME_IN_FLIGHT : ROW_TIME_INSIDE;
}

static bool request_read(const struct dump *dump, const struct pending *pending, struct pending *copy) {
    bool taken = __atomic_load_n(&pending->request, __ATOMIC_ACQUIRE) != 0;
    memcpy(copy, pending, sizeof *copy);
    return taken && copy->request != 0 && dump_call(dump, copy->call) && copy->persistent <= 1 && copy->active <= 1;
}

bool pending_read(const struct dump *dump, const struct pending *pending, struct pending *copy) {
    return request_read(dump, pending, copy) && (!copy->persistent || copy->active);
}

bool persistent_read(const struct dump *dump, const struct pending *pending, struct pending *copy) {
    return request_read(dump, pending, copy) && copy->persistent;
}

uint64_t persistent_starts(const struct dump *dump, uint32_t local, uint32_t seq) {
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending copy;
        if (persistent_read(dump, &dump->pending[i], &copy) && copy.comm == local && copy.seq == seq &&
            (copy.flags & FLAG_COLLECTIVE))
            return copy.flags & FLAG_STARTED ? (uint64_t)(uint32_t)copy.tag + 1 : 0;
    }
    return UINT64_MAX;
}

bool peer_row_read(const struct dump *dump, const struct peer_row *row, struct peer_row *copy) {
    bool used = __atomic_load_n(&row->version, __ATOMIC_ACQUIRE) != 0;
    memcpy(copy, row, sizeof *copy);
    return used && dump_call(dump, copy->call) && (copy->direction == FLAG_SEND || copy->direction == FLAG_RECV) &&
           comm_is_sound(dump, copy->comm_epoch);
}

/* In the order in which a living writer cannot have ended what it is not seen to have launched. */
struct captured_progress captured_progress_read(const struct dump *dump, uint32_t local) {
    struct captured_progress progress = {0};
    uint64_t newest = 0, unfollowed = 0;
    for (uint32_t i = 0; i < dump->capture_count; i++) {
        const struct capture_row *row = &dump->captures[i];
        if (__atomic_load_n(&row->used, __ATOMIC_ACQUIRE) == 0 || row->comm != local)
            continue;
        uint64_t launched = __atomic_load_n(&row->launched, __ATOMIC_ACQUIRE);
        uint64_t ended = __atomic_load_n(&row->ended, __ATOMIC_ACQUIRE);
        uint64_t left = __atomic_load_n(&row->unfollowed, __ATOMIC_ACQUIRE);
        uint64_t last = __atomic_load_n(&row->newest, __ATOMIC_ACQUIRE);
        progress.launched += launched;
        progress.collectives += launched * row->collectives;
        progress.ended = ended > progress.ended ? ended : progress.ended;
        unfollowed = left > unfollowed ? left : unfollowed;
        if (!progress.row || last > newest)
            progress.row = row;
        newest = last > newest ? last : newest;
    }
    progress.running = newest > progress.ended;
    progress.known = progress.row && dump->header->captured_unfollowed == 0 && dump->captures_untold == 0 &&
                     !(progress.running && unfollowed >= newest);
    return progress;
}

uint64_t histogram_middle(unsigned bucket) {
    if (bucket == 0)
        return UINT64_C(1) << (HISTOGRAM_FIRST - 1);
    unsigned octave = bucket / 4 + HISTOGRAM_FIRST;
    uint64_t width = UINT64_C(1) << (octave - 2);
    return (4 + bucket % 4) * width + width / 2;
}
