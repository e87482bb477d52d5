/* SPDX-License-Identifier: Apache-2.0
 *
 * Call stacks where nothing is as it should be: damaged unwind tables, registers that point nowhere, full tables; and
 * how the frames of several sources become one stack.
 * Must not live here: whether the frames of sound programs are right (test/stacks).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <link.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/base/unloads.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/threads.h"
#include "shim/record/recorder.h"
#include "shim/stacks/cfi.h"
#include "shim/stacks/modules.h"
#include "shim/stacks/stacks.h"
#include "shim/stacks/view.h"

static char directory[] = "/tmp/commtap-unit-XXXXXX";

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_STACK", "native", 1);
    setenv("COMMTAP_STACK_DEPTH", "20", 1);
    knobs_read(&recorder.knobs);
    return activate_process() ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* ---- unwind tables --------------------------------------------------------------------------- */

/* A copy of the tables of the library with qsort (libc, or a sanitizer), of exactly their size; its code moves along.
 */
struct copy {
    struct cfi_tables tables;
    uint8_t *bytes;
    size_t size;
    uintptr_t moved, text, text_size;
};

static struct copy copy_tables(void) {
    struct module library;
    assert_true(modules_find((uintptr_t)qsort, &library));
    struct copy copy = {.size = (size_t)(library.tables.end - library.tables.start)};
    copy.bytes = malloc(copy.size);
    memcpy(copy.bytes, library.tables.start, copy.size);
    copy.moved = (uintptr_t)copy.bytes - (uintptr_t)library.tables.start;
    copy.text = library.start + copy.moved;
    copy.text_size = library.end - library.start;
    copy.tables = (struct cfi_tables){copy.bytes, copy.bytes + copy.size, library.tables.header + copy.moved};
    return copy;
}

static unsigned count_rules(const struct copy *copy, unsigned lookups) {
    unsigned plain = 0;
    for (unsigned i = 0; i < lookups; i++) {
        struct frame_rule rule = cfi_find_rule(&copy->tables, copy->text + draw() % copy->text_size);
        assert_int_not_equal(rule.kind, RULE_NONE);
        plain += rule.kind == RULE_SP || rule.kind == RULE_FP;
    }
    return plain;
}

static void test_damaged_tables_are_read_within_their_bounds(void **state) {
    (void)state;
    struct copy copy = copy_tables();
    unsigned sound = count_rules(&copy, 4000);
    assert_in_range(sound, 200, 4000);
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 400; i++)
            copy.bytes[draw() % copy.size] = (uint8_t)draw();
        /* the header itself and its table, too: always another part of it */
        size_t header = (size_t)(copy.tables.header - copy.bytes);
        copy.bytes[header + draw() % (round % 2 ? 12 : copy.size - header)] = (uint8_t)draw();
        count_rules(&copy, 200);
    }
    free(copy.bytes);
}

