/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX ranges as a source of stack entries, without NVTX and without MPI: what is open, how it is told apart, limits.
 * Must not live here: how a job's NVTX finds the library, what the call tree shows (test_nvtx.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/intercept/activate.h"
#include "shim/intercept/nvtx.h"
#include "shim/intercept/threads.h"
#include "shim/record/recorder.h"
#include "shim/record/ring.h"

static char directory[] = "/tmp/commtap-labels-XXXXXX";

/* ---- a copy of NVTX -------------------------------------------------------------------------- */

static nvtx_function functions[2][16], *tables[2][16];

static int function_table(int module, nvtx_function ***table, unsigned *count) {
    int i = module == NVTX_MODULE_CORE2;
    if (module != NVTX_MODULE_CORE && module != NVTX_MODULE_CORE2)
        return 0;
    for (int j = 1; j < 16; j++)
        tables[i][j] = &functions[i][j];
    *table = tables[i];
    *count = 16;
    return 1;
}

static const void *export_table(uint32_t table) {
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, function_table};
    return table == NVTX_EXPORT_CALLBACKS ? &callbacks : NULL;
}

static int push(const char *text) {
    return ((int (*)(const char *))functions[0][NVTX_RANGE_PUSH_A])(text);
}

static int pop(void) {
    return ((int (*)(void))functions[0][NVTX_RANGE_POP])();
}

static uint64_t start(const char *text) {
    return ((uint64_t(*)(const char *))functions[0][NVTX_RANGE_START_A])(text);
}

static void end(uint64_t id) {
    ((void (*)(uint64_t))functions[0][NVTX_RANGE_END])(id);
}

static void *domain(const char *name) {
    return ((void *(*)(const char *))functions[1][NVTX_DOMAIN_CREATE_A])(name);
}

static int domain_push(void *in, const char *text) {
    struct nvtx_attributes a = {.version = 3, .size = sizeof a, .message_type = NVTX_ASCII, .message = text};
    return ((int (*)(void *, const struct nvtx_attributes *))functions[1][NVTX_DOMAIN_RANGE_PUSH_EX])(in, &a);
}

static int domain_pop(void *in) {
    return ((int (*)(void *))functions[1][NVTX_DOMAIN_RANGE_POP])(in);
}

/* ---- what is open ---------------------------------------------------------------------------- */

static uint64_t key(void) {
    return label_source.key(current_thread());
}

/* Text of a string definition of the dump, read where it was written. */
static const char *string(uint32_t id) {
    static char text[4][256];
    static unsigned turn;
    const struct definitions *d = &recorder.definitions;
    for (uint32_t area = 0; area < d->area_count; area++)
        for (uint64_t at = 0; at < d->used[area];) {
            const struct string_definition *s = (const void *)(d->areas[area] + at);
            if (s->head.commit == (DEFINITION_MAGIC | DEFINITION_STRING) && s->id == id) {
                char *to = text[turn++ % 4];
                snprintf(to, sizeof text[0], "%.*s", (int)s->length, s->text);
                return to;
            }
            at += s->head.bytes ? s->head.bytes : 16;
        }
    return "undefined";
}

/* The open ranges, innermost first, as "text" or "domain:text" separated by bars. */
static const char *open_ranges(void) {
    static char all[16384];
    uint64_t entries[STACK_SOURCE_ROOM], k = key();
    size_t n = k ? label_source.entries(current_thread(), k, entries, STACK_SOURCE_ROOM) : 0, length = 0;
    all[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const char *bar = i ? "|" : "";
        uint32_t in = entries[i] >> 32 & 0x3fffffff;
        if (entries[i] == STACK_ENTRY_CUT) {
            length += (size_t)snprintf(all + length, sizeof all - length, "%scut", bar);
            continue;
        }
        assert_true((entries[i] & STACK_ENTRY_KIND) == STACK_ENTRY_LABEL);
        length += (size_t)snprintf(all + length, sizeof all - length, "%s%s%s%s", bar, in ? string(in) : "",
                                   in ? ":" : "", string((uint32_t)entries[i]));
    }
    return all;
}

