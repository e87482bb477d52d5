/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences about the job.
 * Lives here: when something is worth saying, and how it is said.
 * Must not live here: layout; any figure that was not computed before.
 */
#include "analyzer/findings/findings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings/findings_gpu.h"
#include "analyzer/findings/findings_links.h"
#include "analyzer/findings/findings_nccl.h"
#include "analyzer/waits/hot_sites.h"

enum { LIST_TEXT = 160, SENTENCE = 512 };

const char *severity_name(enum severity severity) {
    static const char *const names[] = {"info", "warning", "error"};
    return names[severity];
}

static const struct {
    enum severity severity;
    enum evidence evidence;
    const char *name;
} codes[] = {
    [FINDING_STRAGGLER] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "straggler"},
    [FINDING_SUSPECT] = {SEVERITY_INFO, EVIDENCE_EVENTS, "suspect"},
    [FINDING_UNEVEN] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "uneven"},
    [FINDING_ROTATING] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "rotating"},
    [FINDING_SLOW_LINK] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "slow_link"},
    [FINDING_SLOW_GROUP] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "slow_group"},
    [FINDING_TOO_SHORT] = {SEVERITY_INFO, EVIDENCE_EVENTS, "too_short"},
    [FINDING_NO_COLLECTIVES] = {SEVERITY_INFO, EVIDENCE_EVENTS, "no_collectives"},
    [FINDING_DESYNC] = {SEVERITY_ERROR, EVIDENCE_EVENTS, "desync"},
    [FINDING_REFUSED] = {SEVERITY_WARNING, EVIDENCE_EVENTS, "refused"},
    [FINDING_HANG] = {SEVERITY_ERROR, EVIDENCE_STATE, "hang"},
    [FINDING_MAYBE_HANG] = {SEVERITY_WARNING, EVIDENCE_STATE, "maybe_hang"},
    [FINDING_DEADLOCK] = {SEVERITY_ERROR, EVIDENCE_STATE, "deadlock"},
    [FINDING_DEAD_RANK] = {SEVERITY_ERROR, EVIDENCE_STATE, "dead_rank"},
    [FINDING_MISSING_RANKS] = {SEVERITY_WARNING, EVIDENCE_FILES, "missing_ranks"},
    [FINDING_UNCOLLECTED] = {SEVERITY_WARNING, EVIDENCE_FILES, "uncollected"},
    [FINDING_UNUSABLE_FILES] = {SEVERITY_WARNING, EVIDENCE_FILES, "unusable_files"},
    [FINDING_DAMAGED_FILES] = {SEVERITY_INFO, EVIDENCE_FILES, "damaged_files"},
    [FINDING_DUPLICATES] = {SEVERITY_WARNING, EVIDENCE_FILES, "duplicates"},
    [FINDING_SEVERAL_RUNS] = {SEVERITY_INFO, EVIDENCE_FILES, "several_runs"},
    [FINDING_SEVERAL_GENERATIONS] = {SEVERITY_INFO, EVIDENCE_FILES, "several_generations"},
    [FINDING_SEVERAL_WORLDS] = {SEVERITY_INFO, EVIDENCE_FILES, "several_worlds"},
    [FINDING_SWITCHED_OFF] = {SEVERITY_WARNING, EVIDENCE_STATE, "switched_off"},
    [FINDING_KEPT_IN_MEMORY] = {SEVERITY_INFO, EVIDENCE_STATE, "kept_in_memory"},
    [FINDING_EVENTS_LOST] = {SEVERITY_INFO, EVIDENCE_TOTALS, "events_lost"},
    [FINDING_UNMATCHED] = {SEVERITY_INFO, EVIDENCE_EVENTS, "unmatched"},
    [FINDING_CLOCKS] = {SEVERITY_INFO, EVIDENCE_EVENTS, "clocks"},
    [FINDING_UNSEEN_CALLS] = {SEVERITY_WARNING, EVIDENCE_TOTALS, "unseen_calls"},
    [FINDING_GPU_UNTIMED] = {SEVERITY_INFO, EVIDENCE_TOTALS, "gpu_untimed"},
    [FINDING_HOST_BOUND] = {SEVERITY_INFO, EVIDENCE_EVENTS, "host_bound"},
    [FINDING_EXPOSED] = {SEVERITY_INFO, EVIDENCE_EVENTS, "exposed"},
    [FINDING_DEVICE_MEMORY] = {SEVERITY_INFO, EVIDENCE_TOTALS, "device_memory"},
    [FINDING_STEP_INTERVAL] = {SEVERITY_INFO, EVIDENCE_EVENTS, "step_interval"},
    [FINDING_STEP_COMMUNICATION] = {SEVERITY_INFO, EVIDENCE_EVENTS, "step_communication"},
    [FINDING_STEP_RECEIVE] = {SEVERITY_INFO, EVIDENCE_EVENTS, "step_receive"},
    [FINDING_STEP_COLLECTIVE] = {SEVERITY_INFO, EVIDENCE_EVENTS, "step_collective"},
    [FINDING_LINK_BANDWIDTH] = {SEVERITY_INFO, EVIDENCE_EVENTS, "link_bandwidth"},
    [FINDING_GIVEN_UP] = {SEVERITY_ERROR, EVIDENCE_STATE, "given_up"},
    [FINDING_NCCL_ERROR] = {SEVERITY_WARNING, EVIDENCE_TOTALS, "nccl_error"},
    [FINDING_ABORTED] = {SEVERITY_ERROR, EVIDENCE_STATE, "aborted"},
    [FINDING_HANG_INIT] = {SEVERITY_ERROR, EVIDENCE_STATE, "hang_init"},
    [FINDING_KILLED] = {SEVERITY_ERROR, EVIDENCE_STATE, "killed"},
    [FINDING_NO_FINALIZE] = {SEVERITY_WARNING, EVIDENCE_STATE, "no_finalize"},
    [FINDING_RUNNING] = {SEVERITY_INFO, EVIDENCE_STATE, "running"},
};

