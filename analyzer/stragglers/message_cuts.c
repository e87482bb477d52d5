/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/message_cuts.h"

#include <stdlib.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/load/gpu_view.h"
#include "analyzer/load/replays.h"

enum {
    MESSAGES_MIN = 16,   /* of a channel: two stretches for each of TIME_BATCHES_MIN batches */
    CHANNELS_MOST = 256, /* of a rank that are looked at */
    SLACK = 2,           /* messages that a rank may be behind where the job was ended */
    STRETCHES_FEW = 64,  /* two for each of TIME_BATCHES_MOST batches: with fewer, much happens between them */
    FINER = 4,           /* then so many times as many messages tell more */
    SLICES = 256, /* of the run, 8 for each of TIME_BATCHES_MOST: a batch ends where its share of the work does */
};

struct channel_key {
    uint32_t comm;
    int32_t peer, tag;
    uint32_t direction;
    uint32_t captured; /* number of the message that a graph holds, whose replays count as messages; SEQ_NONE: none */
};

/* A channel as one of its ends saw it. */
struct channel_use {
    struct channel_key key;
    uint32_t messages; /* since the beginning of the run */
    uint32_t seen;     /* of them, on record */
};

HASH_TABLE_OF(channel_uses, struct channel_use, struct channel_key);

/* How often graphs replayed a launch, by its number or that of its group. */
struct replayed_launch {
    uint32_t key;     /* that number */
    uint32_t replays; /* since the beginning of the run */
    uint32_t seen;    /* of them, on record */
};

HASH_TABLE_OF(replayed_launches, struct replayed_launch, uint32_t);

struct message_cuts {
    struct comparison_groups *groups;
    const struct match_directory *directory;
    const struct common_clock *clock;
    bool *wanted;                /* per dump: may be compared by messages */
    struct hash_table *channels; /* per dump */
    int64_t *last_ns;            /* per dump: end of what it recorded, common clock */
    uint32_t *tied;              /* per dump: another one of those it is tied to by messages; itself: the first */
    uint32_t *members;           /* dumps that are looked at together */
    size_t member_count;
};

/* ---- channels ------------------------------------------------------------------------------------------------ */

static bool is_usable(const struct channel_use *use) {
    return use->seen >= MESSAGES_MIN;
}

static bool is_of_nccl(const struct match_directory *directory, size_t dump, const struct record *record) {
    uint16_t call = match_call_of(directory, dump, record->call);
    return call != CALL_UNKNOWN && directory->calls[call].name->api == API_NCCL;
}

/* A message of a group goes by the number of the group's launch. */
static const struct replayed_launch *replays_of(const struct hash_table *replayed, const struct record *record) {
    uint32_t op = record->tag > 0 ? (uint32_t)record->tag : record->op;
    return replayed->count > 0 ? replayed_launches_find(replayed, &op) : NULL;
}

static bool note_message(struct hash_table *channels, const struct record *record, bool nccl,
                         const struct replayed_launch *replayed) {
    struct channel_key key = {record->comm, record->peer, nccl ? TAG_ANY : record->tag, message_direction(record),
                              replayed ? record->seq : SEQ_NONE};
    struct channel_use *use =
        channels->count < CHANNELS_MOST ? channel_uses_add(channels, &key) : channel_uses_find(channels, &key);
    if (!use)
        return channels->count >= CHANNELS_MOST;
    uint32_t messages = replayed ? replayed->replays : record->seq + 1;
    if (messages > use->messages)
        use->messages = messages;
    use->seen += replayed ? replayed->seen : 1;
    return true;
}

static bool note_record(struct message_cuts *cuts, uint32_t dump, const struct record *record,
                        const struct hash_table *replayed) {
    int64_t begin = record_begin(cuts->clock, dump, record), end = record_end(cuts->clock, dump, record);
    int64_t last = begin > end ? begin : end;
    if (last > cuts->last_ns[dump])
        cuts->last_ns[dump] = last;
    if (!is_numbered_message(record))
        return true;
    bool nccl = is_of_nccl(cuts->directory, dump, record);
    const struct replayed_launch *held = nccl ? replays_of(replayed, record) : NULL;
    return (record->flags & FLAG_CAPTURED && !held) || note_message(&cuts->channels[dump], record, nccl, held);
}

