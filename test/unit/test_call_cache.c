/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of calls: what is found again, what is not, and what makes it forget.
 * Lives here: one thread with made-up calls. Must not live here: what follows from a call
 * (test/e2e/test_call_cache.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/intercept/activate.h"
#include "shim/intercept/threads.h"
#include "shim/mpi/mpi_frame.h"
#include "shim/nccl/nccl_operations.h"
#include "shim/record/call_cache.h"

#define STACK 7u
#define PC    0x401000u

/* All that a cached call is known by. */
static const struct call full = {.comm = 1, .count = 2, .type = 3, .peer = 4, .redop = 5, .arity = 5};
static const struct call another = {.comm = 1, .count = 2, .type = 3, .peer = 4, .redop = 5, .arity = 5};

/* Arguments behind the word that position 0 finds. */
struct words {
    uintptr_t none, a[5];
};

static const struct words usual = {.a = {11, 12, 13, 14, 15}};

static char directory[] = "/tmp/commtap-unit-XXXXXX";

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    knobs_read(&recorder.knobs);
    return activate_process() && current_thread() ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static int empty(void **state) {
    call_cache_attach(current_thread());
    *state = current_thread();
    return 0;
}

static struct cached_call *find(struct thread *self, const struct words *w, uintptr_t pc) {
    return call_cache_find(self, &full, w->a, pc, STACK);
}

static struct cached_call *make(struct thread *self, const struct words *w, uintptr_t pc) {
    return call_cache_add(self, &full, w->a, pc, STACK);
}

/* ---- finding --------------------------------------------------------------------------------- */

static void test_the_same_call_is_found_again(void **state) {
    struct thread *self = *state;
    assert_null(find(self, &usual, PC));
    struct cached_call *made = make(self, &usual, PC);
    assert_non_null(made);
    struct words again = usual; /* found by value */
    assert_ptr_equal(find(self, &again, PC), made);
}

static void test_every_argument_tells_calls_apart(void **state) {
    struct thread *self = *state;
    make(self, &usual, PC);
    for (unsigned i = 0; i < 5; i++) {
        struct words other = usual;
        other.a[i] ^= 1;
        /* wherever it is looked for: by place alone most would not be met at all */
        for (unsigned at = 0; at < CALL_CACHE_ENTRIES; at++)
            assert_false(cached_call_matches(&call_cache_of(self)[at], &full, other.a, STACK));
        assert_null(find(self, &other, PC));
        other.a[i] = usual.a[i] | 1ull << 40; /* all of the word counts */
        assert_null(find(self, &other, PC));
    }
    for (unsigned at = 0; at < CALL_CACHE_ENTRIES; at++) {
        assert_false(cached_call_matches(&call_cache_of(self)[at], &another, usual.a, STACK));
        assert_false(cached_call_matches(&call_cache_of(self)[at], &full, usual.a, STACK + 1));
    }
    assert_non_null(find(self, &usual, PC));
}

/* An argument that the call does not have is no part of it; the words of others never come in. */
static void test_position_zero_has_none(void **state) {
    struct thread *self = *state;
    static const struct call count_only = {.count = 2, .arity = 5}, nothing = {.arity = 5};
    struct words other = {.a = {21, 12, 23, 24, 25}}, recounted = {.a = {11, 99, 13, 14, 15}};
    struct cached_call *counted = call_cache_add(self, &count_only, usual.a, PC, STACK);
    assert_int_equal(counted->count, 12);
    assert_int_equal(counted->object | counted->type | counted->partner | counted->redop, 0);
    assert_ptr_equal(call_cache_find(self, &count_only, other.a, PC, STACK), counted);
    assert_null(call_cache_find(self, &count_only, recounted.a, PC, STACK));
    struct cached_call *empty_one = call_cache_add(self, &nothing, usual.a, PC, STACK);
    assert_ptr_equal(call_cache_find(self, &nothing, recounted.a, PC, STACK), empty_one);
}

/* The three positions that share a word are never used together by calls that the cache holds. */
static void test_no_call_has_two_objects_or_partners(void **state) {
    (void)state;
    unsigned cached = 0;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        if (!kind_is_cached(call->kind) && !nccl_kind_is_cached(call->kind))
            continue;
        cached++;
        if ((call->comm != 0) + (call->win != 0) + (call->file != 0) > 1 || (call->peer && call->root))
            fail_msg("%s has two of what the cache knows one of", call->name);
        if (call->bytes <= BYTES_COUNT_N && (call->count2 || call->type2))
            fail_msg("%s: a second count or datatype would be no part of what is compared", call->name);
    }
    assert_true(cached > 30);
}

/* ---- calls that hash alike ------------------------------------------------------------------- */