static void test_ranges_nest(void **state) {
    (void)state;
    assert_int_equal(key(), 0);
    assert_int_equal(push("a"), 0);
    uint64_t outer = key();
    assert_int_equal(push("b"), 1);
    uint64_t inner = key();
    assert_string_equal(open_ranges(), "b|a");
    assert_true(outer && inner && outer != inner);
    assert_int_equal(pop(), 1);
    assert_true(key() == outer);
    assert_int_equal(push("b"), 1);
    assert_true(key() == inner); /* the same ranges, the same stack */
    pop();
    push("c");
    assert_true(key() != inner);
    pop();
    assert_int_equal(pop(), 0);
    assert_int_equal(key(), 0);
    assert_true(pop() < 0);
}

static void test_domains_pop_their_own(void **state) {
    (void)state;
    void *one = domain("one"), *two = domain("two");
    assert_ptr_equal(domain("one"), one);
    domain_push(one, "x");
    assert_int_equal(domain_push(two, "x"), 0);
    assert_string_equal(open_ranges(), "two:x|one:x");
    assert_int_equal(domain_pop(one), 0);
    assert_string_equal(open_ranges(), "two:x");
    assert_true(domain_pop(one) < 0 && pop() < 0);
    domain_pop(two);
    assert_string_equal(open_ranges(), "");
}

static void test_librarys_ranges_are_no_labels(void **state) {
    (void)state;
    void *nccl = domain("NCCL");
    push("job");
    domain_push(nccl, "ncclAllReduce");
    assert_string_equal(open_ranges(), "job");
    domain_pop(nccl);
    assert_string_equal(open_ranges(), "job");
    pop();
}

static void test_texts_are_copied_and_cut_between_characters(void **state) {
    (void)state;
    char text[LABEL_BYTES + 40];
    memset(text, 'a', sizeof text);
    memcpy(text + LABEL_BYTES - 1, "\xc3\xa9", 2); /* é across the limit */
    text[sizeof text - 1] = '\0';
    push(text);
    memset(text, 'z', sizeof text - 1);
    const char *got = open_ranges();
    assert_int_equal(strlen(got), LABEL_BYTES - 1);
    assert_int_equal(strspn(got, "a"), LABEL_BYTES - 1);
    pop();
    push("");
    push(NULL);
    assert_string_equal(open_ranges(), "");
    assert_int_equal(pop(), 1);
    pop();
}

static void test_deep_nesting_is_cut(void **state) {
    (void)state;
    for (unsigned i = 0; i < LABEL_LEVELS; i++)
        push("level");
    uint64_t full = key();
    for (unsigned i = 0; i < 10; i++)
        push("beyond");
    assert_true(key() != full);
    assert_true(!strncmp(open_ranges(), "cut|level|level", 15));
    for (unsigned i = 0; i < 10; i++)
        pop();
    assert_true(key() == full);
    for (unsigned i = 0; i < LABEL_LEVELS; i++)
        assert_int_equal(pop(), LABEL_LEVELS - 1 - i);
    assert_int_equal(key(), 0);
}

static void test_numbers_are_folded_late(void **state) {
    (void)state;
    char text[32];
    uint64_t folded = 0;
    for (unsigned i = 0; i < 3 * LABEL_NUMBERED; i++) {
        snprintf(text, sizeof text, "iteration 1%u!", i);
        push(text);
        assert_string_equal(open_ranges(), i < LABEL_NUMBERED ? text : "iteration #!");
        if (i == LABEL_NUMBERED)
            folded = key();
        if (i > LABEL_NUMBERED)
            assert_true(key() == folded);
        pop();
    }
    push("iteration 15!"); /* known before there were too many */
    assert_string_equal(open_ranges(), "iteration 15!");
    pop();
}

static void test_started_ranges_are_the_processs(void **state) {
    (void)state;
    uint64_t ids[LABEL_STARTED + 1], first = start("first"), second = start("second");
    push("own");
    assert_string_equal(open_ranges(), "own|second|first");
    end(first);
    assert_string_equal(open_ranges(), "own|second");
    end(first); /* again: nobody's */
    end(0);
    assert_string_equal(open_ranges(), "own|second");
    end(second);
    pop();
    assert_int_equal(key(), 0);
    for (unsigned i = 0; i < LABEL_STARTED + 1; i++)
        assert_true((ids[i] = start("many")) != 0);
    assert_int_equal(strlen(open_ranges()), LABEL_SHOWN * 5 - 1);
    for (unsigned i = 0; i < LABEL_STARTED + 1; i++)
        end(ids[i]);
    assert_string_equal(open_ranges(), "");
}

