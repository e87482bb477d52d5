/* SPDX-License-Identifier: Apache-2.0
 *
 * Every command over every damaged dump of the corpus, beside a sound one: no crash, file and offset said, nothing of
 * the job's names reaches the terminal raw. Lives here: running the analyzer that COMMTAP_BINARY names (built with
 * sanitizers). Must not live here: the damages (test/corpus).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/corpus/damage.h"

static char directory[64];
static char output[1 << 20];

/* Runs `commtap ARGUMENTS DIRECTORY`; both its streams are kept in `output`. Returns its exit code. */
static int run(const char *arguments) {
    char command[512];
    const char *binary = getenv("COMMTAP_BINARY");
    assert_non_null(binary);
    snprintf(command, sizeof command, "%s %s %s 2>&1", binary, arguments, directory);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t bytes = fread(output, 1, sizeof output - 1, pipe);
    output[bytes] = '\0';
    while (!feof(pipe)) { /* what does not fit is not looked at, but the command must not be cut short */
        char rest[4096];
        if (fread(rest, 1, sizeof rest, pipe) == 0)
            break;
    }
    int status = pclose(pipe);
    if (!WIFEXITED(status) || strstr(output, "Sanitizer") || strstr(output, "runtime error"))
        fail_msg("commtap %s:\n%s", arguments, output);
    return WEXITSTATUS(status);
}

static void write_dump(struct dump_builder *builder, const char *name, size_t bytes) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(dump_builder_write(builder, path, bytes), 0);
    dump_builder_free(builder);
}

static void begin(const struct damage *damage) {
    strcpy(directory, "/tmp/commtap-corpus-XXXXXX");
    assert_non_null(mkdtemp(directory));
    struct dump_builder *builder = damage_base(1);
    size_t bytes = damage->apply(builder);
    write_dump(builder, "commtap.t.bad.ct", bytes);
}

static void end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

/* Nothing that a terminal would act on. */
static void assert_tame(void) {
    for (const unsigned char *p = (const unsigned char *)output; *p; p++)
        assert_true(*p == '\n' || (*p >= 0x20 && *p != 0x7f));
}

static size_t nothing(struct dump_builder *builder) {
    (void)builder;
    return 0;
}

static void check_says_what_is_wrong_and_where(void **state) {
    (void)state;
    for (size_t i = 0; i < damage_count; i++) {
        print_message("%s\n", damages[i].name);
        begin(&damages[i]);
        int expected = damages[i].unusable ? 3 : damages[i].says ? 1 : 0;
        assert_int_equal(run("check --color never"), expected);
        assert_tame();
        if (damages[i].says) {
            assert_non_null(strstr(output, damages[i].says));
            assert_non_null(strstr(output, "/commtap.t.bad.ct: offset "));
        }
        write_dump(damage_base(0), "commtap.t.good.ct", 0);
        assert_int_equal(run("check --format json"), damages[i].says ? 1 : 0);
        end();
    }
}

static void the_rest_is_used(void **state) {
    (void)state;
    static const char *const commands[] = {"report",
                                           "report --format json",
                                           "stragglers",
                                           "stragglers --format csv",
                                           "steps --anchor Allreduce",
                                           "steps --by both --format json",
                                           "calls",
                                           "calls --format json",
                                           "diagnose",
                                           "summary",
                                           "summary --by op,rank --format csv",
                                           "summary --format json",
                                           "summary --compat deepspeed",
                                           "summary --compat deepspeed --format json",
                                           "export",
                                           "export --format jsonl --table records",
                                           "export --table operations",
                                           "export --table peers",
                                           "export --table communicators",
                                           "summary --from 0",
                                           "summary --step 0-9 --anchor Allreduce --format json",
                                           "summary --to 100 --compat deepspeed",
                                           "report --from 0 --rank 0",
                                           "stragglers --op allreduce --step 0-9",
                                           "steps --anchor Allreduce --op allreduce",
                                           "calls --from 0 --noise 3",
                                           "diagnose --rank 0",
                                           "export --from 0"};
    for (size_t i = 0; i < damage_count; i++) {
        begin(&damages[i]);
        write_dump(damage_base(0), "commtap.t.good.ct", 0);
        for (size_t j = 0; j < sizeof commands / sizeof *commands; j++) {
            assert_int_equal(run(commands[j]), 0);
            assert_tame();
        }
        assert_int_equal(run("summary --rank 0"), 0);
        assert_non_null(strstr(output, "MPI_Allreduce"));
        end();
    }
}

static void runs_are_not_added_up(void **state) {
    (void)state;
    const struct damage none = {.apply = nothing};
    begin(&none);
    struct dump_builder *other = damage_base(0);
    strcpy(dump_builder_header(other)->run_id, "later");
    dump_builder_header(other)->process_start_realtime_ns = 1000000000;
    write_dump(other, "commtap.later.ct", 0);
    assert_int_equal(run("summary"), 0);
    assert_non_null(strstr(output, "1 dumps of other jobs than later"));
    assert_int_equal(run("summary --by op --format csv --run testrun"), 0);
    assert_null(strstr(output, "later"));
    assert_non_null(strstr(output, ",MPI_Allreduce,,,,,,false,100,"));
    assert_int_equal(run("summary --run unheard"), 3);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_says_what_is_wrong_and_where),
        cmocka_unit_test(the_rest_is_used),
        cmocka_unit_test(runs_are_not_added_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