/* Another return address in the same pair as PC's, the n-th. */
static uintptr_t alike(struct thread *self, unsigned n) {
    struct cached_call *pair = call_cache_places(self, &full, usual.a, PC);
    for (uintptr_t pc = PC + 1;; pc++)
        if (call_cache_places(self, &full, usual.a, pc) == pair && n-- == 0)
            return pc;
}

static struct words with_count(const struct words *w, uintptr_t count) {
    struct words changed = *w;
    changed.a[1] = count;
    return changed;
}

/* A count whose call from PC falls into the usual one's pair, the n-th. */
static struct words alike_by_count(struct thread *self, unsigned n) {
    struct cached_call *pair = call_cache_places(self, &full, usual.a, PC);
    for (uintptr_t count = 100;; count++) {
        struct words w = with_count(&usual, count);
        if (call_cache_places(self, &full, w.a, PC) == pair && n-- == 0)
            return w;
    }
}

static void test_two_calls_that_hash_alike_are_both_remembered(void **state) {
    struct thread *self = *state;
    struct words second = alike_by_count(self, 0);
    struct cached_call *a = make(self, &usual, PC), *b = make(self, &second, PC);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(find(self, &usual, PC), a);
    assert_ptr_equal(find(self, &second, PC), b);
    a->row_bytes = 1;
    b->row_bytes = 2;
    assert_int_equal(find(self, &usual, PC)->row_bytes, 1);
}

/* The return address chooses the place and nothing else: from anywhere the same arguments mean the same. */
static void test_one_call_from_two_places(void **state) {
    struct thread *self = *state;
    struct cached_call *made = make(self, &usual, PC);
    assert_ptr_equal(find(self, &usual, alike(self, 0)), made);
}

static void test_a_third_takes_the_place_of_one(void **state) {
    struct thread *self = *state;
    unsigned gone[2] = {0};
    for (unsigned round = 0; round < 16; round++) {
        empty(state);
        struct words second = alike_by_count(self, 0), third = alike_by_count(self, 1);
        struct cached_call *first = make(self, &usual, PC), *other = make(self, &second, PC);
        uint64_t serials[2] = {first->serial, other->serial};
        if (round % 2) /* between the two, so that the other one of the pair goes */
            make(self, &usual, PC + round * 64);
        struct cached_call *last = make(self, &third, PC);
        unsigned taken = last == other;
        assert_true(taken || last == first);
        gone[taken]++;
        assert_ptr_equal(find(self, &third, PC), last);
        assert_null(find(self, taken ? &second : &usual, PC));
        assert_non_null(find(self, taken ? &usual : &second, PC));
        assert_null(cached_call_again(self, cached_call_offset(self, last), serials[taken]));
        assert_ptr_equal(cached_call_again(self, cached_call_offset(self, last), last->serial), last);
    }
    assert_true(gone[0] && gone[1]); /* not always the same one */
}

/* What a place was for before must not count the next call. */
static void test_a_taken_place_has_no_rows(void **state) {
    struct thread *self = *state;
    static struct operation_row operation;
    static struct site_row site;
    static struct peer_row peer;
    for (unsigned i = 0; i < 4; i++) {
        struct words w = i ? alike_by_count(self, i) : usual;
        struct cached_call *s = make(self, &w, PC);
        assert_null(s->operation);
        assert_null(s->site);
        assert_null(s->peer);
        assert_int_equal(s->channel, 0);
        s->operation = &operation;
        s->site = &site;
        s->peer = &peer;
        s->channel = 5;
    }
}

/* ---- forgetting ------------------------------------------------------------------------------ */

static void test_all_is_forgotten_at_once(void **state) {
    struct thread *self = *state;
    struct words second = alike_by_count(self, 0);
    struct cached_call *a = make(self, &usual, PC), *b = make(self, &second, PC);
    uint64_t serials[2] = {a->serial, b->serial};
    call_cache_forget();
    assert_null(find(self, &usual, PC));
    assert_null(find(self, &second, PC));
    assert_null(cached_call_again(self, cached_call_offset(self, a), serials[0]));
    assert_null(cached_call_again(self, cached_call_offset(self, b), serials[1]));
    assert_non_null(make(self, &second, PC)); /* a forgotten one's place is free */
    assert_non_null(make(self, &usual, PC));
    assert_non_null(find(self, &usual, PC));
    assert_non_null(find(self, &second, PC));
}

static void test_serials_are_never_reused(void **state) {
    struct thread *self = *state;
    uint64_t last = 0;
    for (unsigned i = 0; i < 4 * CALL_CACHE_ENTRIES; i++) {
        struct words w = with_count(&usual, i);
        struct cached_call *s = make(self, &w, PC);
        assert_true(s->serial > last);
        last = s->serial;
        if (i % 100 == 99)
            call_cache_forget();
    }
    assert_null(cached_call_again(self, 0, 0)); /* 0: a request without a cached call, and a place never used */
}

