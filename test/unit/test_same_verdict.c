/* SPDX-License-Identifier: Apache-2.0
 *
 * `commtap report` and `commtap diagnose` say the same of a job: the same verdict, the same culprits.
 * Lives here: running the analyzer that COMMTAP_BINARY names over the made-up hangs. Must not live here: whether the
 * verdict is right (test_diagnose.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "analyzer/dumps/process.h"
#include "test/scenes/hang.h"

static char directory[64];

/* What `commtap COMMAND --format json` says of the directory. */
static json_t *ask(const char *command) {
    char line[512];
    json_error_t error;
    snprintf(line, sizeof line, "%s %s --format json %s", getenv("COMMTAP_BINARY"), command, directory);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    json_t *document = json_loadf(pipe, 0, &error);
    assert_int_equal(pclose(pipe), 0);
    assert_non_null(document);
    return document;
}

/* The dumps of a scene whose processes are gone. */
static void write_scene(struct hang_job *job) {
    char path[128], boot_id[64];
    strcpy(directory, "/tmp/commtap-hangs-XXXXXX");
    assert_non_null(mkdtemp(directory));
    assert_true(process_boot_id(boot_id, sizeof boot_id));
    for (unsigned r = 0; r < job->ranks; r++) {
        if (job->guilty[r] && job->lost)
            continue;
        dump_builder_host(job->builders[r], "host0", boot_id, 0);
        dump_builder_header(job->builders[r])->pid = INT32_MAX;
        snprintf(path, sizeof path, "%s/commtap.testrun.%016x.ct", directory, r);
        assert_int_equal(dump_builder_write(job->builders[r], path, 0), 0);
    }
}

static void remove_scene(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

/* Its first finding is the diagnosis, word for word as far as it goes, or there is none of that kind. */
static void expect_finding(const json_t *report, const json_t *diagnosis) {
    static const char *const codes[] = {"hang", "maybe_hang", "deadlock", "desync", "dead_rank"};
    const json_t *findings = json_object_get(report, "findings"), *finding;
    const char *verdict = text_of(diagnosis, "verdict");
    bool fine = strcmp(verdict, "ok") == 0 || strcmp(verdict, "unknown") == 0;
    size_t i, count = 0;
    json_array_foreach(findings, i, finding) {
        for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
            count += strcmp(text_of(finding, "code"), codes[c]) == 0;
    }
    assert_int_equal(count, fine ? 0 : 1);
    if (fine)
        return;
    const char *first = json_string_value(json_array_get(json_object_get(diagnosis, "text"), 0));
    finding = json_array_get(findings, 0);
    assert_string_equal(text_of(finding, "severity"), text_of(diagnosis, "severity"));
    assert_int_equal(strncmp(text_of(finding, "text"), first, strlen(first)), 0);
}

static void expect_same(void) {
    json_t *report = ask("report"), *diagnosis = ask("diagnose");
    const json_t *brief = json_object_get(report, "diagnosis");
    const json_t *culprits = json_object_get(diagnosis, "culprits"), *named = json_object_get(brief, "culprits");
    assert_string_equal(text_of(brief, "verdict"), text_of(diagnosis, "verdict"));
    assert_string_equal(text_of(brief, "severity"), text_of(diagnosis, "severity"));
    assert_int_equal(json_array_size(culprits), json_array_size(named));
    for (size_t i = 0; i < json_array_size(culprits); i++) {
        const json_t *a = json_array_get(culprits, i), *b = json_array_get(named, i);
        assert_true(json_equal(json_object_get(a, "rank"), json_object_get(b, "rank")));
        assert_true(json_equal(json_object_get(a, "state"), json_object_get(b, "state")));
    }
    expect_finding(report, diagnosis);
    json_decref(report);
    json_decref(diagnosis);
}

static void report_and_diagnose_say_the_same(void **state) {
    (void)state;
    if (!getenv("COMMTAP_BINARY"))
        skip();
    for (int fault = FAULT_NONE; fault < FAULTS; fault++) {
        struct hang_job job;
        const struct hang_scene scene = {
            .seed = 70 + (unsigned)fault, .ranks = 4, .before = 40, .after = 10, .fault = fault, .ring_records = 16};
        hang_open(&job, &scene);
        write_scene(&job);
        expect_same();
        remove_scene();
        hang_close(&job);
    }
}

/* Where a rank left by MPI_Abort, and where one was lost, too. */
static void of_a_job_that_was_aborted_as_well(void **state) {
    (void)state;
    if (!getenv("COMMTAP_BINARY"))
        skip();
    struct hang_job job;
    const struct hang_scene scene = {
        .seed = 3, .ranks = 4, .before = 40, .after = 10, .fault = FAULT_STOP, .ring_records = 16};
    hang_open(&job, &scene);
    dump_builder_header(job.builders[1])->state |= STATE_ABORTING;
    write_scene(&job);
    expect_same();
    remove_scene();
    hang_close(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_and_diagnose_say_the_same),
        cmocka_unit_test(of_a_job_that_was_aborted_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
