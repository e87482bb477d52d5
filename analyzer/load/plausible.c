/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/load/plausible.h"

#include <time.h>

#include "analyzer/base/ns.h"
#include "analyzer/load/replays.h"
#include "analyzer/load/rows.h"

enum {
    TID_MOST = 1 << 22,          /* PID_MAX_LIMIT of Linux */
    BACKENDS = 2,                /* CUDA, HIP */
    DEVICES_OF_A_HOST = 1024,    /* far above any machine: an ordinal beyond is damage */
    LEVELS_MOST = 41,            /* where trace_windows.c of the library stops */
    WRITTEN_MEANWHILE = 1 << 10, /* a living writer may be so many calls further in one section than in another */
    RECORDS_OF_A_CALL = 3,       /* at most: it was posted, a half was received, it was seen complete */
};
#define DAY_NS (86400 * INT64_C(1000000000)) /* clocks of this machine and that of the job may differ by as much */

/* ---- when the process lived ------------------------------------------------------------------ */

struct life {
    bool known;
    uint64_t first, last;      /* ticks */
    int64_t first_ns, last_ns; /* CLOCK_MONOTONIC */
};

/* From its first anchor until now by its clock, a day more on either side. A process that computes takes no anchors:
 * how long it has lived since the last one only the calendar tells. */
static struct life find_life(const struct dump *dump) {
    struct timespec now;
    if (dump->anchor_count == 0 || clock_gettime(CLOCK_REALTIME, &now) != 0)
        return (struct life){.known = false};
    const struct clock_anchor *first = &dump->anchors[0], *last = &dump->anchors[dump->anchor_count - 1];
    int64_t since = add_ns((int64_t)now.tv_sec * 1000000000, -(int64_t)last->realtime_ns);
    struct life life = {.known = true,
                        .first_ns = add_ns((int64_t)first->monotonic_ns, -DAY_NS),
                        .last_ns = add_ns(add_ns((int64_t)last->monotonic_ns, DAY_NS), since > 0 ? since : 0)};
    life.first = life.first_ns > 0 ? dump_ticks_at(dump, (uint64_t)life.first_ns) : 0;
    life.last = dump_ticks_at(dump, (uint64_t)life.last_ns);
    return life;
}

static bool in_life(const struct life *life, uint64_t ticks) {
    return !life->known || (ticks >= life->first && ticks <= life->last);
}

static bool in_life_ns(const struct life *life, uint64_t ns) {
    return !life->known || (ns < (uint64_t)NS_MOST && (int64_t)ns >= life->first_ns && (int64_t)ns <= life->last_ns);
}

/* ---- small things ---------------------------------------------------------------------------- */

static bool comm_is_known(const struct dump *dump, uint32_t comm) {
    return comm == COMM_NONE || comm < dump->communicator_count || dump->header->losses.communicators_untracked > 0;
}

static bool call_is_known(const struct dump *dump, uint32_t call) {
    return call <= UINT16_MAX && dump_call(dump, (uint16_t)call);
}

/* Ends within its bytes and holds nothing that a name does not. */
static bool is_text(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\0')
            return true;
        if (c < 0x20 || c == 0x7f)
            return false;
    }
    return false;
}

static const struct view *find_view(const struct views *views, uint32_t kind, uint32_t index) {
    for (size_t i = 0; i < views->count; i++)
        if (views->items[i].section.kind == kind && views->items[i].section.index == index)
            return &views->items[i];
    return NULL;
}

/* Records that a lane has written. Of a ring of pages its head counts only those before the page that is being filled.
 */
static uint64_t written_by(const struct dump_lane *lane) {
    uint64_t written = lane->state->head > lane->end_ticket ? lane->state->head : lane->end_ticket;
    return written + lane_shed_without_ticket(lane->state);
}

