/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a diagnosis takes at scale, and whether it is right: one line per made-up scene.
 * Must not live here: the scenes (test/scenes/hang.c).
 *
 *   hangs [RANKS]     default 16384
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analyzer/findings/diagnosis_text.h"
#include "test/scenes/hang.h"

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    static const enum fault faults[] = {FAULT_STOP,      FAULT_RING,        FAULT_OPERATION,      FAULT_WILDCARD,
                                        FAULT_NCCL_STOP, FAULT_NCCL_STREAM, FAULT_NCCL_TRANSPORT, FAULT_NCCL_OPERATION,
                                        FAULT_NCCL_SWAP, FAULT_MIXED_CIRCLE};
    unsigned ranks = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 16384;
    int wrong = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct hang_scene scene = {
            .seed = 7 + i, .ranks = ranks, .before = 2, .after = 2, .fault = faults[i], .ring_records = 16};
        struct hang_job made;
        struct job job;
        struct diagnosis diagnosis;
        struct diagnosis_text text;
        struct diagnose_request request = {.settled = true};
        hang_open(&made, &scene);
        double opened = made.open_seconds, begun = now();
        request.states = made.states;
        bool done = job_select(&job, &made.set, NULL, NULL) == 0 && diagnose(&diagnosis, &job, &request) &&
                    diagnosis_text_make(&text, &diagnosis, &request, NULL);
        double judged = now() - begun;
        bool right = done && diagnosis.verdict == made.verdict;
        printf("%-14s %u ranks: %s (%s), opened in %.2f s, judged in %.2f s\n", fault_name(faults[i]), ranks,
               verdict_name(diagnosis.verdict), right ? "right" : "WRONG", opened, judged);
        wrong += !right || opened + judged >= 10;
        diagnosis_text_free(&text);
        diagnosis_free(&diagnosis);
        job_free(&job);
        hang_close(&made);
    }
    return wrong > 0;
}