static bool note_replay(struct hash_table *replayed, const struct record *record, uint32_t number) {
    struct replayed_launch *launch = number > 0 ? replayed_launches_add(replayed, &record->op) : NULL;
    if (!launch)
        return number == 0;
    launch->replays = number > launch->replays ? number : launch->replays;
    launch->seen++;
    return true;
}

/* One lane: what graphs replayed on a GPU's, or the messages of any. */
static bool read_lane(struct message_cuts *cuts, uint32_t d, uint32_t lane, struct hash_table *replayed, bool replays) {
    const struct dump *dump = cuts->directory->dumps[d];
    struct record_cursor cursor;
    struct replay_reader reader = {0};
    bool done = record_cursor_begin(&cursor, dump, lane);
    for (const struct record *r = done ? record_cursor_next(&cursor) : NULL; r && done;
         r = record_cursor_next(&cursor)) {
        uint32_t number = replays ? replay_of_record(&reader, r).number : 0;
        if (dump_shows(dump, r))
            done = replays ? note_replay(replayed, r, number) : note_record(cuts, d, r, replayed);
    }
    record_cursor_end(&cursor);
    return done;
}

static bool read_channels(struct message_cuts *cuts, uint32_t d) {
    const struct dump *dump = cuts->directory->dumps[d];
    struct hash_table replayed = {0};
    bool done = true;
    for (uint32_t l = 0; l < dump->lane_count && done; l++)
        done = !dump_lane_is_device(&dump->lanes[l]) || read_lane(cuts, d, l, &replayed, true);
    for (uint32_t l = 0; l < dump->lane_count && done; l++)
        done = read_lane(cuts, d, l, &replayed, false);
    hash_table_free(&replayed);
    return done;
}

/* The dump at the other end, NOWHERE where it has none. */
static uint32_t other_end(const struct match_directory *directory, size_t dump, const struct channel_key *key) {
    struct match_place place = match_place_of(directory, dump, key->comm);
    if (place.communicator == NOWHERE)
        return NOWHERE;
    const struct match_communicator *communicator = &directory->communicators[place.communicator];
    int32_t rank = match_rank_of(communicator, place.position, key->peer);
    uint32_t position = rank >= 0 ? match_position_of(communicator, rank) : NOWHERE;
    return position == NOWHERE ? NOWHERE : communicator->dump_of[position];
}

/* ---- who is tied to whom ------------------------------------------------------------------------------------- */

static uint32_t first_tied(struct message_cuts *cuts, uint32_t dump) {
    while (cuts->tied[dump] != dump)
        dump = cuts->tied[dump] = cuts->tied[cuts->tied[dump]];
    return dump;
}

static void untie(struct message_cuts *cuts) {
    for (uint32_t d = 0; d < cuts->directory->dump_count; d++)
        cuts->tied[d] = d;
}

static void tie(struct message_cuts *cuts, uint32_t a, uint32_t b) {
    a = first_tied(cuts, a);
    b = first_tied(cuts, b);
    cuts->tied[a > b ? a : b] = a > b ? b : a;
}

static void tie_all(struct message_cuts *cuts) {
    for (uint32_t d = 0; d < cuts->directory->dump_count; d++) {
        const struct channel_use *uses = channel_uses_items(&cuts->channels[d]);
        for (size_t i = 0; i < cuts->channels[d].count; i++) {
            uint32_t other = is_usable(&uses[i]) ? other_end(cuts->directory, d, &uses[i].key) : NOWHERE;
            if (other != NOWHERE && cuts->wanted[other])
                tie(cuts, d, other);
        }
    }
}

/* Whether the dump is compared by collectives that are part of its steps. */
static bool has_collectives(const struct message_cuts *cuts, size_t dump) {
    uint32_t group = cuts->groups->group_of[dump];
    return group != NOWHERE && cuts->groups->often[group];
}

/* Whether the dump's steps hold so few of the collectives that it is compared by that messages may tell more. */
static bool has_few_collectives(const struct message_cuts *cuts, size_t dump) {
    return has_collectives(cuts, dump) && cuts->groups->calls[cuts->groups->group_of[dump]] < STRETCHES_FEW &&
           !dump_has_device_times(cuts->directory->dumps[dump]);
}

/* ---- a channel of each --------------------------------------------------------------------------------------- */

static bool is_about(uint32_t messages, uint32_t wanted) {
    uint32_t apart = messages > wanted ? messages - wanted : wanted - messages;
    return apart <= SLACK;
}

