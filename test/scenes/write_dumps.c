/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the dumps of a made-up job as files: to look at a report, and to time the analyzer on a given size.
 * Lives here: sizes and file names.
 * Must not live here: what the job does (scene.c).
 *
 *   write_dumps DIR [MEGABYTES [RANKS [SLOW_RANK]]]   default: 16 MB, 8 ranks, nobody slow
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "test/scenes/scene.h"

static long argument(int argc, char **argv, int i, long standard) {
    return argc > i ? strtol(argv[i], NULL, 10) : standard;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("usage: write_dumps DIR [MEGABYTES [RANKS [SLOW_RANK]]]\n", stderr);
        return 2;
    }
    struct scene scene = scene_standard();
    long megabytes = argument(argc, argv, 2, 16);
    scene.ranks = (unsigned)argument(argc, argv, 3, 8);
    scene.slow_rank = (int)argument(argc, argv, 4, -1);
    scene.slow_factor = 1.2;
    scene.work_ns = 100000;
    scene.latency_ns = 5000;
    scene.collectives = 4;
    scene.steps = (unsigned)((size_t)megabytes * 1000000 / sizeof(struct record) / scene.ranks / scene.collectives);
    uint32_t ring = 64; /* full rings: the size asked for is that of the records */
    while ((size_t)ring * 2 * scene.ranks * sizeof(struct record) <= (size_t)megabytes * 1000000 * 21 / 20)
        ring *= 2;
    scene.ring_records = ring;
    if (mkdir(argv[1], 0700) != 0 && errno != EEXIST) {
        fprintf(stderr, "write_dumps: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    struct scene_job job;
    scene_play(&job, &scene);
    for (unsigned r = 0; r < job.ranks; r++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/commtap.testrun.%016x.ct", argv[1], r);
        if (dump_builder_write(job.builders[r], path, 0) != 0) {
            fprintf(stderr, "write_dumps: %s: %s\n", path, strerror(errno));
            return 1;
        }
    }
    scene_close(&job);
    return 0;
}