bool finding_code_known(const char *name) {
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(name, codes[i].name) == 0)
            return true;
    return false;
}

static void add(struct findings *findings, enum finding_code code, enum evidence evidence, const char *text) {
    struct finding *items = realloc(findings->items, (findings->count + 1) * sizeof *items);
    if (items)
        findings->items = items;
    char *copy = strdup(text);
    if (!items || !copy) {
        free(copy);
        findings->no_memory = true;
        return;
    }
    findings->items[findings->count++] = (struct finding){codes[code].severity, codes[code].name, copy, evidence};
}

void findings_add(struct findings *findings, enum finding_code code, const char *format, ...) {
    char text[SENTENCE * 2 + COVERAGE_TEXT] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text - COVERAGE_TEXT, format, arguments);
    va_end(arguments);
    coverage_say(text + strlen(text), COVERAGE_TEXT, &findings->coverage, codes[code].evidence);
    add(findings, code, codes[code].evidence, text);
}

void findings_put_first(struct findings *findings, enum finding_code code, const char *text) {
    size_t before = findings->count;
    add(findings, code, EVIDENCE_STATE, text);
    if (findings->count == before)
        return;
    struct finding first = findings->items[before];
    memmove(findings->items + 1, findings->items, before * sizeof *findings->items);
    findings->items[0] = first;
}

void findings_free(struct findings *findings) {
    for (size_t i = 0; i < findings->count; i++)
        free(findings->items[i].text);
    free(findings->items);
    *findings = (struct findings){0};
}

/* ---- words ----------------------------------------------------------------------------------- */

static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

void say_ranks(char *text, size_t size, const int32_t *ranks, size_t count) {
    snprintf(text, size, count == 1 ? "rank " : "ranks ");
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && ranks[end] >= 0 && ranks[end] == ranks[end - 1] + 1)
            end++;
        if (strlen(text) + 48 > size) {
            append(text, size, " and %zu more", count - i);
            return;
        }
        append(text, size, i ? ", " : "");
        if (end - i == 2) /* two neighbours read better apart */
            end = i + 1;
        if (ranks[i] < 0)
            append(text, size, "?");
        else if (end - i > 1)
            append(text, size, "%" PRId32 "-%" PRId32, ranks[i], ranks[end - 1]);
        else
            append(text, size, "%" PRId32, ranks[i]);
        i = end;
    }
}