/* A request completed by another thread than its own: that one's memory has no such serial. */
static void test_threads_do_not_meet_in_their_caches(void **state) {
    struct thread *self = *state, other = {0};
    struct cached_call *made = make(self, &usual, PC);
    call_cache_attach(&other);
    assert_null(cached_call_again(&other, cached_call_offset(self, made), made->serial));
    struct cached_call *same = make(&other, &usual, PC);
    assert_int_equal(cached_call_offset(&other, same), cached_call_offset(self, made));
    assert_null(cached_call_again(&other, cached_call_offset(self, made), made->serial));
    assert_null(cached_call_again(self, cached_call_offset(&other, same), same->serial));
    os_unmap(other.parts[PART_CALL_CACHE].memory, other.parts[PART_CALL_CACHE].bytes);
}

static void test_a_thread_that_takes_over_a_memory_finds_it_empty(void **state) {
    struct thread *self = *state;
    make(self, &usual, PC);
    call_cache_attach(self);
    assert_null(find(self, &usual, PC));
}

static void test_without_memory_nothing_is_remembered(void **state) {
    (void)state;
    struct thread bare = {0};
    assert_null(make(&bare, &usual, PC));
    assert_null(find(&bare, &usual, PC));
    assert_null(cached_call_again(&bare, 0, 1));
}

/* ---- counting -------------------------------------------------------------------------------- */

static void test_rows_are_learnt_for_one_size(void **state) {
    struct thread *self = *state;
    struct operation_sample sample = {.call = 20, .comm = 3, .bytes = 64, .time = 5};
    struct cached_call *s = make(self, &usual, PC);
    assert_false(cached_call_has_row(s, 64));
    operations_add(self->lane, &sample);
    cached_call_learn(s, self->lane, &sample);
    assert_true(cached_call_has_row(s, 64));
    assert_false(cached_call_has_row(s, 65)); /* a receive that got more */
    assert_false(cached_call_has_row(s, BYTES_UNKNOWN));
    assert_false(cached_call_has_row(NULL, 64));
    uint64_t before = s->operation->count;
    cached_call_count(s, 64, 9, 2, true);
    cached_call_count_untimed(s, 1);
    assert_int_equal(s->operation->count, before + 2);
    assert_int_equal(s->operation->bytes_total, 3 * 64);
    assert_int_equal(s->operation->time_total, 5 + 9);
    assert_int_equal(s->operation->untimed, 1);
    assert_int_equal(s->operation->posting_total, 3);
    assert_int_equal(s->operation->version % 2, 0);
}

static void test_what_no_row_is_for_is_not_learnt(void **state) {
    struct thread *self = *state;
    struct operation_sample unknown = {.call = 20, .comm = 3, .bytes = BYTES_UNKNOWN};
    struct operation_sample known = {.call = 20, .comm = 3, .bytes = 8};
    struct lane shared = *self->lane;
    struct cached_call *s = make(self, &usual, PC);
    cached_call_learn(NULL, self->lane, &known);
    cached_call_learn(s, self->lane, &unknown);
    assert_null(s->operation);
    shared.shared = true; /* its rows are not to be counted in without atomic additions */
    cached_call_learn(s, &shared, &known);
    assert_null(s->operation);
}

/* ---- records like the last one --------------------------------------------------------------- */

static void test_a_template_is_known_by_all_that_may_differ(void **state) {
    struct cached_call *s = make(*state, &usual, PC);
    assert_false(template_is_known(&s->recorded, 0, 0, 0));
    assert_false(template_is_known(&s->done, 0, 0, 0));
    template_learn(&s->recorded, 64, 7, FLAG_SEND, 5);
    assert_true(template_is_known(&s->recorded, 64, 7, FLAG_SEND));
    assert_false(template_is_known(&s->recorded, 65, 7, FLAG_SEND));
    assert_false(template_is_known(&s->recorded, 64, 8, FLAG_SEND));
    assert_false(template_is_known(&s->recorded, 64, 7, FLAG_SEND | FLAG_ORDINAL_UNKNOWN));
    template_learn(&s->recorded, 64, 9, FLAG_SEND, 0);               /* there was none */
    template_learn(&s->recorded, 64, 9, FLAG_SEND | FLAG_FAILED, 6); /* the error's number is not compared */
    assert_true(template_is_known(&s->recorded, 64, 7, FLAG_SEND));
    assert_int_equal(s->recorded.number, 5);
    assert_false(template_is_known(&make(*state, &usual, PC)->recorded, 64, 7, FLAG_SEND));
}

