/* SPDX-License-Identifier: Apache-2.0
 *
 * Bandwidth of links against their like, with messages whose times are set by hand.
 * Lives here: sums and shares, what is like what, what is said of it beyond a limit.
 * Must not live here: who is named for a slow link (test_links.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/findings/advice.h"

enum { RANKS = 16, PER_HOST = 8, HOSTS = 2, TIMES = 40, US = 1000, MIB = 1 << 20 };

static struct dump_header headers[RANKS];
static struct dump dumps[RANKS];
static struct dump *dump_list[RANKS];
static struct clock_host hosts[HOSTS];
static struct clock_domain domains[HOSTS];
static uint32_t host_of[RANKS], numbers[RANKS];
static int64_t none[RANKS];
static struct transfer_row rows[RANKS];
static struct match_place places[RANKS], *place_lists[RANKS];
static struct match_communicator world = {
    .size = RANKS, .first_size = RANKS, .dump_count = RANKS, .dump_of = numbers, .rank_of = numbers};
static const struct match_directory directory = {
    .dumps = dump_list, .dump_count = RANKS, .communicators = &world, .communicator_count = 1, .places = place_lists};
static const struct common_clock a_clock = {.dumps = dump_list,
                                            .dump_count = RANKS,
                                            .hosts = hosts,
                                            .host_count = HOSTS,
                                            .host_of = host_of,
                                            .domains = domains,
                                            .domain_count = HOSTS,
                                            .domain_of = host_of,
                                            .reading_error = none,
                                            .device_error = none};

static int make_ranks(void **state) {
    (void)state;
    memset(rows, 0, sizeof rows);
    for (uint32_t r = 0; r < RANKS; r++) {
        headers[r].rank = (int32_t)r;
        numbers[r] = r;
        host_of[r] = r / PER_HOST;
        places[r] = (struct match_place){0, r};
        place_lists[r] = &places[r];
        dump_list[r] = &dumps[r];
        dumps[r] =
            (struct dump){.header = &headers[r], .transfers = &rows[r], .transfer_count = 1, .communicator_count = 1};
    }
    return 0;
}

/* The receiver is there first, the sender leaves with the message. */
static void send(struct links *links, uint32_t from, uint32_t to, uint64_t bytes, unsigned times, int64_t took) {
    for (unsigned i = 0; i < times; i++) {
        int64_t at = 1000000000 + (int64_t)i * 10000000;
        struct match_message message = {.from_dump = from, .to_dump = to, .bytes = bytes};
        message.send = (struct match_member){.enter = at, .wait = at, .leave = at + took, .call = CALL_UNKNOWN};
        message.receive =
            (struct match_member){.enter = at - 50, .wait = at - 50, .leave = at + took, .call = CALL_UNKNOWN};
        links_add(links, &message);
    }
}

static struct link_bandwidth *compare(struct links *links, size_t *count) {
    bool no_memory = false;
    struct link_bandwidth *found = link_bandwidths(links, count, &no_memory);
    assert_false(no_memory);
    return found;
}

static void begin(struct links *links) {
    assert_true(links_init(links, &a_clock, &directory));
}

static bool is_said(const struct links *links, const char *limit) {
    struct findings findings = {0};
    struct advice_limits limits = advice_standard();
    assert_true(!limit || advice_parse(limit, &limits));
    advice_add_links(&findings, links, &limits);
    bool said = findings.count == 1 && strcmp(findings.items[0].code, "link_bandwidth") == 0;
    assert_true(said || findings.count == 0);
    if (said)
        assert_non_null(strstr(findings.items[0].text, "1 of 4 links"));
    findings_free(&findings);
    return said;
}

/* Three links take 100 us for a message, one 160: the mean of 1, 1, 1, 5/8 is 29/32, of which 5/8 is 20/29. */
static void a_link_is_compared_with_the_mean_of_its_like(void **state) {
    (void)state;
    struct links links;
    size_t count;
    begin(&links);
    for (uint32_t r = 0; r < 4; r++)
        send(&links, r, r + 1, MIB, TIMES, r == 2 ? 160 * US : 100 * US);
    struct link_bandwidth *found = compare(&links, &count);
    assert_int_equal(count, 4);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(found[r].from, r);
        assert_int_equal(found[r].to, r + 1);
        assert_int_equal(found[r].messages, TIMES);
        assert_int_equal(found[r].bytes, TIMES * MIB);
        assert_int_equal(found[r].took_ns, TIMES * (r == 2 ? 160 : 100) * US);
        assert_false(found[r].between_hosts || found[r].steps);
        assert_true(fabs(found[r].share * 29 / 32 / (r == 2 ? 0.625 : 1) - 1) < 0.09);
    }
    free(found);
    assert_true(is_said(&links, NULL));
    assert_true(is_said(&links, "link=22"));
    assert_false(is_said(&links, "link=36"));
    links_free(&links);
}

