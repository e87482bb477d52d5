/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that wait for several messages: which one they waited for, in scenes of three ranks with whole numbers.
 * Lives here: scenes made by hand. Must not live here: comparing pairs (test_links.c), records' matching.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/links/exchanges.h"

enum { RANKS = 3, CALLS = 40, APART = 1000000, BYTES = 4096 };

static const struct call_name names[] = {{.call_class = CLASS_RECV}, {.call_class = CLASS_SENDRECV}};
static struct match_call calls[] = {{.name = &names[0]}, {.name = &names[1]}};
static const struct match_directory directory = {.dump_count = RANKS, .calls = calls, .call_count = 2};
static struct clock_host hosts[1];
static struct clock_domain domains[1];
static uint32_t host_of[RANKS];
static int64_t none[RANKS];
static const struct common_clock one_host = {.dump_count = RANKS,
                                             .hosts = hosts,
                                             .host_count = 1,
                                             .host_of = host_of,
                                             .domains = domains,
                                             .domain_count = 1,
                                             .domain_of = host_of,
                                             .reading_error = none,
                                             .device_error = none};

/* Rank 0 posts two receives, waits for both from `wait` on, and goes on when the later one is there. */
struct scene {
    int64_t wait, sent[2], took[2];
    unsigned operations; /* that the call is said to have completed */
    bool test;
    uint64_t bytes;
};

static void note(struct exchanges *exchanges, enum record_kind kind, const struct call_name *call, int64_t left) {
    struct record record = {.kind = kind};
    exchanges_note(exchanges, &(struct match_record){.record = &record, .dump = 0, .t1 = left}, call);
}

static void play(struct exchanges *exchanges, const struct scene *scene, int64_t at) {
    static const struct call_name wait = {.call_class = CLASS_WAIT}, test = {.call_class = CLASS_TEST};
    int64_t left = at + scene->wait + 50;
    for (unsigned m = 0; m < 2; m++)
        if (at + scene->sent[m] + scene->took[m] > left)
            left = at + scene->sent[m] + scene->took[m];
    note(exchanges, RECORD_CALL, scene->test ? &test : &wait, left);
    for (unsigned i = 0; i < scene->operations; i++)
        note(exchanges, RECORD_DONE, NULL, left);
    for (unsigned m = 0; m < 2; m++) {
        struct match_message message = {.from_dump = m + 1, .to_dump = 0, .bytes = scene->bytes ? scene->bytes : BYTES};
        int64_t sent = at + scene->sent[m], over = sent + scene->took[m];
        message.send = (struct match_member){.enter = sent, .wait = sent, .leave = over};
        if (!scene->bytes) /* buffered */
            message.send.leave = sent + 1;
        message.receive = (struct match_member){.enter = at, .wait = at + scene->wait, .leave = left};
        exchanges_add(exchanges, &message);
    }
}

/* Half of the calls are `even`, half `odd`. */
static struct exchange_pair *try_scenes(const struct scene *even, const struct scene *odd, size_t *count) {
    struct exchanges exchanges;
    assert_true(exchanges_init(&exchanges, &one_host, &directory));
    for (int i = 0; i < CALLS; i++)
        play(&exchanges, i % 2 ? odd : even, (int64_t)(i + 1) * APART);
    exchanges_finish(&exchanges);
    struct exchange_pair *pairs = exchanges_pairs(&exchanges, 1, count);
    assert_false(exchanges.no_memory);
    exchanges_free(&exchanges);
    return pairs;
}

static void expect(const struct scene *even, const struct scene *odd, const uint32_t judged[2], const uint32_t low[2],
                   const uint32_t alone[2]) {
    size_t count;
    struct exchange_pair *pairs = try_scenes(even, odd, &count);
    size_t found = 0;
    for (unsigned m = 0; m < 2; m++) {
        if (!judged[m])
            continue;
        assert_true(found < count);
        const struct exchange_pair *pair = &pairs[found++];
        assert_int_equal(pair->from, m + 1);
        assert_int_equal(pair->to, 0);
        assert_int_equal(pair->count, judged[m]);
        assert_int_equal(pair->low, low[m]);
        assert_int_equal(pair->low_alone, alone[m]);
    }
    assert_int_equal(found, count);
    free(pairs);
}

