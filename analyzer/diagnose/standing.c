/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: times. Must not live here: verdicts, sentences.
 */
#include "analyzer/diagnose/standing.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/deaths.h"
#include "analyzer/wait_for_graph/slots.h"

enum {
    COMPARED_MOST = 64, /* processes whose tables are read */
    BEATS_MISSED = 3    /* in a row: no thread that may run is so late, and a job that is stopped misses them all */
};
#define HEARTBEAT_NS INT64_C(2500000000) /* memory of GPUs is sampled every 2 s */

/* ---- signs of life --------------------------------------------------------------------------- */

struct life {
    const char *boot_id;
    int64_t last_ns;  /* CLOCK_MONOTONIC of its host */
    int64_t slack_ns; /* the host lived at most that much longer; INT64_MAX not known */
    uint32_t party;
};

static void newer(int64_t *last, int64_t ns) {
    if (ns > *last)
        *last = ns;
}

static struct life life_of(const struct dump *dump, uint32_t party) {
    struct life life = {.boot_id = dump->boot_id, .party = party, .slack_ns = INT64_MAX};
    life.last_ns = dump_monotonic_ns(dump, last_sign_of_life(dump));
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        struct record newest;
        if (newest_record(dump, i, &newest) && record_is_device(&newest))
            newer(&life.last_ns, (int64_t)newest.t1);
    }
    for (uint32_t i = 0; i < dump->device_count; i++)
        if (dump->devices[i].memory_samples > 1)
            life.slack_ns = HEARTBEAT_NS;
    if (dump->lived_on_ms > 0) { /* each recorder has an end of its own */
        life.last_ns = difference_ns(life.last_ns, -(dump->lived_on_ms - INT64_C(1)) * 1000000);
        life.slack_ns = 0;
    }
    return life;
}

static int compare_lives(const void *a, const void *b) {
    const struct life *left = a, *right = b;
    int order = strcmp(left->boot_id, right->boot_id);
    return order ? order : left->party < right->party ? -1 : left->party > right->party;
}

static int compare_parties(const void *a, const void *b) {
    const struct life *left = a, *right = b;
    return left->party < right->party ? -1 : left->party > right->party;
}

/* Until when waits of a host are looked at. */
struct until {
    const struct job_end *end;  /* of the job, NULL or nothing known: the last sign of life */
    const struct moment *death; /* instead: not beyond this one, NULL none */
};

/* Whether the processes of a host, which note every BEAT_NS that they live, did so until about `end_ns`: a job that
 * was stopped as a whole, as batch systems do before they end it, stood still without waiting. `beat_ns`: the newest of
 * these notes, 0: there is none, or who notes it may have exited, and the others lived on. */
static bool ran_until(int64_t end_ns, int64_t beat_ns, int64_t last_ns) {
    return beat_ns == 0 || end_ns - (beat_ns > last_ns ? beat_ns : last_ns) < BEATS_MISSED * (int64_t)BEAT_NS;
}

/* Lives from `from` up to `to` are of one host. */
static void share_life(struct life *lives, size_t from, size_t to, const struct world *world,
                       const struct until *until) {
    struct life host = {.slack_ns = INT64_MAX};
    const struct job_end *end = until->end;
    int64_t beat_ns = 0;
    bool left = false;
    for (size_t i = from; i < to; i++) {
        newer(&beat_ns, world->parties[lives[i].party].seen_ns);
        left |= (world->parties[lives[i].party].dump->header->state & (STATE_EXITED | STATE_SWITCHED_OFF)) != 0;
        newer(&host.last_ns, lives[i].last_ns);
        host.slack_ns = lives[i].slack_ns < host.slack_ns ? lives[i].slack_ns : host.slack_ns;
    }
    if (until->death) {
        host.last_ns = moment_here(world->parties[lives[from].party].dump, until->death);
        host.slack_ns = 0;
    } else if (end && end->monotonic_ns > 0 && strcmp(end->boot_id, lives[from].boot_id) == 0) {
        newer(&host.last_ns,
              ran_until(end->monotonic_ns, left ? 0 : beat_ns, host.last_ns) ? end->monotonic_ns : beat_ns);
        host.slack_ns = 0;
    }
    for (size_t i = from; i < to; i++) {
        lives[i].last_ns = host.last_ns;
        lives[i].slack_ns = host.slack_ns;
    }
}

