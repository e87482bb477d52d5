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

/* A ring of hosts with a rank each, as NCCL's proxies time it; the last pair takes `slow` times as long. */
static size_t judge_steps(struct network *network, unsigned hosts, const double *ln, double slow) {
    *network = (struct network){.per_host = 1};
    for (unsigned i = 0; i < hosts; i++) {
        add_pair(network, i, (i + 1) % hosts, ln[i] + (i + 1 == hosts ? log(slow) : 0), 0);
        network->measures[i].steps = true;
    }
    return judge(network);
}

/* Student's t of one risk in a hundred for four pairs: 14.1 of two degrees of freedom, of 5 % and a third more for the
 * mean of three: ln 2.26. Twice the risk asks for 1.77, half of it for 3.2. */
static void a_slow_link_among_four_hosts_is_named(void **state) {
    (void)state;
    static const double even[8] = {0};
    struct network network;
    assert_int_equal(judge_steps(&network, 3, even, 1000), 0);
    assert_int_equal(judge_steps(&network, 4, even, 2.1), 0);
    assert_int_equal(judge_steps(&network, 4, even, 2.5), 1);
    assert_int_equal(network.found[0].from, 3);
    assert_int_equal(network.found[0].to, 0);
    assert_false(network.found[0].layout); /* the ring joins its ends the other way round */
    assert_true(network.found[0].alone);
    assert_int_equal(judge_steps(&network, 7, even, 1.45), 1); /* six others tell more */
    assert_int_equal(judge_steps(&network, 7, even, 1.3), 0);
}

/* Messages have more that makes them slow. */
static void few_messages_name_no_link(void **state) {
    (void)state;
    static const double even[8] = {0};
    struct network network;
    assert_int_equal(judge_steps(&network, 4, even, 4), 1);
    for (unsigned i = 0; i < 4; i++)
        network.measures[i].steps = false;
    assert_int_equal(judge(&network), 0);
}

static double uniform(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(*seed >> 11) + 0.5) / (double)(UINT64_C(1) << 53);
}

static double normal(uint64_t *seed) {
    return sqrt(-2 * log(uniform(seed))) * cos(2 * 3.14159265358979323846 * uniform(seed));
}

/* How long pairs of sound networks take: even to 2 %, to 10 %, to 30 %, with rare long ones (a double exponential), and
 * in two racks. */
static double noise_of(unsigned shape, unsigned pair, unsigned hosts, uint64_t *seed) {
    static const double even[] = {0.02, 0.1, 0.3};
    if (shape < 3)
        return even[shape] * normal(seed);
    if (shape == 3)
        return 0.05 * log(uniform(seed)) * (uniform(seed) < 0.5 ? -1 : 1);
    return (pair == 0 || pair == hosts / 2 ? log(2) : 0) + 0.02 * normal(seed);
}

/* Of 2000 networks in which nothing is slow: none where they are even or lie in two racks, one in a hundred at most
 * where some are far from even, and these are only suspected, for their ends have no other partner. */
static void few_sound_links_are_named_by_chance_alone(void **state) {
    (void)state;
    enum { SHAPES = 5, EACH = 100 };
    uint64_t seed = 1;
    for (unsigned shape = 0; shape < SHAPES; shape++) {
        unsigned named = 0;
        for (unsigned i = 0; i < 4 * EACH; i++) {
            double ln[8];
            struct network network;
            unsigned hosts = 4 + i % 4;
            for (unsigned pair = 0; pair < hosts; pair++)
                ln[pair] = noise_of(shape, pair, hosts, &seed);
            size_t found = judge_steps(&network, hosts, ln, 1);
            for (size_t k = 0; k < found; k++)
                assert_true(network.found[k].alone);
            named += found > 0;
        }
        assert_true(named <= (shape == 0 || shape == 4 ? 0 : 4 * EACH / 100));
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
        cmocka_unit_test(a_slow_link_among_four_hosts_is_named),
        cmocka_unit_test(few_messages_name_no_link),
        cmocka_unit_test(few_sound_links_are_named_by_chance_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