/* Sends tell best when a stretch of work is over. Of several channels the first by communicator, partner, tag and
 * number. */
static bool is_better(const struct channel_key *a, const struct channel_key *b) {
    if (a->direction != b->direction)
        return a->direction == FLAG_SEND;
    if (a->comm != b->comm)
        return a->comm < b->comm;
    if (a->peer != b->peer)
        return a->peer < b->peer;
    return a->tag != b->tag ? a->tag < b->tag : a->captured < b->captured;
}

/* The dump's channel that carries about so many messages; NULL: none. */
static const struct channel_use *channel_of(const struct hash_table *channels, uint32_t messages, size_t *count) {
    const struct channel_use *uses = channel_uses_items(channels), *best = NULL;
    for (size_t i = 0; i < channels->count; i++) {
        if (!is_usable(&uses[i]) || !is_about(uses[i].messages, messages))
            continue;
        (*count)++;
        if (!best || is_better(&uses[i].key, &best->key))
            best = &uses[i];
    }
    return best;
}

/* The number of messages that a channel of every member carries, and no fewer than `least`: the one of most channels,
 * and of several the smallest. 0: there is none. */
static uint32_t common_count_from(const struct message_cuts *cuts, uint32_t least) {
    const struct hash_table *first = &cuts->channels[cuts->members[0]];
    const struct channel_use *uses = channel_uses_items(first);
    uint32_t common = 0;
    size_t most = 0;
    for (size_t i = 0; i < first->count; i++) {
        size_t count = 0;
        bool all = is_usable(&uses[i]) && uses[i].messages >= least;
        for (size_t m = 0; m < cuts->member_count && all; m++)
            all = channel_of(&cuts->channels[cuts->members[m]], uses[i].messages, &count) != NULL;
        if (all && (count > most || (count == most && uses[i].messages < common))) {
            common = uses[i].messages;
            most = count;
        }
    }
    return common;
}

/* What comes back through a pipeline once in many steps parts few stretches. */
static uint32_t common_count(const struct message_cuts *cuts) {
    uint32_t common = common_count_from(cuts, 0);
    uint32_t finer = common > 0 && common < STRETCHES_FEW ? common_count_from(cuts, FINER * common) : 0;
    return finer > 0 ? finer : common;
}

/* ---- groups -------------------------------------------------------------------------------------------------- */

static void make_group(struct message_cuts *cuts, struct cut cut, uint32_t messages) {
    struct comparison_groups *groups = cuts->groups;
    bool collectives = true;
    for (size_t m = 0; m < cuts->member_count; m++)
        collectives = collectives && has_collectives(cuts, cuts->members[m]);
    for (size_t m = 0; m < cuts->member_count; m++) {
        uint32_t dump = cuts->members[m];
        size_t count = 0;
        const struct channel_use *use = messages > 0 ? channel_of(&cuts->channels[dump], messages, &count) : NULL;
        groups->group_of[dump] = (uint32_t)groups->count;
        groups->cuts[dump] = cut;
        cuts->wanted[dump] = false;
        if (use) {
            groups->cuts[dump].comm = use->key.comm;
            groups->cuts[dump].peer = use->key.peer;
            groups->cuts[dump].tag = use->key.tag;
            groups->cuts[dump].direction = (uint16_t)use->key.direction;
            groups->cuts[dump].device = use->key.tag == TAG_ANY && dump_has_device_times(cuts->directory->dumps[dump]);
            groups->cuts[dump].messages = use->seen;
            groups->cuts[dump].replays = use->key.captured != SEQ_NONE;
            groups->cuts[dump].captured = use->key.captured;
        }
    }
    groups->collectives[groups->count] = collectives;
    groups->often[groups->count] = true;
    groups->calls[groups->count] = UINT64_MAX;
    groups->communicators[groups->count++] = NOWHERE;
}

/* `least`: with fewer messages than that it is left. */
static bool group_by_channels(struct message_cuts *cuts, uint64_t least) {
    uint32_t messages = cuts->member_count > 1 ? common_count(cuts) : 0;
    messages = messages >= least ? messages : 0;
    if (messages > 0)
        make_group(cuts, (struct cut){.kind = CUT_MESSAGE}, messages);
    return messages > 0;
}

