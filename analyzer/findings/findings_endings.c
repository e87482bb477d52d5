/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings_endings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings/words.h"
#include "analyzer/load/replays.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/slots.h"

enum { LIST_TEXT = 160, SENTENCE = 512 };

/* What the first busy thread of a rank is doing. Equal keys: the same thing. */
struct rank_activity {
    size_t dump;
    const char *call;                                 /* NULL: its own code */
    const char *posted;                               /* the collective that an MPI_Wait is for; NULL: none */
    uint64_t communicator;                            /* uid, 0 = none */
    const struct communicator_definition *definition; /* of it, the rank's own; NULL = none */
    const char *communicator_name;
    uint32_t seq;
    bool started;        /* a persistent one: `start` is the ordinal of the start */
    uint32_t start;      /* 0 where not `started` */
    int32_t peer;        /* world rank, RANK_UNKNOWN */
    uint32_t stack;      /* STACK_NONE = unknown */
    int64_t since_ns;    /* common */
    int64_t replayed_ns; /* own code: when the newest operation on record ended that a graph replayed; -1: none is */
};

static void set_communicator(struct rank_activity *doing, const struct dump *dump, uint32_t local) {
    const struct dump_communicator *communicator = dump_communicator(dump, local);
    if (!communicator)
        return;
    doing->communicator = communicator->definition->uid;
    doing->definition = communicator->definition;
    doing->communicator_name = communicator->name;
}

/* Of an MPI_Wait for a collective: what that is about. */
static void find_posted(struct rank_activity *doing, const struct dump *dump, const struct in_flight *slot) {
    for (uint32_t i = 0; slot->op && i < dump->pending_count; i++) {
        struct pending copy;
        if (!pending_read(dump, &dump->pending[i], &copy) || copy.op != slot->op || !(copy.flags & FLAG_COLLECTIVE))
            continue;
        doing->posted = dump_call(dump, copy.call)->name;
        doing->seq = copy.seq;
        doing->started = (copy.flags & FLAG_STARTED) != 0;
        doing->start = doing->started ? (uint32_t)copy.tag : 0;
        set_communicator(doing, dump, copy.comm);
        return;
    }
}

/* In code of its own a process may launch graphs, whose replays are no calls. */
static int64_t last_replayed(const struct straggler_analysis *analysis, size_t d) {
    const struct dump *dump = analysis->clock->dumps[d];
    uint64_t newest = 0;
    struct record_reader reader;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        uint64_t t = dump_lane_is_device(l) ? l->end_ticket : l->first_ticket;
        for (record_reader_begin(&reader, dump, lane); t > l->first_ticket; t--) {
            const struct record *record = record_reader_at(&reader, t - 1);
            if (!record || !record_is_replayed(record))
                continue;
            newest = record->t1 > newest ? record->t1 : newest;
            break;
        }
    }
    return newest > 0 ? device_to_common(analysis->clock, d, newest) : -1;
}

static struct rank_activity find_doing(const struct straggler_analysis *analysis, size_t d) {
    const struct dump *dump = analysis->clock->dumps[d];
    struct rank_activity doing = {
        .dump = d, .seq = SEQ_NONE, .peer = RANK_UNKNOWN, .communicator_name = "", .since_ns = -1, .replayed_ns = -1};
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = dump->in_flight[i];
        if (slot.tid == 0)
            continue;
        const struct call_name *call =
            slot.call && slot.call <= UINT16_MAX ? dump_call(dump, (uint16_t)slot.call) : NULL;
        if (!call) {
            if (!doing.call && slot.last_leave && to_common(analysis->clock, d, slot.last_leave) > doing.since_ns)
                doing.since_ns = to_common(analysis->clock, d, slot.last_leave);
            continue;
        }
        if (doing.call)
            continue;
        doing.call = call->name;
        doing.since_ns = to_common(analysis->clock, d, slot.enter);
        doing.seq = slot.flags & FLAG_COLLECTIVE ? slot.seq : SEQ_NONE;
        doing.peer = dump_peer_rank(dump_communicator(dump, slot.comm), slot.peer);
        doing.stack = slot.stack;
        set_communicator(&doing, dump, slot.comm);
        if (call_is_named(call, "MPI_Wait"))
            find_posted(&doing, dump, &slot);
    }
    if (!doing.call)
        doing.replayed_ns = last_replayed(analysis, d);
    return doing;
}

static bool same_doing(const struct rank_activity *a, const struct rank_activity *b) {
    if (!a->call || !b->call)
        return a->call == b->call;
    return strcmp(a->call, b->call) == 0 && a->communicator == b->communicator && a->seq == b->seq &&
           a->started == b->started && a->start == b->start && (a->seq != SEQ_NONE || a->peer == b->peer);
}

