// SPDX-License-Identifier: Apache-2.0
#include "test/campaign/work.h"

#include <time.h>

double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

// Each turn needs the result of the one before: what else a core does beside it hardly changes how long that takes.
static void turn(double turns) {
    volatile double result;
    double value = turns; // no constant: the compiler would work the loop out beforehand
    for (long i = 0; i < (long)turns; i++)
        value = value * 0.999999 + 1e-6;
    result = value;
    (void)result;
}

double calibrate(void) {
    const double turns = 2e6;
    double best = 0;
    for (int i = 0; i < 8; i++) {
        double start = now_us();
        turn(turns);
        double rate = turns / (now_us() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

void spin(const struct job *job, double us) {
    turn(us * job->turns_per_us);
}

// A function of its own, as the programs have it that one would want to see named.
__attribute__((noinline)) static void write_checkpoint(const struct job *job, double us) {
    spin(job, us);
}

void do_base_work(struct job *job, int step, int index) {
    double planned = job->plan.base_us[index], start = now_us();
    spin(job, planned);
    job->done[job->done_count++] = (struct clocked){.step = step, .planned_us = planned, .base_us = now_us() - start};
}

void do_extra_work(struct job *job, int step, int index) {
    double extra = job->mended ? 0 : plan_extra_us(&job->plan, step, index), start = now_us();
    if (extra <= 0)
        return;
    if (job->plan.fault == FAULT_CHECKPOINT)
        write_checkpoint(job, extra);
    else
        spin(job, extra);
    job->done[job->done_count - 1].extra_us = now_us() - start;
    job->done[job->done_count - 1].planned_us += extra;
}

void do_work(struct job *job, int step, int index) {
    do_base_work(job, step, index);
    do_extra_work(job, step, index);
}