static void say_dumps(char *text, size_t size, const struct common_clock *clock, const size_t *dumps, size_t count) {
    int32_t *ranks = malloc((count ? count : 1) * sizeof *ranks);
    if (!ranks) {
        snprintf(text, size, "%zu ranks", count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        ranks[i] = clock->dumps[dumps[i]]->header->rank;
    say_ranks(text, size, ranks, count);
    free(ranks);
}

void say_seconds(char *text, size_t size, int64_t ns) {
    double seconds = (double)ns / 1e9;
    if (seconds >= 100)
        snprintf(text, size, "%.0f s", seconds);
    else if (seconds >= 0.99995) /* what would be rounded to 1000.0 ms */
        snprintf(text, size, "%.1f s", seconds);
    else if (seconds >= 0.9995e-3)
        snprintf(text, size, "%.1f ms", seconds * 1e3);
    else
        snprintf(text, size, "%.0f us", seconds * 1e6);
}

static const char *communicator_name(const struct match_communicator *communicator, char *text, size_t size) {
    if (communicator->name[0])
        snprintf(text, size, "%.64s", communicator->name);
    else
        snprintf(text, size, "communicator %016" PRIx64, communicator->uid);
    return text;
}

/* " at train_step (train.py:42)", nothing where the call site is not known. */
static void say_site(char *text, size_t size, const struct straggler_analysis *analysis, size_t dump, uint32_t stack) {
    const char *label = analysis->labels && stack != STACK_NONE ? site_label(analysis->labels, dump, stack) : NULL;
    text[0] = '\0';
    if (label)
        snprintf(text, size, " at %.160s", label);
}

/* ---- stragglers ------------------------------------------------------------------------------ */

static void say_who(char *text, size_t size, const struct straggler_analysis *analysis,
                    const struct straggler *straggler) {
    const char *host = analysis->clock->hosts[straggler->host].name;
    char ranks[LIST_TEXT];
    say_dumps(ranks, sizeof ranks, analysis->clock, straggler->dumps, straggler->dump_count);
    if (straggler->kind == STRAGGLER_HOST)
        snprintf(text, size, "host %s (%s)", host, ranks);
    else if (straggler->kind == STRAGGLER_RANK_CLASS)
        snprintf(text, size, "%s, which do the same part of the work,", ranks);
    else if (straggler->kind == STRAGGLER_ROTATING)
        snprintf(text, size, "%s", ranks);
    else
        snprintf(text, size, "%s on %s", ranks, host);
}

static void say_rotating(char *text, size_t size, const struct straggler_analysis *analysis,
                         const struct straggler *rotating) {
    char longer[32], window[32], together[48] = "";
    say_seconds(longer, sizeof longer, rotating->extra_ns);
    say_seconds(window, sizeof window, analysis->window_ns);
    if (rotating->part_collectives > 1)
        snprintf(together, sizeof together, " of %u collectives", rotating->part_collectives);
    snprintf(text, size,
             "in %zu of %zu stretches%s one rank took on average %.2f times as long as its peers, more "
             "than their noise explains, and no rank was the slow one in more than %.0f %% of these; it costs %s of "
             "the %s looked at",
             rotating->stood_out, rotating->parts, together, rotating->slowdown_ratio, 100 * rotating->slowest, longer,
             window);
}

void findings_evidence(const struct straggler_analysis *analysis, const struct straggler *straggler, char *text,
                       size_t size) {
    char waited[32], longer[32], window[32], work[32], others[32], where[192];
    if (straggler->kind == STRAGGLER_LINK) {
        findings_say_link(text, size, analysis, straggler);
        return;
    }
    if (straggler->kind == STRAGGLER_ROTATING) {
        say_rotating(text, size, analysis, straggler);
        return;
    }
    say_seconds(waited, sizeof waited, straggler->waited_for_ns);
    say_seconds(longer, sizeof longer, straggler->others_comm_ns);
    say_seconds(window, sizeof window, analysis->window_ns);
    say_seconds(work, sizeof work, straggler->work_ns);
    say_seconds(others, sizeof others, straggler->others_work_ns);
    findings_say_where_late(analysis, straggler, where, sizeof where);
    snprintf(text, size,
             "own work between two collectives takes %s on average against %s of the others (median over the run: "
             "%.2f times as long; slowest in %.0f of %zu time batches); in the %s looked at the others waited %s for "
             "it, summed over ranks, and each spent %s longer in communication%s",
             work, others, straggler->slowdown_ratio, straggler->slowest * (double)straggler->batches,
             straggler->batches, window, waited, longer, where);
}

const char *findings_site(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    if (straggler->kind == STRAGGLER_LINK) /* no place in the code makes it slow */
        return NULL;
    struct site_wait wait = hot_site_of(&analysis->waits.sites, straggler->dumps, straggler->dump_count);
    return analysis->labels && wait.stack != STACK_NONE ? site_label(analysis->labels, wait.dump, wait.stack) : NULL;
}

const char *findings_what_if_site(const struct straggler_analysis *analysis, const struct what_if_site *site) {
    return analysis->labels && site->stack != STACK_NONE ? site_label(analysis->labels, site->dump, site->stack) : NULL;
}

static void add_straggler(struct findings *findings, const struct straggler_analysis *analysis,
                          const struct straggler *straggler, bool claimed) {
    char who[256], evidence[SENTENCE], gain[64] = "", late[240] = "";
    const char *site = findings_site(analysis, straggler);
    if (site)
        snprintf(late, sizeof late, " It is late most of all at %.160s.", site);
    say_who(who, sizeof who, analysis, straggler);
    findings_evidence(analysis, straggler, evidence, sizeof evidence);
    if (straggler->what_if_speedup >= 1.005)
        snprintf(gain, sizeof gain, " Without that the job would run %.2f times as fast.", straggler->what_if_speedup);
    if (straggler->kind == STRAGGLER_LINK)
        findings_add_link(findings, straggler, evidence, gain, claimed);
    else if (straggler->kind == STRAGGLER_ROTATING)
        findings_add(findings, FINDING_ROTATING,
                     "another rank is slow each time (%s take turns): %s (confidence %.2f).%s No rank or host is to "
                     "blame: look for inputs of uneven length, garbage collection, data loaders, checkpoints.%s",
                     who, evidence, straggler->confidence > 0.99 ? 0.99 : straggler->confidence, late, gain);
    else if (claimed && straggler->kind == STRAGGLER_RANK_CLASS)
        findings_add(findings, FINDING_UNEVEN,
                     "the work is dealt out unevenly: %s have more of it: %s (confidence %.2f). None of them is slower "
                     "than its peers.%s",
                     who, evidence, straggler->confidence > 0.99 ? 0.99 : straggler->confidence, gain);
    else if (claimed)
        findings_add(findings, FINDING_STRAGGLER, "%s makes the others wait: %s (confidence %.2f).%s%s", who, evidence,
                     straggler->confidence > 0.99 ? 0.99 : straggler->confidence, late, gain);
    else
        findings_add(findings, FINDING_SUSPECT,
                     "%s may be slower than the others, but chance is not ruled out (confidence %.2f): %s.", who,
                     straggler->confidence, evidence);
}

static void add_uneven(struct findings *findings, const struct straggler_analysis *analysis) {
    if (analysis->uneven_count == 0)
        return;
    size_t *dumps = malloc(analysis->uneven_count * sizeof *dumps);
    double most = 1;
    if (!dumps) {
        findings->no_memory = true;
        return;
    }
    size_t count = 0; /* in the order of ranks, which is that of the dumps */
    for (size_t d = 0; d < analysis->directory->dump_count; d++)
        for (size_t i = 0; i < analysis->uneven_count; i++)
            if (analysis->uneven[i].dumps[0] == d) {
                dumps[count++] = d;
                if (analysis->uneven[i].slowdown_ratio > most)
                    most = analysis->uneven[i].slowdown_ratio;
            }
    char who[LIST_TEXT];
    say_dumps(who, sizeof who, analysis->clock, dumps, count);
    findings_add(
        findings, FINDING_UNEVEN,
        "the work is dealt out unevenly: %s take up to %.2f times as long between collectives as the others. So many "
        "are no stragglers.",
        who, most);
    free(dumps);
}

static void add_verdict(struct findings *findings, const struct straggler_analysis *analysis) {
    for (size_t i = 0; i < analysis->straggler_count; i++)
        add_straggler(findings, analysis, &analysis->stragglers[i], true);
    findings_add_groups(findings, analysis);
    add_uneven(findings, analysis);
    for (size_t i = 0; i < analysis->suspect_count; i++)
        add_straggler(findings, analysis, &analysis->suspects[i], false);
    if (analysis->judgement == JUDGED_TOO_SHORT)
        findings_add(findings, FINDING_TOO_SHORT,
                     "too short to judge who is slow: %zu comparable steps are on record, %d are needed.",
                     analysis->batches, TIME_BATCHES_MIN);
    else if (analysis->judgement == JUDGED_NO_COLLECTIVE)
        findings_add(findings, FINDING_NO_COLLECTIVES,
                     "no collective that several of the recorded ranks take part in: who is slow cannot be judged.");
}

static void add_desync(struct findings *findings, const struct straggler_analysis *analysis) {
    const struct first_mismatch *first = &analysis->waits.mismatch;
    if (!first->any)
        return;
    const struct match_call *calls = analysis->directory->calls;
    char name[80];
    const char *call = first->call == CALL_UNKNOWN ? "an unknown call" : calls[first->call].name->name;
    const char *other = first->other_call == CALL_UNKNOWN ? "an unknown call" : calls[first->other_call].name->name;
    char here[192], there[192] = "";
    say_site(here, sizeof here, analysis, first->other_dump, first->other_stack);
    if (first->dump != SIZE_MAX)
        say_site(there, sizeof there, analysis, first->dump, first->stack);
    findings_add(findings, FINDING_DESYNC,
                 "the ranks disagree about collective #%" PRIu32 " on %s: rank %" PRId32 " called %s%s, %" PRIu32
                 " of %" PRIu32 " members called %s%s (%" PRIu64 " such collectives).",
                 first->seq, communicator_name(first->communicator, name, sizeof name),
                 analysis->clock->dumps[first->other_dump]->header->rank, other, here, first->seen - first->others,
                 first->seen, call, there, analysis->totals.mismatches);
}

/* One rank was refused what the others did: it is behind by that, and nobody else is to blame for what follows. */
static void add_refused(struct findings *findings, const struct straggler_analysis *analysis) {
    const struct match_slip *slip = &analysis->totals.first_slip;
    char name[80];
    if (!analysis->totals.slips)
        return;
    const struct match_communicator *on = &analysis->directory->communicators[slip->communicator.communicator];
    findings_add(findings, FINDING_REFUSED,
                 "on rank %" PRId32 " %s returned an error where others took part in it as collective #%" PRIu32
                 " on %s: from there on that rank's collectives are counted one further (%" PRIu64 " such calls).",
                 analysis->clock->dumps[slip->dump]->header->rank, analysis->directory->calls[slip->call].name->name,
                 slip->seq, communicator_name(on, name, sizeof name), analysis->totals.slips);
}

/* ---- how the job ended ----------------------------------------------------------------------- */

/* What the first busy thread of a rank is doing. Equal keys: the same thing. */
struct rank_activity {
    size_t dump;
    const char *call;                                 /* NULL: its own code */
    uint64_t communicator;                            /* uid, 0 = none */
    const struct communicator_definition *definition; /* of it, the rank's own; NULL = none */
    const char *communicator_name;
    uint32_t seq;
    int32_t peer;     /* world rank, RANK_UNKNOWN */
    uint32_t stack;   /* STACK_NONE = unknown */
    int64_t since_ns; /* common */
};

static struct rank_activity find_doing(const struct straggler_analysis *analysis, size_t d) {
    const struct dump *dump = analysis->clock->dumps[d];
    struct rank_activity doing = {
        .dump = d, .seq = SEQ_NONE, .peer = RANK_UNKNOWN, .communicator_name = "", .since_ns = -1};
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
        const struct dump_communicator *communicator = dump_communicator(dump, slot.comm);
        doing.call = call->name;
        doing.since_ns = to_common(analysis->clock, d, slot.enter);
        doing.seq = slot.flags & FLAG_COLLECTIVE ? slot.seq : SEQ_NONE;
        doing.peer = dump_peer_rank(communicator, slot.peer);
        doing.stack = slot.stack;
        if (communicator) {
            doing.communicator = communicator->definition->uid;
            doing.definition = communicator->definition;
            doing.communicator_name = communicator->name;
        }
    }
    return doing;
}

static bool same_doing(const struct rank_activity *a, const struct rank_activity *b) {
    if (!a->call || !b->call)
        return a->call == b->call;
    return strcmp(a->call, b->call) == 0 && a->communicator == b->communicator && a->seq == b->seq &&
           (a->seq != SEQ_NONE || a->peer == b->peer);
}

static void say_doing(char *text, size_t size, const struct straggler_analysis *analysis,
                      const struct rank_activity *doing, bool plural, int64_t start_ns) {
    char since[32], site[192];
    say_seconds(since, sizeof since, doing->since_ns > start_ns ? doing->since_ns - start_ns : 0);
    if (!doing->call) {
        snprintf(text, size, "%s in %s own code", plural ? "were" : "was", plural ? "their" : "its");
        if (doing->since_ns >= 0)
            append(text, size, " since %s into the job", since);
        return;
    }
    snprintf(text, size, "%s inside %.40s", plural ? "were" : "was", doing->call);
    if (doing->seq != SEQ_NONE)
        append(text, size, " #%" PRIu32, doing->seq);
    if (doing->peer >= 0 && doing->seq == SEQ_NONE)
        append(text, size, " with rank %" PRId32, doing->peer);
    if (doing->communicator_name[0])
        append(text, size, " on %.64s", doing->communicator_name);
    else if (doing->communicator)
        append(text, size, " on communicator %016" PRIx64, doing->communicator);
    say_site(site, sizeof site, analysis, doing->dump, doing->stack);
    append(text, size, "%s, entered %s into the job", site, since);
}

/* On an intercommunicator a rank waits for the other group, or for the root there. */
static bool is_awaited(const struct rank_activity *doing, const struct communicator_definition *definition,
                       int32_t rank) {
    if (definition->uid != doing->communicator)
        return false;
    return definition->kind != COMMUNICATOR_INTER ||
           (definition->members_hash != doing->definition->members_hash && (doing->peer < 0 || rank == doing->peer));
}

/* Ranks of the communicator that have not entered that collective, as far as their dumps tell. */
static void say_awaited(char *text, size_t size, const struct job *job, const struct rank_activity *doing) {
    int32_t *ranks = doing->seq != SEQ_NONE ? malloc(job->count * sizeof *ranks) : NULL;
    size_t count = 0;
    for (size_t d = 0; ranks && d < job->count; d++)
        for (uint32_t i = 0; i < job->dumps[d]->communicator_count; i++) {
            const struct dump_communicator *communicator = &job->dumps[d]->communicators[i];
            if (communicator->definition && doing->definition &&
                is_awaited(doing, communicator->definition, job->dumps[d]->header->rank) && communicator->progress &&
                communicator->progress->enqueued <= doing->seq) {
                ranks[count++] = job->dumps[d]->header->rank;
                break;
            }
        }
    if (count > 0) {
        char who[LIST_TEXT];
        say_ranks(who, sizeof who, ranks, count);
        append(text, size, ", which %s never entered", who);
    }
    free(ranks);
}

struct group_of_ranks {
    const struct job *job;
    const struct straggler_analysis *analysis;
    int64_t start_ns;
    size_t *dumps; /* scratch: as many as there are dumps */
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
            append(text, size, "; ...");
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
        }
        char who[LIST_TEXT], what[512 + LIST_TEXT];
        say_dumps(who, sizeof who, group->analysis->clock, group->dumps, same);
        if (same == count)
            snprintf(who, sizeof who, same > 1 ? "they" : "it");
        say_doing(what, sizeof what, group->analysis, &doing, same > 1, group->start_ns);
        say_awaited(what, sizeof what, group->job, &doing);
        append(text, size, "%s%s %s", i ? "; " : "", who, what);
    }
}

