/* SPDX-License-Identifier: Apache-2.0
 *
 * Kills hammer processes at random moments and checks what they leave.
 * Lives here: starting, killing, tidying up.
 * Must not live here: what a dump must look like (check.c).
 *
 *   crash LIBRARY HAMMER KILLS DIR [SEED]
 *
 * DIR is used for the dumps and must be empty; a dump that fails is left there. Exit status 1 when anything failed.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/format.h"
#include "test/crash/check.h"
#include "test/crash/hammer.h"

extern char **environ;

static const char *const ring_sizes[] = {"16", "1024", "16384"};

struct session {
    const char *library, *hammer, *directory;
    unsigned seed;
};

static void sleep_us(long us) {
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static pid_t start(const struct session *session, int ready, int kill_number) {
    pid_t child = fork();
    if (child)
        return child;
    char descriptor[16];
    snprintf(descriptor, sizeof descriptor, "%d", ready);
    setenv("LD_PRELOAD", session->library, 1);
    setenv("COMMTAP_DIR", session->directory, 1);
    setenv("COMMTAP_RING", ring_sizes[kill_number % 3], 1);
    execl(session->hammer, session->hammer, descriptor, (char *)NULL);
    _exit(127);
}

/* Returns true when both threads told that they are hammering. */
static bool wait_until_ready(int descriptor) {
    char byte;
    for (int i = 0; i < HAMMER_THREADS; i++)
        if (read(descriptor, &byte, 1) != 1)
            return false;
    return true;
}

/* One process, one kill. Most die while hammering, every eighth while it starts. Returns whether it hammered; ends
 * the program when the process ended by itself. */
static bool kill_one(struct session *session, int kill_number) {
    int ends[2], status;
    if (pipe(ends)) {
        perror("pipe");
        exit(2);
    }
    pid_t child = start(session, ends[1], kill_number);
    close(ends[1]);
    bool early = kill_number % 8 == 7;
    bool hammering = !early && wait_until_ready(ends[0]);
    sleep_us(rand_r(&session->seed) % (early ? 40000 : 15000));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(ends[0]);
    if (!WIFSIGNALED(status) || (!early && !hammering)) {
        fprintf(stderr, "crash: %s ended by itself (status %d)\n", session->hammer, status);
        exit(2);
    }
    return hammering;
}

/* Out of the way of the next check. */
static void keep(const char *path) {
    char kept[4200];
    snprintf(kept, sizeof kept, "%s.failed", path);
    rename(path, kept);
}

/* Checks and removes what lies in the directory; files that fail stay. Returns how many dumps there were. */
static int check_all(const struct session *session, bool hammering, struct crash_totals *totals) {
    DIR *directory = opendir(session->directory);
    int dumps = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[4096];
        size_t length = strlen(entry->d_name), suffix = strlen(FORMAT_FILE_SUFFIX);
        if (length < suffix || strcmp(entry->d_name + length - suffix, FORMAT_FILE_SUFFIX))
            continue;
        uint64_t before = totals->failures;
        snprintf(path, sizeof path, "%s/%s", session->directory, entry->d_name);
        crash_check(path, hammering, totals);
        dumps++;
        if (totals->failures == before)
            unlink(path);
        else
            keep(path);
    }
    if (directory)
        closedir(directory);
    return dumps;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: crash LIBRARY HAMMER KILLS DIR [SEED]\n");
        return 2;
    }
    struct session session = {argv[1], argv[2], argv[4], argc > 5 ? (unsigned)atoi(argv[5]) : (unsigned)time(NULL)};
    struct crash_totals totals = {0};
    int kills = atoi(argv[3]);
    unsigned seed = session.seed;
    if (mkdir(session.directory, 0700) && errno != EEXIST) {
        perror(session.directory);
        return 2;
    }
    for (int i = 0; i < kills; i++) {
        bool hammering = kill_one(&session, i);
        if (!check_all(&session, hammering, &totals) && hammering) {
            printf("kill %d left no dump in %s\n", i, session.directory);
            totals.failures++;
        }
    }
    printf("crash: %d kills (seed %u), %lu dumps, %lu records checked, %lu rings had wrapped, %lu slots and rows were "
           "being written, %lu failures\n",
           kills, seed, totals.dumps, totals.records, totals.wrapped, totals.in_progress, totals.failures);
    return totals.failures != 0;
}
