/* SPDX-License-Identifier: Apache-2.0
 *
 * When a pair of ranks or a host is called slow: cases just below and just above every limit, on networks made by hand.
 * Lives here: what messages take between pairs. Must not live here: messages themselves (test_links.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/links/link_judge.h"

enum { RANKS_MOST = 20, PAIRS_MOST = RANKS_MOST * RANKS_MOST, FOUND_MOST = 16 };

/* Pairs in the order of their ranks; `ln` is how much longer than usual each takes. */
struct network {
    unsigned per_host;
    struct link_measure measures[PAIRS_MOST];
    size_t count;
    struct slow_link found[FOUND_MOST];
};

static void add_pair(struct network *network, unsigned from, unsigned to, double ln, double error) {
    network->measures[network->count++] = (struct link_measure){.from = from,
                                                                .to = to,
                                                                .count = 100,
                                                                .typical = 100000 * exp(ln),
                                                                .error = error,
                                                                .weight = 100,
                                                                .accused = true,
                                                                .possible = true};
}

static size_t judge(struct network *network) {
    struct clock_host hosts[RANKS_MOST];
    struct clock_domain domains[RANKS_MOST];
    uint32_t host_of[RANKS_MOST];
    int64_t none[RANKS_MOST] = {0};
    memset(hosts, 0, sizeof hosts);
    memset(domains, 0, sizeof domains);
    for (unsigned r = 0; r < RANKS_MOST; r++)
        host_of[r] = r / network->per_host;
    struct common_clock clock = {.dump_count = RANKS_MOST,
                                 .hosts = hosts,
                                 .host_count = (RANKS_MOST + network->per_host - 1) / network->per_host,
                                 .host_of = host_of,
                                 .domains = domains,
                                 .domain_count = (RANKS_MOST + network->per_host - 1) / network->per_host,
                                 .domain_of = host_of,
                                 .reading_error = none,
                                 .device_error = none};
    return link_judge(&clock, network->measures, network->count, network->found, FOUND_MOST);
}

/* Everybody to everybody within one host; the first `slow` ranks' messages to the next rank are slow. */
static size_t judge_host(unsigned ranks, unsigned slow, double ln, double error) {
    struct network network = {.per_host = RANKS_MOST};
    for (unsigned from = 0; from < ranks; from++)
        for (unsigned to = 0; to < ranks; to++)
            if (from != to)
                add_pair(&network, from, to, from < slow && to == (from + 1) % ranks ? ln : 0, error);
    return judge(&network);
}

static void a_link_is_slow_from_a_quarter_longer_on(void **state) {
    (void)state;
    assert_int_equal(judge_host(6, 1, log(1.27), 0), 1);
    assert_int_equal(judge_host(6, 1, log(1.23), 0), 0);
}

/* No network is taken to be more even than 5 %, however even it looks; a message's own error comes on top of that. Of
 * 30 pairs one is beyond 2.7 standard deviations in one of ten networks. */
static void networks_are_even_to_five_percent_at_best(void **state) {
    (void)state;
    assert_int_equal(judge_host(6, 1, log(1.28), 0), 1);
    assert_int_equal(judge_host(6, 1, log(1.28), 0.082), 0);
    assert_int_equal(judge_host(6, 1, log(1.28), 0.07), 1);
}

/* Of 56 pairs three may be slow: more than one in sixteen is how the network is. */
static void many_slow_links_are_none(void **state) {
    (void)state;
    assert_int_equal(judge_host(8, 3, log(2), 0), 3);
    assert_int_equal(judge_host(8, 4, log(2), 0), 0);
}

static void eight_pairs_can_be_compared(void **state) {
    (void)state;
    for (unsigned pairs = 7; pairs <= 8; pairs++) {
        struct network network = {.per_host = RANKS_MOST};
        for (unsigned i = 0; i < pairs; i++)
            add_pair(&network, i / 4, 4 + i % 4, i ? 0 : log(2), 0);
        assert_int_equal(judge(&network), pairs == 8);
    }
}

/* A ring: nobody has another partner. All but one pair lie `apart` above and below the middle, or a quarter of them. Of
 * 17 pairs one is beyond 2.5 standard deviations in one of ten rings. */
static size_t judge_ring(double apart, unsigned share, double ln) {
    struct network network = {.per_host = RANKS_MOST};
    for (unsigned i = 0; i < 17; i++) {
        double own = i % share ? 0 : i / share % 2 ? apart : -apart;
        add_pair(&network, i, (i + 1) % 17, i == 16 ? ln : i == 15 ? 0 : own, 0);
    }
    return judge(&network);
}

/* Standard deviations are estimated with room: 1.4 times what the median distance, or nine tenths of them, come to. */
static void uneven_networks_ask_for_more(void **state) {
    (void)state;
    assert_int_equal(judge_ring(0.05, 1, log(1.35)), 1); /* 1.4 * 1.48 * 0.05 * 2.5 = ln 1.30 */
    assert_int_equal(judge_ring(0.05, 1, log(1.26)), 0);
    assert_int_equal(judge_ring(0.12, 4, log(1.35)), 1); /* 1.4 / 1.645 * 0.12 * 2.5 = ln 1.29 */
    assert_int_equal(judge_ring(0.12, 4, log(1.26)), 0);
}

/* What host 0 sends takes twice as long: with three others there is something to compare with. */
static void four_hosts_tell_which_one_is_slow(void **state) {
    (void)state;
    for (unsigned hosts = 3; hosts <= 4; hosts++) {
        struct network network = {.per_host = 2};
        for (unsigned from = 0; from < 2 * hosts; from++)
            for (unsigned to = 0; to < 2 * hosts; to++)
                if (from / 2 != to / 2)
                    add_pair(&network, from, to, from < 2 ? log(2) : 0, 0);
        size_t count = judge(&network);
        assert_int_equal(count, hosts == 4);
        if (hosts == 4) {
            assert_int_equal(network.found[0].scope, LINK_HOST);
            assert_int_equal(network.found[0].from, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_is_slow_from_a_quarter_longer_on),
        cmocka_unit_test(networks_are_even_to_five_percent_at_best),
        cmocka_unit_test(many_slow_links_are_none),
        cmocka_unit_test(eight_pairs_can_be_compared),
        cmocka_unit_test(uneven_networks_ask_for_more),
        cmocka_unit_test(four_hosts_tell_which_one_is_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
