/* SPDX-License-Identifier: Apache-2.0
 *
 * Collect, sort by time, go through forwards (who met when) and backwards (who pays).
 */
#include "analyzer/waits/delay_costs.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/cache_lines.h"
#include "analyzer/match/match.h"
#include "analyzer/waits/delays.h"
#include "analyzer/base/grow.h"
#include "analyzer/base/hash_table.h"
#include "analyzer/base/radix_sort.h"
#include "analyzer/base/side_by_side.h"

enum {
    RECORDS_MOST = 2 << 20, /* records looked at; of a longer run only the end */
    WAITS_BACK = 64,        /* of the causer that are looked at */
    MEETINGS_BACK = 4,      /* of a channel: two ranks that exchange messages meet several times in a step */
};

/* One wait of one rank, or a meeting: all on a channel have come. */
struct wait_event {
    int64_t until; /* it was ended by `cause` */
    int64_t length;
    int64_t cost;    /* its length, and what is passed on to it */
    int64_t imposed; /* the same of imposed wait */
    union {
        uint64_t channel; /* on which the two meet */
        int64_t met;      /* when they had met last before it began */
    };
    uint32_t rank; /* NOWHERE: a meeting */
    uint32_t cause;
    uint32_t before; /* the rank's wait before this one, NOWHERE */
};

/* What is charged to one call site of one rank. */
struct site_sums {
    int64_t path_inside, path_before, delay_cost_inside, delay_cost_before;
};

struct rank_history {
    ON_OWN_LINES struct timeline timeline;
    uint32_t stretch;       /* of the covered time: that of the last record */
    struct site_sums *sums; /* per site of the timeline */
    uint32_t last_wait;     /* of those gone through, NOWHERE */
    size_t cursor;          /* timeline_back_to */
    uint32_t path_wait;     /* the same two for the critical path, which is walked meanwhile */
    size_t path_cursor;
};

/* When members of a channel met: a communicator's members, or two ranks that exchange messages. */
struct meeting {
    uint64_t key;                  /* the channel */
    int64_t at[MEETINGS_BACK + 1]; /* the last one first; before the first ones nothing was */
    uint32_t count;
};

/* What one worker has gathered. */
struct wait_collector {
    ON_OWN_LINES struct delay_costs_build *build;
    struct wait_event *waits; /* and meetings */
    size_t wait_count, wait_room;
    size_t taken; /* of them, in their order */
    bool no_memory;
};

struct delay_costs_build {
    const struct match_directory *directory;
    const struct covered_time *covered;
    int64_t from_ns; /* what is older is left out */
    bool end_only;
    struct rank_history *histories; /* per dump: its records are one worker's */
    struct wait_collector collectors[MATCH_WORKERS_MAX];
    unsigned workers;
    unsigned order[MATCH_WORKERS_MAX]; /* a heap of the workers whose events are not all taken, by their next one */
    unsigned order_count;
    struct wait_event *waits; /* of all, by time */
    size_t wait_count;
    struct hash_table meetings;
    struct delays delays;
    size_t parts_most; /* of the critical path, that are kept */
    size_t part_room;
    bool no_memory; /* for those */
};

/* ---- what the records say -------------------------------------------------------------------- */

/* Up to the beginning of its stretch nothing is known of a rank. */
static bool pass_hole(const struct delay_costs_build *build, const struct match_record *item) {
    struct rank_history *history = &build->histories[item->dump];
    int64_t from = covered_time_bounds(build->covered, item->stretch).from;
    if (history->stretch == item->stretch || from == -NS_MOST)
        return true;
    history->stretch = item->stretch;
    return timeline_add_hole(&history->timeline, from);
}

void delay_costs_add_record(struct delay_costs_build *build, unsigned worker, const struct match_record *item) {
    if (item->t1 >= build->from_ns &&
        (!pass_hole(build, item) || !timeline_add(&build->histories[item->dump].timeline, build->directory, item)))
        build->collectors[worker].no_memory = true;
}

static void add_wait_event(struct wait_collector *c, const struct wait_event *wait) {
    if (grow_by_one(c->waits, c->wait_count, c->wait_room))
        c->waits[c->wait_count++] = *wait;
    else
        c->no_memory = true;
}