/* Half the bandwidth where messages are small, or where they go to another host, is how it should be. */
static void only_like_is_compared_with_like(void **state) {
    (void)state;
    struct links links;
    size_t count;
    begin(&links);
    for (uint32_t r = 0; r < 4; r++) {
        send(&links, r, r + 1, MIB, TIMES, 100 * US);
        send(&links, r, r + 2, MIB / 8, TIMES, 25 * US);
        send(&links, r, r + PER_HOST, MIB, TIMES, 200 * US);
        send(&links, r, r + PER_HOST, MIB / 8, 3 * TIMES, 100 * US);
        send(&links, r + 8, r + 9, 512, TIMES, r == 2 ? 500 * US : 1 * US); /* too small to tell */
    }
    struct link_bandwidth *found = compare(&links, &count);
    assert_int_equal(count, 12);
    for (size_t i = 0; i < count; i++) {
        assert_true(fabs(found[i].share - 1) < 1e-9);
        assert_int_equal(found[i].between_hosts, found[i].to >= PER_HOST);
    }
    free(found);
    assert_false(is_said(&links, NULL));
    links_free(&links);
}

static void too_few_links_or_messages_compare_with_nothing(void **state) {
    (void)state;
    struct links links;
    size_t count;
    begin(&links);
    for (uint32_t r = 0; r < LINKS_LIKE_MIN - 1; r++)
        send(&links, r, r + 1, MIB, TIMES, r == 2 ? 400 * US : 100 * US);
    send(&links, 4, 5, MIB, LINK_MESSAGES_MIN - 1, 100 * US);
    send(&links, 5, 6, 4 * MIB, TIMES, 400 * US);
    free(compare(&links, &count));
    assert_int_equal(count, 0);
    send(&links, 4, 5, MIB, 1, 100 * US);
    free(compare(&links, &count));
    assert_int_equal(count, 4);
    links_free(&links);
}

/* Four links, so many messages of that size each, the last of which takes so long where the others take 100 us. */
static struct links four_links(uint64_t bytes, unsigned times, int64_t last) {
    struct links links;
    begin(&links);
    for (uint32_t r = 0; r < 4; r++)
        send(&links, r, r + 1, bytes, times, r == 3 ? last : 100 * US);
    return links;
}

static size_t count_compared(uint64_t bytes, unsigned times) {
    struct links links = four_links(bytes, times, 100 * US);
    size_t count;
    free(compare(&links, &count));
    links_free(&links);
    return count;
}

static void messages_count_from_64_kib_and_32_of_them_on(void **state) {
    (void)state;
    assert_int_equal(count_compared(65536, 32), 4);
    assert_int_equal(count_compared(60000, 32), 0);
    assert_int_equal(count_compared(65536, 31), 0);
}

static void a_fifth_below_the_mean_is_said(void **state) {
    (void)state;
    struct links slow = four_links(MIB, TIMES, 150 * US), usual = four_links(MIB, TIMES, 123 * US);
    assert_true(is_said(&slow, NULL));   /* 2/3 of a mean of 11/12: 73 % */
    assert_false(is_said(&usual, NULL)); /* 85 % */
    links_free(&slow);
    links_free(&usual);
}

/* Nine links of one host, of which three are as much faster than the middle ones as three are slower, but for the last,
 * which takes `slowest` times as long. */
static bool is_said_beside(double differ, double slowest) {
    struct links links;
    struct findings findings = {0};
    struct advice_limits limits = advice_standard();
    begin(&links);
    for (uint32_t i = 0; i < 9; i++) {
        uint32_t from = i / 3, to = (from + 1 + i % 3) % 4;
        double factor = i == 8 ? slowest : exp(differ * ((double)(i % 3) - 1));
        send(&links, from, to, MIB, TIMES, (int64_t)(100 * US * factor));
    }
    advice_add_links(&findings, &links, &limits);
    bool said = findings.count > 0;
    findings_free(&findings);
    links_free(&links);
    return said;
}