static const struct {
    enum rank_end end;
    enum finding_code code;
    const char *one, *many;
} endings[] = {
    {END_ABORTED, FINDING_ABORTED, "called MPI_Abort", "called MPI_Abort"},
    {END_IN_INIT, FINDING_HANG_INIT, "never returned from MPI_Init", "never returned from MPI_Init"},
    {END_KILLED, FINDING_KILLED, "was killed or crashed before MPI_Finalize",
     "were killed or crashed before MPI_Finalize"},
    {END_IN_FINALIZE, FINDING_KILLED, "was killed or crashed inside MPI_Finalize",
     "were killed or crashed inside MPI_Finalize"},
    {END_EXITED, FINDING_NO_FINALIZE, "exited without MPI_Finalize", "exited without MPI_Finalize"},
    {END_RUNNING, FINDING_RUNNING, "is still running: these are the figures so far",
     "are still running: these are the figures so far"},
};

static void add_endings(struct findings *findings, struct group_of_ranks *group) {
    size_t *of = calloc(group->job->count, sizeof *of);
    if (!of) {
        findings->no_memory = true;
        return;
    }
    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
        size_t count = 0;
        for (size_t d = 0; d < group->job->count; d++)
            if (group->job->ends[d] == endings[e].end)
                of[count++] = d;
        if (count == 0)
            continue;
        char who[LIST_TEXT], what[SENTENCE] = "";
        say_dumps(who, sizeof who, group->analysis->clock, of, count);
        if (endings[e].end != END_EXITED)
            say_all_doing(what, sizeof what, group, of, count, 4);
        findings_add(findings, endings[e].code, "%s%s %s%s%s.", who,
                     count == group->job->count && count > 1 ? " (all on record)" : "",
                     count > 1 ? endings[e].many : endings[e].one, what[0] ? "; when last seen, " : "", what);
    }
    free(of);
}

