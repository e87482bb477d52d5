/* SPDX-License-Identifier: Apache-2.0
 *
 * Kills hammer processes at random moments and checks what they leave; then looks at one after each instruction.
 * Lives here: starting, killing, tidying up.
 * Must not live here: what a dump must look like (check.c, steps.c).
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
#include "test/crash/steps.h"

extern char **environ;

static const char *const ring_sizes[] = {"16", "1024", "16384"};
/* The ends of pages that are stepped over, in seconds all together. */
#define STEPPED_PAGES 3

struct session {
    const char *library, *hammer, *directory;
    unsigned seed;
};

static void sleep_us(long us) {
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static pid_t start(const struct session *session, int ready, const char *ring, int threads) {
    pid_t child = fork();
    if (child)
        return child;
    char descriptor[16], count[16];
    snprintf(descriptor, sizeof descriptor, "%d", ready);
    snprintf(count, sizeof count, "%d", threads);
    setenv("LD_PRELOAD", session->library, 1);
    setenv("COMMTAP_DIR", session->directory, 1);
    setenv("COMMTAP_RING", ring, 1);
    execl(session->hammer, session->hammer, descriptor, count, (char *)NULL);
    _exit(127);
}

/* Returns true when all threads told that they are hammering. */
static bool wait_until_ready(int descriptor, int threads) {
    char byte;
    for (int i = 0; i < threads; i++)
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
    pid_t child = start(session, ends[1], ring_sizes[kill_number % 3], HAMMER_THREADS);
    close(ends[1]);
    bool early = kill_number % 8 == 7;
    bool hammering = !early && wait_until_ready(ends[0], HAMMER_THREADS);
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

/* ---- step by step ---------------------------------------------------------------------------- */

/* The path of the one dump in the directory. */
static bool find_dump(const struct session *session, char *path, size_t size) {
    DIR *directory = opendir(session->directory);
    bool found = false;
    for (struct dirent *entry; directory && !found && (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name), suffix = strlen(FORMAT_FILE_SUFFIX);
        found = length > suffix && !strcmp(entry->d_name + length - suffix, FORMAT_FILE_SUFFIX);
        if (found)
            snprintf(path, size, "%s/%s", session->directory, entry->d_name);
    }
    if (directory)
        closedir(directory);
    return found;
}

/* One process of one thread, looked at after each of its instructions where its ring takes pages anew. */
static void step_one(const struct session *session, struct steps_totals *steps) {
    int ends[2];
    char path[4200] = "?";
    if (pipe(ends)) {
        perror("pipe");
        exit(2);
    }
    pid_t child = start(session, ends[1], ring_sizes[0], 1);
    close(ends[1]);
    bool stepped = true;
    if (wait_until_ready(ends[0], 1) && find_dump(session, path, sizeof path)) {
        stepped = steps_check(child, path, STEPPED_PAGES, steps);
    } else {
        printf("the process to be stepped left no dump in %s\n", session->directory);
        steps->failures++;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, __WALL);
    close(ends[0]);
    if (stepped)
        printf("crash: %lu instructions stepped, %lu records, %lu pages begun, %lu failures\n", steps->instructions,
               steps->records, steps->pages, steps->failures);
    if (steps->failures)
        keep(path);
    else
        unlink(path);
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
    struct steps_totals steps = {0};
    step_one(&session, &steps);
    return totals.failures + steps.failures != 0;
}
