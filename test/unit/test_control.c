/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders from the one that gives them to the one that follows: this process records, and gives orders to itself.
 * Must not live here: what orders do to the counts of a job (test/e2e/test_ctl.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/control/control.h"
#include "analyzer/dumps/process.h"
#include "shim/base/fork_page.h"
#include "shim/base/order_check.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/orders.h"
#include "shim/intercept/threads.h"
#include "shim/record/recorder.h"
#include "shim/stacks/stacks.h"

static char directory[] = "/tmp/commtap-unit-XXXXXX";
static struct dump_set set;

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_STACK", "native", 1);
    knobs_read(&recorder.knobs);
    return activate_process() && current_thread() && dump_set_open(directory, &set) == DUMP_SET_OK ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    dump_set_close(&set);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static struct controlled opened(enum process_state state) {
    struct controlled process;
    control_open(&process, set.dumps[0], state);
    return process;
}

static void give(struct controlled *process, enum order_kind kind, const char *text) {
    assert_true(control_give(process, &(struct order){.kind = kind, .text = text}));
}

static bool is_paused(void) {
    return recorder_quiet(0) & QUIET_ORDERED;
}

static void an_order_is_followed_at_the_next_call(void **state) {
    (void)state;
    struct controlled process = opened(PROCESS_RUNS);
    assert_string_equal(process.trouble, "");
    assert_int_equal(process.state, ORDER_OBEYED);
    give(&process, ORDER_PAUSE, NULL);
    assert_int_equal(process.state, ORDER_AWAITED);
    assert_false(is_paused());
    errno = EDOM;
    orders_look();
    assert_int_equal(errno, EDOM);
    assert_true(is_paused());
    control_read(&process);
    assert_int_equal(process.state, ORDER_OBEYED);
    assert_int_equal(process.answer.pauses, 1);
    assert_int_not_equal(process.answer.paused_since, 0);
    give(&process, ORDER_RESUME, NULL);
    orders_look();
    control_read(&process);
    assert_false(is_paused());
    assert_int_equal(process.state, ORDER_OBEYED);
    assert_int_equal(process.answer.paused_since, 0);
    assert_int_not_equal(process.answer.paused_ticks, 0);
    control_close(&process);
}

static void of_several_orders_the_last_one_counts(void **state) {
    (void)state;
    struct controlled process = opened(PROCESS_RUNS);
    uint32_t pauses = process.answer.pauses, asked = process.wishes.asked;
    give(&process, ORDER_PAUSE, NULL);
    give(&process, ORDER_RESUME, NULL);
    orders_look();
    control_read(&process);
    assert_int_equal(process.state, ORDER_OBEYED);
    assert_int_equal(process.wishes.asked, asked + 2);
    assert_int_equal(process.answer.pauses, pauses);
    control_close(&process);
}

/* Who gives it has died writing, or writes just now. */
static void half_an_order_is_none(void **state) {
    (void)state;
    struct dump_header *header = recorder.header;
    struct controlled process = opened(PROCESS_RUNS);
    uint32_t obeyed = header->order_answer.obeyed;
    header->order_wishes.recording = ORDERED_PAUSE;
    header->order_wishes.asked += 5;
    header->orders_waiting = 1;
    orders_look();
    assert_int_equal(header->orders_waiting, 0);
    assert_int_equal(header->order_answer.obeyed, obeyed);
    assert_false(is_paused());
    give(&process, ORDER_PAUSE, NULL); /* the next one makes it good */
    assert_int_equal(header->order_wishes.check, order_check(&header->order_wishes));
    orders_look();
    assert_int_equal(header->order_answer.obeyed, obeyed + 1);
    assert_true(is_paused());
    give(&process, ORDER_RESUME, NULL);
    orders_look();
    control_close(&process);
}

static void follow(struct controlled *process, enum order_kind kind, const char *text) {
    give(process, kind, text);
    orders_look();
    control_read(process);
    assert_int_equal(process->state, ORDER_OBEYED);
}

/* An order changes what it names, and nothing else. */
static void orders_add_up(void **state) {
    (void)state;
    struct controlled process = opened(PROCESS_RUNS);
    uint32_t epoch = recorder.epoch_bits >> 24;
    follow(&process, ORDER_PAUSE, NULL);
    follow(&process, ORDER_VERBOSE, "all");
    follow(&process, ORDER_OPS, "bcast");
    follow(&process, ORDER_STACK, "site");
    assert_true(is_paused() && recorder.verbose);
    assert_int_equal(recorder.left_out[0] & QUIET_LEFT_OUT, QUIET_LEFT_OUT);
    assert_int_equal(stacks_mode, STACK_SITE);
    assert_int_equal(recorder.epoch_bits >> 24, epoch);
    assert_int_equal(process.answer.filters, 1);
    follow(&process, ORDER_RESUME, NULL);
    follow(&process, ORDER_VERBOSE, "off");
    follow(&process, ORDER_OPS, "*");
    follow(&process, ORDER_STACK, "native");
    assert_false(is_paused() || recorder.verbose || recorder.left_out[0]);
    assert_int_equal(stacks_mode, STACK_NATIVE);
    assert_int_equal(process.answer.filters, 2);
    assert_string_equal(process.wishes.verbose, "off");
    assert_string_equal(process.wishes.operations, "*");
    assert_string_equal(process.wishes.stack, "native");
    control_close(&process);
}

/* The operator's word stands above the user's, also while the job runs; what is no setting is nobody's to fix. */
static void what_the_policy_fixes_no_order_changes(void **state) {
    (void)state;
    struct controlled process = opened(PROCESS_RUNS);
    uint32_t filters = process.answer.filters;
    recorder.knobs.fixed = 1u << KNOB_stack | 1u << KNOB_ops;
    follow(&process, ORDER_STACK, "off");
    assert_int_equal(process.answer.refused, ORDER_FIXED_STACK);
    assert_int_equal(stacks_mode, STACK_NATIVE);
    follow(&process, ORDER_OPS, "bcast");
    assert_int_equal(process.answer.refused, ORDER_FIXED_STACK | ORDER_FIXED_OPS); /* the wishes stand */
    assert_int_equal(process.answer.filters, filters);
    assert_int_equal(recorder.left_out[0], 0);
    assert_string_equal(recorder.knobs.ops, "*");
    follow(&process, ORDER_VERBOSE, "all");
    assert_true(recorder.verbose);
    follow(&process, ORDER_PAUSE, NULL);
    assert_true(is_paused());
    follow(&process, ORDER_STACK, "native"); /* as it is fixed */
    follow(&process, ORDER_OPS, "*");
    assert_int_equal(process.answer.refused, 0);
    recorder.knobs.fixed = 1u << KNOB_verbose;
    follow(&process, ORDER_VERBOSE, "off");
    assert_int_equal(process.answer.refused, ORDER_FIXED_VERBOSE);
    assert_true(recorder.verbose);
    recorder.knobs.fixed = 0;
    follow(&process, ORDER_VERBOSE, "ranks:77");
    follow(&process, ORDER_VERBOSE, "off");
    assert_false(recorder.verbose);
    follow(&process, ORDER_RESUME, NULL);
    control_close(&process);
}

static void texts_fill_their_places_and_no_more(void **state) {
    (void)state;
    char text[256];
    struct controlled process = opened(PROCESS_RUNS);
    struct order_wishes *wishes = &recorder.header->order_wishes;
    memset(text, '*', sizeof text);
    text[order_text_bytes(ORDER_OPS) - 1] = '\0';
    follow(&process, ORDER_OPS, text);
    assert_string_equal(process.wishes.operations, text);
    memset(wishes->operations, '?', sizeof wishes->operations); /* of somebody else: never ends */
    memset(wishes->stack, 'n', sizeof wishes->stack);
    memset(wishes->verbose, 'v', sizeof wishes->verbose);
    wishes->check = order_check(wishes);
    recorder.header->orders_waiting = 1;
    orders_look();
    assert_int_equal(strlen(recorder.knobs.ops), sizeof wishes->operations - 1);
    assert_int_equal(stacks_mode, STACK_NATIVE); /* no such one */
    assert_false(recorder.verbose);
    control_read(&process);
    assert_int_equal(strlen(process.wishes.operations), sizeof wishes->operations - 1);
    follow(&process, ORDER_VERBOSE, "off");
    follow(&process, ORDER_STACK, "native");
    follow(&process, ORDER_OPS, "*");
    control_close(&process);
}

/* Every snapshot is an epoch, also of several that were ordered before the process looked, until there are no more. */
static void snapshots_are_counted(void **state) {
    (void)state;
    struct controlled process = opened(PROCESS_RUNS);
    uint32_t epoch = recorder.epoch_bits >> 24;
    follow(&process, ORDER_SNAPSHOT, NULL);
    give(&process, ORDER_SNAPSHOT, NULL);
    follow(&process, ORDER_SNAPSHOT, NULL);
    assert_int_equal(process.answer.epoch, epoch + 3);
    /* two that went to others alone count here as well */
    const struct order after_others = {.kind = ORDER_SNAPSHOT, .snapshots = process.wishes.snapshots + 2};
    assert_true(control_give(&process, &after_others));
    orders_look();
    control_read(&process);
    assert_int_equal(process.answer.epoch, epoch + 6);
    assert_int_equal(process.answer.refused, 0);
    struct order_wishes *wishes = &recorder.header->order_wishes;
    wishes->snapshots += 1000000000;
    wishes->check = order_check(wishes);
    recorder.header->orders_waiting = 1;
    orders_look();
    control_read(&process);
    assert_int_equal(process.answer.epoch, EPOCHS_MAX - 1);
    assert_int_equal(process.answer.refused, ORDER_NO_EPOCH);
    assert_int_equal(process.answer.snapshots, process.wishes.snapshots);
    follow(&process, ORDER_RESUME, NULL);
    assert_int_equal(process.answer.refused, 0);
    control_close(&process);
}

/* Another thread is about to follow: this one leaves the order where it is. */
static void one_thread_at_a_time_follows(void **state) {
    (void)state;
    struct controlled process = opened(PROCESS_RUNS);
    give(&process, ORDER_PAUSE, NULL);
    assert_true(fork_lock_try(FORK_LOCK_ORDERS));
    orders_look();
    assert_false(is_paused());
    assert_int_equal(recorder.header->orders_waiting, 1);
    fork_lock_release(FORK_LOCK_ORDERS);
    orders_look();
    assert_true(is_paused());
    give(&process, ORDER_RESUME, NULL);
    orders_look();
    control_close(&process);
}

static void who_gives_orders_waits_for_others_and_not_for_ever(void **state) {
    (void)state;
    struct controlled first = opened(PROCESS_RUNS), second = opened(PROCESS_RUNS);
    assert_int_equal(flock(first.file, LOCK_EX), 0);
    assert_false(control_give(&second, &(struct order){.kind = ORDER_PAUSE}));
    assert_int_equal(second.state, ORDER_NOT_GIVEN);
    assert_non_null(strstr(second.trouble, "somebody else"));
    assert_int_equal(recorder.header->orders_waiting, 0);
    control_close(&first);
    control_close(&second);
}

static void what_takes_no_orders_says_why(void **state) {
    (void)state;
    static const struct {
        enum process_state process;
        uint32_t version, bits;
        enum order_state state;
        const char *why;
    } cases[] = {
        {PROCESS_GONE, FORMAT_VERSION, 0, ORDER_OVER, "has ended"},
        {PROCESS_ELSEWHERE, FORMAT_VERSION, 0, ORDER_NOT_GIVEN, "another host"},
        {PROCESS_RUNS, FORMAT_MAJOR | 4u << 16, 0, ORDER_NOT_GIVEN, "takes no orders"},
        {PROCESS_RUNS, FORMAT_VERSION, STATE_EXITED, ORDER_OVER, "has ended"},
        {PROCESS_RUNS, FORMAT_VERSION, STATE_COPIED, ORDER_OVER, "has ended"},
        {PROCESS_RUNS, FORMAT_VERSION, STATE_FINALISED, ORDER_OVER, "MPI_Finalize"},
        {PROCESS_RUNS, FORMAT_VERSION, STATE_SWITCHED_OFF, ORDER_NOT_GIVEN, "switched off"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dump_header header = *recorder.header;
        struct dump dump = *set.dumps[0];
        header.version = cases[i].version;
        header.state |= cases[i].bits;
        dump.header = &header;
        struct controlled process;
        control_open(&process, &dump, cases[i].process);
        assert_int_equal(process.state, cases[i].state);
        assert_non_null(strstr(process.trouble, cases[i].why));
        assert_int_equal(process.file, -1);
        assert_false(control_give(&process, &(struct order){.kind = ORDER_PAUSE}));
        control_close(&process);
    }
    assert_int_equal(recorder.header->orders_waiting, 0);
}

static void a_file_that_is_another_one_by_now_is_left_alone(void **state) {
    (void)state;
    char path[128];
    struct dump dump = *set.dumps[0];
    struct controlled process;
    snprintf(path, sizeof path, "%s/link", directory);
    assert_int_equal(symlink(dump.path, path), 0);
    dump.path = path;
    control_open(&process, &dump, PROCESS_RUNS);
    assert_int_equal(process.state, ORDER_NOT_GIVEN);
    assert_true(process.trouble[0]);
    control_close(&process);
    struct dump_header other = *recorder.header;
    other.pid++;
    dump = *set.dumps[0];
    dump.header = &other;
    control_open(&process, &dump, PROCESS_RUNS);
    assert_int_equal(process.state, ORDER_NOT_GIVEN);
    assert_non_null(strstr(process.trouble, "another file"));
    control_close(&process);
}

/* In a forked process, which records anew. */
static void a_child_goes_on_with_the_orders_of_its_parent(void **state) {
    (void)state;
    struct controlled process = opened(PROCESS_RUNS);
    give(&process, ORDER_PAUSE, NULL);
    orders_look();
    pid_t child = fork();
    if (child == 0) {
        bool follows = activate_process() && is_paused() && recorder.header->order_answer.pauses == 1 &&
                       recorder.header->order_wishes.recording == ORDERED_PAUSE &&
                       recorder.header->order_answer.obeyed == recorder.header->order_wishes.asked;
        _exit(follows ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    give(&process, ORDER_RESUME, NULL);
    orders_look();
    control_close(&process);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_is_followed_at_the_next_call),
        cmocka_unit_test(of_several_orders_the_last_one_counts),
        cmocka_unit_test(half_an_order_is_none),
        cmocka_unit_test(orders_add_up),
        cmocka_unit_test(what_the_policy_fixes_no_order_changes),
        cmocka_unit_test(texts_fill_their_places_and_no_more),
        cmocka_unit_test(one_thread_at_a_time_follows),
        cmocka_unit_test(who_gives_orders_waits_for_others_and_not_for_ever),
        cmocka_unit_test(what_takes_no_orders_says_why),
        cmocka_unit_test(a_file_that_is_another_one_by_now_is_left_alone),
        cmocka_unit_test(a_child_goes_on_with_the_orders_of_its_parent),
        cmocka_unit_test(snapshots_are_counted), /* the last: no epoch is left */
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
