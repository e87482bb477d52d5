/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator's policy and the bounds that it is for: which lines say what, whose file is taken, which jobs are
 * recorded, how much a dump may take, and when none is left. Must not live here: whole jobs (test/e2e/test_policy.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/base/os.h"
#include "shim/base/policy_file.h"
#include "shim/record/bounds.h"
#include "shim/record/knobs.h"
#include "shim/record/policy.h"

/* ---- lines ------------------------------------------------------------------------------------- */

static void lines_say_what_they_say(void **state) {
    (void)state;
    static char text[POLICY_BYTES] = "# a comment\n\n"
                                     "COMMTAP_RING=64\n"
                                     "  fixed\tCOMMTAP_DIR=/x y/%j # no comment \r\n"
                                     "fixedCOMMTAP_RING=1\n"
                                     "COMMTAP_RUN_ID=one\n"
                                     "LD_PRELOAD=/x\n"
                                     "COMMTAP_OPS=\n"
                                     "COMMTAP_LONG=";
    static const struct {
        unsigned number;
        bool sound, fixed;
        const char *name, *value;
    } wanted[] = {{3, true, false, "COMMTAP_RING=64", "64"},
                  {4, true, true, "COMMTAP_DIR=/x y/%j # no comment", "/x y/%j # no comment"},
                  {5, false, false, NULL, NULL},
                  {6, false, false, NULL, NULL},
                  {7, false, false, NULL, NULL},
                  {8, true, false, "COMMTAP_OPS=", ""},
                  {9, false, false, NULL, NULL},
                  {10, true, false, "COMMTAP_ARGV=off", "off"}};
    memset(text + strlen(text), 'x', POLICY_LINE_BYTES);
    strcat(text, "\nCOMMTAP_ARGV=off");
    struct policy_line line = {0};
    const char *at = text;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_true(policy_next(&at, &line));
        assert_int_equal(line.number, wanted[i].number);
        assert_int_equal(line.wrong == NULL, wanted[i].sound);
        if (!wanted[i].sound)
            continue;
        assert_string_equal(line.name, wanted[i].name);
        assert_string_equal(line.value, wanted[i].value);
        assert_int_equal(line.fixed, wanted[i].fixed);
        assert_int_equal(line.name_length, strcspn(line.name, "="));
    }
    assert_false(policy_next(&at, &line));
}

/* ---- files ------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/commtap-policy-XXXXXX";
static char path[64];

static void write_policy(const char *text, mode_t mode) {
    snprintf(path, sizeof path, "%s/policy", folder);
    unlink(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void only_a_file_that_nobody_else_writes_is_taken(void **state) {
    (void)state;
    static const mode_t modes[] = {0600, 0644, 0444, 0664, 0646, 0666};
    char other[80];
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        write_policy("COMMTAP_RING=64\n", modes[i]);
        assert_int_equal(policy_read(path), i < 3);
        assert_int_equal(policy_trouble() == NULL, i < 3);
        assert_string_equal(policy_path(), path);
    }
    write_policy("COMMTAP_RING=64\n", 0600);
    snprintf(other, sizeof other, "%s/link", folder);
    assert_int_equal(symlink(path, other), 0);
    assert_false(policy_read(other));
    assert_string_equal(policy_trouble(), "it is a link");
    snprintf(other, sizeof other, "%s/fifo", folder);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_false(policy_read(other)); /* and does not wait for a writer */
    assert_false(policy_read(folder));
    assert_non_null(policy_trouble());
    snprintf(other, sizeof other, "%s/none", folder);
    assert_false(policy_read(other));
    assert_non_null(policy_trouble());
}

static void another_users_file_is_not_taken(void **state) {
    (void)state;
    write_policy("COMMTAP_RING=64\n", 0600);
    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(path, 12345, 0), 0);
    assert_false(policy_read(path));
    assert_non_null(strstr(policy_trouble(), "belongs"));
}

static void a_long_file_is_not_taken(void **state) {
    (void)state;
    for (int over = 0; over < 2; over++) {
        char text[POLICY_BYTES + 1];
        memset(text, '#', sizeof text);
        text[POLICY_BYTES - 1 + over] = '\0';
        write_policy(text, 0600);
        assert_int_equal(policy_read(path), !over);
    }
}

/* ---- precedence -------------------------------------------------------------------------------- */

static struct knobs knobs;

static bool read_knobs(void) {
    memset(&knobs, 0, sizeof knobs);
    bool any = knobs_read(&knobs);
    knobs_default(&knobs);
    return any;
}