/* The first moment from which on not all of the job's processes are known to have lived: somebody may have been gone
 * already whom the others waited for. */
static struct moment find_horizon(const struct world *world) {
    struct moment horizon = {0};
    for (uint32_t p = 0; p < world->dump_count; p++) {
        const struct party *party = &world->parties[p];
        if (has_finished(party->dump) || party->dump->header->state & (STATE_EXITED | STATE_SWITCHED_OFF))
            continue;
        struct moment last = last_known_alive(party);
        if (!horizon.boot_id || moment_is_earlier(&last, &horizon))
            horizon = last;
    }
    return horizon;
}

/* As long as all of them lived, all hosts did. */
static void extend_lives(struct life *lives, const struct world *world) {
    struct moment horizon = find_horizon(world);
    for (uint32_t p = 0; p < world->dump_count && horizon.boot_id; p++)
        if (lives[p].slack_ns > 0) /* else the end itself is known */
            newer(&lives[p].last_ns, moment_here(world->parties[p].dump, &horizon));
}

/* Per dump of the job, what is known of its host. NULL when memory is short. */
static struct life *find_lives(const struct world *world, const struct until *until) {
    struct life *lives = malloc((world->dump_count + 1) * sizeof *lives);
    if (!lives)
        return NULL;
    for (uint32_t p = 0; p < world->dump_count; p++)
        lives[p] = life_of(world->parties[p].dump, p);
    qsort(lives, world->dump_count, sizeof *lives, compare_lives);
    for (size_t from = 0, to; from < world->dump_count; from = to) {
        for (to = from + 1; to < world->dump_count && strcmp(lives[from].boot_id, lives[to].boot_id) == 0;)
            to++;
        share_life(lives, from, to, world, until);
    }
    qsort(lives, world->dump_count, sizeof *lives, compare_parties);
    extend_lives(lives, world);
    return lives;
}

/* ---- what is usual --------------------------------------------------------------------------- */

/* Of messages on a GPU it is one launch that is waited in: a group of them has a name of its own. */
static bool are_messages(const struct call_name *call) {
    return call->api == API_NCCL && (call->call_class == CLASS_SEND || call->call_class == CLASS_RECV ||
                                     call->call_class == CLASS_SENDRECV || call->call_class == CLASS_GROUP);
}

/* Rows of work on a GPU are in ns, others in ticks. */
static bool is_about(const struct operation_row *row, const struct dump *dump, const struct wait *wait) {
    const struct call_name *call = dump_call(dump, row->call);
    unsigned source = row->source & ~SOURCE_SIZE_CLASS;
    bool device = source == SOURCE_GPU_EVENT || source == SOURCE_IN_KERNEL;
    if (!call || device != wait->device)
        return false;
    return strcmp(call->name, wait->call->name) == 0 || (device && are_messages(wait->call) && are_messages(call));
}

static bool waits_for_others(const struct operation_row *row, const struct dump *dump) {
    const struct call_name *call = dump_call(dump, row->call);
    return call && (row->source & ~SOURCE_SIZE_CLASS) == SOURCE_HOST && call_waits_for_others(call);
}

/* The second longest time of the calls that are waited in, in whatever communicator: what happened once may be the
 * job's start. Of calls like `alike`; NULL: of all that wait for others. Histograms are coarse (a fifth); 0
 * where there were no two calls. */
