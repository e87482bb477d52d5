/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/conclusions.h"

#include "analyzer/cli/changes.h"
#include "analyzer/cli/input.h"
#include "analyzer/findings/findings_endings.h"

/* Of a process on another host nothing is seen from here, until its dump is looked at twice: then who came on, or noted
 * a beat, lives. */
static void revive(struct session *session, const struct diagnosis *diagnosis) {
    struct job *job = &session->job;
    bool any = false;
    for (size_t d = 0; d < job->count && d < diagnosis->world.dump_count; d++) {
        enum process_state process = diagnosis->world.parties[d].process;
        enum rank_end *end = &job->ends[job->process_of[d]];
        if ((process != PROCESS_RUNS && process != PROCESS_STOPPED) || (*end != END_KILLED && *end != END_IN_FINALIZE))
            continue;
        *end = END_RUNNING;
        any = true;
    }
    if (any)
        findings_renew_endings(&session->findings, job, &session->analysis, session->start_ns);
}

int conclusions_add_diagnosis(struct session *session, const struct options *options, struct diagnosis *diagnosis,
                              struct diagnosis_text *told) {
    int code = watch_job(diagnosis, told, &session->job, 1, session->labels);
    if (team_is_shared(options->team)) /* each has looked for itself */
        code = changes_agree(options->team, code);
    if (code != EXIT_FINE)
        return code;
    revive(session, diagnosis);
    if (diagnosis->verdict == VERDICT_DESYNC) /* the same, of collectives whose records were matched */
        findings_drop(&session->findings, FINDING_DESYNC);
    findings_put_diagnosis(&session->findings, diagnosis, told);
    return session->findings.no_memory ? input_no_memory() : EXIT_FINE;
}

enum { STEP_RECORDS_MOST = 2 << 20 }; /* of more, `commtap steps` has to be asked */

int conclusions_add_advice(struct session *session, const struct options *options, const struct advice_limits *limits) {
    advice_add_links(&session->findings, &session->analysis.links, limits);
    if (session->job.events - session->job.events_lost > STEP_RECORDS_MOST)
        return session->findings.no_memory ? input_no_memory() : EXIT_FINE;
    struct steps steps;
    const struct steps_request request = {
        .marker = &session->selection.marker, .team = options->team, .threads = session_workers(options)};
    bool done = steps_find_as_asked(&steps, &session->clock, &request);
    if (done)
        scope_keep_steps(&session->scope, &steps);
    if (done)
        advice_add(&session->findings, &steps, &session->job, session->analysis.stage_of, limits);
    steps_free(&steps);
    return done && !session->findings.no_memory ? EXIT_FINE : input_no_memory();
}
