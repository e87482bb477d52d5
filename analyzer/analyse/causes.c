/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of causes.h: collect, sort by time, go through once.
 */
#include "analyzer/analyse/causes.h"

#include <stdlib.h>
#include <string.h>

enum {
    RECORDS_MOST = 2 << 20, /* records looked at; of a longer run only the end */
    ORIGINS = 4,            /* kept per wait; smaller shares are the direct causer's */
    SHARES = 32,            /* told apart while one wait is shared out */
    WAITS_BACK = 64,        /* of the causer that are looked at */
};

/* A stretch of a rank's time that is not its own work. */
struct busy {
    int64_t from, to;
    int64_t own_before; /* the rank's own time up to `from`, since its first record */
};

/* One wait of one rank. */
struct wait {
    int64_t until; /* it was ended by `cause` */
    int64_t length;
    int64_t imposed;  /* of the imposed wait, what goes with it */
    uint64_t channel; /* on which the two meet */
    uint32_t rank;    /* NOWHERE: no wait, all on the channel have come */
    uint32_t cause;
};

struct origin {
    uint32_t rank;
    double share;
};

/* A wait once it has been shared out. */
struct shared_wait {
    int64_t until, length;
    uint32_t cause;
    struct origin origins[ORIGINS]; /* shares sum to 1 */
};

struct rank_history {
    struct busy *busy;
    size_t busy_count, busy_room;
    int64_t first_ns, last_ns;
    struct shared_wait *waits;
    size_t wait_count, wait_room;
};

/* When members of a channel met last: a communicator's members, or two ranks that exchange messages. */
struct meeting {
    uint64_t key; /* 0 = free */
    int64_t at;
};

/* What one worker has gathered. */
struct collector {
    struct causes_build *build;
    struct wait *waits; /* and meetings */
    size_t wait_count, wait_room;
    size_t open; /* first wait of the instance or message at hand */
    bool no_memory;
};

struct causes_build {
    const struct match_directory *directory;
    int64_t from_ns; /* what is older is left out */
    bool partial;
    struct rank_history *histories; /* per dump: its records are one worker's */
    struct collector collectors[MATCH_WORKERS_MAX];
    unsigned workers;
    struct meeting *meetings;
    size_t meeting_count, meeting_capacity;
};

static bool grow(void **items, size_t *room, size_t size) {
    size_t wanted = *room ? *room * 2 : 256;
    void *more = realloc(*items, wanted * size);
    if (!more)
        return false;
    *items = more;
    *room = wanted;
    return true;
}

/* ---- what the records say -------------------------------------------------------------------- */

static bool is_busy(const struct match_record *item, const struct call_name *call, bool device) {
    enum record_kind kind = item->record->kind;
    if (kind == RECORD_GPU || kind == RECORD_KERNEL)
        return true;
    if (kind != RECORD_CALL && kind != RECORD_POST)
        return false;
    return !(call->api == API_NCCL && device) && call->call_class != CLASS_OTHER && call->call_class != CLASS_FILE;
}

/* Records of one lane come in order; those of several may overlap: only what sticks out is added. */
void causes_add_record(struct causes_build *build, unsigned worker, const struct match_record *item) {
    struct collector *c = &build->collectors[worker];
    struct rank_history *history = &build->histories[item->dump];
    const struct call_name *call = item->call == CALL_UNKNOWN ? NULL : build->directory->calls[item->call].name;
    if (item->t1 < build->from_ns || !call ||
        !is_busy(item, call, dump_has_device_times(build->directory->dumps[item->dump])))
        return;
    int64_t from = item->t0, to = item->t1 > from ? item->t1 : from, own = 0;
    if (history->busy_count > 0) {
        struct busy *last = &history->busy[history->busy_count - 1];
        if (from <= last->to) {
            if (to > last->to)
                last->to = to;
            history->last_ns = last->to;
            return;
        }
        own = add_ns(last->own_before, from - last->to);
    } else {
        history->first_ns = from;
    }
    if (history->busy_count == history->busy_room &&
        !grow((void **)&history->busy, &history->busy_room, sizeof *history->busy)) {
        c->no_memory = true;
        return;
    }
    history->busy[history->busy_count++] = (struct busy){from, to, own};
    history->last_ns = to;
}