/* ---- what is not there ----------------------------------------------------------------------- */

static void say_stubs(struct findings *findings, const struct dump_set *set) {
    const struct dump_stub *sound = NULL, *damaged = NULL;
    size_t lost = 0;
    for (size_t i = set->stub_count; i-- > 0;) {
        lost += set->stubs[i].damage != NULL;
        *(set->stubs[i].damage ? &damaged : &sound) = &set->stubs[i];
    }
    bool many = set->stub_count - lost > 1;
    if (sound)
        findings_add(
            findings, FINDING_UNCOLLECTED,
            "%zu dump%s still on the node%s where %s written (first: %.64s:%.200s). Collect with commtap-collect.",
            set->stub_count - lost, many ? "s are" : " is", many ? "s" : "", many ? "they were" : "it was", sound->host,
            sound->staged_path);
    if (damaged)
        findings_add(findings, FINDING_UNCOLLECTED,
                     "%zu stub%s damaged: where the dump%s staged is not known (first: %.200s: %.100s).", lost,
                     lost > 1 ? "s are" : " is", lost > 1 ? "s were" : " was", damaged->path, damaged->damage);
}

static void add_absent(struct findings *findings, const struct dump_set *set, const struct job *job) {
    char who[LIST_TEXT];
    if (job->missing_count > 0) {
        bool many = job->missing_count > 1, in_init = false;
        for (size_t d = 0; d < job->count; d++)
            in_init |= job->ends[d] == END_IN_INIT;
        say_ranks(who, sizeof who, job->missing, job->missing_count);
        findings_add(findings, FINDING_MISSING_RANKS,
                     "%s left no dump here (%" PRId32
                     " expected, %zu seen): what %s did, and what the others waited for %s, is "
                     "not known.%s",
                     who, job->ranks_expected, job->count, many ? "they" : "it", many ? "them" : "it",
                     !in_init ? ""
                     : many   ? " They may never have called MPI_Init."
                              : " It may never have called MPI_Init.");
    }
    say_stubs(findings, set);
    if (set->unusable_count > 0)
        findings_add(findings, FINDING_UNUSABLE_FILES, "%zu file%s cannot be used (first: %.200s: %.160s).",
                     set->unusable_count, set->unusable_count > 1 ? "s" : "", set->unusable[0]->path,
                     set->unusable[0]->problems.count ? set->unusable[0]->problems.items[0].text : "damaged");
    size_t damaged = 0;
    for (size_t d = 0; d < job->count; d++)
        damaged += job->dumps[d]->problems.count > 0;
    if (damaged > 0)
        findings_add(findings, FINDING_DAMAGED_FILES,
                     "%zu dump%s damage; what is sound in them is used (commtap check says what).", damaged,
                     damaged > 1 ? "s show" : " shows");
    if (job->duplicates > 0)
        findings_add(findings, FINDING_DUPLICATES,
                     "%zu dump%s the same run, generation and rank as another and %s left out.", job->duplicates,
                     job->duplicates > 1 ? "s have" : " has", job->duplicates > 1 ? "are" : "is");
}

