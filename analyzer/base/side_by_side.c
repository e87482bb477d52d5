/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/side_by_side.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

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

/* ---- crews ------------------------------------------------------------------------------------------------------- */

struct crew {
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t more;  /* there are tasks to take, or the crew ends */
    pthread_cond_t done;  /* the last task is done */
    side_by_side_task *task;
    void *context;
    size_t count, next, left; /* tasks: all, the next to take, those that are not done */
    bool ends;
    size_t others; /* threads beside the calling one */
    pthread_t started[SIDE_BY_SIDE_MOST];
};

/* Takes tasks while there are some; called, and returns, with the lock held. */
static void take_tasks(struct crew *crew) {
    while (crew->next < crew->count) {
        size_t number = crew->next++;
        side_by_side_task *task = crew->task;
        void *context = crew->context;
        pthread_mutex_unlock(&crew->lock);
        task(context, number);
        pthread_mutex_lock(&crew->lock);
        if (--crew->left == 0)
            pthread_cond_signal(&crew->done);
    }
}

static void *serve(void *argument) {
    struct crew *crew = argument;
    pthread_mutex_lock(&crew->lock);
    while (!crew->ends) {
        take_tasks(crew);
        if (!crew->ends)
            pthread_cond_wait(&crew->more, &crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

struct crew *crew_begin(unsigned threads) {
    size_t wanted = threads < SIDE_BY_SIDE_MOST ? threads : SIDE_BY_SIDE_MOST;
    struct crew *crew = wanted > 1 ? calloc(1, sizeof *crew) : NULL;
    if (!crew)
        return NULL;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->more, NULL);
    pthread_cond_init(&crew->done, NULL);
    while (crew->others + 1 < wanted && pthread_create(&crew->started[crew->others], NULL, serve, crew) == 0)
        crew->others++;
    return crew;
}

void crew_do(struct crew *crew, size_t count, side_by_side_task *task, void *context) {
    if (!crew) {
        side_by_side(1, count, task, context);
        return;
    }
    pthread_mutex_lock(&crew->lock);
    crew->task = task;
    crew->context = context;
    crew->count = crew->left = count;
    crew->next = 0;
    if (count > 1)
        pthread_cond_broadcast(&crew->more);
    take_tasks(crew);
    while (crew->left > 0)
        pthread_cond_wait(&crew->done, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

void crew_end(struct crew *crew) {
    if (!crew)
        return;
    pthread_mutex_lock(&crew->lock);
    crew->ends = true;
    pthread_cond_broadcast(&crew->more);
    pthread_mutex_unlock(&crew->lock);
    for (size_t i = 0; i < crew->others; i++)
        pthread_join(crew->started[i], NULL);
    pthread_cond_destroy(&crew->done);
    pthread_cond_destroy(&crew->more);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}
