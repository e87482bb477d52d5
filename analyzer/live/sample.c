/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: sums over rows and slots. Must not live here: differences of two readings.
 */
#include "analyzer/live/sample.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/hash.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/moments.h"
#include "analyzer/wait_for_graph/slots.h"

/* Where a dump begins to be read anew its place in the job may be another one. */
static uint64_t process_number(const struct dump *dump) {
    uint64_t h = hash_mix(hash_scramble(2), (uint64_t)dump->header->pid);
    h = hash_mix(h, dump->header->process_start_realtime_ns);
    h = hash_mix(h, dump->header->activated_ticks);
    for (const char *c = dump->boot_id; *c; c++)
        h = hash_mix(h, (unsigned char)*c);
    return h;
}

int64_t live_clocks_apart_ns(const struct dump *dump) {
    uint64_t ticks = dump->anchor_count > 0 ? dump->anchors[dump->anchor_count - 1].ticks : 0;
    return difference_ns(dump_realtime_ns(dump, ticks), dump_monotonic_ns(dump, ticks));
}

static int64_t read_when(const struct dump *dump, const struct live_clock *clock) {
    if (clock->boot_id && strcmp(clock->boot_id, dump->boot_id) == 0)
        return clock->monotonic_ns;
    return difference_ns(clock->elsewhere_realtime_ns, live_clocks_apart_ns(dump));
}

/* The lane whose thread a table's rows are of. */
static uint32_t lane_of_rows(const struct dump *dump, uint32_t lane) {
    const struct lane_state *state = dump->lanes[lane].state;
    return state && state->extends > 0 && state->extends <= dump->lane_count ? (uint32_t)state->extends - 1 : lane;
}

static uint64_t length_ns(const struct dump *dump, uint64_t ticks) {
    int64_t ns = dump_duration_ns(dump, ticks);
    return ns > 0 ? (uint64_t)ns : 0;
}

/* Device rows are of operations whose calls the host has counted. */
static void add_row(struct live_counters *counters, const struct dump *dump, uint32_t lane,
                    const struct operation_row *row) {
    const struct call_name *call = dump_call(dump, row->call);
    if ((row->source & ~SOURCE_SIZE_CLASS) != SOURCE_HOST) {
        counters->device_bytes += row->bytes_total;
        return;
    }
    counters->calls += row->count;
    *(call->api == API_NCCL ? &counters->enqueued_bytes : &counters->mpi_bytes) += row->bytes_total;
    if (call_waits_for_others(call) && operation_row_time(dump, row) == ROW_TIME_INSIDE)
        counters->waited_ns[lane] += length_ns(dump, row->time_total);
}

static void add_lane(struct live_counters *counters, const struct dump *dump, uint32_t lane) {
    const struct dump_lane *l = &dump->lanes[lane];
    for (uint32_t i = 0; i < l->operation_count; i++) {
        struct operation_row row;
        enum row_state read = operation_row_read(dump, &l->operations[i], &row);
        if (read == ROW_STABLE || read == ROW_TORN)
            add_row(counters, dump, lane_of_rows(dump, lane), &row);
    }
    if (!l->state)
        return;
    counters->calls += l->state->operations_lost;
    counters->mpi_bytes += l->state->operations_lost_bytes;
    /* It is made ahead of need where threads may come, and most never fill the lanes before it. */
    counters->shared |= l->state->shared != 0 && l->state->threads > 0;
}

/* A call that lasts is in no table yet. */
static void add_slots(struct live_counters *counters, const struct dump *dump) {
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = slot_read(&dump->in_flight[i]);
        const struct call_name *call = slot.tid ? slot_call(dump, &slot) : NULL;
        if (!call || !call_waits_for_others(call) || slot.lane >= DUMP_LANES_MAX)
            continue;
        int64_t since = difference_ns(counters->when_ns, dump_monotonic_ns(dump, slot.enter));
        counters->waited_ns[slot.lane] += since > 0 ? (uint64_t)since : 0;
    }
}

static void read_dump(struct live_counters *counters, const struct dump *dump, const struct live_clock *clock) {
    *counters = (struct live_counters){.process = process_number(dump),
                                       .rank = dump->header->rank,
                                       .when_ns = read_when(dump, clock),
                                       .look = dump_look(dump),
                                       .paused = dump->order_answer.paused_since > 0};
    for (uint32_t lane = 0; lane < dump->lane_count && lane < DUMP_LANES_MAX; lane++)
        add_lane(counters, dump, lane);
    add_slots(counters, dump);
    for (uint32_t i = 0; i < dump->device_count && i < LIVE_DEVICES_MAX; i++)
        counters->exposed_ns[i] = dump->devices[i].exposed_ns;
}