static void take_wait(void *context, const struct told_wait *told) {
    if (told->until >= ((struct wait_collector *)context)->build->from_ns)
        add_wait_event(context, &(struct wait_event){.until = told->until,
                                                     .length = told->length,
                                                     .cost = told->length,
                                                     .imposed = told->imposed,
                                                     .rank = told->dump,
                                                     .cause = told->cause,
                                                     .channel = told->channel});
}

static void take_met(void *context, int64_t at, uint64_t channel) {
    struct wait_collector *c = context;
    if (at >= c->build->from_ns)
        add_wait_event(c, &(struct wait_event){.until = at, .rank = NOWHERE, .channel = channel});
}

struct wait_listener delay_costs_listener(struct delay_costs_build *build, unsigned worker) {
    return (struct wait_listener){.context = &build->collectors[worker], .wait = take_wait, .met = take_met};
}

void delay_costs_parcel(struct delay_costs_build *build, unsigned worker, struct parcel *parcel) {
    struct wait_collector *c = &build->collectors[worker];
    parcel_array(parcel, c->waits, c->wait_count, c->wait_room);
    parcel_flag(parcel, &c->no_memory);
}

void delay_costs_parcel_dump(struct delay_costs_build *build, size_t dump, struct parcel *parcel) {
    timeline_parcel(&build->histories[dump].timeline, parcel);
}

/* ---- forwards: who met when ------------------------------------------------------------------ */

HASH_TABLE_OF(meetings, struct meeting, uint64_t);

static bool note_meeting(struct delay_costs_build *c, uint64_t channel, int64_t at) {
    struct meeting *meeting = meetings_add(&c->meetings, &channel);
    if (!meeting)
        return false;
    memmove(meeting->at + 1, meeting->at, MEETINGS_BACK * sizeof *meeting->at);
    meeting->at[0] = at;
    meeting->count += meeting->count <= MEETINGS_BACK;
    return true;
}

/* The last meeting before a wait began: who waits may meet the causer in another operation meanwhile, as in a reduction
 * that it left before its root had all of it, or by the message that goes the other way. */
static int64_t meeting_before(const struct delay_costs_build *c, uint64_t channel, int64_t begin) {
    const struct meeting *meeting = meetings_find(&c->meetings, &channel);
    for (uint32_t i = 0; meeting && i < meeting->count; i++)
        if (meeting->at[i] <= begin)
            return meeting->at[i];
    return meeting && meeting->count > MEETINGS_BACK ? begin : -NS_MOST;
}

/* By time; at one time waits come before the meeting that ends them. */
static int compare_waits(const void *a, const void *b) {
    const struct wait_event *left = a, *right = b;
    if (left->until != right->until)
        return left->until < right->until ? -1 : 1;
    if ((left->rank == NOWHERE) != (right->rank == NOWHERE))
        return left->rank == NOWHERE ? 1 : -1;
    if (left->channel != right->channel)
        return left->channel < right->channel ? -1 : 1;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->cause != right->cause)
        return left->cause < right->cause ? -1 : 1;
    if (left->length != right->length)
        return left->length < right->length ? -1 : 1;
    return (left->imposed > right->imposed) - (left->imposed < right->imposed);
}

/* Brings waits to their places, cycle by cycle. */
static void permute(struct wait_event *waits, struct sort_key *places, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct wait_event first = waits[i];
        size_t at = i;
        for (size_t from = places[i].index; from != i; from = places[at].index) {
            waits[at] = waits[from];
            places[at].index = (uint32_t)at;
            at = from;
        }
        waits[at] = first;
        places[at].index = (uint32_t)at;
    }
}

/* What is at one time is mostly of one collective, and in its order already. */
static void sort_ties(struct wait_event *waits, size_t count) {
    for (size_t from = 0, to; from < count; from = to) {
        bool sorted = true;
        for (to = from + 1; to < count && waits[to].until == waits[from].until; to++)
            sorted = sorted && compare_waits(&waits[to - 1], &waits[to]) <= 0;
        if (!sorted)
            qsort(waits + from, to - from, sizeof *waits, compare_waits);
    }
}

static bool sort_waits(struct wait_event *waits, size_t count) {
    struct sort_key *places = malloc((count + 1) * sizeof *places), *scratch = malloc((count + 1) * sizeof *scratch);
    if (places && scratch) {
        for (size_t i = 0; i < count; i++)
            places[i] = (struct sort_key){sort_value(waits[i].until), (uint32_t)i};
        radix_sort(places, scratch, count);
        permute(waits, places, count);
        sort_ties(waits, count);
    }
    bool done = places && scratch;
    free(places);
    free(scratch);
    return done;
}