static int64_t second_longest_ns(const struct dump *dump, const struct wait *alike) {
    uint64_t counts[HISTOGRAM_BUCKETS] = {0}, above = 0;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        for (uint32_t i = 0; i < dump->lanes[lane].operation_count; i++) {
            const struct operation_row *row = &dump->lanes[lane].operations[i];
            struct operation_row copy;
            enum row_state state = operation_row_read(dump, row, &copy);
            bool usable = state == ROW_STABLE || state == ROW_TORN;
            if (!usable || !(alike ? is_about(&copy, dump, alike) : waits_for_others(&copy, dump)))
                continue;
            for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
                counts[b] += row->histogram[b];
        }
    for (unsigned b = HISTOGRAM_BUCKETS; b-- > 0;)
        if ((above += counts[b]) >= 2)
            return alike && alike->device ? (int64_t)histogram_middle(b) : dump_duration_ns(dump, histogram_middle(b));
    return 0;
}

/* The mean time between two collectives of the communicator that is waited in. */
static int64_t between_collectives_ns(const struct world *world, const struct wait *wait) {
    const struct membership *member =
        wait->collective && wait->communicator ? world_membership(wait->communicator, wait->party) : NULL;
    const struct dump_header *header = world->parties[wait->party].dump->header;
    uint64_t start = header->initialised_ticks ? header->initialised_ticks : header->activated_ticks;
    struct progress progress;
    if (!member || !membership_progress(world, member, &progress) || progress.enqueued < 2 ||
        progress.last_enter <= start)
        return 0;
    return dump_duration_ns(world->parties[wait->party].dump, (progress.last_enter - start) / progress.enqueued);
}

/* The most over those who wait, or as many of them as are looked at; -1 where there is nothing. */
static int64_t find_usual_wait(const struct wait_for_graph *waits, bool alike) {
    size_t step = waits->count / COMPARED_MOST + 1;
    int64_t usual = -1;
    for (size_t i = 0; i < waits->count; i += step) {
        const struct wait *wait = &waits->items[i];
        const struct dump *dump = waits->world->parties[wait->party].dump;
        if (!alike && (wait->device || wait->call->call_class == CLASS_FILE))
            continue;
        if (wait->replayed || (alike && wait->polled)) { /* from a launch, or the first of many calls on */
            newer(&usual, wait->usual_ns);
            continue;
        }
        int64_t longest = second_longest_ns(dump, alike ? wait : NULL);
        int64_t between = alike ? between_collectives_ns(waits->world, wait) : 0;
        newer(&usual, longest > 0 ? longest : -1);
        newer(&usual, between > 0 ? between : -1);
    }
    return usual;
}

/* ---- together -------------------------------------------------------------------------------- */

static void find_oldest(struct standing *standing, const struct wait_for_graph *waits, const struct life *lives) {
    for (size_t i = 0; i < waits->count; i++) {
        const struct wait *wait = &waits->items[i];
        if (wait->enter == 0)
            continue;
        int64_t entered = dump_monotonic_ns(waits->world->parties[wait->party].dump, wait->enter);
        int64_t age = difference_ns(lives[wait->party].last_ns, entered);
        if (standing->call && age <= standing->age_ns)
            continue;
        standing->call = wait->call;
        standing->party = wait->party;
        standing->age_ns = age;
    }
}

/* How long a process has been in its Init or Finalize, or was in a Finalize that it left; negative: in neither. */
static int64_t time_in_setup(const struct party_state *state, const struct dump *dump, int64_t last_ns) {
    const struct dump_header *header = dump->header;
    bool begins = state->doing == DOING_INIT, left = state->doing == DOING_FINISHED && header->finalised_ticks > 0;
    uint64_t entered = begins ? header->activated_ticks : header->finalise_ticks;
    if (entered == 0 || (!begins && !left && state->doing != DOING_FINALIZE))
        return -1;
    int64_t until = left ? dump_monotonic_ns(dump, header->finalised_ticks) : last_ns;
    return difference_ns(until, dump_monotonic_ns(dump, entered));
}

/* There is nothing of the kind to compare that with. */
static void find_oldest_process(struct standing *standing, const struct wait_for_graph *waits,
                                const struct life *lives) {
    for (uint32_t p = 0; p < waits->world->dump_count; p++) {
        int64_t age = time_in_setup(&waits->parties[p], waits->world->parties[p].dump, lives[p].last_ns);
        if (age < 0 || (standing->party != NOBODY && age <= standing->age_ns))
            continue;
        standing->party = p;
        standing->age_ns = age;
    }
}