/* Work on demand is dealt out by hosts. */
static bool on_gpus(const struct message_cuts *cuts) {
    for (size_t m = 0; m < cuts->member_count; m++)
        if (dump_has_device_times(cuts->directory->dumps[cuts->members[m]]))
            return true;
    return false;
}

/* The member that a worker sends its results to: all that it sends goes there. NOWHERE: it sends to several, or
 * nothing.
 */
static uint32_t only_receiver(const struct message_cuts *cuts, uint32_t dump) {
    const struct channel_use *uses = channel_uses_items(&cuts->channels[dump]);
    uint32_t receiver = NOWHERE;
    for (size_t i = 0; i < cuts->channels[dump].count; i++) {
        uint32_t other = uses[i].key.direction == FLAG_SEND ? other_end(cuts->directory, dump, &uses[i].key) : NOWHERE;
        if (other == NOWHERE)
            continue;
        if (receiver != NOWHERE && other != receiver)
            return NOWHERE;
        receiver = other;
    }
    return receiver;
}

/* Who deals out the work: all others send to it alone. NOWHERE: there is nobody like that. */
static uint32_t find_master(const struct message_cuts *cuts) {
    uint32_t master = NOWHERE;
    size_t workers = 0;
    for (size_t m = 0; m < cuts->member_count; m++) {
        uint32_t receiver = only_receiver(cuts, cuts->members[m]);
        if (receiver == NOWHERE)
            continue;
        if (master != NOWHERE && receiver != master)
            return NOWHERE;
        master = receiver;
        workers++;
    }
    return workers > 1 && workers == cuts->member_count - 1 ? master : NOWHERE;
}

/* A worker's task ends when it sends the result. */
static void choose_tasks(struct message_cuts *cuts, uint32_t master) {
    for (size_t m = 0; m < cuts->member_count && master != NOWHERE; m++) {
        uint32_t dump = cuts->members[m];
        const struct channel_use *uses = channel_uses_items(&cuts->channels[dump]), *most = NULL;
        for (size_t i = 0; i < cuts->channels[dump].count && dump != master; i++)
            if (uses[i].key.direction == FLAG_SEND && is_usable(&uses[i]) && (!most || uses[i].seen > most->seen))
                most = &uses[i];
        if (most)
            cuts->groups->tasks[dump] = (struct cut){.kind = CUT_MESSAGE,
                                                     .comm = most->key.comm,
                                                     .peer = most->key.peer,
                                                     .tag = most->key.tag,
                                                     .direction = FLAG_SEND,
                                                     .messages = most->seen};
    }
}

/* The last anchor may lie long before the last record. */
static void group_by_time(struct message_cuts *cuts) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t m = 0; m < cuts->member_count; m++) {
        const struct dump *dump = cuts->directory->dumps[cuts->members[m]];
        if (dump->anchor_count == 0)
            continue;
        int64_t begin = to_common(cuts->clock, cuts->members[m], dump->anchors[0].ticks);
        first = begin < first ? begin : first;
        last = cuts->last_ns[cuts->members[m]] > last ? cuts->last_ns[cuts->members[m]] : last;
    }
    choose_tasks(cuts, find_master(cuts));
    if (first < last)
        make_group(cuts,
                   (struct cut){
                       .kind = CUT_TIME, .comm = COMM_NONE, .from_ns = first, .slice_ns = (last - first) / SLICES + 1},
                   0);
}

/* Of those that are tied to each other: whether some are compared by collectives, not all in one group, or by few. */
struct tied_group {
    bool collectives, several, few;
    uint64_t calls; /* collectives */
};

static struct tied_group list_tied(struct message_cuts *cuts, uint32_t first) {
    struct tied_group tied = {.few = true};
    uint32_t group = NOWHERE;
    cuts->member_count = 0;
    for (uint32_t d = first; d < cuts->directory->dump_count; d++) {
        if (!cuts->wanted[d] || first_tied(cuts, d) != first)
            continue;
        uint32_t own = has_collectives(cuts, d) ? cuts->groups->group_of[d] : NOWHERE;
        tied.several |= cuts->member_count > 0 && own != group;
        tied.collectives |= own != NOWHERE;
        tied.few &= has_few_collectives(cuts, d);
        tied.calls = own != NOWHERE ? cuts->groups->calls[own] : 0;
        group = own;
        cuts->members[cuts->member_count++] = d;
    }
    return tied;
}