static void add_choice(struct findings *findings, const struct job *job) {
    const struct dump *dump = job->dumps[0];
    if (job->runs > 1)
        findings_add(
            findings, FINDING_SEVERAL_RUNS,
            "%zu runs lie in this directory; this is the newest or the one asked for, %s (--run ID shows another).",
            job->runs, dump->run_id);
    if (job->generations > 1)
        findings_add(findings, FINDING_SEVERAL_GENERATIONS,
                     "the run was restarted: %zu generations are on record, this is number %" PRIu32 ".",
                     job->generations, dump->header->generation);
    if (job->worlds > 1)
        findings_add(findings, FINDING_SEVERAL_WORLDS,
                     "%zu programs ran side by side in this run; this is the one with the most ranks.", job->worlds);
}

static void add_places(struct findings *findings, const struct job *job) {
    size_t in_memory = 0;
    for (size_t d = 0; d < job->count; d++)
        in_memory += job->dumps[d]->header->place == PLACE_MEMORY;
    if (in_memory > 0)
        findings_add(findings, FINDING_KEPT_IN_MEMORY,
                     "%zu rank%s found no room for a mapped dump and kept it in memory until the end: had %s been "
                     "killed, nothing would be left of it.",
                     in_memory, in_memory > 1 ? "s" : "", in_memory > 1 ? "one of them" : "it");
}

