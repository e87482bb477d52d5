/* SPDX-License-Identifier: Apache-2.0
 *
 * Judging a job that was opened before, and may have gone on since.
 * Lives here: dumps whose processes live or not, and which change or not after they were opened.
 * Must not live here: verdicts (test_diagnose.c), what a look consists of (test_look.c).
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/cli/command.h"
#include "analyzer/cli/watch.h"
#include "analyzer/dumps/process.h"
#include "test/support/dump_builder.h"

static char directory[32], path[96];
static struct dump_builder *builder;
static struct progress *progress;
static struct dump_set set;
static struct job job;

/* When this process started, as a shim would have noted it. */
static uint64_t start_realtime_ns(void) {
    struct process_look look;
    struct timespec boot, real;
    assert_true(process_look(getpid(), &look));
    clock_gettime(CLOCK_BOOTTIME, &boot);
    clock_gettime(CLOCK_REALTIME, &real);
    return (uint64_t)(((double)(real.tv_sec - boot.tv_sec) + look.started) * 1e9);
}

/* A rank that has taken part in five collectives. Its process is this one, or none. */
static void write_dump(bool alive) {
    char boot_id[64];
    strcpy(directory, "/tmp/commtap-watch-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/commtap.testrun.0123456789abcdef.ct", directory);
    assert_true(process_boot_id(boot_id, sizeof boot_id));
    builder = dump_builder_new(&(struct dump_plan){.world_size = 1});
    dump_builder_standard_calls(builder);
    dump_builder_anchor(builder, 0, 0, 1000000, 10);
    dump_builder_anchor(builder, 1000000, 1000000, 2000000, 10);
    dump_builder_world(builder);
    dump_builder_host(builder, "host0", boot_id, 0);
    dump_builder_header(builder)->pid = alive ? getpid() : INT32_MAX;
    dump_builder_header(builder)->process_start_realtime_ns = start_realtime_ns();
    progress = dump_builder_progress(builder, 0);
    progress->enqueued = 5;
    assert_int_equal(dump_builder_write(builder, path, 0), 0);
}

static void open_job(void) {
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    assert_int_equal(job_select(&job, &set, NULL, process_is_alive), 0);
    assert_int_equal(job.count, 1);
}

/* As its process would. */
static void go_on(void) {
    size_t bytes;
    progress->enqueued++;
    off_t at = (off_t)((const char *)&progress->enqueued - (const char *)dump_builder_data(builder, &bytes));
    int file = open(path, O_WRONLY);
    assert_int_equal(pwrite(file, &progress->enqueued, sizeof progress->enqueued, at), sizeof progress->enqueued);
    close(file);
}

static int judge(void) {
    struct diagnosis diagnosis;
    struct diagnosis_text text;
    int code = watch_job(&diagnosis, &text, &job, 0, NULL);
    diagnosis_text_free(&text);
    diagnosis_free(&diagnosis);
    return code;
}

static void clean_up(void) {
    job_free(&job);
    dump_set_close(&set);
    dump_builder_free(builder);
    unlink(path);
    rmdir(directory);
}

static void a_job_that_was_over_is_judged_as_it_was_opened(void **state) {
    (void)state;
    write_dump(false);
    open_job();
    assert_int_equal(judge(), EXIT_FINE);
    clean_up();
}

static void a_job_that_goes_on_is_judged_all_the_same(void **state) {
    (void)state;
    write_dump(true);
    open_job();
    go_on();
    assert_int_equal(judge(), EXIT_FINE);
    clean_up();
}

static void a_job_that_ended_after_it_was_opened_is_read_again(void **state) {
    (void)state;
    write_dump(false);
    open_job();
    go_on();
    assert_int_equal(judge(), EXIT_AGAIN);
    clean_up();
    write_dump(false);
    go_on();
    open_job();
    assert_int_equal(judge(), EXIT_FINE);
    clean_up();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_was_over_is_judged_as_it_was_opened),
        cmocka_unit_test(a_job_that_goes_on_is_judged_all_the_same),
        cmocka_unit_test(a_job_that_ended_after_it_was_opened_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