/* What processes took in calls that wait for others; -1 where there were none. */
static int64_t find_usual_of_any(const struct world *world) {
    uint32_t step = world->dump_count / COMPARED_MOST + 1;
    int64_t usual = -1;
    for (uint32_t p = 0; p < world->dump_count; p += step) {
        int64_t longest = second_longest_ns(world->parties[p].dump, NULL);
        newer(&usual, longest > 0 ? longest : -1);
    }
    return usual;
}

/* Finalize itself takes its time, and ranks that come late to it have something left to do. So there is nothing to
 * compare it with, but where a process ended in the middle of it. */
static void compare_setup(struct standing *standing, const struct wait_for_graph *waits, const struct until *until) {
    enum doing doing = waits->parties[standing->party].doing;
    if (!until->death || doing == DOING_INIT)
        return;
    standing->usual_ns = find_usual_of_any(waits->world);
    standing->unlike = standing->usual_ns >= 0;
}

/* Whether the process made such calls before: a host counts them when it enqueues them, that one included. */
static bool were_made(const struct dump *dump, const struct call_name *alike) {
    uint64_t count = 0;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++)
        for (uint32_t i = 0; i < dump->lanes[lane].operation_count; i++) {
            struct operation_row row;
            enum row_state state = operation_row_read(dump, &dump->lanes[lane].operations[i], &row);
            bool usable = state == ROW_STABLE || state == ROW_TORN;
            const struct call_name *call = usable ? dump_call(dump, row.call) : NULL;
            if (call && (row.source & ~SOURCE_SIZE_CLASS) == SOURCE_HOST && strcmp(call->name, alike->name) == 0)
                count += row.count;
        }
    return count > 1;
}

static void compare_wait(struct standing *standing, const struct wait_for_graph *waits) {
    standing->usual_ns = find_usual_wait(waits, true);
    if (standing->usual_ns >= 0)
        return;
    standing->untimed =
        standing->call->api == API_NCCL && were_made(waits->world->parties[standing->party].dump, standing->call);
    standing->usual_ns = find_usual_wait(waits, false);
    standing->unlike = standing->usual_ns >= 0;
}

static enum standing_kind standing_kind_of(const struct standing *standing, const struct world *world,
                                           int64_t slack_ns) {
    int64_t usual = standing->usual_ns, most = standing_most_ns(world, usual, standing->unlike);
    if (standing->age_ns > most)
        return STANDING_LONG;
    int64_t brief_most = usual >= 0 && !standing->unlike ? most : STANDING_LEAST_NS;
    bool brief = slack_ns <= difference_ns(brief_most, standing->age_ns);
    return brief ? STANDING_BRIEF : STANDING_UNTOLD;
}

static bool find_standing(struct standing *standing, const struct wait_for_graph *waits, const struct until *until) {
    struct life *lives = find_lives(waits->world, until);
    *standing = (struct standing){.party = NOBODY, .usual_ns = -1};
    if (!lives)
        return false;
    if (waits->count > 0)
        find_oldest(standing, waits, lives);
    else
        find_oldest_process(standing, waits, lives);
    if (standing->party != NOBODY) {
        if (waits->count > 0)
            compare_wait(standing, waits);
        else
            compare_setup(standing, waits, until);
        standing->slack_ns = lives[standing->party].slack_ns;
        standing->end_known = standing->slack_ns < INT64_MAX;
        standing->until = moment_at(waits->world->parties[standing->party].dump, lives[standing->party].last_ns);
        standing->kind = standing_kind_of(standing, waits->world, lives[standing->party].slack_ns);
    }
    free(lives);
    return true;
}

/* ---- replays of graphs ----------------------------------------------------------------------- */

/* What is on record of communication that graphs hold. */
struct replays {
    bool any;
    uint32_t newest;  /* number of the last one of which something is on record; 0: of none */
    int64_t seen_ns;  /* when the process was last seen to communicate: its newest call, or the newest end on its GPU */
    int64_t usual_ns; /* the second longest time between two ends on a GPU; -1: there were no two */
};