static void add_recording(struct findings *findings, const struct job *job, const struct straggler_analysis *analysis) {
    const struct dump *first_off = NULL;
    size_t off = 0;
    for (size_t d = 0; d < job->count; d++)
        if (job->dumps[d]->header->state & STATE_SWITCHED_OFF) {
            first_off = first_off ? first_off : job->dumps[d];
            off++;
        }
    if (off > 0)
        findings_add(findings, FINDING_SWITCHED_OFF,
                     "recording switched itself off on %zu rank%s (rank %" PRId32 ": %s): figures end there.", off,
                     off > 1 ? "s" : "", first_off->header->rank, first_off->trouble);
    add_places(findings, job);
    if (job->events_lost > 0)
        findings_add(
            findings, FINDING_EVENTS_LOST,
            "%" PRIu64 " of %" PRIu64
            " events were overwritten: waits and stragglers are judged from the rest (COMMTAP_RING holds more); totals "
            "do not depend on them.",
            job->events_lost, job->events);
    const struct match_totals *totals = &analysis->totals;
    if (totals->collective > 0 && totals->matched * 10 < totals->collective * 9)
        findings_add(
            findings, FINDING_UNMATCHED,
            "only %.0f %% of the recorded collectives were found on all recorded ranks: waits are known for these "
            "only.",
            100.0 * (double)totals->matched / (double)totals->collective);
    if (common_clock_worst_error(analysis->clock) == CLOCK_ERROR_UNKNOWN)
        findings_add(
            findings, FINDING_CLOCKS,
            "the clocks of some hosts cannot be compared (no common collectives): waits between them are not known.");
}