/* A row that its writer is not at: even and not 0. */
static bool is_settled(const uint64_t *version) {
    uint64_t now = __atomic_load_n(version, __ATOMIC_ACQUIRE);
    return now != 0 && now % 2 == 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Their names are whatever the file says, up to their end. */
static bool call_is_sound(const struct dump *dump, const struct call_name *call) {
    bool later = FORMAT_MINOR_OF(dump->header->version) > FORMAT_MINOR; /* may have classes that are new */
    return later || (call->api >= API_MPI && call->api <= API_TRACE && call->call_class <= CLASS_GROUP &&
                     call->busbw <= BUSBW_SHARE && call->flow <= FLOW_NEIGHBOURS && call->nonblocking <= 1 &&
                     call->epoch <= EPOCH_WAIT);
}

static void check_calls(struct dump *dump, const struct view *view) {
    uint32_t damaged = 0, used = 0;
    for (uint32_t i = 0; i < dump->call_count; i++) {
        used += dump->calls[i].id != 0;
        damaged += dump->calls[i].id != 0 && !call_is_sound(dump, &dump->calls[i]);
    }
    if (damaged > 0)
        problem_add(dump, false, view->section.offset, "%u of %u names of calls make no sense", damaged, used);
}

/* ---- the clock ------------------------------------------------------------------------------- */

/* The rate that the writer measured at the beginning is right to a few parts in a thousand; half or twice of it between
 * two anchors is damage. Anchors a millisecond apart and less are too close to tell. */
static void check_anchors(struct dump *dump, const struct view *view) {
    double hint = (double)dump->header->tick_hz_hint / 1e9;
    for (size_t i = 0; hint > 0 && i + 1 < dump->anchor_count; i++) {
        const struct clock_anchor *one = &dump->anchors[i], *next = one + 1;
        double ns = (double)(next->monotonic_ns - one->monotonic_ns), ticks = (double)(next->ticks - one->ticks);
        if (ns < 1e6 && ticks < 1e6 * hint)
            continue;
        if (ticks < ns * hint / 2 || ticks > ns * hint * 2) {
            problem_add(
                dump, false, view->section.offset,
                "clock anchors run at another rate than the clock did at the beginning: times are not to be trusted");
            return;
        }
    }
}

/* ---- what threads were in -------------------------------------------------------------------- */

enum { SLOT_TRIES = 16 };

/* False where its thread came and went meanwhile. */
static bool copy_slot(const struct in_flight *slot, struct in_flight *copy) {
    for (int i = 0; i < SLOT_TRIES; i++) {
        uint32_t call = __atomic_load_n(&slot->call, __ATOMIC_ACQUIRE);
        *copy = *slot;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (copy->call == call && __atomic_load_n(&slot->call, __ATOMIC_RELAXED) == call)
            return true;
    }
    return false;
}

static bool slot_is_sound(const struct dump *dump, const struct life *life, const struct in_flight *slot) {
    if (slot->tid > TID_MOST || slot->lane >= DUMP_LANES_MAX || slot->flags > UINT16_MAX ||
        (slot->last_leave != 0 && !in_life(life, slot->last_leave)))
        return false;
    return slot->call == 0 ||
           (call_is_known(dump, slot->call) && comm_is_known(dump, slot->comm) && in_life(life, slot->enter));
}

static bool has_slot(const struct dump *dump, uint32_t tid) {
    for (uint32_t i = 0; i < dump->in_flight_count; i++)
        if (dump->in_flight[i].tid == tid)
            return true;
    return false;
}

/* A thread that owns a lane has a slot, until it ends. */
static void check_owners(struct dump *dump, const struct view *view) {
    for (uint32_t i = 0; i < dump->lane_count && dump->header->losses.threads_without_slot == 0; i++) {
        const struct lane_state *lane = dump->lanes[i].state;
        uint32_t owner = lane && !lane->device && written_by(&dump->lanes[i]) > 0 ? lane->owner_tid : 0;
        if (owner == 0 || has_slot(dump, owner) || lane->owner_tid != owner)
            continue;
        problem_add(dump, false, view->section.offset,
                    "thread %u of lane %u has no in-flight slot: what it is in is not known", owner, i);
        return;
    }
}

/* ---- what is pending ------------------------------------------------------------------------- */

static bool any_pending(const struct dump *dump) {
    for (uint32_t i = 0; i < dump->pending_count; i++)
        if (__atomic_load_n(&dump->pending[i].request, __ATOMIC_ACQUIRE) != 0)
            return true;
    return false;
}

/* Where several threads post, the MPI may give one a request that another still waits with: the first completes the
 * other's operation, and may overwrite that record before the other runs again. */
static bool threads_may_complete_for_others(const struct dump *dump) {
    uint64_t threads = 0;
    for (uint32_t i = 0; i < dump->lane_count; i++)
        if (dump->lanes[i].state && !dump_lane_is_device(&dump->lanes[i]))
            threads += dump->lanes[i].state->threads;
    return threads > 1;
}

/* Whether the lane saw the operation complete: its process may have ended between that and the end of the call. */
static bool was_completed(const struct dump *dump, uint32_t lane, uint32_t op) {
    struct record_reader reader;
    const struct record *record;
    record_reader_begin(&reader, dump, lane);
    for (uint64_t ticket = dump->lanes[lane].end_ticket; ticket-- > dump->lanes[lane].first_ticket;)
        if ((record = record_reader_at(&reader, ticket)) && record->kind == RECORD_DONE && record->op == op)
            return true;
    return false;
}

/* Who waits for an operation waits for one that is pending. */
static void check_pending(struct dump *dump, uint64_t table) {
    if (any_pending(dump) || dump->header->losses.pending_untracked > 0 || threads_may_complete_for_others(dump))
        return;
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot;
        const struct call_name *call = copy_slot(&dump->in_flight[i], &slot) && slot.call <= UINT16_MAX
                                           ? dump_call(dump, (uint16_t)slot.call)
                                           : NULL;
        if (!call || call->call_class != CLASS_WAIT || slot.op == 0 || slot.lane >= dump->lane_count ||
            was_completed(dump, slot.lane, slot.op) || dump->in_flight[i].enter != slot.enter ||
            dump->in_flight[i].call != slot.call || any_pending(dump))
            continue;
        problem_add(dump, false, table,
                    "thread %u waits for operation %u, and none is pending: what it waits for is "
                    "not known",
                    slot.tid, slot.op);
        return;
    }
}