static void sort_part(void *context, size_t worker) {
    struct wait_collector *part = &((struct delay_costs_build *)context)->collectors[worker];
    if (!sort_waits(part->waits, part->wait_count))
        part->no_memory = true;
}

/* Each worker's events by themselves. */
static bool sort_parts(struct delay_costs_build *build, unsigned threads) {
    bool done = true;
    side_by_side(threads, build->workers, sort_part, build);
    for (unsigned w = 0; w < build->workers; w++)
        done = done && !build->collectors[w].no_memory;
    return done;
}

static bool comes_before(const struct delay_costs_build *build, unsigned a, unsigned b) {
    const struct wait_collector *left = &build->collectors[a], *right = &build->collectors[b];
    return compare_waits(&left->waits[left->taken], &right->waits[right->taken]) < 0;
}

static void sift_down(struct delay_costs_build *build, unsigned at) {
    unsigned moving = build->order[at];
    for (unsigned child; (child = 2 * at + 1) < build->order_count; at = child) {
        child += child + 1 < build->order_count && comes_before(build, build->order[child + 1], build->order[child]);
        if (!comes_before(build, build->order[child], moving))
            break;
        build->order[at] = build->order[child];
    }
    build->order[at] = moving;
}

static void begin_taking(struct delay_costs_build *build) {
    for (unsigned w = 0; w < build->workers; w++)
        if (build->collectors[w].wait_count > 0)
            build->order[build->order_count++] = w;
    for (unsigned i = build->order_count; i-- > 0;)
        sift_down(build, i);
}

/* The next event of all workers'. Those that are equal are alike: it does not matter whose comes first. */
static bool take_event(struct delay_costs_build *build, struct wait_event *event) {
    if (build->order_count == 0)
        return false;
    struct wait_collector *first = &build->collectors[build->order[0]];
    *event = first->waits[first->taken++];
    if (first->taken == first->wait_count)
        build->order[0] = build->order[--build->order_count];
    if (build->order_count > 0)
        sift_down(build, 0);
    return true;
}

/* What a rank spends in a call waiting is not what it takes for it. */
static void note_waited(struct rank_history *history, const struct wait_event *wait) {
    struct timeline *timeline = &history->timeline;
    while (history->cursor < timeline->count && timeline->stretches[history->cursor].to < wait->until)
        history->cursor++;
    if (history->cursor < timeline->count && timeline->stretches[history->cursor].from < wait->until)
        timeline->stretches[history->cursor].waited = add_ns(timeline->stretches[history->cursor].waited, wait->length);
}

/* Leaves the waits alone, each knowing when its two ranks had met last. */
static bool go_forwards(struct delay_costs_build *c) {
    size_t kept = 0;
    begin_taking(c);
    for (struct wait_event wait; take_event(c, &wait);) {
        if (wait.rank == NOWHERE) {
            if (!note_meeting(c, wait.channel, wait.until))
                return false;
            continue;
        }
        struct rank_history *history = &c->histories[wait.rank];
        int64_t known = covered_time_bounds(c->covered, covered_time_at(c->covered, wait.until, wait.until)).from;
        wait.met = meeting_before(c, wait.channel, wait.until - wait.length);
        wait.met = wait.met < known ? known : wait.met;
        wait.before = history->last_wait;
        history->last_wait = (uint32_t)kept;
        note_waited(history, &wait);
        c->waits[kept++] = wait;
    }
    c->wait_count = kept;
    return true;
}

/* ---- backwards: who pays --------------------------------------------------------------------- */

/* The causer's own waits since the meeting. */
struct earlier_waits {
    uint32_t items[WAITS_BACK];
    int64_t lengths[WAITS_BACK];
    size_t count;
    int64_t total;
};

static void find_earlier(const struct delay_costs_build *c, const struct wait_event *wait,
                         struct earlier_waits *earlier) {
    earlier->count = 0;
    earlier->total = 0;
    uint32_t at = c->histories[wait->cause].last_wait;
    while (at != NOWHERE && c->waits[at].until > wait->met && earlier->count < WAITS_BACK) {
        const struct wait_event *own = &c->waits[at];
        int64_t length = own->until - wait->met < own->length ? own->until - wait->met : own->length;
        earlier->items[earlier->count] = at;
        earlier->lengths[earlier->count++] = length;
        earlier->total = add_ns(earlier->total, length);
        at = own->before;
    }
}

