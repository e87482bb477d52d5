/* SPDX-License-Identifier: Apache-2.0
 *
 * What a preloaded library costs a process that never communicates: spawns /bin/true ROUNDS times bare and with
 * LD_PRELOAD=LIBRARY, taking turns. Prints "bare US preloaded US" (medians) and "added US" (median of the differences).
 *
 *   spawn LIBRARY ROUNDS
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double run_true(char *preload) {
    char *argv[] = {"/bin/true", NULL}, *environment[] = {"PATH=/usr/bin:/bin", preload, NULL};
    pid_t child;
    double start = now_us();
    if (posix_spawn(&child, argv[0], NULL, NULL, argv, environment) || waitpid(child, NULL, 0) != child)
        exit(1);
    return now_us() - start;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 0;
    char preload[4200];
    double *values = rounds > 0 ? calloc((size_t)rounds * 3, sizeof *values) : NULL;
    if (!values)
        return 2;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
    double *bare = values, *preloaded = values + rounds, *added = values + 2 * rounds;
    run_true(NULL);
    run_true(preload);
    for (int i = 0; i < rounds; i++) {
        bare[i] = run_true(NULL);
        preloaded[i] = run_true(preload);
        added[i] = preloaded[i] - bare[i];
    }
    printf("bare %.1f preloaded %.1f added %.1f\n", median(bare, rounds), median(preloaded, rounds),
           median(added, rounds));
    free(values);
    return 0;
}
