/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/findings.h"

#include <inttypes.h>
#include <string.h>

#include "analyzer/findings/findings_endings.h"
#include "analyzer/findings/findings_generations.h"
#include "analyzer/findings/findings_gpu.h"
#include "analyzer/findings/findings_left_out.h"
#include "analyzer/findings/findings_nccl.h"
#include "analyzer/findings/findings_stragglers.h"
#include "analyzer/findings/words.h"

enum { LIST_TEXT = 160, FINDING_IDS = 400 };

static void add_desync(struct findings *findings, const struct straggler_analysis *analysis) {
    const struct first_mismatch *first = &analysis->waits.mismatch;
    if (!first->any)
        return;
    const struct match_call *calls = analysis->directory->calls;
    char name[80];
    const char *call = first->call == CALL_UNKNOWN ? "an unknown call" : calls[first->call].name->name;
    const char *other = first->other_call == CALL_UNKNOWN ? "an unknown call" : calls[first->other_call].name->name;
    char here[192], there[192] = "";
    say_site(here, sizeof here, analysis->labels, first->other_dump, first->other_stack);
    if (first->dump != SIZE_MAX)
        say_site(there, sizeof there, analysis->labels, first->dump, first->stack);
    say_communicator(name, sizeof name, first->communicator->name, first->communicator->uid);
    findings_add(findings, FINDING_DESYNC,
                 "the ranks disagree about collective #%" PRIu32 " on %s: %s called %s%s, %" PRIu32 " of %" PRIu32
                 " members called %s%s (%" PRIu64 " such collectives).",
                 first->seq, name, dump_text(analysis->clock->dumps[first->other_dump]).text, other, here,
                 first->seen - first->others, first->seen, call, there, analysis->totals.mismatches);
}

