/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/side_by_side.h"

#include <pthread.h>

struct shared_work {
    side_by_side_task *task;
    void *context;
    size_t count, next;
};

static void *do_tasks(void *argument) {
    struct shared_work *work = argument;
    for (size_t i; (i = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->count;)
        work->task(work->context, i);
    return NULL;
}

void side_by_side(unsigned threads, size_t count, side_by_side_task *task, void *context) {
    struct shared_work work = {task, context, count, 0};
    pthread_t started[SIDE_BY_SIDE_MOST];
    size_t others = 0, wanted = threads < SIDE_BY_SIDE_MOST ? threads : SIDE_BY_SIDE_MOST;
    wanted = wanted < count ? wanted : count;
    while (others + 1 < wanted && pthread_create(&started[others], NULL, do_tasks, &work) == 0)
        others++;
    do_tasks(&work);
    for (size_t i = 0; i < others; i++)
        pthread_join(started[i], NULL);
}
