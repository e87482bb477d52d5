/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: the words. Must not live here: judging.
 */
#include "analyzer/findings/live_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/findings/words.h"

enum { CULPRITS_NAMED = 3 };

void live_text_doing(char *text, size_t size, const struct live_row *row) {
    static const char *const words[] = {[LIVE_COMPUTING] = "computing",
                                        [LIVE_STARTING] = "starting",
                                        [LIVE_FINALIZING] = "finalizing",
                                        [LIVE_FINISHED] = "finished",
                                        [LIVE_ABORTED] = "called MPI_Abort",
                                        [LIVE_EXITED] = "exited",
                                        [LIVE_GONE] = "gone (killed, or left by _exit)",
                                        [LIVE_NO_DUMP] = "no dump here"};
    text[0] = '\0';
    if (row->state == LIVE_NOT_REACHABLE)
        snprintf(text, size, "on %s, not reachable", row->host);
    else if (row->state == LIVE_STOPPED)
        snprintf(text, size, "stopped by a signal%s%s", row->call[0] ? ", in " : "", row->call);
    else if (row->state == LIVE_POLLING)
        snprintf(text, size, "polling%s%s", row->call[0] ? ", " : "", row->call);
    else if (row->state == LIVE_WAITING || row->state == LIVE_IN_CALL)
        snprintf(text, size, "%s", row->call[0] ? row->call : "in a call"); /* which it was just entering */
    else
        snprintf(text, size, "%s", words[row->state]);
}

static size_t count_hosts(const struct job *job) {
    size_t count = 0;
    for (size_t d = 0; d < job->count; d++) {
        size_t first = 0;
        while (strcmp(job->dumps[first]->boot_id, job->dumps[d]->boot_id) != 0)
            first++;
        count += first == d;
    }
    return count;
}

static void say_job(char *text, const struct live_summary *summary, const struct live_rows *rows,
                    const struct job *job) {
    size_t hosts = count_hosts(job), absent = rows->count - summary->reachable;
    size_t unlisted = rows->missing > LIVE_MISSING_MOST ? rows->missing - LIVE_MISSING_MOST : 0;
    text[0] = '\0';
    phrase(text, LIVE_LINE, "run %s: %zu rank%s", job->count ? job->dumps[0]->run_id : "-", summary->reachable,
           summary->reachable == 1 ? "" : "s");
    if (job->count > 0)
        phrase(text, LIVE_LINE, " on %zu host%s, %zu alive", hosts, hosts == 1 ? "" : "s", summary->alive);
    if (absent + unlisted > 0)
        phrase(text, LIVE_LINE, "; %zu more are not seen from here", absent + unlisted);
}

static const char *doing_of(const struct live_culprit *culprit) {
    static const char *const words[] = {
        [CULPRIT_NEVER_ENTERED] = "has not come to it", [CULPRIT_BLOCKED] = "has not come out of it",
        [CULPRIT_MISMATCH] = "calls something else",    [CULPRIT_DEAD] = "is dead",
        [CULPRIT_NO_DUMP] = "has left no dump here",    [CULPRIT_IN_USER_CODE] = "is in its own code",
        [CULPRIT_FINALISED] = "had finished",           [CULPRIT_NOT_COLLECTED] = "is not seen from here"};
    return culprit->stopped ? "is stopped by a signal" : words[culprit->state];
}

/* As the first words of `commtap diagnose`. */
static void say_verdict(char *text, const struct live_summary *summary) {
    static const char *const names[] = {[VERDICT_HANG] = "hang",
                                        [VERDICT_DESYNC] = "desync",
                                        [VERDICT_DEADLOCK] = "deadlock",
                                        [VERDICT_DEAD_RANK] = "dead rank",
                                        [VERDICT_UNKNOWN] = "unknown"};
    text[0] = '\0';
    if (!summary->judged || summary->verdict == VERDICT_OK)
        return;
    phrase(text, LIVE_LINE, "%s%s", names[summary->verdict],
           summary->untold          ? ", unless it was killed at work"
           : summary->may_come_back ? ", or a long pause"
                                    : "");
    const bool circle = summary->verdict == VERDICT_DEADLOCK;
    for (size_t i = 0; i < summary->culprit_count && i < CULPRITS_NAMED; i++)
        phrase(text, LIVE_LINE, "%s rank %" PRId32 "%s%s", i ? "," : ":", summary->culprits[i].rank, circle ? "" : " ",
               circle ? "" : doing_of(&summary->culprits[i]));
    if (summary->culprit_count > CULPRITS_NAMED)
        phrase(text, LIVE_LINE, " and %zu more", summary->culprit_count - CULPRITS_NAMED);
    if (circle)
        phrase(text, LIVE_LINE, " wait for each other");
}

static void say_state(char *text, const struct live_summary *summary) {
    char time[32];
    text[0] = '\0';
    if (summary->alive == 0) {
        phrase(text, LIVE_LINE,
               summary->reachable > 0 ? "none of its ranks is at work any more" : "nothing is known of it");
    } else if (summary->interval_ns <= 0) {
        phrase(text, LIVE_LINE, "looked at once so far: no rates yet");
    } else if (summary->moved > 0) {
        say_seconds(time, sizeof time, summary->interval_ns);
        phrase(text, LIVE_LINE, "%zu of %zu ranks came on in the last %s", summary->moved, summary->alive, time);
    } else {
        say_seconds(time, sizeof time, summary->standing_ns);
        phrase(text, LIVE_LINE, "nothing has moved for %s", time);
    }
    if (summary->paused > 0)
        phrase(text, LIVE_LINE, "; recording is paused by commtap ctl on %zu rank%s", summary->paused,
               summary->paused == 1 ? "" : "s");
}

static void say_awaited(char *text, const struct live_row *row) {
    char doing[96], time[32];
    text[0] = '\0';
    if (!row)
        return;
    live_text_doing(doing, sizeof doing, row);
    phrase(text, LIVE_LINE, "%" PRId64 " wait for rank %" PRId32 ": %s", row->waited_by, row->rank, doing);
    if (row->since_ns < 0)
        return;
    say_seconds(time, sizeof time, row->since_ns);
    phrase(text, LIVE_LINE, " since %s", time);
}

void live_text_make(struct live_text *text, const struct live_summary *summary, const struct live_rows *rows,
                    const struct job *job) {
    say_job(text->job, summary, rows, job);
    say_state(text->state, summary);
    say_verdict(text->verdict, summary);
    say_awaited(text->awaited, summary->awaited);
    text->alarm = summary->judged && summary->verdict != VERDICT_OK;
}