/* Where links differ by some 10 % anyway, two standard errors of it are left to chance. */
static void two_standard_errors_are_left_to_chance(void **state) {
    (void)state;
    assert_false(is_said_beside(0.1, 1.5));
    assert_true(is_said_beside(0.08, 1.75));
}

static void a_message_held_up_makes_no_slow_link(void **state) {
    (void)state;
    struct links links;
    begin(&links);
    for (uint32_t r = 0; r < 4; r++)
        send(&links, r, r + 1, MIB, TIMES, 100 * US);
    send(&links, 2, 3, MIB, 1, 100 * 100 * US); /* so much that by the sums it has a third of the bandwidth */
    assert_false(is_said(&links, NULL));
    links_free(&links);
}

/* Four are as slow as four are fast: that is how links of this job differ, and no link's fault. */
static void links_that_differ_anyway_are_not_said_to_be_slow(void **state) {
    (void)state;
    struct links links;
    size_t count;
    begin(&links);
    for (uint32_t r = 0; r < 8; r++)
        send(&links, r, r ^ 1, MIB, TIMES, r % 2 ? 200 * US : 100 * US);
    struct link_bandwidth *found = compare(&links, &count);
    assert_int_equal(count, 8);
    assert_true(fabs(found[1].share * 3 / 2 - 1) < 0.09); /* half of a mean of 3/4 */
    assert_true(found[1].error > 0.5);
    free(found);
    assert_false(is_said(&links, NULL));
    links_free(&links);
}

static void workers_add_up(void **state) {
    (void)state;
    struct links whole, part;
    size_t count;
    begin(&whole);
    begin(&part);
    for (uint32_t r = 0; r < 4; r++) {
        send(&whole, r, r + 1, MIB, TIMES / 2, 100 * US);
        send(&part, r, r + 1, MIB, TIMES / 2, 100 * US);
    }
    links_merge(&whole, &part);
    struct link_bandwidth *found = compare(&whole, &count);
    assert_int_equal(count, 4);
    assert_int_equal(found[3].messages, TIMES);
    assert_int_equal(found[3].bytes, TIMES * MIB);
    assert_int_equal(found[3].took_ns, TIMES * 100 * US);
    free(found);
    links_free(&whole);
    links_free(&part);
}

static void proxies_are_compared_among_themselves(void **state) {
    (void)state;
    struct links links;
    size_t count;
    begin(&links);
    for (uint32_t r = 0; r < 4; r++) {
        rows[r] = (struct transfer_row){.version = 2,
                                        .peer = (int32_t)r + PER_HOST,
                                        .sends = 1,
                                        .channels = 1,
                                        .operations = 4000,
                                        .steps = 8000,
                                        .bytes = UINT64_C(8000) * 524288,
                                        .wait_wire = UINT64_C(8000) * (r == 1 ? 80 : 40) * US};
        send(&links, r, r + PER_HOST, 524288, TIMES, 10 * US);
    }
    struct link_bandwidth *found = compare(&links, &count);
    assert_int_equal(count, 8);
    for (size_t i = 0; i < count; i++) {
        double share = i < 4 ? 1 : i == 5 ? 4.0 / 7 : 8.0 / 7; /* mean of 1, 1/2, 1, 1: 7/8 */
        assert_int_equal(found[i].steps, i >= 4);
        assert_true(found[i].between_hosts);
        assert_true(fabs(found[i].share - share) < 1e-9);
        assert_int_equal(found[i].messages, i < 4 ? TIMES : 8000);
    }
    free(found);
    links_free(&links);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_link_is_compared_with_the_mean_of_its_like, make_ranks),
        cmocka_unit_test_setup(only_like_is_compared_with_like, make_ranks),
        cmocka_unit_test_setup(too_few_links_or_messages_compare_with_nothing, make_ranks),
        cmocka_unit_test_setup(messages_count_from_64_kib_and_32_of_them_on, make_ranks),
        cmocka_unit_test_setup(a_fifth_below_the_mean_is_said, make_ranks),
        cmocka_unit_test_setup(two_standard_errors_are_left_to_chance, make_ranks),
        cmocka_unit_test_setup(a_message_held_up_makes_no_slow_link, make_ranks),
        cmocka_unit_test_setup(links_that_differ_anyway_are_not_said_to_be_slow, make_ranks),
        cmocka_unit_test_setup(workers_add_up, make_ranks),
        cmocka_unit_test_setup(proxies_are_compared_among_themselves, make_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