/* One rank was refused what the others did: it is behind by that, and nobody else is to blame for what follows. */
static void add_refused(struct findings *findings, const struct straggler_analysis *analysis) {
    const struct match_slip *slip = &analysis->totals.first_slip;
    char name[80];
    if (!analysis->totals.slips)
        return;
    const struct match_communicator *on = &analysis->directory->communicators[slip->communicator.communicator];
    say_communicator(name, sizeof name, on->name, on->uid);
    findings_add(findings, FINDING_REFUSED,
                 "on %s %s returned an error where others took part in it as collective #%" PRIu32
                 " on %s: from there on that rank's collectives are counted one further (%" PRIu64 " such calls).",
                 dump_text(analysis->clock->dumps[slip->dump]).text, analysis->directory->calls[slip->call].name->name,
                 slip->seq, name, analysis->totals.slips);
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

/* Read where they lie, while they last. */
static void say_staged(struct findings *findings, const struct dump_set *set, const struct job *job) {
    size_t staged = 0;
    const struct dump *first = NULL;
    for (size_t d = job->process_count; d-- > 0;)
        if (dump_set_is_staged(set, job->processes[d]) && job->ends[d] != END_RUNNING) {
            first = job->processes[d];
            staged++;
        }
    bool many = staged > 1;
    if (staged > 0)
        findings_add(findings, FINDING_UNCOLLECTED,
                     "%zu dump%s where %s staged (first: %.200s), to be lost when %s host restarts. Collect with "
                     "commtap collect.",
                     staged, many ? "s lie" : " lies", many ? "they were" : "it was", first->path,
                     many ? "their" : "its");
}

static void add_absent(struct findings *findings, const struct dump_set *set, const struct job *job) {
    char who[LIST_TEXT];
    if (job->missing_count > 0) {
        bool many = job->missing_count > 1, in_init = false, nccl_alone = true;
        for (size_t d = 0; d < job->process_count; d++) {
            in_init |= job->ends[d] == END_IN_INIT;
            nccl_alone &= is_nccl_alone(job->processes[d]);
        }
        say_ranks(who, sizeof who, job->missing, job->missing_count);
        findings_add(findings, FINDING_MISSING_RANKS,
                     "%s left no dump here (%" PRId32
                     " expected, %zu seen): what %s did, and what the others waited for %s, is "
                     "not known.%s%s%s",
                     who, job->ranks_expected, job->process_count, many ? "they" : "it", many ? "them" : "it",
                     !in_init ? ""
                     : many   ? " They may never have "
                              : " It may never have ",
                     !in_init     ? ""
                     : nccl_alone ? "made a communicator"
                                  : "called MPI_Init",
                     in_init ? "." : "");
    }
    say_stubs(findings, set);
    say_staged(findings, set, job);
    if (set->unusable_count > 0)
        findings_add(findings, FINDING_UNUSABLE_FILES, "%zu file%s cannot be used (first: %.200s: %.160s).",
                     set->unusable_count, set->unusable_count > 1 ? "s" : "", set->unusable[0]->path,
                     set->unusable[0]->problems.count ? set->unusable[0]->problems.items[0].text : "damaged");
    size_t damaged = 0;
    for (size_t d = 0; d < job->process_count; d++)
        damaged += job->processes[d]->problems.count > 0;
    if (damaged > 0)
        findings_add(findings, FINDING_DAMAGED_FILES,
                     "%zu dump%s damage; what is sound in them is used (commtap check says what).", damaged,
                     damaged > 1 ? "s show" : " shows");
    if (job->duplicates > 0)
        findings_add(findings, FINDING_DUPLICATES,
                     "%zu dump%s the same run, generation and rank as another and %s left out.", job->duplicates,
                     job->duplicates > 1 ? "s have" : " has", job->duplicates > 1 ? "are" : "is");
}

enum { IDS_SAID = 6 };

/* The ids of other jobs, the newest first: those of this run where `of_run`, else one of each other run's. */
static void say_other_ids(char *text, size_t size, const struct job *job, const struct dump_set *set, bool of_run) {
    size_t said = 0;
    const char *run = job->processes[0]->run_id;
    for (size_t i = job->list.count; i-- > 0;) {
        const struct listed_job *other = &job->list.items[i];
        const char *its_run = set->dumps[other->first]->run_id;
        bool last_of_run =
            i + 1 == job->list.count || strcmp(set->dumps[job->list.items[i + 1].first]->run_id, its_run) != 0;
        bool wanted =
            of_run ? other != job->listed && strcmp(its_run, run) == 0 : last_of_run && strcmp(its_run, run) != 0;
        if (wanted && said++ < IDS_SAID)
            phrase(text, size, "%s%s", said > 1 ? ", " : "", of_run ? other->id : its_run);
    }
    if (said > IDS_SAID)
        phrase(text, size, " ... (--run with a wrong id lists all)");
}

void findings_add_choice(struct findings *findings, const struct dump_set *set, const struct job *job) {
    const struct dump *dump = job->processes[0];
    const char *id = job->listed->id;
    char runs[FINDING_IDS] = "", jobs[FINDING_IDS] = "";
    say_other_ids(runs, sizeof runs, job, set, false);
    say_other_ids(jobs, sizeof jobs, job, set, true);
    if (job->runs > 1)
        findings_add(findings, FINDING_SEVERAL_RUNS,
                     "%zu runs lie here; this is the newest or the one asked for, %s. --run shows another: %s.",
                     job->runs, dump->run_id, runs);
    if (job->launches > 1)
        findings_add(findings, FINDING_SEVERAL_LAUNCHES,
                     "%zu jobs were launched one after the other in this run; this is the newest or the one asked "
                     "for, %s, alone. --run shows another: %s.",
                     job->launches, id, jobs);
    if (job->generations > 1)
        findings_add(findings, FINDING_SEVERAL_GENERATIONS,
                     "the job was restarted: %zu generations are on record, this is number %u. "
                     "--run shows another: %s.",
                     job->generations, job->listed->generation, jobs);
    if (job->worlds > 1)
        findings_add(findings, FINDING_SEVERAL_WORLDS,
                     "%zu programs ran side by side in this run; this is the one with the most ranks or the one asked "
                     "for, %s. --run shows another: %s.",
                     job->worlds, id, jobs);
}

static void add_places(struct findings *findings, const struct job *job) {
    size_t in_memory = 0;
    for (size_t d = 0; d < job->process_count; d++)
        in_memory += job->processes[d]->header->place == PLACE_MEMORY;
    if (in_memory > 0)
        findings_add(findings, FINDING_KEPT_IN_MEMORY,
                     "%zu rank%s found no room for a mapped dump and kept it in memory until the end: had %s been "
                     "killed, nothing would be left of it.",
                     in_memory, in_memory > 1 ? "s" : "", in_memory > 1 ? "one of them" : "it");
}

static size_t without_records(const struct job *job) {
    size_t without = 0;
    for (size_t d = 0; d < job->process_count; d++)
        without += job->processes[d]->header->keep == KEEP_SUMMARY;
    return without;
}

static void add_kept(struct findings *findings, const struct job *job) {
    size_t without = without_records(job);
    if (without > 0)
        findings_add(
            findings, FINDING_RECORDS_NOT_KEPT,
            "%zu rank%s kept totals and no single calls (COMMTAP_KEEP=summary): waits, stragglers, steps, slow "
            "links and what-if cannot be told of %s.",
            without, without > 1 ? "s" : "", without > 1 ? "them" : "it");
}

static bool calls_are_lost(const struct job *job) {
    return job->losses.of[LOSS_OPERATIONS] > 0 || job->losses.of[LOSS_TABLES] > 0;
}

/* Tables of totals that found no room: nothing in the report has those calls. */
static void add_lost_calls(struct findings *findings, const struct job *job) {
    uint64_t calls = job->losses.of[LOSS_OPERATIONS], tables = job->losses.of[LOSS_TABLES];
    char what[64] = "";
    if (calls > 0)
        phrase(what, sizeof what, "%" PRIu64 " calls", calls);
    if (tables > 0)
        phrase(what, sizeof what, "%swhat %" PRIu64 " table%s held", calls > 0 ? " and " : "", tables,
               tables > 1 ? "s" : "");
    if (what[0])
        findings_add(findings, FINDING_TOTALS_INCOMPLETE, "%s %s in no total: %s. Counts, times and bytes are too low.",
                     what, calls > 0 ? "are" : "is",
                     job->losses.of[LOSS_QUOTA] > 0 ? "COMMTAP_QUOTA or COMMTAP_NODE_QUOTA left no room"
                                                    : "their tables found no room in the dumps, or were full");
}

/* Of imports it is those of which nothing could be read. */
static void add_switched_off(struct findings *findings, const struct job *job) {
    const struct dump *first_off = NULL;
    size_t off = 0;
    for (size_t d = 0; d < job->process_count; d++)
        if (job->processes[d]->header->state & STATE_SWITCHED_OFF) {
            first_off = first_off ? first_off : job->processes[d];
            off++;
        }
    if (off > 0 && first_off->header->pid == 0)
        findings_add(findings, FINDING_SWITCHED_OFF,
                     "nothing is known of what %zu rank%s did (%s: %s): no figure holds it.", off, off > 1 ? "s" : "",
                     rank_text(first_off->header->rank).text, first_off->trouble);
    else if (off > 0)
        findings_add(findings, FINDING_SWITCHED_OFF,
                     "recording switched itself off on %zu rank%s (%s: %s): figures end there.", off,
                     off > 1 ? "s" : "", rank_text(first_off->header->rank).text, first_off->trouble);
}

static void add_recording(struct findings *findings, const struct job *job, const struct straggler_analysis *analysis) {
    add_switched_off(findings, job);
    add_places(findings, job);
    add_kept(findings, job);
    add_lost_calls(findings, job);
    uint64_t overwritten = job_overwritten(job);
    if (overwritten > 0)
        findings_add(findings, FINDING_EVENTS_LOST,
                     "%" PRIu64 " of %" PRIu64
                     " events were overwritten: waits and stragglers are judged from the rest "
                     "(%s)%s.",
                     overwritten, job->events,
                     job->losses.of[LOSS_QUOTA] > 0 ? "COMMTAP_QUOTA or COMMTAP_NODE_QUOTA allows no more"
                                                    : "COMMTAP_RING holds more",
                     calls_are_lost(job) ? "" : "; totals do not depend on them");
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
            "the clocks of some %s cannot be compared (no common collectives): waits between them are not known.",
            common_clock_known_hosts(analysis->clock) > 0 ? "hosts" : "ranks");
}

void findings_collect(struct findings *findings, const struct dump_set *set, const struct job *job,
                      const struct straggler_analysis *analysis) {
    int64_t start_ns, end_ns;
    job_span(job, analysis->clock, &start_ns, &end_ns);
    *findings = (struct findings){.coverage = coverage_of(job, start_ns, analysis->from_ns, analysis->to_ns)};
    add_desync(findings, analysis);
    add_refused(findings, analysis);
    findings_add_endings(findings, job, analysis, start_ns);
    findings_add_stragglers(findings, analysis, without_records(job) < job->process_count, start_ns);
    add_absent(findings, set, job);
    add_recording(findings, job, analysis);
    findings_add_generations(findings, set, job);
    findings_add_left_out(findings, job);
    findings_add_nccl(findings, job);
    findings_add_gpu(findings, job, analysis);
    findings_add_choice(findings, set, job);
    findings_sort(findings);
}