static void test_tables_may_end_anywhere(void **state) {
    (void)state;
    struct copy copy = copy_tables();
    size_t header = (size_t)(copy.tables.header - copy.bytes);
    for (int round = 0; round < 200; round++) {
        size_t size = header + draw() % (copy.size - header);
        struct copy cut = {.bytes = malloc(size + 1), .size = size, .text_size = copy.text_size};
        memcpy(cut.bytes, copy.bytes, size);
        cut.text = copy.text + (uintptr_t)cut.bytes - (uintptr_t)copy.bytes;
        cut.tables = (struct cfi_tables){cut.bytes, cut.bytes + size, cut.bytes + header};
        count_rules(&cut, 50);
        free(cut.bytes);
    }
    struct cfi_tables none = {NULL, NULL, NULL};
    assert_int_equal(cfi_find_rule(&none, 4711).kind, RULE_CHAIN);
    free(copy.bytes);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static const struct stack_definition *definition_of(uint32_t id) {
    for (uint32_t a = 0; a < recorder.definitions.area_count; a++)
        for (uint64_t at = 0; at < recorder.definitions.used[a];) {
            const struct stack_definition *d = (const void *)(recorder.definitions.areas[a] + at);
            if (d->head.commit == (DEFINITION_MAGIC | DEFINITION_STACK) && d->id == id)
                return d;
            at += d->head.bytes;
        }
    return NULL;
}

static void test_registers_that_point_nowhere(void **state) {
    (void)state;
    struct thread *self = current_thread();
    uintptr_t places[] = {0,
                          8,
                          1,
                          UINTPTR_MAX,
                          UINTPTR_MAX - 7,
                          (uintptr_t)&places,
                          (uintptr_t)qsort + 5,
                          (uintptr_t)self,
                          0x7fffffffffff,
                          1ull << 63};
    unsigned n = sizeof places / sizeof *places;
    uint64_t truncated = recorder.header->losses.stacks_truncated;
    for (unsigned i = 0; i < 3000; i++) {
        uintptr_t pc = places[draw() % n], sp = places[draw() % n], fp = places[draw() % n];
        if (draw() % 2)
            pc = (uintptr_t)qsort + draw() % 100000;
        if (pc == 0) /* no call returns there: it marks a memo that remembers nothing */
            pc = 8;
        uint32_t id = stack_take(self, pc, sp, fp);
        const struct stack_definition *d = definition_of(id);
        assert_non_null(d);
        assert_in_range(d->depth, 1, 21);
        assert_int_equal(d->entries[0], pc);
    }
    assert_true(recorder.header->losses.stacks_truncated > truncated);
}

static void test_only_readable_words_are_read(void **state) {
    (void)state;
    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    struct stack_view view = {.low = 0};
    uintptr_t word, middle = (uintptr_t)pages + 4096;
    assert_true(view_read(&view, middle - 8, &word));
    assert_false(view_read(&view, middle, &word));
    assert_true(view_read(&view, middle + 4096, &word));
    assert_false(view_read(&view, middle - 4, &word));
    munmap(pages, 3 * 4096);
    view_begin(&view, middle);
    assert_false(view_read(&view, middle + 4096, &word));
    view_begin(&view, (uintptr_t)&word & ~(uintptr_t)15);
    assert_true(view_read(&view, (uintptr_t)&word, &word));
}

/* Any place behind a call. */
__attribute__((noinline)) static uintptr_t return_address(void) {
    return (uintptr_t)__builtin_return_address(0);
}

/* A chain of frame pointers through memory that is no stack of this thread: what is remembered of it must not be read
 * again unasked, since its owner may give it back. */
static void test_memory_of_others_may_go(void **state) {
    (void)state;
    char *pages = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t *first = (uintptr_t *)(pages + 1024), *second = (uintptr_t *)(pages + 4096);
    uintptr_t pc = (uintptr_t)pages + 8; /* code without tables */
    first[0] = (uintptr_t)second;
    first[1] = pc;
    second[1] = return_address();
    struct thread *self = current_thread();
    uint32_t whole = stack_take(self, pc, (uintptr_t)pages + 512, (uintptr_t)first);
    assert_in_range(definition_of(whole)->depth, 3, 21);
    assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    assert_int_not_equal(stack_take(self, pc, (uintptr_t)pages + 512, (uintptr_t)first), whole);
    munmap(pages, 2 * 4096);
}

__attribute__((noinline)) static uint32_t recurse(struct thread *self, int depth) {
    if (depth == 0)
        return stack_here(self, __builtin_frame_address(0), (uintptr_t)__builtin_dwarf_cfa());
    volatile uint32_t id = recurse(self, depth - 1);
    return id;
}

static void test_depth_is_limited_and_marked(void **state) {
    (void)state;
    const struct stack_definition *d = definition_of(recurse(current_thread(), 40));
    assert_int_equal(d->depth, 21);
    assert_true(d->entries[20] == STACK_ENTRY_CUT);
    for (int i = 1; i < 20; i++)
        assert_int_equal(d->entries[i], d->entries[1]);
}

static bool looked_behind_search;

/* Called by a function of libc that saves the frame pointer and finds its frame without it. */
static int look_behind_search(const void *key, const void *element) {
    (void)key;
    (void)element;
    const uintptr_t *frame = __builtin_frame_address(0);
    uintptr_t pc = frame[1], sp = (uintptr_t)__builtin_dwarf_cfa();
    struct thread *self = current_thread();
    struct module module;
    assert_true(modules_find(pc - 1, &module));
    struct frame_rule rule = cfi_find_rule(&module.tables, pc);
    if (rule.kind != RULE_SP || rule.frame_pointer != FP_AT_CFA)
        return 0;
    uint32_t id = stack_here(self, frame, sp);
    uint64_t walked = self->measured.rare;
    assert_int_equal(stack_take(self, pc, sp, frame[0] + 4711), id);
    assert_int_equal(stack_take(self, pc, sp, 0), id);
    assert_int_equal(self->measured.rare, walked);
    looked_behind_search = true;
    return 0;
}

/* Most code has other uses for that register: a loop that counts in it makes the same call each time. */
static void test_a_frame_pointer_that_no_frame_follows_from(void **state) {
    (void)state;
    int element = 1;
    size_t count = 1;
    lfind(&element, &element, &count, sizeof element, look_behind_search);
    if (!looked_behind_search)
        skip();
}

/* ---- sources --------------------------------------------------------------------------------- */

static uint64_t python_key, label_key;
static const uint32_t awake = 1;

static bool yes(void) {
    return true;
}

static bool no(void) {
    return false;
}

static uint64_t give_python_key(struct thread *self) {
    (void)self;
    return python_key;
}

static uint64_t give_label_key(struct thread *self) {
    (void)self;
    return label_key;
}

static size_t give_python(struct thread *self, uint64_t key, uint64_t *entries, size_t room) {
    (void)self;
    assert_int_equal(room, STACK_SOURCE_ROOM);
    for (uint64_t i = 0; i < key; i++)
        entries[i] = STACK_ENTRY_PYTHON | i;
    return key;
}

static size_t give_label(struct thread *self, uint64_t key, uint64_t *entries, size_t room) {
    (void)self;
    (void)room;
    entries[0] = STACK_ENTRY_LABEL | key;
    return 1;
}

static void test_sources_follow_the_native_frames(void **state) {
    (void)state;
    static const struct stack_source python = {yes, &awake, give_python_key, give_python};
    static const struct stack_source labels = {yes, &awake, give_label_key, give_label};
    static const struct stack_source absent = {no, &awake, give_label_key, give_label};
    struct thread *self = current_thread();
    uint32_t ids[2][3][3];
    assert_true(stacks_change("full")); /* else no source is asked */
    stacks_add_source(1, &absent);
    stacks_add_source(0, &python);
    label_key = 1;
    for (int round = 0; round < 2; round++)
        for (python_key = 0; python_key < 3; python_key++)
            for (label_key = 0; label_key < 3; label_key++) {
                ids[round][python_key][label_key] = recurse(self, 2);
                if (python_key == 0 && label_key == 0)
                    stacks_add_source(1, &labels);
            }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    const struct stack_definition *native = definition_of(ids[0][0][0]), *all = definition_of(ids[0][2][1]);
    assert_int_equal(all->depth, native->depth + 3);
    assert_memory_equal(all->entries, native->entries, native->depth * sizeof *native->entries);
    assert_true(all->entries[native->depth] == STACK_ENTRY_PYTHON);
    assert_true(all->entries[native->depth + 1] == (STACK_ENTRY_PYTHON | 1));
    assert_true(all->entries[native->depth + 2] == (STACK_ENTRY_LABEL | 1));
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(ids[0][i / 3][i % 3], ids[0][k / 3][k % 3]);
    python_key = label_key = 0;
    assert_true(stacks_change("native"));
}

/* More stacks than the tables hold: the rest has no id, is counted, and those that have one keep it. */
static void test_full_tables(void **state) {
    (void)state;
    struct thread *self = current_thread();
    uint32_t first = stack_take(self, 1, 0, 0), without = 0;
    uint64_t lost = recorder.header->losses.definitions_full;
    for (uintptr_t pc = 2; pc < 80000; pc++)
        without += stack_take(self, 1 + 2 * pc, 0, 0) == STACK_NONE;
    assert_true(without > 0);
    assert_true(recorder.header->losses.definitions_full >= lost + without);
    assert_int_equal(stack_take(self, 1, 0, 0), first);
}

static void test_closing_what_stays_loaded_forgets_nothing(void **state) {
    (void)state;
    void *first = dlopen("libBrokenLocale.so.1", RTLD_NOW), *second = dlopen("libBrokenLocale.so.1", RTLD_NOW);
    if (!first) /* a part of glibc that nobody uses */
        skip();
    unloads_look();
    uint32_t before = unloads_so_far;
    dlclose(second);
    unloads_look();
    assert_int_equal(unloads_so_far, before);
    dlclose(first);
    unloads_look();
    assert_int_equal(unloads_so_far, before + 1);
    unloads_look();
    assert_int_equal(unloads_so_far, before + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_tables_are_read_within_their_bounds),
        cmocka_unit_test(test_tables_may_end_anywhere),
        cmocka_unit_test(test_registers_that_point_nowhere),
        cmocka_unit_test(test_only_readable_words_are_read),
        cmocka_unit_test(test_memory_of_others_may_go),
        cmocka_unit_test(test_depth_is_limited_and_marked),
        cmocka_unit_test(test_a_frame_pointer_that_no_frame_follows_from),
        cmocka_unit_test(test_sources_follow_the_native_frames),
        cmocka_unit_test(test_full_tables),
        cmocka_unit_test(test_closing_what_stays_loaded_forgets_nothing),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