static void say_doing(char *text, size_t size, const struct straggler_analysis *analysis,
                      const struct rank_activity *doing, bool plural, int64_t start_ns) {
    char since[32], site[192];
    say_seconds(since, sizeof since, doing->since_ns > start_ns ? doing->since_ns - start_ns : 0);
    if (!doing->call) {
        snprintf(text, size, "%s in %s own code", plural ? "were" : "was", plural ? "their" : "its");
        if (doing->since_ns >= 0)
            phrase(text, size, " since %s into the job", since);
        if (doing->replayed_ns > doing->since_ns) {
            say_seconds(since, sizeof since, doing->replayed_ns - start_ns);
            phrase(text, size, ", where %s replayed CUDA graphs until %s at least", plural ? "they" : "it", since);
        }
        return;
    }
    snprintf(text, size, "%s inside %.40s", plural ? "were" : "was", doing->call);
    if (doing->posted)
        phrase(text, size, " for %.40s", doing->posted);
    if (doing->seq != SEQ_NONE)
        phrase(text, size, " #%" PRIu32, doing->seq);
    if (doing->started)
        phrase(text, size, ", start #%" PRIu32 ",", doing->start);
    if (doing->peer >= 0 && doing->seq == SEQ_NONE)
        phrase(text, size, " with rank %" PRId32, doing->peer);
    if (doing->communicator_name[0])
        phrase(text, size, " on %.64s", doing->communicator_name);
    else if (doing->communicator)
        phrase(text, size, " on communicator %016" PRIx64, doing->communicator);
    say_site(site, sizeof site, analysis->labels, doing->dump, doing->stack);
    phrase(text, size, "%s, entered %s into the job", site, since);
}

/* On an intercommunicator a rank waits for the other group, or for the root there. */
static bool is_awaited(const struct rank_activity *doing, const struct communicator_definition *definition,
                       int32_t rank) {
    if (definition->uid != doing->communicator)
        return false;
    return definition->kind != COMMUNICATOR_INTER ||
           (definition->members_hash != doing->definition->members_hash && (doing->peer < 0 || rank == doing->peer));
}

/* Whether it has not come to that collective on its communicator `local`, as far as its dump tells. */
static bool has_not_come(const struct dump *dump, uint32_t local, const struct rank_activity *doing) {
    const struct progress *progress = dump->communicators[local].progress;
    return progress && (progress->enqueued <= doing->seq ||
                        (doing->started && persistent_starts(dump, local, doing->seq) <= doing->start));
}

/* Ranks of the communicator that have not entered that collective, as far as their dumps tell. */
static void say_awaited(char *text, size_t size, const struct job *job, const struct rank_activity *doing) {
    int32_t *ranks = doing->seq != SEQ_NONE ? malloc(job->count * sizeof *ranks) : NULL;
    size_t count = 0;
    for (size_t d = 0; ranks && d < job->count; d++)
        for (uint32_t i = 0; i < job->dumps[d]->communicator_count; i++) {
            const struct dump_communicator *communicator = &job->dumps[d]->communicators[i];
            if (communicator->definition && doing->definition &&
                is_awaited(doing, communicator->definition, job->dumps[d]->header->rank) &&
                has_not_come(job->dumps[d], i, doing)) {
                ranks[count++] = job->dumps[d]->header->rank;
                break;
            }
        }
    if (count > 0) {
        char who[LIST_TEXT];
        say_ranks(who, sizeof who, ranks, count);
        phrase(text, size, ", which %s never %s", who, doing->started ? "started" : "entered");
    }
    free(ranks);
}

struct group_of_ranks {
    const struct job *job;
    const struct straggler_analysis *analysis;
    int64_t start_ns;
    size_t *of, *dumps; /* scratch, as many as there are dumps: those that ended so; of them, those that did the same */
    bool *said;
};

