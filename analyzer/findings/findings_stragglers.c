/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings_stragglers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/findings/findings_gpu.h"
#include "analyzer/findings/findings_links.h"
#include "analyzer/findings/words.h"
#include "analyzer/waits/hot_sites.h"

enum { LIST_TEXT = 160, SENTENCE = 512 };

static void say_who(char *text, size_t size, const struct straggler_analysis *analysis,
                    const struct straggler *straggler) {
    const char *host = analysis->clock->dumps[straggler->dumps[0]]->host;
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
    return analysis->labels && wait.key.stack != STACK_NONE
               ? site_label(analysis->labels, wait.key.dump, wait.key.stack)
               : NULL;
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

void findings_add_stragglers(struct findings *findings, const struct straggler_analysis *analysis) {
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