/* Each is the later one in half of the calls, by 4800: the other is there after 10000, and so is over long before. */
static const struct scene first_late = {.wait = 100, .sent = {5000, 200}, .took = {10000, 10000}, .operations = 2};
static const struct scene second_late = {.wait = 100, .sent = {200, 5000}, .took = {10000, 10000}, .operations = 2};

static void the_later_one_was_waited_for(void **state) {
    (void)state;
    expect(&first_late, &second_late, (uint32_t[]){40, 40}, (uint32_t[]){20, 20}, (uint32_t[]){20, 20});
}

static void where_either_may_be_the_one_none_is(void **state) {
    (void)state;
    struct scene first = first_late, second = second_late;
    first.sent[1] = second.sent[0] = 3000; /* over after 13000 of 15000: within what times vary by */
    expect(&first, &second, (uint32_t[]){40, 40}, (uint32_t[]){40, 40}, (uint32_t[]){0, 0});
}

/* A slow first one holds all up that come with it: the second must show how fast it is. */
static void the_slower_one_hides_the_other(void **state) {
    (void)state;
    struct scene slow = first_late;
    slow.sent[0] = slow.sent[1] = 200;
    slow.took[0] = 30000;
    expect(&slow, &slow, (uint32_t[]){40, 40}, (uint32_t[]){40, 40}, (uint32_t[]){0, 0});
    struct scene later = slow;
    later.sent[1] = 22000; /* half of the time it comes late enough to show that it takes 10000 */
    expect(&slow, &later, (uint32_t[]){40, 40}, (uint32_t[]){40, 20}, (uint32_t[]){20, 0});
}

/* A send that ends only when the bytes have moved clears its message. */
static void a_send_that_is_over_clears_its_message(void **state) {
    (void)state;
    struct scene slow = first_late;
    slow.bytes = RENDEZVOUS_BYTES;
    slow.sent[0] = slow.sent[1] = 200;
    slow.took[0] = 30000;
    expect(&slow, &slow, (uint32_t[]){40, 40}, (uint32_t[]){40, 40}, (uint32_t[]){40, 0});
    slow.bytes = (1 << 20) - 1; /* less than a megabyte may have been buffered */
    expect(&slow, &slow, (uint32_t[]){40, 40}, (uint32_t[]){40, 40}, (uint32_t[]){0, 0});
}

static void calls_that_tell_nothing_accuse_nobody(void **state) {
    (void)state;
    struct scene first = first_late, second = second_late;
    first.operations = second.operations = 3; /* one of them is not known */
    expect(&first, &second, (uint32_t[]){40, 40}, (uint32_t[]){20, 20}, (uint32_t[]){0, 0});
    first.operations = second.operations = 2;
    first.test = second.test = true; /* a test does not wait: who knows how long they had been there */
    expect(&first, &second, (uint32_t[]){40, 40}, (uint32_t[]){20, 20}, (uint32_t[]){0, 0});
    first.test = second.test = false;
    first.wait = second.wait = 60000; /* all there before anybody waited */
    expect(&first, &second, (uint32_t[]){0, 0}, (uint32_t[]){0, 0}, (uint32_t[]){0, 0});
}

static int compare(const void *a, const void *b) {
    return memcmp(a, b, sizeof(struct exchange_pair));
}

/* More than is kept: the same sample, whoever gathered which part in which order. */
static void a_sample_does_not_depend_on_who_gathers_it(void **state) {
    (void)state;
    enum { MANY = 300000, PARTS = 2 };
    struct exchanges whole, parts[PARTS], joined;
    size_t count, parted;
    assert_true(exchanges_init(&whole, &one_host, &directory));
    assert_true(exchanges_init(&joined, &one_host, &directory));
    for (int p = 0; p < PARTS; p++)
        assert_true(exchanges_init(&parts[p], &one_host, &directory));
    for (int i = 0; i < MANY; i++) {
        play(&whole, i % 2 ? &second_late : &first_late, (int64_t)(i + 1) * APART);
        play(&parts[i % 7 == 6], i % 2 ? &second_late : &first_late, (int64_t)(i + 1) * APART);
    }
    exchanges_finish(&whole);
    for (int p = PARTS; p-- > 0;) {
        exchanges_finish(&parts[p]);
        exchanges_merge(&joined, &parts[p]);
    }
    assert_true(parts[0].limit < UINT64_MAX && parts[1].limit == UINT64_MAX);
    assert_true(whole.count <= EXCHANGE_ENDS_MOST);
    assert_true(whole.limit < UINT64_MAX);
    struct exchange_pair *one = exchanges_pairs(&whole, 1, &count);
    struct exchange_pair *other = exchanges_pairs(&joined, 1, &parted);
    assert_int_equal(count, 2);
    assert_int_equal(parted, 2);
    assert_int_equal(compare(one, other), 0);
    assert_int_equal(compare(one + 1, other + 1), 0);
    assert_true(one[0].alone > MANY / 2 * 0.97 && one[0].alone < MANY / 2 * 1.03);
    free(one);
    free(other);
    exchanges_free(&whole);
    exchanges_free(&joined);
    for (int p = 0; p < PARTS; p++)
        exchanges_free(&parts[p]);
}

