/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines: what is understood, what is refused, filters, output.
 * Lives here: a command of its own with every kind of option.
 * Must not live here: real commands.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/cli/completion.h"
#include "analyzer/cli/options.h"
#include "analyzer/cli/output.h"

static const struct option rows[] = {
    OPTION_FORMAT("text|json"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_RANK,
    OPTION_COMM,
    OPTION_OP,
    {.name = "env", .letter = 'e', .argument = "X=V", .doc = "a setting", .repeats = true},
    {.name = "quiet", .letter = 'q', .doc = "say less"},
    OPTION_END,
};
static const struct command command = {.name = "try",
                                       .summary = "tries",
                                       .arguments = "DIR [DIR]",
                                       .min_arguments = 1,
                                       .max_arguments = 2,
                                       .options = rows};

/* Parses words up to NULL; the message, if any, is kept in `said`. */
static char *said;
static struct options options;

static int parse(const struct command *which, char **words) {
    size_t bytes;
    int count = 0;
    while (words[count])
        count++;
    FILE *errors = open_memstream(&said, &bytes);
    int code = options_parse(&options, which, count, words, errors);
    fclose(errors);
    return code;
}

static void forget(void) {
    options_free(&options);
    free(said);
}

static void values_come_in_every_form(void **state) {
    (void)state;
    char *words[] = {"-q", "--format=json", "a", "-oX", "--env", "A=1", "-e", "B=2", "-qe", "C=3", "--", "-b", NULL};
    assert_int_equal(parse(&command, words), EXIT_FINE);
    assert_string_equal(option_text(&options, "format"), "json");
    assert_string_equal(option_text(&options, "output"), "X");
    assert_string_equal(option_text(&options, "color"), "auto");
    assert_null(option_text(&options, "rank"));
    assert_true(option_given(&options, "quiet"));
    assert_int_equal(options.argument_count, 2);
    assert_string_equal(options.arguments[1], "-b");
    size_t position = 0;
    assert_string_equal(option_next(&options, "env", &position), "A=1");
    assert_string_equal(option_next(&options, "env", &position), "B=2");
    assert_string_equal(option_next(&options, "env", &position), "C=3");
    assert_null(option_next(&options, "env", &position));
    forget();
}

static void wrong_words_are_refused_once(void **state) {
    (void)state;
    static struct {
        char *words[4];
        const char *says;
    } cases[] = {
        {{"a", "--fromat", NULL}, "maybe: --format?"},  {{"a", "--xyzzyx", NULL}, "see commtap try --help"},
        {{"a", "-Z", NULL}, "unknown option -Z"},       {{"a", "--format=csv", NULL}, "is one of text|json"},
        {{"a", "--format=", NULL}, "is one of"},        {{"a", "--output", NULL}, "needs a value"},
        {{"a", "--quiet=1", NULL}, "takes no value"},   {{NULL}, "needs DIR"},
        {{"a", "b", "c", NULL}, "does not expect 'c'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(&command, cases[i].words), EXIT_USAGE);
        assert_non_null(strstr(said, cases[i].says));
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
        forget();
    }
}

static void help_wins_over_what_is_missing(void **state) {
    (void)state;
    char *words[] = {"--help", NULL};
    assert_int_equal(parse(&command, words), EXIT_FINE);
    assert_true(options.help);
    forget();
}

static void a_command_to_run_keeps_its_own_options(void **state) {
    (void)state;
    struct command run = command;
    run.stops_at_argument = true;
    run.max_arguments = 100;
    char *words[] = {"-q", "mpirun", "-n", "4", "--help", NULL};
    assert_int_equal(parse(&run, words), EXIT_FINE);
    assert_false(options.help);
    assert_int_equal(options.argument_count, 4);
    assert_string_equal(options.arguments[3], "--help");
    forget();
}

static void help_names_every_option(void **state) {
    (void)state;
    char *text;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    options_print_help(stream, &command);
    const struct command *const all[] = {&command, NULL};
    assert_true(completion_print(stream, all, "bash"));
    fclose(stream);
    for (const struct option *row = rows; row->name; row++) {
        char word[32];
        snprintf(word, sizeof word, "--%s", row->name);
        const char *first = strstr(text, word);
        assert_non_null(first);
        assert_non_null(strstr(first + 1, word));
    }
    free(text);
}

/* ---- filters --------------------------------------------------------------------------------- */

static void rank_lists(void **state) {
    (void)state;
    struct filter filter = {0};
    assert_int_equal(filter_set_ranks(&filter, "0,4-7,12"), 0);
    static const int32_t in[] = {0, 4, 5, 7, 12}, out[] = {-1, 1, 3, 8, 13};
    for (size_t i = 0; i < 5; i++) {
        assert_true(filter_rank(&filter, in[i]));
        assert_false(filter_rank(&filter, out[i]));
    }
    static const char *const wrong[] = {"", "a", "1,", "3-1", "1-", "-1", "1;2", "99999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(filter_set_ranks(&filter, wrong[i]), -1);
    assert_true(filter_rank(&filter, 12)); /* what was set stays */
    filter_free(&filter);
    assert_true(filter_rank(&filter, 99));
}

static void moments_and_steps(void **state) {
    (void)state;
    struct filter filter = {0};
    assert_false(filter_is_timed(&filter));
    assert_int_equal(filter_set_from(&filter, "1.25"), 0);
    assert_int_equal(filter_set_to(&filter, "0.000000001"), 0);
    assert_int_equal(filter.from_ns, 1250000000);
    assert_int_equal(filter.to_ns, 1);
    assert_int_equal(filter_set_steps(&filter, "7"), 0);
    assert_int_equal(filter.first_step, 7);
    assert_int_equal(filter.last_step, 7);
    assert_int_equal(filter_set_steps(&filter, "3-9"), 0);
    assert_int_equal(filter.last_step, 9);
    assert_true(filter_is_timed(&filter));
    static const char *const seconds[] = {"", "-1", "1e3", "1.2.3", ".", " 1", "0x1", "1s", "1234567890", "nan"};
    static const char *const steps[] = {"", "-1", "x", "3-", "5-3", "1-2-3", "1,2", "99999999999"};
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        assert_int_equal(filter_set_from(&filter, seconds[i]), -1);
        assert_int_equal(filter_set_to(&filter, seconds[i]), -1);
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        assert_int_equal(filter_set_steps(&filter, steps[i]), -1);
    assert_int_equal(filter.from_ns, 1250000000); /* what was set stays */
    assert_int_equal(filter.first_step, 3);
}

static void function_globs(void **state) {
    (void)state;
    static const struct {
        const char *glob, *name;
        bool wanted;
    } cases[] = {
        {"all*", "MPI_Allreduce", true},
        {"all*", "ncclAllReduce", true},
        {"MPI_*", "ncclAllReduce", false},
        {"all*,!allgather*", "MPI_Allgatherv", false},
        {"all*,!allgather*", "MPI_Allreduce", true},
        {"!wait*", "MPI_Waitall", false},
        {"!wait*", "MPI_Send", true},
        {"mpi_send", "MPI_Send", true},
        {"send", "MPI_Ssend", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct filter filter = {0};
        assert_int_equal(filter_set_op(&filter, cases[i].glob), 0);
        assert_int_equal(filter_op(&filter, cases[i].name), cases[i].wanted);
        filter_free(&filter);
    }
}

static void communicators_by_uid_or_name(void **state) {
    (void)state;
    struct filter filter = {0};
    assert_int_equal(filter_set_comm(&filter, "00000000000000AB,dp*"), 0);
    assert_true(filter_comm(&filter, 0xab, ""));
    assert_true(filter_comm(&filter, 1, "dp_3"));
    assert_false(filter_comm(&filter, 1, "tp"));
    filter_free(&filter);
    assert_int_equal(filter_set_comm(&filter, ""), -1);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void a_full_disk_fails(void **state) {
    (void)state;
    char *words[] = {"a", "-o", "/dev/full", NULL};
    struct output output;
    assert_int_equal(parse(&command, words), EXIT_FINE);
    assert_int_equal(output_open(&output, &options), EXIT_FINE);
    fputs("text", output.stream);
    assert_int_equal(output_close(&output, EXIT_FINE), EXIT_OUTPUT);
    forget();
}

static void a_file_that_cannot_be_made_fails(void **state) {
    (void)state;
    char *words[] = {"a", "-o", "/proc/nonexistent/file", NULL};
    struct output output;
    assert_int_equal(parse(&command, words), EXIT_FINE);
    assert_int_equal(output_open(&output, &options), EXIT_OUTPUT);
    forget();
}

static void colours_follow_the_option_and_no_color(void **state) {
    (void)state;
    static struct {
        char *words[4];
        const char *no_color;
        bool color;
    } cases[] = {{{"a", "--color=always", NULL}, "1", true},
                 {{"a", "--color=never", NULL}, NULL, false},
                 {{"a", "--output=/dev/null", NULL}, NULL, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct output output;
        if (cases[i].no_color)
            setenv("NO_COLOR", cases[i].no_color, 1);
        else
            unsetenv("NO_COLOR");
        assert_int_equal(parse(&command, cases[i].words), EXIT_FINE);
        assert_int_equal(output_open(&output, &options), EXIT_FINE);
        assert_int_equal(output.color, cases[i].color);
        assert_int_equal(output_close(&output, EXIT_FINE), EXIT_FINE);
        forget();
    }
}

static void sizes_are_ranges_with_both_bounds(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t least, most;
    } good[] = {{"8", 8, 8},
                {"4K-1M", 4096, 1 << 20},
                {"1m-", 1 << 20, INT64_MAX},
                {"-64", 0, 64},
                {"0-0", 0, 0},
                {"2T-3T", UINT64_C(2) << 40, UINT64_C(3) << 40}};
    static const char *bad[] = {"", "-", "8-4", "4K-1", "1Q", "1KB", "1-2-3", " 8", "9000000T", "1.5K", "8,9"};
    struct filter filter = {0};
    assert_true(filter_bytes(&filter, UINT64_MAX));
    assert_false(filter_chooses_calls(&filter));
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(filter_set_sizes(&filter, good[i].text), 0);
        assert_true(filter_bytes(&filter, good[i].least));
        assert_true(filter_bytes(&filter, good[i].most));
        assert_false(filter_bytes(&filter, good[i].most + 1));
        assert_true(good[i].least == 0 || !filter_bytes(&filter, good[i].least - 1));
        assert_false(filter_bytes(&filter, UINT64_MAX)); /* not known */
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(filter_set_sizes(&filter, bad[i]), -1);
    assert_int_equal(filter.most_bytes, UINT64_C(3) << 40); /* what was set stays */
    assert_true(filter_chooses_calls(&filter));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_in_every_form),
        cmocka_unit_test(wrong_words_are_refused_once),
        cmocka_unit_test(help_wins_over_what_is_missing),
        cmocka_unit_test(a_command_to_run_keeps_its_own_options),
        cmocka_unit_test(help_names_every_option),
        cmocka_unit_test(rank_lists),
        cmocka_unit_test(moments_and_steps),
        cmocka_unit_test(function_globs),
        cmocka_unit_test(communicators_by_uid_or_name),
        cmocka_unit_test(a_full_disk_fails),
        cmocka_unit_test(a_file_that_cannot_be_made_fails),
        cmocka_unit_test(colours_follow_the_option_and_no_color),
        cmocka_unit_test(sizes_are_ranges_with_both_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