static bool done;

static char *const texts[2] = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                               "bbbbbbbbbbbbb"};

/* Starts and ends ranges of two texts in turn, in places that were just the other's, while another thread looks. */
static void *starter(void *unused) {
    (void)unused;
    for (unsigned i = 0; !__atomic_load_n(&done, __ATOMIC_RELAXED); i++)
        end(start(texts[i % 2]));
    return NULL;
}

static void test_starting_races_with_looking(void **state) {
    (void)state;
    pthread_t threads[2];
    done = false;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, starter, NULL), 0);
    for (int i = 0; i < 200000; i++)
        for (const char *each = open_ranges(); *each;) {
            size_t n = strcspn(each, "|");
            const char *text = *each == 'a' ? texts[0] : texts[1];
            assert_true(n == strlen(text) && !strncmp(each, text, n));
            each += n + (each[n] == '|');
        }
    __atomic_store_n(&done, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(key(), 0);
}

/* ---- regions --------------------------------------------------------------------------------- */

static bool inside(void) {
    return !(recorder.paused & QUIET_OUTSIDE);
}

static void test_a_region_lasts_as_long_as_its_ranges(void **state) {
    (void)state;
    assert_false(inside());
    push("region 1");
    assert_true(inside());
    push("region 2");
    push("other");
    assert_int_equal(pop(), 2);
    assert_int_equal(pop(), 1);
    assert_true(inside());
    pop();
    assert_false(inside());
    push("a region 1");
    assert_false(inside());
    pop();
    uint64_t first = start("region 1"), second = start("region 2");
    end(first);
    end(first);
    assert_true(inside());
    end(second);
    assert_false(inside());
}

static void *leaves_its_region_open(void *seen) {
    push("region of a thread");
    *(bool *)seen = inside();
    return NULL;
}

static void test_a_region_ends_with_its_thread(void **state) {
    (void)state;
    pthread_t thread;
    bool seen = false;
    assert_int_equal(pthread_create(&thread, NULL, leaves_its_region_open, &seen), 0);
    pthread_join(thread, NULL);
    assert_true(seen);
    assert_false(inside());
}

static void test_steps_outside_of_regions_are_not_marked(void **state) {
    (void)state;
    uint64_t before = recorder.lanes[0].head;
    record_mark(current_thread(), 100);
    assert_int_equal(recorder.lanes[0].head, before);
    push("region");
    record_mark(current_thread(), 100);
    assert_int_equal(recorder.lanes[0].head, before + 1);
    pop();
}

static void *opens_and_closes(void *unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        push("region");
        pop();
    }
    return NULL;
}

static void test_threads_that_open_regions_at_once_agree_at_the_end(void **state) {
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, opens_and_closes, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_false(inside());
}

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_RUN_ID", "labels", 1);
    setenv("COMMTAP_STACK", "full", 1);
    setenv("COMMTAP_REGION", "nvtx:region*", 1);
    knobs_read(&recorder.knobs);
    if (!activate_process() || !nvtx_attach(export_table) || nvtx_attach(NULL))
        return -1;
    return 0;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_nest),
        cmocka_unit_test(test_domains_pop_their_own),
        cmocka_unit_test(test_librarys_ranges_are_no_labels),
        cmocka_unit_test(test_texts_are_copied_and_cut_between_characters),
        cmocka_unit_test(test_deep_nesting_is_cut),
        cmocka_unit_test(test_numbers_are_folded_late),
        cmocka_unit_test(test_started_ranges_are_the_processs),
        cmocka_unit_test(test_starting_races_with_looking),
        cmocka_unit_test(test_a_region_lasts_as_long_as_its_ranges),
        cmocka_unit_test(test_a_region_ends_with_its_thread),
        cmocka_unit_test(test_steps_outside_of_regions_are_not_marked),
        cmocka_unit_test(test_threads_that_open_regions_at_once_agree_at_the_end),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