static struct wait *add_wait(struct collector *c, const struct wait *wait) {
    if (c->wait_count == c->wait_room && !grow((void **)&c->waits, &c->wait_room, sizeof *c->waits)) {
        c->no_memory = true;
        return NULL;
    }
    c->waits[c->wait_count] = *wait;
    return &c->waits[c->wait_count++];
}

static void take_wait(void *context, uint32_t dump, uint32_t cause, int64_t until, int64_t length, uint64_t channel) {
    if (until >= ((struct collector *)context)->build->from_ns)
        add_wait(context,
                 &(struct wait){.until = until, .length = length, .rank = dump, .cause = cause, .channel = channel});
}

/* Goes with the waits told since the last meeting, in proportion. */
static void take_imposed(void *context, int64_t imposed) {
    struct collector *c = context;
    int64_t sum = 0, rest = imposed;
    for (size_t i = c->open; i < c->wait_count; i++)
        sum = add_ns(sum, c->waits[i].length);
    for (size_t i = c->open; i < c->wait_count; i++) {
        int64_t part = (int64_t)((double)imposed * ((double)c->waits[i].length / (double)sum));
        part = part > rest || i + 1 == c->wait_count ? rest : part;
        c->waits[i].imposed = part;
        rest -= part;
    }
}

static void take_met(void *context, int64_t at, uint64_t channel) {
    struct collector *c = context;
    if (at >= c->build->from_ns)
        add_wait(c, &(struct wait){.until = at, .rank = NOWHERE, .channel = channel});
    c->open = c->wait_count;
}

struct wait_listener causes_listener(struct causes_build *build, unsigned worker) {
    return (struct wait_listener){
        .context = &build->collectors[worker], .wait = take_wait, .imposed = take_imposed, .met = take_met};
}

void causes_next(struct causes_build *build, unsigned worker) {
    build->collectors[worker].open = build->collectors[worker].wait_count;
}

/* ---- going through --------------------------------------------------------------------------- */

static int64_t own_time(const struct rank_history *history, int64_t at) {
    size_t low = 0, high = history->busy_count; /* the last stretch that begins at or before */
    if (high == 0 || at <= history->busy[0].from)
        return 0;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (history->busy[middle].from <= at)
            low = middle;
        else
            high = middle;
    }
    const struct busy *busy = &history->busy[low];
    return at > busy->to ? add_ns(busy->own_before, at - busy->to) : busy->own_before;
}