static void the_environment_wins_unless_it_is_fixed(void **state) {
    (void)state;
    write_policy("COMMTAP_RING=64\nCOMMTAP_MODE=0640\nfixed COMMTAP_CHILDREN=3\nfixed COMMTAP_QUOTA=1K\n"
                 "COMMTAP_QUOTA=2K\nCOMMTAP_STACK_DEPTH=ten\nCOMMTAP_DIR=/a\nfixed COMMTAP_DIR=/b\n",
                 0600);
    setenv("COMMTAP_POLICY", path, 1);
    assert_true(read_knobs());
    assert_int_equal(knobs.ring, 64);
    assert_int_equal(knobs.children, 3);
    assert_int_equal(knobs.quota, 2048);
    assert_int_equal(knobs.stack_depth, 64); /* the line is skipped */
    assert_string_equal(knobs.dir, "/b");
    setenv("COMMTAP_RING", "128", 1);
    setenv("COMMTAP_CHILDREN", "5", 1);
    setenv("COMMTAP_QUOTA", "5K", 1); /* the last line of its name fixes nothing */
    setenv("COMMTAP_MODE", "any", 1);
    setenv("COMMTAP_DIR", "/c", 1);
    assert_true(read_knobs());
    assert_int_equal(knobs.ring, 128);
    assert_int_equal(knobs.children, 3);
    assert_int_equal(knobs.quota, 5120);
    assert_int_equal(knobs.mode, 640); /* what cannot be read leaves the policy's */
    assert_string_equal(knobs.dir, "/b");
    setenv("COMMTAP_POLICY", "off", 1);
    assert_true(read_knobs());
    assert_int_equal(knobs.children, 5);
    static const char *const names[] = {"POLICY", "RING", "CHILDREN", "QUOTA", "MODE", "DIR"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[32];
        snprintf(name, sizeof name, "COMMTAP_%s", names[i]);
        unsetenv(name);
    }
}

static void shares_are_per_cent(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t millionths;
    } sound[] = {{"0", 0}, {"5", 50000}, {"0.25", 2500}, {"100", 1000000}, {"12.3456", 123456}, {"1.", 10000}};
    static const char *const wrong[] = {
        "", ".5", "-1", "100.0001", "101", "5%", "1.23456", "1e1", "99999999999999999999"};
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        assert_true(knob_percent(sound[i].text, &value));
        assert_int_equal(value, sound[i].millionths);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(knob_percent(wrong[i], &value));
}

/* ---- bounds ------------------------------------------------------------------------------------ */

/* Job ids as batch systems count them. The share is off by less than four times what chance allows. */
static void about_the_share_of_the_jobs_is_recorded(void **state) {
    (void)state;
    static struct dump_header job;
    int chosen[] = {0, 0, 0, 0};
    static const uint64_t shares[] = {0, 50000, 500000, 1000000};
    for (unsigned id = 100000; id < 120000; id++) {
        snprintf(job.job_id, sizeof job.job_id, "%u", id);
        bool before = false;
        for (int i = 0; i < 4; i++) {
            bool now = bounds_choose_job(&job, shares[i]);
            assert_true(now || !before); /* whoever is in a share is in every larger one */
            chosen[i] += before = now;
        }
    }
    assert_int_equal(chosen[0], 0);
    assert_in_range(chosen[1], 1000 - 124, 1000 + 124);
    assert_in_range(chosen[2], 10000 - 283, 10000 + 283);
    assert_int_equal(chosen[3], 20000);
}

static void a_job_without_an_id_is_its_run(void **state) {
    (void)state;
    static struct dump_header a, b;
    int recorded = 0;
    for (int i = 0; i < 64; i++) {
        snprintf(a.run_id, sizeof a.run_id, "run%d", i);
        b = a;
        b.rank = 7;
        recorded += bounds_choose_job(&a, 500000);
        assert_int_equal(bounds_choose_job(&a, 500000), bounds_choose_job(&b, 500000));
    }
    assert_in_range(recorded, 8, 56);
}

static void the_smaller_quota_holds(void **state) {
    (void)state;
    static struct dump_header header;
    header.world_size = 64;
    header.local_size = 4;
    static const struct {
        uint64_t job, node, share;
    } cases[] = {{0, 0, 0}, {6400, 0, 100}, {0, 1200, 300}, {6400, 1200, 100}, {64000, 1200, 300}, {0, 2, 1}};
    setenv("SLURM_CPUS_ON_NODE", "1000000", 1); /* all there are */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        knobs.quota = cases[i].job;
        knobs.node_quota = cases[i].node;
        assert_int_equal(bounds_quota(&header, &knobs), cases[i].share);
    }
    unsetenv("SLURM_CPUS_ON_NODE");
    knobs.quota = 0;
}

