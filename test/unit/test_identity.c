/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose job a process takes itself for where no launcher says so.
 * Must not live here: what launchers say (test/e2e/test_launches.py, test_generations.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/record/identity.h"

#define PAIRS_MAX 200 /* of parents; two that are forked in a row have one start but for a tick between them */

struct seen {
    char run_id[sizeof((struct dump_header *)0)->run_id];
    uint64_t world_id;
    unsigned long long parent_start; /* clock ticks */
};

static unsigned long long start_of(pid_t pid) {
    char path[64], line[1024] = "";
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    char *after_name = strrchr(line, ')');
    assert_non_null(after_name);
    assert_int_equal(sscanf(after_name + 1,
                            " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                            &start),
                     1);
    return start;
}

static void tell(int fd) {
    static struct dump_header header;
    struct seen seen = {0};
    identity_fill(&header, "", true);
    memcpy(seen.run_id, header.run_id, sizeof seen.run_id);
    seen.world_id = header.world_id;
    seen.parent_start = start_of(getppid());
    _exit(write(fd, &seen, sizeof seen) == (ssize_t)sizeof seen ? 0 : 1);
}

/* A parent, as a shell is one, that has `children` processes. */
static void parent_of(int children, int fd) {
    int failures = 0;
    for (int i = 0; i < children; i++) {
        pid_t pid = fork();
        if (pid == 0)
            tell(fd);
        int status = 1;
        failures += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
    }
    _exit(failures);
}

/* What the children of two parents that start together see, those of the first one first. */
static void see(int first, int second, struct seen *seen) {
    int fds[2][2], children[2] = {first, second};
    pid_t pids[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pipe(fds[i]), 0);
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            parent_of(children[i], fds[i][1]);
        assert_true(pids[i] > 0);
    }
    for (int i = 0; i < 2; i++) {
        int status = 1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
        for (int k = 0; k < children[i]; k++)
            assert_int_equal(read(fds[i][0], seen++, sizeof *seen), sizeof *seen);
        close(fds[i][0]);
        close(fds[i][1]);
    }
}

static void children_of_one_parent_are_one_job(void **state) {
    (void)state;
    struct seen seen[2];
    see(2, 0, seen);
    assert_string_equal(seen[0].run_id, seen[1].run_id);
    assert_int_equal(seen[0].world_id, seen[1].world_id);
}

static void parents_that_start_in_one_tick_have_jobs_of_their_own(void **state) {
    (void)state;
    struct seen seen[2];
    int pairs = 0;
    do
        see(1, 1, seen);
    while (seen[0].parent_start != seen[1].parent_start && ++pairs < PAIRS_MAX);
    assert_true(pairs < PAIRS_MAX);
    assert_string_not_equal(seen[0].run_id, seen[1].run_id);
    assert_int_not_equal(seen[0].world_id, seen[1].world_id);
}

/* What a launcher would say, were this test below one. */
static int without_launcher(void **state) {
    (void)state;
    return clearenv();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_of_one_parent_are_one_job),
        cmocka_unit_test(parents_that_start_in_one_tick_have_jobs_of_their_own),
    };
    return cmocka_run_group_tests(tests, without_launcher, NULL);
}