/* For the dumps listed in `of`: who was doing what, the same things together, at most `most` phrases. */
static void say_all_doing(char *text, size_t size, struct group_of_ranks *group, const size_t *of, size_t count,
                          unsigned most) {
    memset(group->said, 0, group->job->count * sizeof *group->said);
    for (size_t i = 0; i < count; i++) {
        if (group->said[i])
            continue;
        if (most-- == 0) {
            phrase(text, size, "; ...");
            return;
        }
        struct rank_activity doing = find_doing(group->analysis, of[i]);
        size_t same = 0;
        for (size_t j = i; j < count; j++) {
            struct rank_activity other = find_doing(group->analysis, of[j]);
            if (group->said[j] || !same_doing(&doing, &other))
                continue;
            group->said[j] = true;
            group->dumps[same++] = of[j];
            if (other.since_ns < doing.since_ns)
                doing.since_ns = other.since_ns;
            if (other.replayed_ns > doing.replayed_ns)
                doing.replayed_ns = other.replayed_ns;
        }
        char who[LIST_TEXT], what[512 + LIST_TEXT];
        say_processes(who, sizeof who, group->analysis->clock, group->dumps, same);
        if (same == count)
            snprintf(who, sizeof who, same > 1 ? "they" : "it");
        say_doing(what, sizeof what, group->analysis, &doing, same > 1, group->start_ns);
        say_awaited(what, sizeof what, group->job, &doing);
        phrase(text, size, "%s%s %s", i ? "; " : "", who, what);
    }
}

static const struct {
    enum rank_end end;
    enum finding_code code;
    const char *one, *many;
    const char *nccl_one, *nccl_many; /* of processes that know no MPI; NULL: as the others */
} endings[] = {
    {END_ABORTED, FINDING_ABORTED, "called MPI_Abort", "called MPI_Abort", NULL, NULL},
    {END_IN_INIT, FINDING_HANG_INIT, "never returned from MPI_Init", "never returned from MPI_Init",
     "never came to have a communicator of NCCL's", "never came to have a communicator of NCCL's"},
    {END_KILLED, FINDING_KILLED, "was killed, crashed or left by _exit() before MPI_Finalize",
     "were killed, crashed or left by _exit() before MPI_Finalize", "was killed or crashed", "were killed or crashed"},
    {END_IN_FINALIZE, FINDING_KILLED, "was killed, crashed or left by _exit() inside MPI_Finalize",
     "were killed, crashed or left by _exit() inside MPI_Finalize", NULL, NULL},
    {END_EXITED, FINDING_NO_FINALIZE, "exited without MPI_Finalize", "exited without MPI_Finalize", NULL, NULL},
    {END_RUNNING, FINDING_RUNNING, "is still running: these are the figures so far",
     "are still running: these are the figures so far", NULL, NULL},
};

static bool is_of_ending(const struct job *job, size_t d, size_t e, bool nccl_alone) {
    bool told_apart = endings[e].nccl_one != NULL;
    return dump_stands_for_process(job->dumps[d]) && job->ends[job->process_of[d]] == endings[e].end &&
           (told_apart ? is_nccl_alone(job->dumps[d]) == nccl_alone : !nccl_alone);
}

static void add_ends(struct findings *findings, struct group_of_ranks *group, size_t e, bool nccl_alone) {
    const char *one = nccl_alone ? endings[e].nccl_one : endings[e].one;
    const char *many = nccl_alone ? endings[e].nccl_many : endings[e].many;
    size_t count = 0;
    for (size_t d = 0; d < group->job->count; d++)
        if (is_of_ending(group->job, d, e, nccl_alone))
            group->of[count++] = d;
    if (count == 0)
        return;
    char who[LIST_TEXT], what[SENTENCE] = "";
    say_processes(who, sizeof who, group->analysis->clock, group->of, count);
    if (endings[e].end != END_EXITED)
        say_all_doing(what, sizeof what, group, group->of, count, 4);
    findings_add(findings, endings[e].code, "%s%s %s%s%s.", who,
                 count == group->job->process_count && count > 1 ? " (all on record)" : "", count > 1 ? many : one,
                 what[0] ? "; when last seen, " : "", what);
}

void findings_renew_endings(struct findings *findings, const struct job *job, const struct straggler_analysis *analysis,
                            int64_t start_ns) {
    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++)
        findings_drop(findings, endings[e].code);
    findings_add_endings(findings, job, analysis, start_ns);
    findings_sort(findings);
}

void findings_add_endings(struct findings *findings, const struct job *job, const struct straggler_analysis *analysis,
                          int64_t start_ns) {
    struct group_of_ranks group = {.job = job,
                                   .analysis = analysis,
                                   .start_ns = start_ns,
                                   .of = calloc(job->count, sizeof *group.of),
                                   .dumps = calloc(job->count, sizeof *group.dumps),
                                   .said = calloc(job->count, sizeof *group.said)};
    findings->no_memory |= !group.of || !group.dumps || !group.said;
    for (size_t e = 0; !findings->no_memory && e < sizeof endings / sizeof endings[0]; e++)
        for (int nccl_alone = 0; nccl_alone < 2; nccl_alone++)
            add_ends(findings, &group, e, nccl_alone);
    free(group.of);
    free(group.dumps);
    free(group.said);
}