/* What is left of a wait's cost while it is shared out. */
struct purse {
    int64_t cost, imposed;
};

/* Takes out of `left` the part `weight` of `total` of the whole; all that is left where nobody comes after. */
static struct purse take_part(struct purse *left, const struct wait_event *whole, int64_t weight, int64_t total,
                              bool last) {
    double share = (double)weight / (double)total;
    struct purse part = {ns_clamped((double)whole->cost * share), ns_clamped((double)whole->imposed * share)};
    if (last || part.cost > left->cost)
        part.cost = left->cost;
    if (last || part.imposed > left->imposed)
        part.imposed = left->imposed;
    left->cost -= part.cost;
    left->imposed -= part.imposed;
    return part;
}

static void charge_site(struct delay_costs *costs, struct delay_costs_build *c, uint32_t rank, uint32_t site,
                        bool inside, struct purse part) {
    struct site_sums *sums = &c->histories[rank].sums[site];
    int64_t *caused = inside ? &sums->delay_cost_inside : &sums->delay_cost_before;
    *caused = add_ns(*caused, part.cost);
    costs->ranks[rank].delay_cost_ns = add_ns(costs->ranks[rank].delay_cost_ns, part.cost);
    costs->ranks[rank].imposed_ns = add_ns(costs->ranks[rank].imposed_ns, part.imposed);
}

/* The cursor is behind the last stretch that had begun when the wait was over: the call that was waited for. */
static void note_first(struct rank_delay_costs *costs, const struct rank_history *cause,
                       const struct wait_event *wait) {
    if (cause->cursor <= 1 && wait->length > costs->first_wait_ns)
        costs->first_wait_ns = wait->length;
}

static void share_out(struct delay_costs *costs, struct delay_costs_build *c, const struct wait_event *wait) {
    struct rank_history *cause = &c->histories[wait->cause], *victim = &c->histories[wait->rank];
    struct purse left = {wait->cost, wait->imposed};
    struct earlier_waits earlier;
    find_earlier(c, wait, &earlier);
    cause->cursor = timeline_back_to(&cause->timeline, cause->cursor, wait->until);
    victim->cursor = timeline_back_to(&victim->timeline, victim->cursor, wait->until);
    delays_compare(&c->delays, (struct delays_side){&cause->timeline, cause->cursor},
                   (struct delays_side){&victim->timeline, victim->cursor}, wait->met, wait->until);
    note_first(&costs->ranks[wait->cause], cause, wait);
    int64_t total = add_ns(c->delays.total, earlier.total);
    for (size_t i = 0; i < c->delays.count; i++) {
        const struct delay *delay = &c->delays.items[i];
        bool last = i + 1 == c->delays.count && earlier.count == 0;
        if (!delay->inside && delay->longer > costs->ranks[wait->cause].longest_work_ns)
            costs->ranks[wait->cause].longest_work_ns = delay->longer;
        charge_site(costs, c, wait->cause, delay->site, delay->inside,
                    take_part(&left, wait, delay->longer, total, last));
    }
    int64_t passed = total > 0 ? ns_clamped((double)wait->length * ((double)earlier.total / (double)total)) : 0;
    costs->ranks[wait->cause].passed_on_ns = add_ns(costs->ranks[wait->cause].passed_on_ns, passed);
    costs->ranks[wait->cause].direct_ns = add_ns(costs->ranks[wait->cause].direct_ns, wait->length - passed);
    for (size_t i = 0; i < earlier.count; i++) {
        struct wait_event *own = &c->waits[earlier.items[i]];
        struct purse part = take_part(&left, wait, earlier.lengths[i], total, i + 1 == earlier.count);
        own->cost = add_ns(own->cost, part.cost);
        own->imposed = add_ns(own->imposed, part.imposed);
    }
    if (total == 0) /* it came late and nothing tells why */
        charge_site(costs, c, wait->cause, timeline_site_at(&cause->timeline, cause->cursor, wait->until), false, left);
}

static void rewind_histories(struct delay_costs_build *c) {
    for (size_t d = 0; d < c->directory->dump_count; d++) {
        struct rank_history *history = &c->histories[d];
        history->cursor = history->path_cursor = history->timeline.count;
        history->path_wait = history->last_wait;
    }
}