/* ---- slots and their threads ----------------------------------------------------------------- */

static void check_slots(struct dump *dump, const struct life *life, const struct view *view) {
    const struct in_flight *first = NULL;
    uint32_t damaged = 0;
    for (uint32_t i = dump->in_flight_count; i-- > 0;) {
        struct in_flight slot;
        if (!copy_slot(&dump->in_flight[i], &slot) || slot_is_sound(dump, life, &slot))
            continue;
        first = &dump->in_flight[i];
        damaged++;
    }
    if (damaged > 0) {
        problem_add(dump, false, dump_offset_of(dump, first),
                    "%u in-flight slots make no sense: what threads are in is not known", damaged);
        dump->in_flight = NULL;
        dump->in_flight_count = 0;
    } else {
        check_owners(dump, view);
        check_pending(dump, view->section.offset);
    }
}

/* ---- communicators --------------------------------------------------------------------------- */

/* What it counts can be a few collectives apart while its process lives. A persistent collective has one number, and
 * completes as often as it is started. */
static bool progress_is_sound(const struct dump *dump, const struct life *life, const struct progress *row) {
    return row->enqueued <= (uint64_t)NS_MOST && row->started <= row->enqueued + WRITTEN_MEANWHILE &&
           row->completed <= (uint64_t)NS_MOST && row->hashed <= row->enqueued + WRITTEN_MEANWHILE &&
           (row->last_call == 0 || call_is_known(dump, row->last_call)) &&
           (row->last_enter == 0 || in_life(life, row->last_enter));
}

static void check_progress(struct dump *dump, const struct life *life) {
    for (uint32_t c = 0; c < dump->communicator_count; c++) {
        const struct progress *row = dump->communicators[c].progress;
        if (!row || !is_settled(&row->version))
            continue;
        struct progress copy = *row;
        if (!is_settled(&row->version) || copy.version != row->version || progress_is_sound(dump, life, &copy))
            continue;
        problem_add(dump, false, dump_offset_of(dump, row),
                    "progress of communicator %u makes no sense: how far it came is not known", c);
        dump->communicators[c].progress = NULL;
    }
}

/* Every communicator that is not freed has a row. */
static void check_collective_row(struct dump *dump, const struct operation_row *row, const struct operation_row *at) {
    const struct call_name *call = dump_call(dump, row->call);
    const struct dump_communicator *c = dump_communicator(dump, row->comm_epoch & ROW_COMM_NONE);
    if (!call || call->call_class != CLASS_COLLECTIVE || !c || c->freed || c->progress || row->count == 0 ||
        row->count == row->failed || dump->header->losses.communicators_untracked > 0)
        return;
    problem_add(dump, false, dump_offset_of(dump, at),
                "collectives are counted on communicator %u, which has no progress row: how far it came is not known",
                row->comm_epoch & ROW_COMM_NONE);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* What a full file system kept from the dump, templates of records among it, is missing in places that still count it.
 */
static bool found_no_room(const struct dump *dump) {
    const struct losses *losses = &dump->header->losses;
    return losses->tables_in_memory > 0 || losses->definitions_full > 0 || losses->quota_refusals > 0;
}

static bool shed_is_sound(const struct lane_state *state) {
    return state->stretches_shed <= state->records_shed && state->stretches_shed <= state->head &&
           state->records_shed <= SHED_MOST && state->stacks_shed <= SHED_MOST;
}

static bool lane_is_sound(const struct dump *dump, const struct dump_lane *lane) {
    const struct lane_state *state = lane->state;
    uint64_t calls = lane->ring_records > 0 && !found_no_room(dump) ? written_by(lane) + WRITTEN_MEANWHILE : UINT64_MAX;
    uint64_t behind = lane->ring ? 0 : RING_PAGE_SLOTS;
    if (state->threads == 0 && state->head == 0 && !state->device &&
        lane->end_ticket > 0) /* nobody can have written it */
        return false;
    return state->owner_tid <= TID_MOST && state->shared <= 1 && state->device <= 1 &&
           state->extends <= DUMP_LANES_MAX && state->trace_window_level <= LEVELS_MOST &&
           state->operations_lost <= calls && state->sites_lost <= calls && state->windows_lost <= calls &&
           state->peers_lost / 2 <= calls && shed_is_sound(state) && state->head + behind >= lane->end_ticket;
}

static void check_lanes(struct dump *dump) {
    static const struct lane_state nothing;
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        struct dump_lane *lane = &dump->lanes[i];
        if (!lane->state || lane_is_sound(dump, lane))
            continue;
        bool in_file =
            (const uint8_t *)lane->state >= dump->base && (const uint8_t *)lane->state < dump->base + dump->bytes;
        problem_add(dump, false, in_file ? dump_offset_of(dump, lane->state) : offsetof(struct dump_header, sections),
                    "what lane %u counts cannot be: what it lost is not known", i);
        lane->state = &nothing;
    }
}