static int compare_findings(const void *a, const void *b) {
    const struct finding *left = a, *right = b;
    return (int)right->severity - (int)left->severity;
}

/* Sorts by severity, keeping the order within one. */
static void sort_findings(struct findings *findings) {
    for (size_t i = 1; i < findings->count; i++) {
        struct finding moving = findings->items[i];
        size_t at = i;
        for (; at > 0 && compare_findings(&findings->items[at - 1], &moving) > 0; at--)
            findings->items[at] = findings->items[at - 1];
        findings->items[at] = moving;
    }
}

void findings_collect(struct findings *findings, const struct dump_set *set, const struct job *job,
                      const struct straggler_analysis *analysis) {
    *findings = (struct findings){0};
    int64_t end_ns;
    struct group_of_ranks group = {.job = job,
                                   .analysis = analysis,
                                   .dumps = calloc(job->count, sizeof *group.dumps),
                                   .said = calloc(job->count, sizeof *group.said)};
    if (!group.dumps || !group.said) {
        findings->no_memory = true;
    } else {
        job_span(job, analysis->clock, &group.start_ns, &end_ns);
        findings->coverage = coverage_of(job, group.start_ns, analysis->from_ns, analysis->to_ns);
        add_desync(findings, analysis);
        add_refused(findings, analysis);
        add_endings(findings, &group);
        add_verdict(findings, analysis);
        add_absent(findings, set, job);
        add_recording(findings, job, analysis);
        findings_add_nccl(findings, job);
        findings_add_gpu(findings, job, analysis);
        add_choice(findings, job);
        sort_findings(findings);
    }
    free(group.dumps);
    free(group.said);
}