/* A wait's cost is complete when all later ones have been shared out: it can only be passed on to earlier ones. */
static void go_backwards(struct delay_costs *costs, struct delay_costs_build *c) {
    for (size_t i = c->wait_count; i-- > 0;) {
        const struct wait_event *wait = &c->waits[i];
        c->histories[wait->rank].last_wait = wait->before;
        costs->waits_ns = add_ns(costs->waits_ns, wait->length);
        share_out(costs, c, wait);
    }
    for (size_t d = 0; d < c->directory->dump_count; d++) /* each share was rounded for itself */
        if (costs->ranks[d].direct_ns > costs->ranks[d].delay_cost_ns)
            costs->ranks[d].direct_ns = costs->ranks[d].delay_cost_ns;
}

/* ---- the critical path ----------------------------------------------------------------------- */

/* A path is walked from its end, so that of too many parts the last ones are kept. */
static void keep_part(struct delay_costs *costs, struct delay_costs_build *c, uint32_t site, struct path_part part) {
    if (c->parts_most == 0 || part.from_ns >= part.to_ns)
        return;
    if (costs->part_count == c->parts_most) {
        costs->parts_left_out++;
    } else if (grow_by_one(costs->parts, costs->part_count, c->part_room)) {
        const struct timeline_site *of = &timeline_sites_items(&c->histories[part.dump].timeline.sites)[site];
        part.stack = of->key.stack;
        part.call = (uint16_t)of->key.call;
        costs->parts[costs->part_count++] = part;
    } else {
        c->no_memory = true;
    }
}

static void add_part(struct delay_costs *costs, struct delay_costs_build *c, uint32_t site,
                     const struct path_part *part) {
    struct site_sums *sums = &c->histories[part->dump].sums[site];
    int64_t *sum = part->inside ? &sums->path_inside : &sums->path_before;
    *sum = add_ns(*sum, part->to_ns - part->from_ns);
    keep_part(costs, c, site, *part);
}

/* Time of a rank on the path, from the end; `next` stretches begin at or before `to`. */
static void add_piece(struct delay_costs *costs, struct delay_costs_build *c, uint32_t rank, int64_t from, int64_t to) {
    struct rank_history *history = &c->histories[rank];
    const struct timeline *timeline = &history->timeline;
    history->path_cursor = timeline_back_to(timeline, history->path_cursor, to);
    for (size_t next = history->path_cursor; to > from; next--) {
        uint32_t leads_to = next < timeline->count ? timeline->stretches[next].site : TIMELINE_NOWHERE;
        if (next == 0) { /* before its first call */
            add_part(costs, c, leads_to, &(struct path_part){.from_ns = from, .to_ns = to, .dump = rank});
            return;
        }
        const struct stretch *stretch = &timeline->stretches[next - 1];
        int64_t end = stretch->to > to ? to : stretch->to > from ? stretch->to : from;
        int64_t begin = stretch->from > from ? stretch->from : from;
        begin = begin < end ? begin : end;
        add_part(costs, c, leads_to, &(struct path_part){.from_ns = end, .to_ns = to, .dump = rank});
        add_part(costs, c, stretch->site,
                 &(struct path_part){.from_ns = begin, .to_ns = end, .dump = rank, .inside = true});
        to = begin;
    }
}

/* The rank's last wait that ended before `at`; NULL when it never waited before. Asked for from late to early. */
static const struct wait_event *wait_before(const struct delay_costs_build *c, struct rank_history *history,
                                            int64_t at) {
    while (history->path_wait != NOWHERE && c->waits[history->path_wait].until >= at)
        history->path_wait = c->waits[history->path_wait].before;
    return history->path_wait == NOWHERE ? NULL : &c->waits[history->path_wait];
}

/* The path of one stretch of the covered time. */
struct path {
    int64_t from, to; /* from > to: nothing happened in it */
    uint32_t rank;    /* of the last event, where the path ends */
};

/* Where a path begins: in the first stretch with the first event, in later ones with the stretch itself, since the
 * ranks are at work in the middle of the run there. */