static struct operation_row *row_of(struct thread *self, uint64_t bytes) {
    uint64_t key = operation_key(commtap_calls[INDEX_MPI_Recv].id, SOURCE_HOST, PEER_CLASS_RANK, comm_and_epoch(3));
    return operations_find(self->lane, key, bytes);
}

static void receive(struct thread *self, struct cached_call *cached, uint64_t bytes, int32_t tag) {
    static uintptr_t words[8];
    struct call_frame f;
    begin_frame(&f, &commtap_calls[INDEX_MPI_Recv], words + 1, self);
    f.cached = cached;
    f.comm_index = 3;
    f.bytes = bytes;
    f.peer = 1;
    f.tag = tag;
    f.flags = FLAG_RECV;
    f.peer_class = PEER_CLASS_RANK;
    f.failed = false;
    f.quiet = 0;
    f.t0 = ticks();
    f.t1 = f.t0 + 100;
    emit_call(&f);
}

/* What the library returned without having failed stands in the record: no template of the others says it. */
static void test_a_result_is_recorded_where_it_came(void **state) {
    struct thread *self = *state;
    struct cached_call *s = make(self, &usual, PC);
    for (unsigned i = 0; i < 3; i++)
        receive(self, s, 2000, 7);
    struct call_frame f = {.self = self, .cached = s, .id = 20, .bytes = 2000, .tag = 7, .flags = FLAG_RECV};
    assert_true(template_is_known(&s->recorded, 2000, 7, FLAG_RECV));
    f.t1 = ticks();
    f.t0 = f.t1 - 100;
    assert_true(record_frame_known(&f, 7, 0, 0));
    f.result = 7;
    assert_false(record_frame_known(&f, 7, 0, 0));
    record_frame_rare(&f, RECORD_CALL, 7, 0, 0);
    f.result = 0;
    assert_true(record_frame_known(&f, 7, 0, 0)); /* it was not learnt either */
    const struct templates *templates = self->lane->pages.templates;
    struct record_template row;
    memcpy(&row, &templates->rows[s->recorded.number], sizeof row);
    assert_int_equal(row.result, 0);
}

/* One call site that receives what comes. The third size finds no room among the templates, and a row of its own. */
static void test_sizes_that_change_are_counted_where_they_belong(void **state) {
    struct thread *self = *state;
    struct cached_call *s = make(self, &usual, PC);
    struct templates *templates = self->lane->pages.templates;
    uint64_t head = self->lane->head;
    unsigned counts[3] = {0};
    static const uint8_t order[] = {0, 0, 1, 1, 0, 1, 0, 0, 2, 0, 0, 2, 2, 1, 2, 1, 1};
    for (unsigned i = 0; i < sizeof order; i++) {
        if (order[i] == 2 && !counts[2])
            templates->limit = templates->count;
        receive(self, s, 1000 + order[i], order[i] == 1 && i % 2 ? 8 : 7);
        counts[order[i]]++;
    }
    templates->limit = TEMPLATES_MAX;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(row_of(self, 1000 + i)->count, counts[i]);
        assert_int_equal(row_of(self, 1000 + i)->bytes_total, counts[i] * (1000 + i));
    }
    assert_int_equal(self->lane->head, head + sizeof order);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_same_call_is_found_again, empty),
        cmocka_unit_test_setup(test_every_argument_tells_calls_apart, empty),
        cmocka_unit_test_setup(test_position_zero_has_none, empty),
        cmocka_unit_test(test_no_call_has_two_objects_or_partners),
        cmocka_unit_test_setup(test_two_calls_that_hash_alike_are_both_remembered, empty),
        cmocka_unit_test_setup(test_one_call_from_two_places, empty),
        cmocka_unit_test_setup(test_a_third_takes_the_place_of_one, empty),
        cmocka_unit_test_setup(test_a_taken_place_has_no_rows, empty),
        cmocka_unit_test_setup(test_all_is_forgotten_at_once, empty),
        cmocka_unit_test_setup(test_serials_are_never_reused, empty),
        cmocka_unit_test_setup(test_threads_do_not_meet_in_their_caches, empty),
        cmocka_unit_test_setup(test_a_thread_that_takes_over_a_memory_finds_it_empty, empty),
        cmocka_unit_test(test_without_memory_nothing_is_remembered),
        cmocka_unit_test_setup(test_rows_are_learnt_for_one_size, empty),
        cmocka_unit_test_setup(test_what_no_row_is_for_is_not_learnt, empty),
        cmocka_unit_test_setup(test_a_template_is_known_by_all_that_may_differ, empty),
        cmocka_unit_test_setup(test_a_result_is_recorded_where_it_came, empty),
        cmocka_unit_test_setup(test_sizes_that_change_are_counted_where_they_belong, empty),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
