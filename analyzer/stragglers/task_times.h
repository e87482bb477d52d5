/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow workers of a master that deals out tasks to whoever is free.
 * Lives here: whether a worker takes longer for its tasks than the others, and what the job would gain if it did not.
 * Must not live here: which ranks are workers (message_cuts.h), masters that cannot keep up (verdicts.h).
 *
 * Nobody waits for a slow worker, which gets fewer tasks: it is told by the own time from one result to the next. All
 * tasks are ranked (F. Wilcoxon, Individual Comparisons by Ranking Methods, Biometrics Bulletin 1(6), 1945), so that
 * they may be of any length as long as who gets which is chance, and a worker's mean rank is compared with that of all
 * others, by how much the means of parts of the run differ (Student). Where parts that follow each other resemble each
 * other they count for fewer.
 */
#ifndef COMMTAP_STRAGGLERS_TASK_TIMES_H
#define COMMTAP_STRAGGLERS_TASK_TIMES_H

#include "analyzer/stragglers/stragglers.h"

/* Names workers in addition to those that are named already, when the gains of these are known. A worker whose tasks
 * take SLOW_RATIO times as long in the median and on average, beyond chance, is named where the job would take a
 * hundredth less time. With it mended all workers together get so many more tasks done in the same time, but not more
 * than the master has time to hand out. Returns false when memory is short. */
bool task_times_judge(struct straggler_analysis *analysis);

#endif