static size_t meeting_place(const struct causes_build *c, uint64_t channel) {
    size_t at = (channel * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & (c->meeting_capacity - 1);
    while (c->meetings[at].key != 0 && c->meetings[at].key != channel)
        at = (at + 1) & (c->meeting_capacity - 1);
    return at;
}

static bool note_meeting(struct causes_build *c, uint64_t channel, int64_t at) {
    if (c->meeting_count * 2 >= c->meeting_capacity) {
        struct meeting *old = c->meetings;
        size_t old_capacity = c->meeting_capacity;
        c->meeting_capacity = old_capacity ? old_capacity * 2 : 64;
        c->meetings = calloc(c->meeting_capacity, sizeof *c->meetings);
        if (!c->meetings) {
            c->meetings = old;
            c->meeting_capacity = old_capacity;
            return false;
        }
        for (size_t i = 0; i < old_capacity; i++)
            if (old[i].key)
                c->meetings[meeting_place(c, old[i].key)] = old[i];
        free(old);
    }
    struct meeting *meeting = &c->meetings[meeting_place(c, channel)];
    c->meeting_count += meeting->key == 0;
    *meeting = (struct meeting){channel, at};
    return true;
}

static int64_t last_meeting(const struct causes_build *c, uint64_t channel) {
    if (c->meeting_capacity == 0)
        return INT64_MIN;
    const struct meeting *meeting = &c->meetings[meeting_place(c, channel)];
    return meeting->key ? meeting->at : INT64_MIN;
}

/* Shares while they are being summed up; the first is the direct causer's. */
struct shares {
    struct origin items[SHARES];
    size_t count;
};

static void add_share(struct shares *shares, uint32_t rank, double share) {
    for (size_t i = 0; i < shares->count; i++)
        if (shares->items[i].rank == rank) {
            shares->items[i].share += share;
            return;
        }
    if (shares->count == SHARES)
        shares->items[0].share += share;
    else
        shares->items[shares->count++] = (struct origin){rank, share};
}

/* The direct causer's own share, and those it passes on. */
static void share_out(const struct causes_build *c, const struct wait *wait, struct shares *shares) {
    const struct rank_history *cause = &c->histories[wait->cause], *victim = &c->histories[wait->rank];
    int64_t met = last_meeting(c, wait->channel);
    int64_t waited = 0;
    size_t first = cause->wait_count;
    while (first > 0 && cause->waits[first - 1].until > met && cause->wait_count - first < WAITS_BACK)
        waited = add_ns(waited, cause->waits[--first].length);
    shares->items[0] = (struct origin){wait->cause, 1};
    shares->count = 1;
    if (waited == 0)
        return;
    int64_t excess = add_ns(own_time(cause, wait->until) - own_time(cause, met),
                            -(own_time(victim, wait->until) - own_time(victim, met)));
    excess = excess > 0 ? excess : 0;
    double passed = (double)waited / ((double)excess + (double)waited);
    shares->items[0].share = 1 - passed;
    for (size_t i = first; i < cause->wait_count; i++)
        for (size_t k = 0; k < ORIGINS && cause->waits[i].origins[k].share > 0; k++)
            add_share(shares, cause->waits[i].origins[k].rank,
                      passed * ((double)cause->waits[i].length / (double)waited) * cause->waits[i].origins[k].share);
}

/* Keeps the largest; what is left over stays with the direct causer. */
static void keep_origins(const struct shares *shares, struct shared_wait *wait) {
    bool taken[SHARES] = {true};
    double rest = 1;
    wait->origins[0] = shares->items[0];
    for (size_t k = 1; k < ORIGINS; k++) {
        size_t best = 0;
        for (size_t i = 1; i < shares->count; i++)
            if (!taken[i] && (best == 0 || shares->items[i].share > shares->items[best].share))
                best = i;
        if (best == 0)
            break;
        taken[best] = true;
        wait->origins[k] = shares->items[best];
        rest -= shares->items[best].share;
    }
    wait->origins[0].share = rest > 1e-12 ? rest : 1e-12; /* never nothing: an empty share ends the list */
}

static void charge(struct causes *causes, const struct wait *wait, const struct shares *shares) {
    int64_t left = wait->length, imposed_left = wait->imposed;
    for (size_t i = shares->count; i-- > 0;) {
        struct rank_causes *rank = &causes->ranks[shares->items[i].rank];
        int64_t cost = i == 0 ? left : (int64_t)((double)wait->length * shares->items[i].share);
        int64_t imposed = i == 0 ? imposed_left : (int64_t)((double)wait->imposed * shares->items[i].share);
        cost = cost < left ? cost : left;
        imposed = imposed < imposed_left ? imposed : imposed_left;
        rank->caused_ns = add_ns(rank->caused_ns, cost);
        rank->imposed_ns = add_ns(rank->imposed_ns, imposed);
        if (shares->items[i].rank != wait->cause)
            causes->ranks[wait->cause].passed_on_ns = add_ns(causes->ranks[wait->cause].passed_on_ns, cost);
        left -= cost;
        imposed_left -= imposed;
    }
    causes->waits_ns = add_ns(causes->waits_ns, wait->length);
}

static bool take_shared(struct causes_build *c, const struct wait *wait, const struct shares *shares) {
    struct rank_history *victim = &c->histories[wait->rank];
    if (victim->wait_count == victim->wait_room &&
        !grow((void **)&victim->waits, &victim->wait_room, sizeof *victim->waits))
        return false;
    struct shared_wait *shared = &victim->waits[victim->wait_count++];
    *shared = (struct shared_wait){.until = wait->until, .length = wait->length, .cause = wait->cause};
    keep_origins(shares, shared);
    return true;
}

/* By time; at one time waits come before the meeting that ends them. */
static int compare_waits(const void *a, const void *b) {
    const struct wait *left = a, *right = b;
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
    return (left->length > right->length) - (left->length < right->length);
}

static bool go_through(struct causes *causes, struct causes_build *c, struct wait *waits, size_t count) {
    struct shares shares;
    if (count > 1)
        qsort(waits, count, sizeof *waits, compare_waits);
    for (size_t i = 0; i < count; i++) {
        const struct wait *wait = &waits[i];
        if (wait->rank == NOWHERE) {
            if (!note_meeting(c, wait->channel, wait->until))
                return false;
            continue;
        }
        share_out(c, wait, &shares);
        charge(causes, wait, &shares);
        if (!take_shared(c, wait, &shares))
            return false;
    }
    return true;
}

/* ---- the critical path ----------------------------------------------------------------------- */

/* The last wait of a rank that ended before `at`; NULL when it never waited before. */
static const struct shared_wait *wait_before(const struct rank_history *history, int64_t at) {
    size_t low = 0, high = history->wait_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (history->waits[middle].until < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &history->waits[low - 1] : NULL;
}

static void walk_path(struct causes *causes, const struct causes_build *c) {
    uint32_t rank = NOWHERE;
    causes->from_ns = INT64_MAX;
    causes->to_ns = INT64_MIN;
    for (uint32_t d = 0; d < c->directory->dump_count; d++) {
        const struct rank_history *history = &c->histories[d];
        if (history->busy_count == 0)
            continue;
        if (history->first_ns < causes->from_ns)
            causes->from_ns = history->first_ns;
        if (rank == NOWHERE || history->last_ns > causes->to_ns) {
            causes->to_ns = history->last_ns;
            rank = d;
        }
    }
    for (int64_t at = causes->to_ns; rank != NOWHERE && at > causes->from_ns; causes->path_pieces++) {
        const struct shared_wait *wait = wait_before(&c->histories[rank], at);
        int64_t since = wait && wait->until > causes->from_ns ? wait->until : causes->from_ns;
        causes->ranks[rank].path_ns = add_ns(causes->ranks[rank].path_ns, at - since);
        at = since;
        rank = wait ? wait->cause : NOWHERE;
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Of too many records only those of the end are looked at: from which moment on. */
static bool limit(const struct common_clock *clock, int64_t *from_ns) {
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
    if (records <= RECORDS_MOST || first >= last)
        return false;
    int64_t moment = last - (int64_t)((double)(last - first) * ((double)RECORDS_MOST / (double)records));
    if (moment <= *from_ns)
        return false;
    *from_ns = moment;
    return true;
}

void causes_drop(struct causes_build *build) {
    if (!build)
        return;
    for (size_t d = 0; build->histories && d < build->directory->dump_count; d++) {
        free(build->histories[d].busy);
        free(build->histories[d].waits);
    }
    for (unsigned w = 0; w < build->workers; w++)
        free(build->collectors[w].waits);
    free(build->histories);
    free(build->meetings);
    free(build);
}

struct causes_build *causes_begin(const struct common_clock *clock, const struct match_directory *directory,
                                  unsigned workers) {
    struct causes_build *build = calloc(1, sizeof *build);
    if (!build)
        return NULL;
    *build = (struct causes_build){.directory = directory, .from_ns = -NS_MOST, .workers = workers};
    build->partial = limit(clock, &build->from_ns);
    build->histories = calloc(directory->dump_count, sizeof *build->histories);
    for (unsigned w = 0; w < workers; w++)
        build->collectors[w].build = build;
    if (build->histories)
        return build;
    causes_drop(build);
    return NULL;
}

/* All workers' waits behind the first one's. */
static bool join(struct causes_build *build) {
    struct collector *all = &build->collectors[0];
    size_t count = 0;
    for (unsigned w = 0; w < build->workers; w++) {
        count += build->collectors[w].wait_count;
        if (build->collectors[w].no_memory)
            return false;
    }
    struct wait *waits = realloc(all->waits, (count + 1) * sizeof *waits);
    if (!waits)
        return false;
    all->waits = waits;
    for (unsigned w = 1; w < build->workers; w++) {
        const struct collector *one = &build->collectors[w];
        if (one->wait_count > 0)
            memcpy(waits + all->wait_count, one->waits, one->wait_count * sizeof *waits);
        all->wait_count += one->wait_count;
    }
    return true;
}

bool causes_finish(struct causes *causes, struct causes_build *build) {
    *causes = (struct causes){.from_ns = INT64_MAX, .to_ns = INT64_MIN, .partial = build->partial};
    causes->ranks = calloc(build->directory->dump_count, sizeof *causes->ranks);
    bool done = causes->ranks && join(build) &&
                go_through(causes, build, build->collectors[0].waits, build->collectors[0].wait_count);
    if (done)
        walk_path(causes, build);
    causes_drop(build);
    return done;
}

void causes_free(struct causes *causes) {
    free(causes->ranks);
    *causes = (struct causes){0};
}
