/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that sentences of all kinds are made of: ranks, times, communicators.
 * Lives here: how one such thing is said. Must not live here: sentences; layout, escaping (render/).
 *
 * All cut to `size`, which is at least 1.
 */
#ifndef COMMTAP_FINDINGS_WORDS_H
#define COMMTAP_FINDINGS_WORDS_H

#include "analyzer/align/common_clock.h"
#include "analyzer/job/coverage.h"
#include "analyzer/symbols/site_labels.h"

#define SPEEDUP_SHOWN 1.005 /* rounds to 1.01 */

/* Appends to `text`. */
__attribute__((format(printf, 3, 4))) void phrase(char *text, size_t size, const char *format, ...);

/* "rank 3"; "rank ?" where it is not known. For an argument: rank_text(rank).text */
struct rank_text {
    char text[20];
};
struct rank_text rank_text(int32_t rank);

/* Who a dump is of: "rank 3", or "rank 0 GPU 3 (0000:41:00.0)" where it is one GPU of a process that has several. For
 * an argument: dump_text(dump).text */
struct dump_text {
    char text[64];
};
struct dump_text dump_text(const struct dump *dump);

/* A process that used NCCL and never MPI: MPI's functions are no words for how it began and ended. */
bool is_nccl_alone(const struct dump *dump);

/* "rank 3", "ranks 0-2, 5", "ranks 0-4, 9, 11 and 20 more"; ranks ascend, an unknown rank is "?". */
void say_ranks(char *text, size_t size, const int32_t *ranks, size_t count);
/* The same of the processes that dumps of the clock are of. */
void say_processes(char *text, size_t size, const struct common_clock *clock, const size_t *dumps, size_t count);
/* The same of dumps of the clock, of which some may be one GPU of a process: "rank 0 GPU 3 (0000:41:00.0)", "rank 0 GPU
 * 1, rank 1 GPUs 0-3". */
void say_dumps(char *text, size_t size, const struct common_clock *clock, const size_t *dumps, size_t count);

/* "12.3 ms", "4.0 s". */
void say_seconds(char *text, size_t size, int64_t ns);

enum { DATE_TEXT = 32 };
/* "2026-11-22 17:25:32 UTC". False, and an empty text, where the moment (CLOCK_REALTIME) is not known: INT64_MIN, or
 * before the first year of Unix is over, as traces have it that count from 0. */
bool say_date(char text[DATE_TEXT], int64_t realtime_ns);

/* " at train_step (train.py:42)"; nothing where the call site is not known or `labels` is NULL. */
void say_site(char *text, size_t size, struct site_labels *labels, size_t dump, uint32_t stack);

/* Its name, or "communicator 00000000deadbeef" where it has none. */
void say_communicator(char *text, size_t size, const char *name, uint64_t uid);

enum { COVERAGE_TEXT = 96 };
/* " (From the last 12 % of the events.)"; nothing where it need not be said: all is there, or the evidence is other
 * than events. */
void coverage_say(char *text, size_t size, const struct coverage *coverage, enum evidence evidence);

/* What the totals do not hold, or hold alone, as the rest of a sentence: "do not hold every call". NULL: they hold
 * every call of the job. */
const char *totals_lack(const struct job *job);

#endif