static bool holds_captures(const struct dump *dump) {
    for (uint32_t i = 0; i < dump->sensor_count; i++)
        if (dump->sensors[i].call != 0 && dump->sensors[i].captured > 0)
            return true;
    return false;
}

/* The harvester's samples of memory come whatever the job does. */
static void look_at_device_record(struct replays *replays, const struct record *record, int64_t *longest,
                                  int64_t *ended) {
    if (record->kind == RECORD_REPLAY && record->seq != SEQ_NONE)
        replays->newest = record->seq;
    if (record->kind != RECORD_GPU && record->kind != RECORD_KERNEL)
        return;
    int64_t end = (int64_t)record->t1, apart = *ended > 0 ? difference_ns(end, *ended) : -1;
    newer(&replays->usual_ns, apart < *longest ? apart : *longest);
    newer(longest, apart);
    newer(ended, end);
}

/* False when memory is short. */
static bool look_at_lane(struct replays *replays, const struct dump *dump, uint32_t lane) {
    struct record_cursor cursor;
    int64_t longest = -1, ended = 0;
    if (!record_cursor_begin(&cursor, dump, lane))
        return false;
    for (const struct record *record; (record = record_cursor_next(&cursor)) != NULL;) {
        if (dump_lane_is_device(&dump->lanes[lane]))
            look_at_device_record(replays, record, &longest, &ended);
        else if (record->kind == RECORD_CALL || record->kind == RECORD_POST)
            newer(&replays->seen_ns, dump_monotonic_ns(dump, record->t1));
    }
    newer(&replays->seen_ns, ended);
    record_cursor_end(&cursor);
    return true;
}

static bool find_replays(struct replays *replays, const struct dump *dump) {
    bool done = true;
    *replays = (struct replays){
        .any = holds_captures(dump), .seen_ns = dump_monotonic_ns(dump, dump->header->activated_ticks), .usual_ns = -1};
    for (uint32_t lane = 0; replays->any && done && lane < dump->lane_count; lane++)
        done = look_at_lane(replays, dump, lane);
    return done;
}

static bool find_silence(struct silence *silence, const struct wait_for_graph *waits, const struct life *lives) {
    struct replays replays;
    for (uint32_t p = 0; p < waits->world->dump_count; p++) {
        const struct party_state *state = &waits->parties[p];
        const struct dump *dump = waits->world->parties[p].dump;
        if (state->doing != DOING_USER_CODE && state->doing != DOING_CALL && state->doing != DOING_POLL)
            continue;
        if (!find_replays(&replays, dump))
            return false;
        int64_t age = replays.any ? difference_ns(lives[p].last_ns, replays.seen_ns) : -1;
        if (age < 0 || (silence->standing.party != NOBODY && age <= silence->standing.age_ns))
            continue;
        silence->replay = replays.newest;
        silence->standing.party = p;
        silence->standing.age_ns = age;
        silence->standing.usual_ns = replays.usual_ns;
    }
    return true;
}

bool standing_find_silence(struct silence *silence, const struct wait_for_graph *waits, const struct job_end *end,
                           const struct moment *now) {
    const struct until until = {.end = end, .death = now};
    struct life *lives = find_lives(waits->world, &until);
    struct standing *standing = &silence->standing;
    *silence = (struct silence){.standing = {.party = NOBODY, .usual_ns = -1}};
    bool done = lives && find_silence(silence, waits, lives);
    if (done && standing->party != NOBODY) {
        standing->slack_ns = lives[standing->party].slack_ns;
        standing->end_known = standing->slack_ns < INT64_MAX;
        standing->kind = standing_kind_of(standing, waits->world, standing->slack_ns);
    }
    free(lives);
    return done;
}

/* ---- for others ------------------------------------------------------------------------------ */

bool standing_find(struct standing *standing, const struct wait_for_graph *waits, const struct job_end *end) {
    return find_standing(standing, waits, &(struct until){.end = end});
}

bool standing_find_before(struct standing *standing, const struct wait_for_graph *waits, const struct moment *death) {
    return find_standing(standing, waits, &(struct until){.death = death});
}