/* Of a node's quota, for a job of `world` processes with `local` of them here. */
static uint64_t part_of_node(const char *given, int32_t world, int32_t local) {
    static struct dump_header header;
    header.world_size = world;
    header.local_size = local;
    knobs.quota = 0;
    knobs.node_quota = 1 << 30;
    if (given)
        setenv("SLURM_CPUS_ON_NODE", given, 1);
    uint64_t part = bounds_quota(&header, &knobs);
    unsetenv("SLURM_CPUS_ON_NODE");
    return part;
}

/* Whatever runs beside it: no processor counts twice, be it Slurm or the launcher who gives them out. */
static void a_job_takes_its_processors_part_of_a_node(void **state) {
    (void)state;
    int64_t online = sysconf(_SC_NPROCESSORS_ONLN), whole = 1 << 30;
    char some[24];
    for (int64_t given = 1; given <= online; given++) {
        snprintf(some, sizeof some, "%" PRId64, given);
        uint64_t of_job = (uint64_t)(whole * given / online);
        assert_int_equal(part_of_node(some, 64, 4), of_job / 4);
        assert_int_equal(part_of_node(some, 1, RANK_UNKNOWN), of_job);
        assert_int_equal(part_of_node(some, 1 << 20, RANK_UNKNOWN), of_job / (uint64_t)given);
    }
    static const char *const untold[] = {NULL, "", "0", "-3", "2(x4)", "many"};
    for (size_t i = 0; i < sizeof untold / sizeof *untold; i++) {
        assert_int_equal(part_of_node(untold[i], 1, 1), whole / online);
        assert_int_equal(part_of_node(untold[i], 1, RANK_UNKNOWN), whole / online);
        assert_int_equal(part_of_node(untold[i], 1 << 20, (int32_t)online * 2), whole / (online * 2));
    }
    knobs.node_quota = 0;
}

static struct dump_header ended;
static uint64_t began;
static int answer_to;

static void tell_answer(void) {
    char answer = (char)bounds_leave_nothing(&ended, &knobs, began);
    if (write(answer_to, &answer, 1) != 1)
        _exit(1);
    _exit(0); /* no checker of leaks, which would take a second */
}

/* What a process decides that ends with `status`, after so many seconds. */
static bool leaves_nothing(uint32_t state, uint64_t seconds, int status) {
    int ends[2], child_status;
    char answer = 2;
    assert_int_equal(pipe(ends), 0);
    ended.state = state;
    began = os_realtime_ns() - seconds * 1000000000u;
    pid_t child = fork();
    if (child == 0) {
        answer_to = ends[1];
        atexit(tell_answer);
        bounds_watch_exit(&knobs);
        exit(status);
    }
    assert_int_equal(read(ends[0], &answer, 1), 1);
    waitpid(child, &child_status, 0);
    close(ends[0]);
    close(ends[1]);
    return answer;
}

static void short_jobs_that_end_well_leave_nothing(void **state) {
    (void)state;
    enum { WELL = STATE_INITIALISED | STATE_FINALISED | STATE_EXITED };
    knobs.min_seconds = 1000;
    ended.mpi_family = 1;
    assert_true(leaves_nothing(WELL, 0, 0));
    assert_true(leaves_nothing(WELL, 900, 0));
    assert_false(leaves_nothing(WELL, 1000, 0));
    assert_false(leaves_nothing(WELL, 900, 3));
    assert_false(leaves_nothing(WELL & ~STATE_FINALISED, 900, 0));
    assert_false(leaves_nothing(WELL | STATE_ABORTING, 900, 0));
    assert_false(leaves_nothing(WELL | STATE_SWITCHED_OFF, 900, 0));
    knobs.min_seconds = 500;
    assert_false(leaves_nothing(WELL, 900, 0));
    knobs.min_seconds = 2000;
    assert_true(leaves_nothing(WELL, 1900, 0));
    ended.mpi_family = 0;
    assert_true(leaves_nothing(STATE_INITIALISED | STATE_EXITED, 900, 0)); /* NCCL alone */
    knobs.min_seconds = 0;
    assert_false(leaves_nothing(WELL, 0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_say_what_they_say),
        cmocka_unit_test(only_a_file_that_nobody_else_writes_is_taken),
        cmocka_unit_test(another_users_file_is_not_taken),
        cmocka_unit_test(a_long_file_is_not_taken),
        cmocka_unit_test(the_environment_wins_unless_it_is_fixed),
        cmocka_unit_test(shares_are_per_cent),
        cmocka_unit_test(about_the_share_of_the_jobs_is_recorded),
        cmocka_unit_test(a_job_without_an_id_is_its_run),
        cmocka_unit_test(the_smaller_quota_holds),
        cmocka_unit_test(a_job_takes_its_processors_part_of_a_node),
        cmocka_unit_test(short_jobs_that_end_well_leave_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