const struct live_counters *live_sample_find(const struct live_sample *sample, uint64_t process) {
    for (size_t i = 0; sample && i < sample->count; i++)
        if (sample->items[i].process == process)
            return &sample->items[i];
    return NULL;
}

/* As a rule it has the same place as before. */
static const struct live_counters *find_before(const struct live_sample *before, uint64_t process, size_t place) {
    if (before && place < before->count && before->items[place].process == process)
        return &before->items[place];
    return live_sample_find(before, process);
}

/* ---- since the reading before ---------------------------------------------------------------- */

/* 0 where a damaged dump counts backwards. */
static uint64_t more(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;
}

/* Of the thread or GPU that waited most. */
static uint64_t most_waited_ns(const struct live_counters *now, const struct live_counters *then) {
    uint64_t most = 0;
    for (size_t i = 0; i < DUMP_LANES_MAX; i++)
        if (more(now->waited_ns[i], then->waited_ns[i]) > most)
            most = more(now->waited_ns[i], then->waited_ns[i]);
    for (size_t i = 0; i < LIVE_DEVICES_MAX; i++)
        if (more(now->exposed_ns[i], then->exposed_ns[i]) > most)
            most = more(now->exposed_ns[i], then->exposed_ns[i]);
    return most;
}

/* How long a GPU waits for communication is told by the streams that wait for it, as each wait ends. Where none ever
 * did, or nothing ended on the GPU, a rank that waits there cannot be told from one that does not. */
static bool waits_unseen(const struct live_counters *now, const struct live_counters *then) {
    bool told = false;
    for (size_t i = 0; i < LIVE_DEVICES_MAX; i++)
        told |= now->exposed_ns[i] > 0;
    return now->enqueued_bytes > 0 && !(told && now->device_bytes > then->device_bytes);
}

static void set_rates(struct live_counters *now, const struct live_counters *then) {
    double seconds = (double)now->interval_ns / 1e9;
    uint64_t enqueued = more(now->enqueued_bytes, then->enqueued_bytes);
    uint64_t device = more(now->device_bytes, then->device_bytes);
    double share = (double)most_waited_ns(now, then) / (double)now->interval_ns;
    now->calls_per_s = (double)more(now->calls, then->calls) / seconds;
    now->bytes_per_s =
        ((double)more(now->mpi_bytes, then->mpi_bytes) + (double)(enqueued > device ? enqueued : device)) / seconds;
    now->wait_share = now->shared || (share <= 0 && waits_unseen(now, then)) ? -1 : share < 1 ? share : 1;
}

static void compare(struct live_counters *now, const struct live_counters *then) {
    now->moved_ns = now->when_ns;
    if (!then)
        return;
    if (now->when_ns <= then->when_ns) { /* a copy that is read again, and tells nothing new */
        *now = *then;
        return;
    }
    now->moved = now->look != then->look;
    now->moved_ns = now->moved ? now->when_ns : then->moved_ns;
    now->interval_ns = difference_ns(now->when_ns, then->when_ns);
    now->untold = now->paused || then->paused;
    if (now->interval_ns > 0 && !now->untold)
        set_rates(now, then);
}

bool live_sample_take(struct live_sample *sample, const struct job *job, const struct live_clock *clock,
                      const struct live_sample *before) {
    *sample = (struct live_sample){.items = calloc(job->count + 1, sizeof *sample->items)};
    for (size_t d = 0; sample->items && d < job->count; d++) {
        struct live_counters *counters = &sample->items[sample->count++];
        read_dump(counters, job->dumps[d], clock);
        compare(counters, find_before(before, counters->process, d));
    }
    return sample->items != NULL;
}

void live_sample_free(struct live_sample *sample) {
    free(sample->items);
    *sample = (struct live_sample){0};
}

struct live_head *live_heads_read(const struct world *world) {
    size_t count = 0;
    for (uint32_t c = 0; c < world->communicator_count; c++)
        count += world->communicators[c].present_count;
    struct live_head *heads = calloc(count + 1, sizeof *heads);
    for (size_t i = 0; heads && i < count; i++) {
        struct progress row;
        heads[i].known = membership_history(world, &world->memberships[i], &row);
        if (heads[i].known) {
            heads[i].enqueued = row.enqueued;
            heads[i].last_enter = row.last_enter;
        }
    }
    return heads;
}
