/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases of a test program that begin when a test says so, by files in a directory: it waits for go.K, and makes
 * done.K.RANK when phase K is over.
 * Must not live here: what a phase does.
 */
#ifndef COMMTAP_TEST_PHASES_H
#define COMMTAP_TEST_PHASES_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PHASES_PATH = 4096, PHASES_REST_US = 2000 };

/* Until `directory`/`what`.`number` is there; without a number where that is negative. */
static inline void phases_await(const char *directory, const char *what, int number) {
    char path[PHASES_PATH];
    if (number >= 0)
        snprintf(path, sizeof path, "%s/%s.%d", directory, what, number);
    else
        snprintf(path, sizeof path, "%s/%s", directory, what);
    while (access(path, F_OK) != 0)
        usleep(PHASES_REST_US);
}

static inline void phases_path(char path[PHASES_PATH], const char *directory, const char *what, int number, int rank) {
    snprintf(path, PHASES_PATH, "%s/%s.%d.%d", directory, what, number, rank);
}

/* Makes `directory`/`what`.`number`.`rank`. */
static inline void phases_tell(const char *directory, const char *what, int number, int rank) {
    char path[PHASES_PATH];
    phases_path(path, directory, what, number, rank);
    FILE *file = fopen(path, "w");
    if (!file || fclose(file) != 0)
        exit(9);
}

#endif