/* Ranks without collectives do the same steps also where no message ties them. */
static bool group_all_without_collectives(struct message_cuts *cuts) {
    cuts->member_count = 0;
    for (uint32_t d = 0; d < cuts->directory->dump_count; d++) {
        if (!cuts->wanted[d])
            continue;
        if (has_collectives(cuts, d))
            return false;
        if (cuts->channels[d].count > 0)
            cuts->members[cuts->member_count++] = d;
    }
    return group_by_channels(cuts, 0);
}

/* `by_time`: where no channel will do, slices of time may. */
static void group_tied(struct message_cuts *cuts, bool by_time) {
    for (uint32_t d = 0; d < cuts->directory->dump_count; d++) {
        if (!cuts->wanted[d] || first_tied(cuts, d) != d)
            continue;
        struct tied_group tied = list_tied(cuts, d);
        bool whole = tied.collectives && !tied.several; /* is compared by its collectives */
        if (cuts->member_count < 2 || (whole && !tied.few))
            continue;
        if (!group_by_channels(cuts, whole ? FINER * tied.calls : 0) && by_time && !tied.collectives && !on_gpus(cuts))
            group_by_time(cuts);
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------------- */

/* Returns whether there is anything to do. */
static bool choose_wanted(struct message_cuts *cuts) {
    const struct comparison_groups *groups = cuts->groups;
    bool any = groups->count > 1;
    for (size_t d = 0; d < cuts->directory->dump_count; d++)
        any |= !has_collectives(cuts, d) || has_few_collectives(cuts, d);
    for (size_t d = 0; d < cuts->directory->dump_count; d++)
        cuts->wanted[d] = any;
    return any;
}

/* Those who meet in collectives do the same steps, as the rows and the columns of a grid. */
static void tie_those_who_meet(struct message_cuts *cuts) {
    for (size_t c = 0; c < cuts->directory->communicator_count; c++) {
        const struct match_communicator *communicator = &cuts->directory->communicators[c];
        for (uint32_t i = 1; cuts->groups->met[c] && i < communicator->dump_count; i++)
            if (cuts->wanted[communicator->dump_of[0]] && cuts->wanted[communicator->dump_of[i]])
                tie(cuts, communicator->dump_of[0], communicator->dump_of[i]);
    }
}

/* The members of a group go together. */
static void tie_groups(struct message_cuts *cuts) {
    uint32_t *first = cuts->members; /* of each group; there are not more groups than dumps */
    for (size_t g = 0; g < cuts->groups->count; g++)
        first[g] = NOWHERE;
    for (uint32_t d = 0; d < cuts->directory->dump_count; d++) {
        if (!cuts->wanted[d] || !has_collectives(cuts, d))
            continue;
        uint32_t *of = &first[cuts->groups->group_of[d]];
        if (*of == NOWHERE)
            *of = d;
        tie(cuts, *of, d);
    }
}

bool message_cuts_choose(struct comparison_groups *groups, const struct match_directory *directory,
                         const struct common_clock *clock) {
    size_t count = directory->dump_count;
    struct message_cuts cuts = {.groups = groups,
                                .directory = directory,
                                .clock = clock,
                                .wanted = calloc(count, sizeof *cuts.wanted),
                                .channels = calloc(count, sizeof *cuts.channels),
                                .last_ns = calloc(count, sizeof *cuts.last_ns),
                                .tied = malloc(count * sizeof *cuts.tied),
                                .members = malloc(count * sizeof *cuts.members)};
    bool done = cuts.wanted && cuts.channels && cuts.last_ns && cuts.tied && cuts.members;
    if (done && choose_wanted(&cuts)) {
        for (uint32_t d = 0; d < count && done; d++) {
            cuts.last_ns[d] = INT64_MIN;
            done = !cuts.wanted[d] || read_channels(&cuts, d);
        }
        if (done && !group_all_without_collectives(&cuts)) {
            untie(&cuts);
            tie_those_who_meet(&cuts);
            tie_all(&cuts);
            group_tied(&cuts, false);
            untie(&cuts);
            tie_groups(&cuts);
            tie_all(&cuts);
            group_tied(&cuts, true);
        }
    }
    for (size_t d = 0; cuts.channels && d < count; d++)
        hash_table_free(&cuts.channels[d]);
    free(cuts.wanted);
    free(cuts.channels);
    free(cuts.last_ns);
    free(cuts.tied);
    free(cuts.members);
    return done;
}
