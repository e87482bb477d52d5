/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings_stragglers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/findings/findings_gpu.h"
#include "analyzer/findings/findings_links.h"
#include "analyzer/findings/words.h"
#include "analyzer/job/crowding.h"
#include "analyzer/stragglers/pauses.h"
#include "analyzer/stragglers/verdicts.h"
#include "analyzer/waits/finalize_waits.h"
#include "analyzer/waits/hot_sites.h"

enum { LIST_TEXT = 160, SENTENCE = 640 };
/* Of the time looked at: five times VERDICT_SHARE's hundredth, since nothing tells that it comes again. */
enum { AWAY_SHARE = 20 };
#define AWAY_LEAST_NS INT64_C(100000000) /* no more than schedulers and first calls take at times */
/* ... and of a profiler's trace, which is of a few steps: twice the least that ranks are compared in. */
#define AWAY_TRACE_NS INT64_C(20000000)

static void say_who(char *text, size_t size, const struct straggler_analysis *analysis,
                    const struct straggler *straggler) {
    const char *host = analysis->clock->dumps[straggler->dumps[0]]->host;
    char ranks[LIST_TEXT];
    say_dumps(ranks, sizeof ranks, analysis->clock, straggler->dumps, straggler->dump_count);
    if (straggler->kind == STRAGGLER_HOST)
        snprintf(text, size, "host %s (%s)", host, ranks);
    else if (straggler->kind == STRAGGLER_RANK_CLASS && straggler->communicator != NOWHERE)
        snprintf(text, size, "%s, which have a communicator of their own,", ranks);
    else if (straggler->kind == STRAGGLER_RANK_CLASS)
        snprintf(text, size, "%s, which do the same part of the work,", ranks);
    else if (straggler->kind == STRAGGLER_ROTATING)
        snprintf(text, size, "%s", ranks);
    else
        snprintf(text, size, "%s%s%s", ranks, host[0] ? " on " : "", host);
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

/* What the own work is measured by: "own work between two collectives takes". */
static void say_stretch(char *text, size_t size, const struct straggler_analysis *analysis,
                        const struct straggler *straggler) {
    const struct cut *cut = &analysis->comparison_groups.cuts[straggler->dumps[0]];
    char slice[32];
    say_seconds(slice, sizeof slice, cut->slice_ns);
    if (straggler->by_steps)
        snprintf(text, size, "own work %s%s",
                 straggler->marked ? "in a step" : "from one collective of all to the next",
                 analysis->beside_left_out ? " outside of all communication" : "");
    else if (cut->kind == CUT_TIME)
        snprintf(text, size, "own work in each %s of the run", slice);
    else if (cut->kind == CUT_MESSAGE)
        snprintf(text, size, "own work from one message to the next of the same kind");
    else
        snprintf(text, size, "own work%s between two collectives",
                 analysis->beside_left_out ? " outside of all communication" : "");
}

/* When a rank is slow at times: "20 steps apart", "from 50 % to 100 % of the run". */
static void say_when(char *text, size_t size, const struct rank_leads *when) {
    if (when->every_steps > 1)
        snprintf(text, size, " (most of them %" PRIu32 " steps apart)", when->every_steps);
    else if (when->every_steps == 1)
        snprintf(text, size, " (most of them in each step)");
    else if (when->every > 1)
        snprintf(text, size, " (most of them %" PRIu32 " apart)", when->every);
    else if (when->phase)
        snprintf(text, size, " (from %.0f %% to %.0f %% of the run)", when->first / 10.0, when->last / 10.0);
    else
        snprintf(text, size, " (here and there)");
}

static void say_at_times(char *text, size_t size, const struct straggler_analysis *analysis,
                         const struct straggler *straggler) {
    const struct rank_leads *when = &straggler->when;
    char stretch[96], longer[32], waited[32], window[32], moments[64], where[192];
    say_stretch(stretch, sizeof stretch, analysis, straggler);
    say_seconds(longer, sizeof longer, ns_clamped(when->longer_ns));
    say_seconds(waited, sizeof waited, straggler->waited_for_ns);
    say_seconds(window, sizeof window, analysis->window_ns);
    say_when(moments, sizeof moments, when);
    findings_say_where_late(analysis, straggler, where, sizeof where);
    snprintf(text, size,
             "in %zu of %zu stretches%s its %s takes %s longer than that of the others, %.2f times as long; in the %s "
             "looked at the others waited %s for it, summed over ranks%s",
             when->slow_rows, when->rows, moments, stretch, longer, when->slow_ratio, window, waited, where);
}

/* Calls in which nobody can tell who waits for whom show by their length alone that somebody does. */
static void say_waited(char *text, size_t size, const struct straggler *straggler) {
    char waited[32];
    say_seconds(waited, sizeof waited, straggler->waited_for_ns);
    if (straggler->waited_for_ns > 0)
        snprintf(text, size, "the others waited %s for it, summed over ranks, and each", waited);
    else
        snprintf(text, size, "no record tells how long the others waited for it, but each");
}

static void say_by_tasks(char *text, size_t size, const struct straggler *worker) {
    char work[32], others[32];
    say_seconds(work, sizeof work, worker->work_ns);
    say_seconds(others, sizeof others, worker->others_work_ns);
    snprintf(text, size,
             "own work on a task takes %s on average against %s of the other workers (%.2f times as long; %zu tasks). "
             "Whoever is free gets the next one, so that it does fewer, and nobody waits for it",
             work, others, worker->slowdown_ratio, worker->batches);
}

void findings_evidence(const struct straggler_analysis *analysis, const struct straggler *straggler, char *text,
                       size_t size) {
    char waited[96], longer[32], window[32], work[32], others[32], where[192], stretch[96];
    if (straggler->kind == STRAGGLER_LINK) {
        findings_say_link(text, size, analysis, straggler);
        return;
    }
    if (straggler->kind == STRAGGLER_ROTATING) {
        say_rotating(text, size, analysis, straggler);
        return;
    }
    if (straggler->at_times) {
        say_at_times(text, size, analysis, straggler);
        return;
    }
    if (straggler->by_tasks) {
        say_by_tasks(text, size, straggler);
        return;
    }
    const char *part = !straggler->by_steps ? "time batch" : straggler->marked ? "step" : "part";
    const char *parts = !straggler->by_steps ? "batches" : straggler->marked ? "steps" : "parts";
    say_stretch(stretch, sizeof stretch, analysis, straggler);
    say_waited(waited, sizeof waited, straggler);
    say_seconds(longer, sizeof longer, straggler->others_comm_ns);
    say_seconds(window, sizeof window, analysis->window_ns);
    say_seconds(work, sizeof work, straggler->work_ns);
    say_seconds(others, sizeof others, straggler->others_work_ns);
    findings_say_where_late(analysis, straggler, where, sizeof where);
    snprintf(text, size,
             "%s takes %s on average against %s of the others (in the median %s "
             "%.2f times as long; slowest in %.0f of %zu %s); in the %s looked at %s spent %s longer in "
             "communication%s",
             stretch, work, others, part, straggler->slowdown_ratio, straggler->slowest * (double)straggler->batches,
             straggler->batches, parts, window, waited, longer, where);
}

const char *findings_site(const struct straggler_analysis *analysis, const struct straggler *straggler) {
    if (straggler->kind == STRAGGLER_LINK) /* no place in the code makes it slow */
        return NULL;
    struct site_wait wait = hot_site_of(&analysis->waits.sites, straggler->dumps, straggler->dump_count);
    return analysis->labels && wait.key.stack != STACK_NONE
               ? site_label(analysis->labels, wait.key.dump, wait.key.stack)
               : NULL;
}

const char *findings_what_if_site(const struct straggler_analysis *analysis, const struct what_if_site *site) {
    return analysis->labels && site->stack != STACK_NONE ? site_label(analysis->labels, site->dump, site->stack) : NULL;
}

/* What makes some rank late each time. Where ranks outnumber processors nothing else need be looked for. */
static void say_likely_cause(char *text, size_t size, const struct straggler_analysis *analysis) {
    struct crowding crowding;
    if (crowding_find(analysis->clock->dumps, analysis->directory->dump_count, &crowding))
        snprintf(text, size,
                 "%zu ranks share %zu processor%s on %.64s, so that some rank waits for one each time: give each its "
                 "own before anything else is suspected.",
                 crowding.ranks, crowding.processors, crowding.processors > 1 ? "s" : "", crowding.on->host);
    else
        snprintf(text, size, "look for inputs of uneven length, garbage collection, data loaders, checkpoints.");
}

/* Whom more waits go back to than to one that is named: the ranks' table shows it, so the reason is said. NULL: memory
 * is short. */
static size_t *find_costlier(const struct straggler_analysis *analysis, const struct straggler *named, size_t *count) {
    size_t *dumps = malloc((analysis->directory->dump_count + 1) * sizeof *dumps);
    *count = 0;
    for (size_t d = 0; dumps && d < analysis->directory->dump_count; d++)
        if (analysis->delay_costs.ranks[d].delay_cost_ns > analysis->delay_costs.ranks[named->dumps[0]].delay_cost_ns &&
            !straggler_analysis_speaks_of(analysis, d))
            dumps[(*count)++] = d;
    return dumps;
}

static void say_costlier(struct findings *findings, const struct straggler_analysis *analysis,
                         const struct straggler *named, char *text, size_t size) {
    char who[LIST_TEXT];
    bool costs_waits = named->kind == STRAGGLER_RANK && !named->by_tasks;
    size_t count = 0, *dumps = costs_waits ? find_costlier(analysis, named, &count) : NULL;
    findings->no_memory |= costs_waits && !dumps;
    if (count > 0)
        say_dumps(who, sizeof who, analysis->clock, dumps, count);
    if (count > 0 && named->at_times && named->when.without_peer) {
        snprintf(text, size, " More waits go back to %s, which does other work and has no peer to be compared with.",
                 who);
    } else if (count > 0) {
        snprintf(text, size, " More waits go back to %s, which %s not slower than %s peers beyond chance.", who,
                 count > 1 ? "are" : "is", count > 1 ? "their" : "its");
    }
    free(dumps);
}

/* Of ranks that are slow together: that none of them is named by itself. Nothing is said where a communicator tells
 * why. */
static const char *say_within(const struct straggler_analysis *analysis, const struct straggler *group) {
    if (group->communicator != NOWHERE)
        return "";
    for (size_t i = 0; i < analysis->straggler_count; i++)
        for (size_t d = 0; d < group->dump_count && analysis->stragglers[i].kind != STRAGGLER_RANK_CLASS; d++)
            if (straggler_concerns(&analysis->stragglers[i], group->dumps[d]))
                return "";
    return " None of them is slower than its peers.";
}

static void add_straggler(struct findings *findings, const struct straggler_analysis *analysis,
                          const struct straggler *straggler, bool claimed) {
    char who[256], evidence[SENTENCE], cause[256], gain[64] = "", late[240] = "", costlier[288] = "", least[160] = "";
    const char *site = straggler->by_tasks ? NULL : findings_site(analysis, straggler);
    if (site)
        snprintf(late, sizeof late, " It is late most of all at %.160s.", site);
    say_who(who, sizeof who, analysis, straggler);
    findings_evidence(analysis, straggler, evidence, sizeof evidence);
    if (straggler->what_if_speedup >= SPEEDUP_SHOWN) {
        snprintf(gain, sizeof gain, " Without that the job would run %.2f times as fast.", straggler->what_if_speedup);
        findings_say_untimed_replays(analysis, least, sizeof least);
    }
    say_likely_cause(cause, sizeof cause, analysis);
    if (straggler->kind == STRAGGLER_LINK)
        findings_add_link(findings, straggler, evidence, gain, claimed);
    else if (straggler->kind == STRAGGLER_ROTATING)
        findings_add(findings, FINDING_ROTATING,
                     "another rank is slow each time (%s take turns): %s (confidence %.2f).%s No rank or host is to "
                     "blame: %s%s",
                     who, evidence, straggler->confidence > 0.99 ? 0.99 : straggler->confidence, late, cause, gain);
    else if (claimed && straggler->kind == STRAGGLER_RANK_CLASS)
        findings_add(findings, FINDING_UNEVEN,
                     "the work is dealt out unevenly: %s have more of it: %s (confidence %.2f).%s%s", who, evidence,
                     straggler->confidence > 0.99 ? 0.99 : straggler->confidence, say_within(analysis, straggler),
                     gain);
    else if (claimed) {
        say_costlier(findings, analysis, straggler, costlier, sizeof costlier);
        findings_add(findings, FINDING_STRAGGLER, "%s %s: %s (confidence %.2f).%s%s%s%s", who,
                     straggler->by_tasks ? "is a slow worker" : "makes the others wait", evidence,
                     straggler->confidence > 0.99 ? 0.99 : straggler->confidence, late, gain, least, costlier);
    } else
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

/* What mending all of them gives: where they are slow in turn it is more than that of each. */
static void add_together(struct findings *findings, const struct straggler_analysis *analysis) {
    if (analysis->straggler_count > 1 && analysis->named_speedup >= SPEEDUP_SHOWN)
        findings_add(
            findings, FINDING_TOGETHER,
            "without all %zu that are named the job would run %.2f times as fast: where several are slow, mending "
            "one leaves the others.",
            analysis->straggler_count, analysis->named_speedup);
}

/* How slow somebody is whom nobody waits for: "is slow, too (1.20 times as long as its peers)". */
static void say_how_slow(char *text, size_t size, const struct straggler *hidden, const char *too) {
    if (hidden->kind == STRAGGLER_RANK_CLASS && hidden->communicator == NOWHERE)
        snprintf(text, size, "have more of it (%.2f times as long as the others)", hidden->slowdown_ratio);
    else if (hidden->kind == STRAGGLER_RANK_CLASS)
        snprintf(text, size, "are slow%s (%.2f times as long as the others)", too, hidden->slowdown_ratio);
    else if (hidden->at_times && hidden->slowdown_ratio < SLOW_RATIO)
        snprintf(text, size, "is slow at times%s (in %zu of %zu stretches %.2f times as long as its peers)", too,
                 hidden->when.slow_rows, hidden->when.rows, hidden->when.slow_ratio);
    else
        snprintf(text, size, "is slow%s (%.2f times as long as its peers)", too, hidden->slowdown_ratio);
}

static void add_hidden(struct findings *findings, const struct straggler_analysis *analysis) {
    char who[256], slow[128];
    bool others = analysis->straggler_count > 0;
    for (size_t i = 0; i < analysis->hidden_count; i++) {
        const struct straggler *hidden = &analysis->hidden[i];
        say_who(who, sizeof who, analysis, hidden);
        say_how_slow(slow, sizeof slow, hidden, others ? ", too" : "");
        findings_add(findings, FINDING_HIDDEN, "%s %s, but mended alone %s would gain the job nothing: %s.", who, slow,
                     hidden->kind == STRAGGLER_RANK_CLASS ? "they" : "it",
                     others ? "somebody else is there later still" : "the others wait for something else");
    }
}

/* Happens once, so that it proves nobody slow; what-if says what it costs, and the table of operations that all were in
 * MPI_Finalize for so long. */
static void add_late_finalize(struct findings *findings, const struct straggler_analysis *analysis) {
    struct finalize_waits waits;
    char early[256], late[256], waited[32];
    bool done = finalize_waits_find(&waits, analysis->clock);
    findings->no_memory |= !done;
    if (done && waits.late > 0 && waits.late_ns <= analysis->to_ns &&
        waits.waited_ns >= (analysis->to_ns - analysis->from_ns) / VERDICT_SHARE) {
        size_t before = waits.count - waits.late;
        say_processes(early, sizeof early, analysis->clock, waits.dumps, before);
        say_processes(late, sizeof late, analysis->clock, waits.dumps + before, waits.late);
        say_seconds(waited, sizeof waited, waits.waited_ns);
        findings_add(
            findings, FINDING_LATE_FINALIZE,
            "%s waited in MPI_Finalize for %s, which came %s after all others. That is once, at the end of its "
            "work: it says nothing of who is slow before.",
            early, late, waited);
    }
    finalize_waits_free(&waits);
}

static bool is_said_to_be_slow(const struct straggler_analysis *analysis, size_t dump) {
    const struct {
        const struct straggler *items;
        size_t count;
    } said[] = {{analysis->stragglers, analysis->straggler_count},
                {analysis->suspects, analysis->suspect_count},
                {analysis->uneven, analysis->uneven_count}};
    for (size_t s = 0; s < sizeof said / sizeof *said; s++)
        for (size_t i = 0; i < said[s].count; i++)
            for (size_t d = 0; d < said[s].items[i].dump_count; d++)
                if (said[s].items[i].dumps[d] == dump)
                    return true;
    return false;
}

/* A profiler's trace: of a few steps in the midst of a run. */
static bool is_profiled(const struct dump *dump) {
    return dump->header->pid == 0 && dump->header->gpu_timing == GPU_TIMING_KERNEL;
}

/* Pauses of a rank that are most of what the job lost by it: its longest wait alone, or a few stretches in which it
 * worked longer. Half of the longest wait at least is its own work in one piece: in a call that all have come to
 * somebody else may keep it, who is stopped there. Traces of profilers that were started at the same step have none
 * before their first one; a job's processes start when they do. */
static struct pauses pauses_of(struct findings *findings, const struct straggler_analysis *analysis, size_t dump) {
    const struct rank_waits *waits = &analysis->waits.ranks[dump];
    const struct rank_delay_costs *costs = &analysis->delay_costs.ranks[dump];
    bool profiled = is_profiled(analysis->clock->dumps[dump]);
    int64_t longest = waits->longest.length_ns;
    int64_t work =
        profiled && costs->first_wait_ns > costs->longest_work_ns ? costs->first_wait_ns : costs->longest_work_ns;
    struct pauses none = {0};
    if (longest < (profiled ? AWAY_TRACE_NS : AWAY_LEAST_NS) || 2 * work < longest ||
        is_said_to_be_slow(analysis, dump))
        return none;
    struct pauses pauses = pauses_find(analysis, dump, &findings->no_memory);
    if (pauses.count <= 1 && (pauses.count == 1 || 2 * longest >= waits->mended_ns))
        pauses = (struct pauses){1, longest};
    return pauses.in_all_ns >= (analysis->to_ns - analysis->from_ns) / AWAY_SHARE ? pauses : none;
}

static void say_pauses(struct findings *findings, const struct straggler_analysis *analysis, size_t dump,
                       const struct pauses *pauses, int64_t start_ns) {
    const struct longest_wait *longest = &analysis->waits.ranks[dump].longest;
    char waited[32], until[32], all[32], site[192], in_all[32], run[32];
    struct dump_text rank = dump_text(analysis->clock->dumps[dump]);
    struct dump_text other = dump_text(analysis->clock->dumps[longest->dump]);
    say_seconds(waited, sizeof waited, longest->length_ns);
    say_seconds(until, sizeof until, longest->until_ns > start_ns ? longest->until_ns - start_ns : 0);
    say_seconds(all, sizeof all, analysis->waits.ranks[dump].waited_for_ns);
    say_seconds(in_all, sizeof in_all, pauses->in_all_ns);
    say_seconds(run, sizeof run, analysis->to_ns - analysis->from_ns);
    say_site(site, sizeof site, analysis->labels, dump, longest->stack);
    if (pauses->count == 1)
        findings_add(findings, FINDING_ONCE_AWAY,
                     "%s was away once: %s waited %s for it, until %s into the job, when it came%s. All waits for it "
                     "together, summed over ranks, are %s. That is once, and says nothing of who is slow.",
                     rank.text, other.text, waited, until, site, all);
    else
        findings_add(findings, FINDING_FEW_PAUSES,
                     "%s was away %u times: %s in all, of the %s looked at. The longest wait for it was that of %s, "
                     "%s, until %s into the job, when it came%s. All waits for it together, summed over ranks, are "
                     "%s. So few may hit any rank by chance: that is what they cost, and says nothing of who is slow.",
                     rank.text, pauses->count, in_all, run, other.text, waited, until, site, all);
}

/* A few pauses prove nobody slow, however long: how often they would come again is not known. Of several ranks the one
 * that was away for longest. */
static void add_pauses(struct findings *findings, const struct straggler_analysis *analysis, int64_t start_ns) {
    struct pauses most = {0};
    size_t away = 0;
    for (size_t d = 0; d < analysis->directory->dump_count; d++) {
        struct pauses pauses = pauses_of(findings, analysis, d);
        if (pauses.count > 0 && pauses.in_all_ns > most.in_all_ns) {
            most = pauses;
            away = d;
        }
    }
    if (most.count > 0)
        say_pauses(findings, analysis, away, &most, start_ns);
}

/* Before all that is said of who is slow: scheduling may be why. */
static void add_crowding(struct findings *findings, const struct straggler_analysis *analysis) {
    struct crowding crowding;
    if (crowding_find(analysis->clock->dumps, analysis->directory->dump_count, &crowding))
        findings_add(
            findings, FINDING_OVERSUBSCRIBED,
            "%zu ranks share the %zu processor%s that they may run on, on %.64s: they also wait for these, "
            "which looks like slow ranks and slow messages. Who is mended leaves its processor to others, which "
            "no replay knows: what mending gives may be more than is said, or less.",
            crowding.ranks, crowding.processors, crowding.processors > 1 ? "s" : "", crowding.on->host);
}

void findings_add_stragglers(struct findings *findings, const struct straggler_analysis *analysis, bool kept,
                             int64_t start_ns) {
    add_crowding(findings, analysis);
    for (size_t i = 0; i < analysis->straggler_count; i++)
        add_straggler(findings, analysis, &analysis->stragglers[i], true);
    findings_add_groups(findings, analysis);
    add_uneven(findings, analysis);
    for (size_t i = 0; i < analysis->suspect_count; i++)
        add_straggler(findings, analysis, &analysis->suspects[i], false);
    add_together(findings, analysis);
    add_hidden(findings, analysis);
    findings_add_untimed_replays(findings, analysis);
    add_late_finalize(findings, analysis);
    add_pauses(findings, analysis, start_ns);
    if (analysis->judgement == JUDGED_TOO_SHORT) /* 10 ms: BATCH_NS_LEAST */
        findings_add(findings, FINDING_TOO_SHORT,
                     "too short to judge who is slow: the ranks can be compared in %zu part%s of the run of 10 ms or "
                     "more, of one collective or message each at least, %d are needed (what comes before the first "
                     "does not count).",
                     analysis->batches, analysis->batches == 1 ? "" : "s", TIME_BATCHES_MIN);
    else if (analysis->judgement == JUDGED_UNLIKE)
        findings_add(
            findings, FINDING_NOTHING_ALIKE,
            "nobody can be called slow: of two ranks one works, most of the time, less than a hundredth of what "
            "the other does, as a master who only hands out work. They do different work, and there is no "
            "third to compare one of them with.");
    else if (analysis->judgement == JUDGED_NO_COLLECTIVE && kept)
        findings_add(
            findings, FINDING_NO_COLLECTIVES,
            "no collectives or messages that several of the recorded ranks take part in, often enough to compare "
            "them: who is slow cannot be judged.");
}
