/* SPDX-License-Identifier: Apache-2.0
 *
 * Sharing work among threads.
 * Lives here: the one way in which the analyzer does things at the same time: numbered tasks, each taken by the next
 * thread that is free. A crew is threads that stay for the next tasks: starting them takes as long as a short stage.
 * Must not live here: what the tasks are, how many threads are wanted (cli/session.h).
 *
 * A task writes what no other one reads or writes, and what it writes does not depend on the thread that does it: so
 * results are the same for any number of threads.
 */
#ifndef COMMTAP_BASE_SIDE_BY_SIDE_H
#define COMMTAP_BASE_SIDE_BY_SIDE_H

#include <stddef.h>

enum { SIDE_BY_SIDE_MOST = 128 }; /* threads of one call */

typedef void side_by_side_task(void *context, size_t number);

/* Does the tasks 0 .. count - 1, each once, on up to `threads` threads (at most SIDE_BY_SIDE_MOST) with the calling
 * one among them, and returns when all are done. They are begun in the order of their numbers: the longest are best
 * the first. Where a thread cannot be started those that run do its part. Tasks may themselves call this. */
void side_by_side(unsigned threads, size_t count, side_by_side_task *task, void *context);

/* Threads that do one set of tasks after the other. */
struct crew;

/* A crew of up to `threads` threads, at most SIDE_BY_SIDE_MOST and the calling one among them; ended with crew_end.
 * NULL, which the other two accept, where that is the calling one alone, or memory is short. */
struct crew *crew_begin(unsigned threads);

/* As side_by_side, on the crew's threads. Only who began the crew may call this, and not from within a task. */
void crew_do(struct crew *crew, size_t count, side_by_side_task *task, void *context);

void crew_end(struct crew *crew);

#endif