static struct path find_path(const struct delay_costs_build *c, struct time_stretch bounds) {
    struct path path = {.from = bounds.from > -NS_MOST ? bounds.from : NS_MOST, .to = -NS_MOST, .rank = NOWHERE};
    for (uint32_t d = 0; d < c->directory->dump_count; d++) {
        const struct timeline *timeline = &c->histories[d].timeline;
        size_t begun = timeline_until(timeline, bounds.to);
        if (begun == 0)
            continue;
        if (bounds.from == -NS_MOST && timeline->stretches[0].from < path.from)
            path.from = timeline->stretches[0].from;
        const struct stretch *last = &timeline->stretches[begun - 1];
        int64_t until = last->hole ? last->from : last->to;
        if (until > bounds.from && until > path.to) {
            path.to = until;
            path.rank = d;
        }
    }
    return path;
}

static void walk_path(struct delay_costs *costs, struct delay_costs_build *c, const struct path *path) {
    uint32_t rank = path->rank;
    for (int64_t at = path->to; rank != NOWHERE && at > path->from; costs->path_pieces++) {
        const struct wait_event *wait = wait_before(c, &c->histories[rank], at);
        int64_t since = wait && wait->until > path->from ? wait->until : path->from;
        costs->ranks[rank].critical_path_ns = add_ns(costs->ranks[rank].critical_path_ns, at - since);
        add_piece(costs, c, rank, since, at);
        at = since;
        rank = wait ? wait->cause : NOWHERE;
    }
}

/* By time: they were found from the end. */
static void turn_parts(struct delay_costs *costs) {
    for (size_t i = 0, j = costs->part_count; i + 1 < j; i++) {
        struct path_part last = costs->parts[--j];
        costs->parts[j] = costs->parts[i];
        costs->parts[i] = last;
    }
}

static void walk_paths(struct delay_costs *costs, struct delay_costs_build *c) {
    size_t stretches = c->covered ? c->covered->stretches.count : 1;
    for (size_t s = stretches; s-- > 0;) {
        struct path path = find_path(c, covered_time_bounds(c->covered, (uint32_t)s));
        if (path.from < c->from_ns) /* of what is older only the calls that reach beyond are known */
            path.from = c->from_ns;
        if (path.rank == NOWHERE || path.from >= path.to)
            continue;
        walk_path(costs, c, &path);
        costs->path_ns = add_ns(costs->path_ns, path.to - path.from);
        costs->from_ns = path.from;
        costs->to_ns = path.to > costs->to_ns ? path.to : costs->to_ns;
    }
    turn_parts(costs);
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool delay_costs_window(const struct common_clock *clock, uint64_t most, int64_t *from_ns) {
    uint64_t records = 0;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t d = 0; d < clock->dump_count; d++) {
        const struct dump *dump = clock->dumps[d];
        for (uint32_t lane = 0; lane < dump->lane_count; lane++)
            records += dump->lanes[lane].end_ticket - dump->lanes[lane].first_ticket;
        if (dump->anchor_count == 0)
            continue;
        int64_t begin = to_common(clock, d, dump->anchors[0].ticks);
        int64_t end = to_common(clock, d, dump->anchors[dump->anchor_count - 1].ticks);
        first = begin < first ? begin : first;
        last = end > last ? end : last;
    }
    if (records <= most || first >= last)
        return false;
    int64_t moment = last - (int64_t)((double)(last - first) * ((double)most / (double)records));
    if (moment <= *from_ns)
        return false;
    *from_ns = moment;
    return true;
}

void delay_costs_drop(struct delay_costs_build *build) {
    if (!build)
        return;
    for (size_t d = 0; build->histories && d < build->directory->dump_count; d++) {
        timeline_free(&build->histories[d].timeline);
        free(build->histories[d].sums);
    }
    if (build->workers > 1)
        free(build->waits);
    for (unsigned w = 0; w < build->workers; w++)
        free(build->collectors[w].waits);
    free(build->histories);
    hash_table_free(&build->meetings);
    free(build);
}