static const struct view *ring_view(const struct views *views, uint32_t lane) {
    const struct view *plain = find_view(views, SECTION_RING, lane);
    return plain ? plain : find_view(views, SECTION_RING_PAGES, lane);
}

static void check_rings(struct loaded *loaded, const struct views *views) {
    struct dump *dump = &loaded->dump;
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        const struct dump_lane *lane = &dump->lanes[i];
        const struct view *ring = ring_view(views, i);
        if (!lane->state || !ring || lane->ring_records == 0 || found_no_room(dump))
            continue;
        if (lane->state->head > 1 && loaded->rings[i].valid == 0)
            problem_add(dump, false, ring->section.offset, "ring of lane %u is empty, its lane counts %llu records", i,
                        (unsigned long long)lane->state->head);
        else if (lane->torn >
                 lane->state->threads + lane->state->stretches_shed + 1) /* each thread may have died at one */
            problem_add(dump, false, ring->section.offset, "%llu records of lane %u are missing in its ring",
                        (unsigned long long)lane->torn, i);
    }
}

/* ---- tables against each other --------------------------------------------------------------- */

/* What the tables of one lane count, those that they go on in included. */
struct lane_sums {
    uint64_t calls, messages, sites, peers;
    uint64_t device_calls; /* of the calls: what the same ones took on a GPU */
};

static uint32_t first_lane(const struct dump *dump, uint32_t lane) {
    const struct lane_state *state = dump->lanes[lane].state;
    return state && state->extends > 0 && state->extends <= dump->lane_count ? (uint32_t)state->extends - 1 : lane;
}

/* Messages that were seen to their end: each of these has a partner. */
static bool counts_peers(const struct call_name *call, const struct operation_row *row) {
    bool message =
        call->call_class == CLASS_SEND || call->call_class == CLASS_RECV || call->call_class == CLASS_SENDRECV;
    return message && row->peer_class == PEER_CLASS_RANK && call->api == API_MPI &&
           row->count > row->untimed + row->failed;
}

static void sum_lane(struct dump *dump, uint32_t number, struct lane_sums *sums) {
    const struct dump_lane *lane = &dump->lanes[number];
    for (uint32_t i = 0; i < lane->operation_count; i++) {
        struct operation_row row;
        enum row_state state = operation_row_read(dump, &lane->operations[i], &row);
        if (state != ROW_STABLE && state != ROW_TORN)
            continue;
        sums->calls += row.count;
        sums->device_calls += row.source == SOURCE_GPU_EVENT || row.source == SOURCE_IN_KERNEL ? row.count : 0;
        sums->messages += counts_peers(dump_call(dump, row.call), &row) ? row.count : 0;
        check_collective_row(dump, &row, &lane->operations[i]);
    }
    for (uint32_t i = 0; i < lane->site_count; i++) {
        struct site_row row;
        enum row_state state = site_row_read(dump, &lane->sites[i], &row);
        sums->sites += state == ROW_STABLE || state == ROW_TORN ? row.count : 0;
    }
    for (uint32_t i = 0; i < lane->peer_count; i++) {
        struct peer_row row;
        sums->peers += peer_row_read(dump, &lane->peers[i], &row) ? row.count : 0;
    }
}

static bool ran_on_device(const struct dump *dump, uint32_t lane) {
    struct record_reader reader;
    const struct record *record;
    record_reader_begin(&reader, dump, lane);
    for (uint64_t ticket = dump->lanes[lane].first_ticket; ticket < dump->lanes[lane].end_ticket; ticket++)
        if ((record = record_reader_at(&reader, ticket)) &&
            (record->kind == RECORD_GPU || record->kind == RECORD_KERNEL))
            return true;
    return false;
}

