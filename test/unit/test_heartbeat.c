/* SPDX-License-Identifier: Apache-2.0
 *
 * The heartbeat: which processes have the thread, what it sees of the job's descriptors, whom it finds and misses.
 * Lives here: processes of this test's own. Must not live here: what follows from the notes (test_beats.c), real jobs
 * (test/e2e/test_heartbeat.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/intercept/activate.h"
#include "shim/intercept/neighbours.h"
#include "shim/record/recorder.h"

enum { MANY = 70, IN_TURN = 32, PATIENCE = 600 /* tenths of a second */ };

static char directory[] = "/tmp/commtap-unit-XXXXXX";

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static void end_child(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- processes that record ------------------------------------------------------------------- */

/* A process that begins to record with these variables set (NULL: none) and stays; `ready` hears of it. */
static pid_t start_recording(const char *const *variables, int ready) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    setenv("COMMTAP_DIR", directory, 1);
    for (; variables && *variables; variables += 2)
        setenv(variables[0], variables[1], 1);
    knobs_read(&recorder.knobs);
    bool armed = activate_process();
    if (write(ready, armed ? "+" : "-", 1) == 1)
        for (;;)
            pause();
    _exit(1);
}

static pid_t record_with(const char *const *variables) {
    int ends[2];
    char answer = '-';
    assert_int_equal(pipe(ends), 0);
    pid_t pid = start_recording(variables, ends[1]);
    assert_true(pid > 0);
    assert_int_equal(read(ends[0], &answer, 1), 1);
    assert_int_equal(answer, '+');
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static int count_entries(const char *path) {
    int count = 0;
    DIR *listed = opendir(path);
    for (struct dirent *entry; listed && (entry = readdir(listed)) != NULL;)
        count += entry->d_name[0] != '.';
    if (listed)
        closedir(listed);
    return count;
}

static bool is_called(const char *task, const char *name) {
    char path[512], text[32] = "";
    snprintf(path, sizeof path, "%s/comm", task);
    FILE *file = fopen(path, "r");
    bool read = file && fgets(text, sizeof text, file);
    if (file)
        fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return read && strcmp(text, name) == 0;
}

/* Threads of the process that are called so; `task` (or NULL) is where the last one is found. */
static int threads_called(const char *name, pid_t pid, char *task, size_t size) {
    char tasks[64], path[400];
    int count = 0;
    snprintf(tasks, sizeof tasks, "/proc/%d/task", (int)pid);
    DIR *listed = opendir(tasks);
    for (struct dirent *entry; listed && (entry = readdir(listed)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", tasks, entry->d_name);
        if (entry->d_name[0] == '.' || !is_called(path, name))
            continue;
        count++;
        if (task)
            snprintf(task, size, "%s", path);
    }
    if (listed)
        closedir(listed);
    return count;
}

static int beating(pid_t pid, char *task, size_t size) {
    return threads_called("commtap-beat", pid, task, size);
}

/* As many as there are of them after a while, if any. */
static int comes_to_beat(pid_t pid) {
    int count = 0;
    for (int tries = 0; tries < PATIENCE && count == 0; tries++, nap())
        count = beating(pid, NULL, 0);
    return count;
}

static void two_of_a_node_that_the_launcher_numbers(void **state) {
    (void)state;
    static const char *const variables[][8] = {
        {"OMPI_COMM_WORLD_RANK", "12", "OMPI_COMM_WORLD_LOCAL_RANK", "4"},
        {"OMPI_COMM_WORLD_RANK", "8", "OMPI_COMM_WORLD_LOCAL_RANK", "0", "COMMTAP_HEARTBEAT", "off"},
        {"OMPI_COMM_WORLD_RANK", "8", "OMPI_COMM_WORLD_LOCAL_RANK", "0"},
        {"OMPI_COMM_WORLD_RANK", "9", "OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
    enum { PROCESSES = sizeof variables / sizeof *variables, WITHOUT = 2 };
    pid_t pids[PROCESSES];
    int found[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = record_with(variables[i]);
    for (int i = WITHOUT; i < PROCESSES; i++)
        found[i] = comes_to_beat(pids[i]);
    for (int i = 0; i < WITHOUT; i++)
        found[i] = beating(pids[i], NULL, 0);
    for (int i = 0; i < PROCESSES; i++)
        end_child(pids[i]);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(found[i], i < WITHOUT ? 0 : 1);
}

static int standing_by(pid_t pid) {
    return threads_called("commtap-heir", pid, NULL, 0);
}

static int comes_to_stand_by(pid_t pid) {
    int count = 0;
    for (int tries = 0; tries < PATIENCE && count == 0; tries++, nap())
        count = standing_by(pid);
    return count;
}

static bool comes_to_have_none(pid_t pid) {
    for (int tries = 0; tries < PATIENCE; tries++, nap())
        if (standing_by(pid) + beating(pid, NULL, 0) == 0)
            return true;
    return false;
}

/* When one of the two ends the next one beats, and when that or the other one does the last; whether they are numbered
 * or not. */
static void others_take_over(bool numbered) {
    enum { PROCESSES = 5, TWO = 2, FOUR = 4 };
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        const char digit[2] = {(char)('0' + i), '\0'};
        const char *const variables[] = {"OMPI_COMM_WORLD_RANK", digit, "OMPI_COMM_WORLD_LOCAL_RANK", digit, NULL};
        pids[i] = record_with(numbered ? variables : NULL);
    }
    for (int i = TWO; i < FOUR; i++)
        assert_int_equal(comes_to_stand_by(pids[i]), 1);
    for (int i = 0; i < TWO; i++)
        assert_int_equal(comes_to_beat(pids[i]), 1);
    assert_true(comes_to_have_none(pids[FOUR]));
    end_child(pids[1]);
    assert_int_equal(comes_to_beat(pids[2]), 1);
    assert_int_equal(standing_by(pids[3]), 1);
    end_child(pids[2]);
    assert_int_equal(comes_to_beat(pids[3]), 1);
    assert_int_equal(beating(pids[0], NULL, 0), 1);
    end_child(pids[0]);
    end_child(pids[3]);
    end_child(pids[4]);
}

static void others_take_over_whom_the_launcher_numbers(void **state) {
    (void)state;
    others_take_over(true);
}

static void others_take_over_where_nobody_numbers_them(void **state) {
    (void)state;
    others_take_over(false);
}

/* What the job opens and closes is not seen by the thread, nor the other way round. */
static void the_thread_has_descriptors_of_its_own(void **state) {
    (void)state;
    char task[400], path[512];
    int tries = 0;
    pid_t pid = record_with(NULL);
    while (beating(pid, task, sizeof task) == 0 && tries++ < PATIENCE)
        nap();
    snprintf(path, sizeof path, "%s/fd", task);
    while (count_entries(path) > 0 && tries++ < PATIENCE)
        nap();
    assert_true(tries < PATIENCE);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    assert_true(count_entries(path) > 0);
    end_child(pid);
}

/* Each begins with one; after the first look two keep it. */
static void the_first_two_where_nobody_numbers_them(void **state) {
    (void)state;
    enum { PROCESSES = 4 };
    pid_t pids[PROCESSES];
    int left = 0;
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = record_with(NULL);
    for (int tries = 0; tries < PATIENCE; tries++, nap()) {
        left = 0;
        for (int i = 0; i < PROCESSES; i++)
            left += beating(pids[i], NULL, 0);
        if (left == 2)
            break;
    }
    for (int i = 0; i < PROCESSES; i++) {
        int lower = 0;
        for (int k = 0; k < PROCESSES; k++)
            lower += pids[k] < pids[i];
        assert_int_equal(beating(pids[i], NULL, 0), lower < 2);
    }
    for (int i = 0; i < PROCESSES; i++)
        end_child(pids[i]);
}

/* ---- those who are found --------------------------------------------------------------------- */

static const struct beat_row *rows(void) {
    for (uint32_t i = 0; i < SECTIONS_MAX; i++)
        if (recorder.header->sections[i].kind == SECTION_BEATS)
            return recorder.file.contents[i];
    return NULL;
}

static uint32_t used(void) {
    uint32_t count = 0;
    while (rows()[count].dump)
        count++;
    return count;
}

/* This process records, and looks itself. */
static int activate(void **state) {
    (void)state;
    if (recorder.header)
        return 0;
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_HEARTBEAT", "off", 1);
    knobs_read(&recorder.knobs);
    return activate_process() && neighbours_begin() ? 0 : -1;
}

/* A file with a header like this process's own, but for what `change` does to it. */
static void leave_dump(unsigned number, pid_t pid, void (*change)(struct dump_header *)) {
    static struct dump_header header;
    char path[256];
    header = *recorder.header;
    header.pid = pid;
    if (change)
        change(&header);
    snprintf(path, sizeof path, "%s/commtap.%s.%016x.ct", directory, header.run_id, number);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && write(fd, &header, sizeof header) == (ssize_t)sizeof header);
    close(fd);
}

static pid_t sleeper(void) {
    pid_t pid = fork();
    while (pid == 0)
        pause();
    assert_true(pid > 0);
    return pid;
}

static void another_world(struct dump_header *header) {
    header->world_id++;
}

static void another_boot(struct dump_header *header) {
    header->boot_id[0] ^= 1;
}

static void another_namespace(struct dump_header *header) {
    header->pid_namespace++;
}

static void another_clock(struct dump_header *header) {
    header->time_namespace++;
}

static void another_version(struct dump_header *header) {
    header->version++;
}

static void one_that_has_ended(struct dump_header *header) {
    header->state |= STATE_EXITED;
}

static void nobody(struct dump_header *header) {
    header->pid = 0;
}

static void strangers_are_no_neighbours(void **state) {
    (void)state;
    static void (*const changes[])(struct dump_header *) = {
        another_world, another_boot, another_namespace, another_clock, another_version, one_that_has_ended, nobody};
    char path[256], target[256];
    pid_t pid = sleeper();
    for (unsigned i = 0; i < sizeof changes / sizeof *changes; i++)
        leave_dump(100 + i, pid, changes[i]);
    const char *run = recorder.header->run_id;
    snprintf(target, sizeof target, "%s/elsewhere", directory);
    assert_int_equal(rename(recorder.file.path, target), 0);
    snprintf(path, sizeof path, "%s/commtap.%s.%016x.ct", directory, run, 200u);
    assert_int_equal(symlink(target, path), 0);
    snprintf(path, sizeof path, "%s/commtap.%s.%016x.ct", directory, run, 201u);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/commtap.%s.%016x.ct", directory, run, 202u);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/commtap.%s.000000000000000g.ct", directory, run);
    assert_int_equal(link(target, path), 0);
    neighbours_find();
    assert_int_equal(used(), 1);
    assert_int_equal(rows()[0].pid, getpid());
    assert_int_equal(rename(target, recorder.file.path), 0);
    end_child(pid);
}

static uint32_t seen_since(uint64_t ns) {
    uint32_t count = 0;
    for (uint32_t i = 1; i < used(); i++)
        count += rows()[i].seen_ns >= ns;
    return count;
}

static uint32_t gone(void) {
    uint32_t count = 0;
    for (uint32_t i = 1; i < used(); i++)
        count += rows()[i].gone_ns > 0;
    return count;
}

/* Where they are many they are looked at in turns. One that has ended is missed though nobody has waited for it. */
static void many_are_looked_at_in_turns(void **state) {
    (void)state;
    uint32_t before = used();
    pid_t pid = sleeper(), other = sleeper();
    leave_dump(1, other, NULL);
    for (unsigned i = 0; i < MANY; i++)
        leave_dump(1000 + i, pid, NULL);
    neighbours_find();
    neighbours_find();
    assert_int_equal(used(), before + 1 + MANY);
    uint64_t begin = os_monotonic_ns();
    for (uint32_t round = 1; round <= 3; round++) {
        neighbours_look();
        assert_int_equal(seen_since(begin), round * IN_TURN < 1 + MANY ? round * IN_TURN : 1 + MANY);
    }
    assert_int_equal(gone(), 0);
    assert_true(rows()[0].seen_ns >= begin);
    kill(pid, SIGKILL);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    uint64_t killed = os_monotonic_ns();
    for (int round = 0; round < 3; round++)
        neighbours_look();
    assert_int_equal(gone(), MANY);
    assert_int_equal(seen_since(killed), 1);
    end_child(pid);
    end_child(other);
}

static uint64_t begun; /* activated_ticks of the dumps that are left next */

static void one_that_began_then(struct dump_header *header) {
    header->activated_ticks = begun;
}

static void one_that_ended_then(struct dump_header *header) {
    one_that_began_then(header);
    header->state |= STATE_EXITED;
}

static void one_of_another_clock(struct dump_header *header) {
    one_that_began_then(header);
    header->clock_kind++;
}

/* Leaves the dump of a process that is not there, which began so long ago; whether a row tells of it. */
static bool is_missed(unsigned number, uint64_t ago_ns, void (*change)(struct dump_header *)) {
    uint32_t before = used();
    pid_t pid = sleeper();
    end_child(pid);
    begun = ticks() - (uint64_t)((double)ago_ns * (double)recorder.header->tick_hz_hint / 1e9);
    uint64_t now = os_monotonic_ns();
    leave_dump(number, pid, change);
    neighbours_find();
    if (used() == before)
        return false;
    const struct beat_row *row = &rows()[before];
    assert_int_equal(used(), before + 1);
    assert_int_equal(row->dump, number);
    assert_int_equal(row->pid, pid);
    assert_in_range(row->seen_ns, now - ago_ns - ago_ns / 20, now - ago_ns + ago_ns / 20);
    assert_true(row->gone_ns >= now);
    return true;
}

/* Its dump is there, and those that it leaves behind may wait for it. What an hour ago began under the same name is
 * left out, as is one that ended as it should. */
static void who_has_died_before_the_first_look_is_missed(void **state) {
    (void)state;
    const uint64_t hour = UINT64_C(3600000000000), uptime = os_monotonic_ns();
    assert_true(is_missed(5000, 1000000000, one_that_began_then));
    assert_true(is_missed(5001, hour / 2 < uptime / 2 ? hour / 2 : uptime / 2, one_that_began_then));
    assert_false(is_missed(5002, hour * 2, one_that_began_then));
    assert_false(is_missed(5003, 1000000000, one_that_ended_then));
    assert_false(is_missed(5004, 1000000000, one_of_another_clock));
    begun = 0;
}

static int make_directory(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_of_a_node_that_the_launcher_numbers),
        cmocka_unit_test(others_take_over_whom_the_launcher_numbers),
        cmocka_unit_test(others_take_over_where_nobody_numbers_them),
        cmocka_unit_test(the_thread_has_descriptors_of_its_own),
        cmocka_unit_test(the_first_two_where_nobody_numbers_them),
        cmocka_unit_test_setup(strangers_are_no_neighbours, activate),
        cmocka_unit_test_setup(many_are_looked_at_in_turns, activate),
        cmocka_unit_test_setup(who_has_died_before_the_first_look_is_missed, activate),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_files);
}