struct delay_costs_build *delay_costs_begin(const struct common_clock *clock, const struct match_directory *directory,
                                            const struct covered_time *covered, unsigned workers) {
    struct delay_costs_build *build = calloc_on_own_lines(1, sizeof *build);
    if (!build)
        return NULL;
    *build =
        (struct delay_costs_build){.directory = directory, .covered = covered, .from_ns = -NS_MOST, .workers = workers};
    build->end_only = delay_costs_window(clock, RECORDS_MOST, &build->from_ns);
    build->histories = calloc_on_own_lines(directory->dump_count, sizeof *build->histories);
    for (unsigned w = 0; w < workers; w++)
        build->collectors[w].build = build;
    bool done = build->histories != NULL;
    for (size_t d = 0; done && d < directory->dump_count; d++) {
        build->histories[d].last_wait = NOWHERE;
        build->histories[d].stretch = COVERED_NOWHERE;
        done = timeline_init(&build->histories[d].timeline);
    }
    if (done)
        return build;
    delay_costs_drop(build);
    return NULL;
}

void delay_costs_keep_parts(struct delay_costs_build *build, size_t most) {
    build->parts_most = most;
}

/* Room for all waits: a single worker's stay where they are. */
static bool make_waits(struct delay_costs_build *build) {
    size_t count = 0;
    for (unsigned w = 0; w < build->workers; w++) {
        count += build->collectors[w].wait_count;
        if (build->collectors[w].no_memory)
            return false;
    }
    if (count >= NOWHERE)
        return false;
    build->waits = build->workers == 1 ? build->collectors[0].waits : malloc((count + 1) * sizeof *build->waits);
    return build->waits || count == 0;
}

static bool make_sums(struct delay_costs_build *build) {
    for (size_t d = 0; d < build->directory->dump_count; d++) {
        struct rank_history *history = &build->histories[d];
        history->sums = calloc(history->timeline.sites.count, sizeof *history->sums);
        if (!history->sums)
            return false;
    }
    return true;
}

/* The sites at which anything happened. */
static bool list_sites(struct delay_costs *costs, const struct delay_costs_build *build) {
    for (uint32_t d = 0; d < build->directory->dump_count; d++) {
        const struct rank_history *history = &build->histories[d];
        for (uint32_t i = 0; i < history->timeline.sites.count; i++) {
            const struct site_sums *sums = &history->sums[i];
            const struct timeline_site *site = &timeline_sites_items(&history->timeline.sites)[i];
            if ((sums->path_inside | sums->path_before | sums->delay_cost_inside | sums->delay_cost_before) == 0)
                continue;
            if (!grow_list(costs->sites, costs->site_count))
                return false;
            costs->sites[costs->site_count++] =
                (struct site_delay_costs){.dump = d,
                                          .stack = site->key.stack,
                                          .call = (uint16_t)site->key.call,
                                          .path_inside_ns = sums->path_inside,
                                          .path_before_ns = sums->path_before,
                                          .delay_cost_inside_ns = sums->delay_cost_inside,
                                          .delay_cost_before_ns = sums->delay_cost_before};
        }
    }
    return true;
}

struct finishing {
    struct delay_costs *costs;
    struct delay_costs_build *build;
};

/* Who pays, and which path was critical: each reads waits and timelines, and has sums of its own. */
static void follow_causes(void *context, size_t number) {
    const struct finishing *f = context;
    if (number == 0)
        go_backwards(f->costs, f->build);
    else
        walk_paths(f->costs, f->build);
}

bool delay_costs_finish(struct delay_costs *costs, struct delay_costs_build *build, unsigned threads) {
    *costs = (struct delay_costs){.from_ns = NS_MOST,
                                  .to_ns = -NS_MOST,
                                  .end_only = build->end_only,
                                  .partial = build->end_only || (build->covered && !build->covered->whole)};
    costs->ranks = calloc(build->directory->dump_count, sizeof *costs->ranks);
    bool done =
        costs->ranks && make_waits(build) && make_sums(build) && sort_parts(build, threads) && go_forwards(build);
    if (done) {
        struct finishing finishing = {costs, build};
        rewind_histories(build);
        side_by_side(threads, 2, follow_causes, &finishing);
        done = list_sites(costs, build) && !build->no_memory;
    }
    delay_costs_drop(build);
    return done;
}

void delay_costs_forget(struct delay_costs *costs) {
    free(costs->sites);
    free(costs->parts);
    costs->sites = NULL;
    costs->parts = NULL;
    costs->site_count = costs->part_count = costs->path_pieces = 0;
    costs->parts_left_out = 0;
    costs->path_ns = costs->waits_ns = 0;
    costs->unresolved = true;
}

void delay_costs_free(struct delay_costs *costs) {
    free(costs->ranks);
    free(costs->sites);
    free(costs->parts);
    *costs = (struct delay_costs){0};
}