/* Records that no table counts: marks, and work that an imported trace names. */
static uint64_t uncounted_records(const struct dump *dump, uint32_t lane) {
    struct record_reader reader;
    uint64_t count = 0;
    record_reader_begin(&reader, dump, lane);
    for (uint64_t ticket = dump->lanes[lane].first_ticket; ticket < dump->lanes[lane].end_ticket; ticket++) {
        const struct record *record = record_reader_at(&reader, ticket);
        const struct call_name *call = record ? dump_call(dump, record->call) : NULL;
        count += record && (record->kind == RECORD_MARK ||
                            (call && record->kind == RECORD_CALL && trace_work_of(call) != TRACE_WORK_NONE));
    }
    return count;
}

static bool too_few_calls(uint64_t records, uint64_t counted) {
    return (counted == 0 && records > 0) || records / RECORDS_OF_A_CALL > counted + WRITTEN_MEANWHILE;
}

/* Every call is in the table of operations, but for marks; on a GPU, every launch. */
static bool calls_are_missing(const struct dump *dump, uint32_t number, const struct lane_sums *sums) {
    const struct dump_lane *lane = &dump->lanes[number];
    uint64_t counted = sums->calls + lane->state->operations_lost, records = written_by(lane);
    if (lane->state->device)
        return counted == 0 && ran_on_device(dump, number);
    records -= records < lane->state->threads ? records : lane->state->threads; /* each began with one */
    if (!too_few_calls(records, counted))
        return false;
    uint64_t uncounted = uncounted_records(dump, number);
    return too_few_calls(records - (uncounted < records ? uncounted : records), counted);
}

/* Nothing at all is left of what was recorded, though records were to be kept and had room. */
static bool records_are_missing(const struct dump *dump, uint32_t number, const struct lane_sums *sums) {
    return sums->calls > 1 && loaded_of(dump)->rings[number].valid == 0 && dump->lanes[number].state->head <= 1 &&
           dump->header->keep != KEEP_SUMMARY && dump->header->losses.quota_refusals == 0;
}

/* Where call sites are noted from the start, every call has one: on the host. Orders (commtap ctl) may have it begun
 * later. */
static bool sites_are_missing(const struct dump_lane *lane, const struct lane_sums *sums) {
    uint64_t counted = sums->sites + lane->state->sites_lost, calls = sums->calls - sums->device_calls;
    return (counted == 0 && calls > 1) || counted + WRITTEN_MEANWHILE < calls;
}

static void check_sums(struct dump *dump, uint32_t number, const struct lane_sums *sums, uint64_t tables_missing) {
    const struct dump_lane *lane = &dump->lanes[number];
    uint64_t table = offsetof(struct dump_header, sections);
    if (!lane->state || tables_missing > 0 || (lane->state->threads == 0 && !lane->state->device)) /* nobody used it */
        return;
    if (records_are_missing(dump, number, sums))
        problem_add(dump, false, lane->operations ? dump_offset_of(dump, lane->operations) : table,
                    "lane %u counts %llu calls, and its ring holds none of them", number,
                    (unsigned long long)sums->calls);
    if (calls_are_missing(dump, number, sums))
        problem_add(dump, false, lane->operations ? dump_offset_of(dump, lane->operations) : table,
                    "lane %u wrote %llu records, its table of operations counts %llu calls: sums are incomplete",
                    number, (unsigned long long)lane->state->head,
                    (unsigned long long)sums->calls + lane->state->operations_lost);
    if (!lane->state->device && dump->stack_count > 0 && !dump->ordered_stack[0] && sites_are_missing(lane, sums))
        problem_add(dump, false, lane->sites ? dump_offset_of(dump, lane->sites) : table,
                    "lane %u counts %llu calls, its table of call sites %llu: call sites are incomplete", number,
                    (unsigned long long)sums->calls, (unsigned long long)sums->sites + lane->state->sites_lost);
    if (sums->messages > 0 && sums->peers + lane->state->peers_lost == 0)
        problem_add(dump, false, lane->peers ? dump_offset_of(dump, lane->peers) : table,
                    "lane %u counts %llu messages and no partner of any: who sent to whom is incomplete", number,
                    (unsigned long long)sums->messages);
}

static void check_tables(struct dump *dump) {
    struct lane_sums sums[DUMP_LANES_MAX] = {{0}};
    for (uint32_t i = 0; i < dump->lane_count; i++)
        sum_lane(dump, i, &sums[first_lane(dump, i)]);
    for (uint32_t i = 0; i < dump->lane_count; i++)
        if (first_lane(dump, i) == i)
            check_sums(dump, i, &sums[i], dump->header->losses.tables_in_memory);
}

/* ---- trace windows --------------------------------------------------------------------------- */

static bool block_is_sound(const struct dump *dump, const struct trace_window_block *block) {
    if (block->lane >= dump->lane_count || block->used > (block->page_number ? RING_PAGE_SLOTS : TRACE_WINDOW_RECORDS))
        return false;
    for (uint32_t i = 1; !block->page_number && i < block->used; i++)
        if (block->records[i].commit != 0 && block->records[i].commit <= block->records[i - 1].commit)
            return false;
    return true;
}

