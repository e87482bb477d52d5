/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of a pipeline as the user names them: lists, files, and what is refused with its place.
 * Lives here: texts.
 * Must not live here: stages that a job's messages tell.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/cli/stage_map.h"

enum { RANKS = 10 };

static uint32_t stage_of[RANKS];
static struct stage_map_problem problem;

static void assert_stages(const uint32_t expected[RANKS]) {
    for (size_t i = 0; i < RANKS; i++)
        assert_int_equal(stage_of[i], expected[i]);
}

static void stages_may_be_uneven(void **state) {
    (void)state;
    assert_int_equal(stage_map_parse("0-3,8/4-7/9", '/', stage_of, RANKS, &problem), 0);
    assert_stages((const uint32_t[]){1, 1, 1, 1, 2, 2, 2, 2, 1, 3});
}

static void lines_of_a_file_are_stages(void **state) {
    (void)state;
    const char *text = "# embedding\n0, 2 # two of them\r\n\n1,3-8\n\t9";
    assert_int_equal(stage_map_parse(text, '\n', stage_of, RANKS, &problem), 0);
    assert_stages((const uint32_t[]){1, 2, 1, 2, 2, 2, 2, 2, 2, 3});
}

static void what_does_not_fit_is_refused_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text;
        char separator;
        unsigned place;
        const char *why;
    } cases[] = {
        {"0-4/5-10", '/', 2, "there is no rank 10: the job has 10"},
        {"0-4/4-9", '/', 2, "rank 4 is in stage 1 already"},
        {"0-4/5-8", '/', 0, "rank 9 is in no stage"},
        {"0-4//5-9", '/', 2, "not a list of ranks, as in 0,4-7"},
        {"0-4\n\n# the rest\n5-9x\n", '\n', 4, "not a list of ranks, as in 0,4-7"},
        {"0-2147483648", '/', 1, "not a list of ranks, as in 0,4-7"},
        {"", '\n', 0, "rank 0 is in no stage"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(stage_map_parse(cases[i].text, cases[i].separator, stage_of, RANKS, &problem), -1);
        assert_int_equal(problem.place, cases[i].place);
        assert_string_equal(problem.text, cases[i].why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_may_be_uneven),
        cmocka_unit_test(lines_of_a_file_are_stages),
        cmocka_unit_test(what_does_not_fit_is_refused_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