/* ---- thresholds ------------------------------------------------------------------------------ */

/* The same of `calls` calls of which the first `others` are like `other`. Checks the message of each pair alike. */
static void expect_of(const struct scene *scene, const struct scene *other, int others, int calls, uint32_t judged,
                      uint32_t low, uint32_t alone) {
    struct exchanges exchanges;
    size_t count;
    assert_true(exchanges_init(&exchanges, &one_host, &directory));
    for (int i = 0; i < calls; i++)
        play(&exchanges, i < others ? other : scene, (int64_t)(i + 1) * APART);
    exchanges_finish(&exchanges);
    struct exchange_pair *pairs = exchanges_pairs(&exchanges, 1, &count);
    assert_int_equal(count, judged ? 2 : 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pairs[i].count, judged);
        assert_int_equal(pairs[i].low, low);
        assert_int_equal(pairs[i].low_alone, alone);
    }
    free(pairs);
    exchanges_free(&exchanges);
}

/* An operation that takes 10000 at most and began 13000 ago is over by then, one that began 12000 ago may not be. */
static void a_quarter_more_than_usual_is_over(void **state) {
    (void)state;
    struct scene first = first_late, second = second_late;
    first.sent[1] = second.sent[0] = 2000;
    expect_of(&first, &second, 20, 40, 40, 20, 20);
    first.sent[1] = second.sent[0] = 3000;
    expect_of(&first, &second, 20, 40, 40, 40, 0);
}

/* Sent at 200, there at 10200, and waited for from then on, or so much later: when it began is known to an eighth. */
static void a_message_is_judged_whose_begin_is_known_to_an_eighth(void **state) {
    (void)state;
    struct scene scene = {.sent = {200, 200}, .took = {10000, 10000}, .operations = 2};
    scene.wait = 200 + 1150;
    expect_of(&scene, &scene, 0, 40, 40, 40, 0);
    scene.wait = 200 + 1350;
    expect_of(&scene, &scene, 0, 40, 0, 0, 0);
}

/* What a pair takes when it is not held up is known from eight messages on. */
static void eight_messages_tell_what_a_pair_takes(void **state) {
    (void)state;
    expect_of(&first_late, &second_late, 4, 8, 8, 4, 4);
    expect_of(&first_late, &second_late, 3, 6, 6, 3, 0);
}

/* An eighth of the messages say what they take when not held up, not the fastest three of forty. */
static void a_few_fast_messages_are_not_what_a_pair_takes(void **state) {
    (void)state;
    struct scene usual = {.wait = 100, .sent = {200, 200}, .took = {10000, 10000}, .operations = 2}, fast = usual;
    fast.took[0] = fast.took[1] = 5000;
    expect_of(&usual, &fast, 3, 40, 40, 40, 0);
    expect_of(&usual, &fast, 7, 40, 40, 7, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_later_one_was_waited_for),
        cmocka_unit_test(where_either_may_be_the_one_none_is),
        cmocka_unit_test(the_slower_one_hides_the_other),
        cmocka_unit_test(a_send_that_is_over_clears_its_message),
        cmocka_unit_test(calls_that_tell_nothing_accuse_nobody),
        cmocka_unit_test(a_sample_does_not_depend_on_who_gathers_it),
        cmocka_unit_test(a_quarter_more_than_usual_is_over),
        cmocka_unit_test(a_message_is_judged_whose_begin_is_known_to_an_eighth),
        cmocka_unit_test(eight_messages_tell_what_a_pair_takes),
        cmocka_unit_test(a_few_fast_messages_are_not_what_a_pair_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