static bool keeps_windows(const struct dump *dump, uint32_t lane) {
    for (uint32_t i = 0; i < dump->window_count; i++)
        if (dump->windows[i].window != 0 && dump->windows[i].lane == lane)
            return true;
    return false;
}

/* Before there is no room for all windows, what a ring overwrites first of each is in one. */
static void check_kept(struct dump *dump, const struct view *view) {
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        const struct dump_lane *lane = &dump->lanes[i];
        if (lane->state && lane->first_ticket > 0 && lane->state->trace_window_level == 0 && !lane->state->shared &&
            lane->state->threads > 0 && dump->header->losses.tables_in_memory == 0 && !keeps_windows(dump, i))
            problem_add(dump, false, view ? view->section.offset : offsetof(struct dump_header, sections),
                        "lane %u overwrote %llu records, and trace windows hold none of them", i,
                        (unsigned long long)lane->first_ticket);
    }
}

static void check_windows(struct dump *dump, const struct view *view) {
    for (uint32_t i = 0; i < dump->window_count; i++) {
        const struct trace_window_block *block = &dump->windows[i];
        uint64_t window = __atomic_load_n(&block->window, __ATOMIC_ACQUIRE);
        if (window == 0 || window == UINT64_MAX || block_is_sound(dump, block))
            continue;
        if (__atomic_load_n(&block->window, __ATOMIC_ACQUIRE) != window) /* it was given to another window meanwhile */
            continue;
        problem_add(dump, false, dump_offset_of(dump, block), "trace windows make no sense: they are left out");
        dump->windows = NULL;
        dump->window_count = 0;
        return;
    }
    check_kept(dump, view);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static bool device_is_sound(const struct life *life, const struct device_state *device) {
    uint64_t lived = life->known ? (uint64_t)(life->last_ns - life->first_ns) : UINT64_MAX;
    bool sampled = device->memory_used != BYTES_UNKNOWN && device->memory_samples > 0;
    return device->ordinal < DEVICES_OF_A_HOST && device->backend <= BACKENDS &&
           is_text(device->bus, sizeof device->bus) && is_text(device->name, sizeof device->name) &&
           device->busy_ns <= lived &&
           (!sampled || device->capacity == 0 ||
            (device->memory_used <= device->capacity && device->memory_peak <= device->capacity)) &&
           (device->last_anchor_ns == 0 || in_life_ns(life, device->last_anchor_ns));
}

static bool anchor_is_sound(const struct dump *dump, const struct life *life, const struct device_anchor *anchor) {
    return anchor->device < dump->device_count && anchor->source <= SOURCE_INFERRED &&
           in_life_ns(life, anchor->monotonic_ns) && anchor->width_ns <= (uint64_t)DAY_NS;
}

/* Rows of devices and of their anchors are told by their version words alike. Returns the first that makes no sense. */
static const void *find_bad_device(const struct dump *dump, const struct life *life) {
    for (uint32_t i = 0; i < dump->device_count; i++) {
        struct device_state copy = dump->devices[i];
        if (is_settled(&copy.version) && copy.version == dump->devices[i].version && !device_is_sound(life, &copy))
            return &dump->devices[i];
    }
    return NULL;
}

static const void *find_bad_anchor(const struct dump *dump, const struct life *life) {
    for (uint32_t i = 0; i < dump->device_anchor_count; i++) {
        struct device_anchor copy = dump->device_anchors[i];
        if (is_settled(&copy.version) && copy.version == dump->device_anchors[i].version &&
            !anchor_is_sound(dump, life, &copy))
            return &dump->device_anchors[i];
    }
    return NULL;
}

static bool any_device_row(const struct dump *dump) {
    for (uint32_t i = 0; i < dump->device_count; i++)
        if (dump->devices[i].version != 0)
            return true;
    return false;
}

static bool any_anchor_row(const struct dump *dump) {
    for (uint32_t i = 0; i < dump->device_anchor_count; i++)
        if (dump->device_anchors[i].version != 0)
            return true;
    return false;
}

static bool has_device_records(const struct dump *dump) {
    for (uint32_t i = 0; i < dump->lane_count; i++)
        if (dump_lane_is_device(&dump->lanes[i]) && ran_on_device(dump, i))
            return true;
    return false;
}

static void check_devices(struct dump *dump, const struct life *life) {
    uint64_t table = offsetof(struct dump_header, sections);
    const void *anchor = find_bad_anchor(dump, life), *device = find_bad_device(dump, life);
    if (anchor) {
        problem_add(dump, false, dump_offset_of(dump, anchor),
                    "anchors of a GPU's clock make no sense: when its work ran is not known");
        dump->device_anchors = NULL;
        dump->device_anchor_count = 0;
    } else if (dump->header->losses.tables_in_memory == 0 && !any_anchor_row(dump) && has_device_records(dump)) {
        problem_add(dump, false, table,
                    "GPU operations without an anchor of the GPU's clock: when they ran is not known");
    }
    if (device) {
        problem_add(dump, false, dump_offset_of(dump, device), "what is said of GPUs makes no sense and is left out");
        dump->devices = NULL;
        dump->device_count = 0;
    } else if (dump->header->losses.tables_in_memory == 0 && !any_device_row(dump) && has_device_records(dump)) {
        problem_add(dump, false, table, "GPU operations, and no GPU that they ran on");
    }
}

/* ---- NCCL ------------------------------------------------------------------------------------ */

static void check_sensors(struct dump *dump) {
    for (uint32_t i = 0; i < dump->sensor_count; i++) {
        const struct sensor_row *row = &dump->sensors[i];
        if (row->call == 0 || (call_is_known(dump, row->call) && row->wrapped <= (uint64_t)NS_MOST &&
                               row->plugged <= (uint64_t)NS_MOST && row->captured <= row->wrapped + WRITTEN_MEANWHILE))
            continue;
        problem_add(dump, false, dump_offset_of(dump, row), "sensor rows make no sense and are left out");
        dump->sensors = NULL;
        dump->sensor_count = 0;
    }
}

static bool transfer_is_sound(const struct dump *dump, const struct life *life, const struct transfer_row *row) {
    uint64_t lived = life->known ? (uint64_t)(life->last_ns - life->first_ns) : UINT64_MAX;
    uint64_t most = row->operations < UINT64_MAX / (lived ? lived : 1) ? row->operations * lived : UINT64_MAX;
    return comm_is_known(dump, row->comm) && row->sends <= 1 && row->operations <= (uint64_t)NS_MOST &&
           row->bytes <= (uint64_t)NS_MOST && row->wait_gpu <= most && row->wait_peer <= most &&
           row->wait_wire <= most && row->wait_flush <= most;
}

static void check_transfers(struct dump *dump, const struct life *life) {
    for (uint32_t i = 0; i < dump->transfer_count; i++) {
        struct transfer_row copy = dump->transfers[i];
        if (!is_settled(&copy.version) || copy.version != dump->transfers[i].version ||
            transfer_is_sound(dump, life, &copy))
            continue;
        problem_add(dump, false, dump_offset_of(dump, &dump->transfers[i]),
                    "rows of network transfers make no sense and are left out");
        dump->transfers = NULL;
        dump->transfer_count = 0;
    }
}

/* ---- beats ----------------------------------------------------------------------------------- */

static void check_beats(struct dump *dump, const struct life *life) {
    for (uint32_t i = 0; i < dump->beat_count; i++) {
        struct beat_row row = dump->beats[i];
        if (row.dump == 0 || (in_life_ns(life, row.seen_ns) && (row.gone_ns == 0 || in_life_ns(life, row.gone_ns))))
            continue;
        problem_add(dump, false, dump_offset_of(dump, &dump->beats[i]), "beats make no sense and are left out");
        dump->beats = NULL;
        dump->beat_count = 0;
    }
}

/* ---- captures -------------------------------------------------------------------------------- */

static bool messages_are_sound(const struct dump *dump, const struct capture_row *row) {
    if (row->first_message > dump->capture_message_count ||
        row->message_count > dump->capture_message_count - row->first_message)
        return false;
    for (uint32_t i = 0; i < row->message_count; i++) {
        const struct capture_message *message = &dump->capture_messages[row->first_message + i];
        if (message->peer < 0 || message->count == 0 || !call_is_known(dump, message->call) ||
            (message->flags != FLAG_SEND && message->flags != FLAG_RECV))
            return false;
    }
    return true;
}

/* Its writer may be between any two of these words: what is read first may be older, but not newer. */
static bool capture_is_sound(const struct dump *dump, const struct life *life, const struct capture_row *row) {
    uint64_t launched = __atomic_load_n(&row->launched, __ATOMIC_ACQUIRE);
    uint64_t unfollowed = __atomic_load_n(&row->unfollowed, __ATOMIC_ACQUIRE);
    uint64_t ended = __atomic_load_n(&row->ended, __ATOMIC_ACQUIRE);
    uint64_t second = __atomic_load_n(&row->second_ns, __ATOMIC_ACQUIRE);
    uint64_t newest = __atomic_load_n(&row->newest, __ATOMIC_ACQUIRE), since = row->launched_ns;
    return row->used == 1 && row->comm != COMM_NONE && comm_is_known(dump, row->comm) &&
           call_is_known(dump, row->call) && launched <= newest && ended <= newest && unfollowed <= newest &&
           newest <= (uint64_t)NS_MOST && second <= row->longest_ns && row->longest_ns <= (uint64_t)NS_MOST &&
           (launched == 0 || in_life_ns(life, since)) && row->collectives + row->message_count > 0 &&
           messages_are_sound(dump, row);
}

/* Whether collectives or messages are on record that graphs ran whose launches were seen, which therefore were counted.
 */
static bool has_numbered_replays(const struct dump *dump, uint32_t lane) {
    struct record_reader reader;
    struct replay_reader replays = {0};
    const struct record *record;
    record_reader_begin(&reader, dump, lane);
    for (uint64_t ticket = dump->lanes[lane].first_ticket; ticket < dump->lanes[lane].end_ticket; ticket++)
        if ((record = record_reader_at(&reader, ticket)) && replay_of_record(&replays, record).number > 0 &&
            record->flags & (FLAG_COLLECTIVE | FLAG_SEND | FLAG_RECV))
            return true;
    return false;
}

/* Whoever counts launches makes both sections before the first of them. */
static bool captures_are_missing(const struct dump *dump, const struct views *views) {
    bool counts = find_view(views, SECTION_CAPTURES, 0) || find_view(views, SECTION_CAPTURE_MESSAGES, 0);
    if (!counts || dump->header->gpu_timing != GPU_TIMING_EVENTS || dump->captures_untold > 0 ||
        dump->header->losses.tables_in_memory > 0)
        return false;
    for (uint32_t i = 0; i < dump->capture_count; i++)
        if (__atomic_load_n(&dump->captures[i].used, __ATOMIC_ACQUIRE) != 0)
            return false;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        if (dump_lane_is_device(&dump->lanes[lane]) && has_numbered_replays(dump, lane))
            return true;
    return false;
}

static void check_captures(struct dump *dump, const struct life *life, const struct views *views) {
    if (captures_are_missing(dump, views))
        problem_add(
            dump, false, offsetof(struct dump_header, sections),
            "replays of graphs, and nothing of what these hold: who launched them and who did not is not known");
    for (uint32_t i = 0; i < dump->capture_count; i++) {
        const struct capture_row *row = &dump->captures[i];
        if (__atomic_load_n(&row->used, __ATOMIC_ACQUIRE) == 0 || capture_is_sound(dump, life, row))
            continue;
        problem_add(dump, false, dump_offset_of(dump, row), "what graphs hold makes no sense and is left out");
        dump->captures = NULL;
        dump->capture_count = 0;
    }
}

/* ---- what has to be there -------------------------------------------------------------------- */

/* Beginning to record makes these, before anything is recorded. */
static void check_presence(struct dump *dump, const struct views *views) {
    static const uint32_t kinds[] = {SECTION_CALLS,    SECTION_ANCHORS,     SECTION_IN_FLIGHT, SECTION_PENDING,
                                     SECTION_PROGRESS, SECTION_DEFINITIONS, SECTION_LANES};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!find_view(views, kinds[i], 0))
            problem_add(dump, false, offsetof(struct dump_header, sections), "no section of %s",
                        section_name(kinds[i]));
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        const struct lane_state *state = dump->lanes[i].state;
        bool extends = state && state->extends > 0 && !find_view(views, SECTION_OPERATIONS, i) &&
                       !find_view(views, SECTION_SITES, i) && !find_view(views, SECTION_PEERS, i);
        if (extends)
            problem_add(dump, false, offsetof(struct dump_header, sections),
                        "tables of lane %u go on in lane %u, which has none: sums are incomplete",
                        (unsigned)state->extends - 1, i);
        else if (state && state->extends == 0 && state->head > 0 && !ring_view(views, i))
            problem_add(dump, false, offsetof(struct dump_header, sections),
                        "lane %u counts %llu records and has no ring", i, (unsigned long long)state->head);
    }
}

void plausible_check(struct loaded *loaded, const struct views *views) {
    struct dump *dump = &loaded->dump;
    const struct view *calls = find_view(views, SECTION_CALLS, 0), *anchors = find_view(views, SECTION_ANCHORS, 0);
    const struct view *slots = find_view(views, SECTION_IN_FLIGHT, 0);
    if (!(dump->header->state & STATE_ACTIVE)) /* it is being made */
        return;
    if (dump->header->losses.tables_in_memory == 0)
        check_presence(dump, views);
    if (calls)
        check_calls(dump, calls);
    if (anchors)
        check_anchors(dump, anchors);
    struct life life = find_life(dump);
    check_lanes(dump);
    if (slots)
        check_slots(dump, &life, slots);
    check_progress(dump, &life);
    check_rings(loaded, views);
    check_windows(dump, find_view(views, SECTION_TRACE_WINDOWS, 0));
    check_tables(dump);
    check_devices(dump, &life);
    check_sensors(dump);
    check_transfers(dump, &life);
    check_beats(dump, &life);
    check_captures(dump, &life, views);
}
