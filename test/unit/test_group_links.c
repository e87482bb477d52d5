/* SPDX-License-Identifier: Apache-2.0
 *
 * What slow communicators have in common: groups of ranks on a few hosts, whose answers follow from who is in which.
 * Lives here: groups made by hand. Must not live here: records, matching, messages (test_links.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/links/group_links.h"
#include "test/scenes/scene.h"

enum { HOSTS = 6, PER_HOST = 4, RANKS = HOSTS * PER_HOST, GROUPS_MOST = 256, COLLECTIVES = 20, LARGE = 1 << 20 };

static const struct call_name names[] = {{.call_class = CLASS_COLLECTIVE, .flow = FLOW_ALL},
                                         {.call_class = CLASS_COLLECTIVE, .flow = FLOW_FROM_ROOT}};
static struct match_call calls[] = {{.name = &names[0]}, {.name = &names[1]}};

struct cluster {
    struct clock_host hosts[HOSTS];
    uint32_t host_of[RANKS];
    struct common_clock clock;
    struct match_directory directory;
    struct match_communicator communicators[GROUPS_MOST];
    uint32_t members[GROUPS_MOST][RANKS], ranks[RANKS];
    uint64_t bytes[GROUPS_MOST];
};

static void make_cluster(struct cluster *c) {
    memset(c, 0, sizeof *c);
    for (uint32_t r = 0; r < RANKS; r++) {
        c->host_of[r] = r / PER_HOST;
        c->ranks[r] = r;
    }
    c->clock =
        (struct common_clock){.dump_count = RANKS, .hosts = c->hosts, .host_count = HOSTS, .host_of = c->host_of};
    c->directory = (struct match_directory){
        .dump_count = RANKS, .communicators = c->communicators, .calls = calls, .call_count = 2};
}

static void add_group(struct cluster *c, const uint32_t *ranks, uint32_t count, uint64_t bytes) {
    size_t at = c->directory.communicator_count++;
    assert_true(at < GROUPS_MOST);
    memcpy(c->members[at], ranks, count * sizeof *ranks);
    c->communicators[at] = (struct match_communicator){
        .uid = at + 1, .name = "", .size = count, .dump_count = count, .dump_of = c->members[at], .rank_of = c->ranks};
    c->bytes[at] = bytes;
}

/* A group of two on every pair of hosts for each of the first `rails` ranks of a host. */
static void add_rails(struct cluster *c, uint32_t rails) {
    for (uint32_t a = 0; a < HOSTS; a++)
        for (uint32_t b = a + 1; b < HOSTS; b++)
            for (uint32_t r = 0; r < rails; r++)
                add_group(c, (uint32_t[]){a * PER_HOST + r, b * PER_HOST + r}, 2, LARGE);
}

/* ... and one of every two neighbours in a host. */
static void add_neighbours(struct cluster *c) {
    for (uint32_t h = 0; h < HOSTS; h++)
        for (uint32_t r = 0; r < PER_HOST; r++)
            add_group(c, (uint32_t[]){h * PER_HOST + r, h * PER_HOST + (r + 1) % PER_HOST}, 2, LARGE);
}

struct planted {
    int pair[2], host, rank, group; /* -1: not slow */
    int inside;                     /* neighbours on this host */
    double uneven;                  /* sd of ln between groups, for good */
    double farther;                 /* between switches of `per_switch` hosts, where there are */
    int per_switch;
    uint64_t seed;
    uint32_t collectives; /* of each group; 0: COLLECTIVES */
    int nearly;           /* the last so many groups take `longer` times as long */
    double longer;
};

static const struct planted nothing = {{-1, -1}, -1, -1, -1, -1, 0, 1, 0, 5, 0, 0, 1};

static bool is_slow(const struct cluster *c, size_t group, const struct planted *p) {
    const uint32_t *m = c->members[group];
    int a = (int)c->host_of[m[0]], b = (int)c->host_of[m[1]];
    if (c->bytes[group] < LARGE)
        return false;
    if (a == b)
        return a == p->inside;
    return (a == p->pair[0] && b == p->pair[1]) || a == p->host || b == p->host || (int)m[0] == p->rank ||
           (int)m[1] == p->rank || (int)group == p->group;
}

static void play(struct cluster *c, const struct planted *p, double noise, struct group_links *groups) {
    uint64_t random = p->seed;
    for (size_t g = 0; g < c->directory.communicator_count; g++) {
        double own = exp(p->uneven * scene_gauss(&random));
        int first = (int)c->host_of[c->members[g][0]], second = (int)c->host_of[c->members[g][1]];
        if (p->per_switch && first / p->per_switch != second / p->per_switch)
            own *= p->farther;
        if (g + (size_t)p->nearly >= c->directory.communicator_count)
            own *= p->longer;
        for (uint32_t i = 0; i < (p->collectives ? p->collectives : COLLECTIVES); i++) {
            struct match_member members[RANKS];
            const struct match_communicator *communicator = &c->communicators[g];
            bool inside = c->host_of[c->members[g][0]] == c->host_of[c->members[g][1]];
            double ns =
                own * (inside ? 20000 : 100000) * (is_slow(c, g, p) ? 2 : 1) * exp(noise * scene_gauss(&random));
            for (uint32_t m = 0; m < communicator->dump_count; m++) {
                int64_t early =
                    m == i % communicator->dump_count ? 0 : 70000000; /* clocks have nothing to do with it */
                members[m] = (struct match_member){.enter = 1000000000 - early, .leave = 1000000000 + (int64_t)ns};
                members[m].wait = members[m].enter;
            }
            group_links_add(groups, &(struct match_instance){.communicator = communicator,
                                                             .seq = i,
                                                             .complete = true,
                                                             .seen = communicator->dump_count,
                                                             .bytes = c->bytes[g],
                                                             .members = members});
        }
    }
}

static size_t judge(struct cluster *c, const struct planted *p, double noise, struct slow_group found[4]) {
    struct group_links groups;
    bool explained[RANKS] = {false};
    group_links_init(&groups, &c->clock, &c->directory);
    play(c, p, noise, &groups);
    size_t count = group_links_judge(&groups, explained, found, 4);
    assert_false(groups.no_memory || groups.overflow);
    group_links_free(&groups);
    return count;
}

static void expect_one(const struct slow_group *found, size_t count, enum suspect_kind kind, uint32_t a, uint32_t b,
                       size_t slow) {
    assert_int_equal(count, 1);
    assert_int_equal(found->suspect_count, 1);
    assert_int_equal(found->suspects[0].kind, kind);
    assert_int_equal(found->suspects[0].a, a);
    assert_int_equal(found->suspects[0].b, b);
    assert_int_equal(found->slow, slow);
    assert_int_equal(found->collectives, slow * COLLECTIVES);
    assert_true(found->ratio > 1.7 && found->ratio < 2.3);
    assert_false(found->layout);
}

static void what_is_slow_is_told_by_who_is_not(void **state) {
    (void)state;
    struct cluster c;
    struct slow_group found[4];
    struct planted p;
    make_cluster(&c);
    add_rails(&c, PER_HOST);
    add_neighbours(&c);
    for (int noisy = 0; noisy < 2; noisy++) {
        double noise = noisy * 0.1;
        assert_int_equal(judge(&c, &nothing, noise, found), 0);
        p = nothing, p.pair[0] = 1, p.pair[1] = 4;
        expect_one(found, judge(&c, &p, noise, found), SUSPECT_PAIR, 1, 4, PER_HOST);
        p = nothing, p.host = 2;
        expect_one(found, judge(&c, &p, noise, found), SUSPECT_HOST, 2, 2, 5 * PER_HOST);
        p = nothing, p.rank = 9;
        expect_one(found, judge(&c, &p, noise, found), SUSPECT_RANK, 9, 9, HOSTS - 1);
        p = nothing, p.group = 7;
        expect_one(found, judge(&c, &p, noise, found), SUSPECT_MEMBERS, 7, 7, 1);
        p = nothing, p.inside = 3;
        expect_one(found, judge(&c, &p, noise, found), SUSPECT_INSIDE, 3, 3, PER_HOST);
    }
}

/* With one rank of each host in such groups, a host cannot be told from its rank. */
static void what_cannot_be_told_apart_is_ambiguous(void **state) {
    (void)state;
    struct cluster c;
    struct slow_group found[4];
    struct planted p = nothing;
    make_cluster(&c);
    add_rails(&c, 1);
    p.host = 2;
    assert_int_equal(judge(&c, &p, 0, found), 1);
    assert_int_equal(found->suspect_count, 2);
    assert_int_equal(found->suspects[0].kind, SUSPECT_HOST);
    assert_int_equal(found->suspects[0].a, 2);
    assert_int_equal(found->suspects[1].kind, SUSPECT_RANK);
    assert_int_equal(found->suspects[1].a, 2 * PER_HOST);
    assert_int_equal(found->slow, HOSTS - 1);
}

/* Small operations do not show what large ones suffer from, nor do other ways clear a pair of hosts. */
static void small_operations_and_wide_groups_clear_no_pair(void **state) {
    (void)state;
    struct cluster c;
    struct slow_group found[4];
    struct planted p = nothing;
    make_cluster(&c);
    add_rails(&c, PER_HOST);
    for (uint32_t a = 0; a < HOSTS; a++)
        for (uint32_t b = a + 1; b < HOSTS; b++)
            add_group(&c, (uint32_t[]){a * PER_HOST, b * PER_HOST + 1}, 2, 4096);
    for (uint32_t r = 0; r < PER_HOST; r++)
        add_group(&c, (uint32_t[]){r, PER_HOST + r, 2 * PER_HOST + r, 4 * PER_HOST + r}, 4, LARGE);
    p.pair[0] = 1;
    p.pair[1] = 4;
    expect_one(found, judge(&c, &p, 0, found), SUSPECT_PAIR, 1, 4, PER_HOST);
}

/* Two switches: groups across them are slower, and that is no link. A chain of hosts: it may be one. */
static void layouts_accuse_nobody(void **state) {
    (void)state;
    struct cluster c;
    struct slow_group found[4];
    struct planted p = nothing;
    make_cluster(&c);
    for (uint32_t h = 0; h + 1 < HOSTS; h++)
        for (uint32_t r = 0; r < PER_HOST; r++)
            add_group(&c, (uint32_t[]){h * PER_HOST + r, (h + 1) * PER_HOST + r}, 2, LARGE);
    p.pair[0] = 2;
    p.pair[1] = 3;
    assert_int_equal(judge(&c, &p, 0, found), 1);
    assert_int_equal(found->suspects[0].kind, SUSPECT_PAIR);
    assert_true(found->layout);
}

static void uneven_networks_accuse_nobody(void **state) {
    (void)state;
    static const double unevens[] = {0, 0.03, 0.1, 0.2};
    unsigned alarms = 0, jobs = 0;
    for (unsigned i = 0; i < 300; i++, jobs++) {
        struct cluster c;
        struct slow_group found[4];
        struct planted p = nothing;
        make_cluster(&c);
        add_rails(&c, 1 + i % PER_HOST);
        if (i % 3)
            add_neighbours(&c);
        p.uneven = unevens[i % 4];
        p.farther = 1 + i % 5 * 0.3;
        p.per_switch = i % 2 ? 2 + (int)(i % 3) : 0;
        p.seed = 1000 + i;
        size_t count = judge(&c, &p, 0.1, found);
        bool alarm = false;
        for (size_t f = 0; f < count; f++)
            alarm |= !found[f].layout;
        if (alarm)
            print_message("    job %u: uneven %.2f, %d to a switch, %.1f: kind %d, %zu slow, ratio %.2f\n", i, p.uneven,
                          p.per_switch, p.farther, (int)found[0].suspects[0].kind, found[0].slow, found[0].ratio);
        alarms += alarm;
    }
    print_message("    %u of %u even networks accuse somebody\n", alarms, jobs);
    assert_true(alarms * 100 <= jobs);
}

static void what_is_explained_is_left_out(void **state) {
    (void)state;
    struct cluster c;
    struct slow_group found[4];
    struct planted p = nothing;
    struct group_links groups;
    bool explained[RANKS] = {false};
    make_cluster(&c);
    add_rails(&c, PER_HOST);
    p.rank = 9;
    explained[9] = true;
    group_links_init(&groups, &c.clock, &c.directory);
    play(&c, &p, 0, &groups);
    assert_int_equal(group_links_judge(&groups, explained, found, 4), 0);
    group_links_free(&groups);
}

/* What tells nothing: from a root, not on record everywhere, non-blocking, a share of an interval. */
static void only_what_all_wait_for_is_taken(void **state) {
    (void)state;
    struct cluster c;
    struct group_links groups;
    make_cluster(&c);
    add_rails(&c, 1);
    struct match_member members[2] = {{.enter = 0, .wait = 0, .leave = 1000}, {.enter = 10, .wait = 10, .leave = 1010}};
    struct match_instance good = {
        .communicator = &c.communicators[0], .complete = true, .seen = 2, .bytes = 8, .members = members};
    group_links_init(&groups, &c.clock, &c.directory);
    struct match_instance bad = good;
    bad.call = 1;
    group_links_add(&groups, &bad);
    bad = good, bad.complete = false;
    group_links_add(&groups, &bad);
    bad = good, bad.others = 1;
    group_links_add(&groups, &bad);
    members[1].wait = 1000;
    group_links_add(&groups, &good);
    good.device = true;
    members[1].share = true;
    group_links_add(&groups, &good);
    assert_int_equal(groups.cells.count, 0);
    members[1].share = false;
    group_links_add(&groups, &good);
    assert_int_equal(groups.cells.count, 1);
    group_links_free(&groups);
}

/* Four groups of two on pairs of hosts of their own, the first of which is slow. */
static size_t judge_four(uint32_t groups, uint32_t collectives) {
    struct cluster c;
    struct slow_group found[4];
    struct planted p = nothing;
    make_cluster(&c);
    for (uint32_t i = 0; i < groups; i++)
        add_group(&c, (uint32_t[]){i, (i + 2) * PER_HOST}, 2, LARGE);
    p.group = 0;
    p.collectives = collectives;
    return judge(&c, &p, 0, found);
}

static void sixteen_collectives_of_four_alike_are_compared(void **state) {
    (void)state;
    assert_int_equal(judge_four(4, 16), 1);
    assert_int_equal(judge_four(4, 15), 0);
    assert_int_equal(judge_four(3, 16), 0);
}

/* Between hosts 1 and 4 all is slow but further groups of other ranks there, which are nearly as fast as usual, or
 * whose operations are smaller: up to 8 % longer, and half the size, they show that it is not what lies between. */
static enum suspect_kind judge_with_others(double longer, uint64_t bytes) {
    struct cluster c;
    struct slow_group found[4];
    struct planted p = nothing;
    make_cluster(&c);
    add_rails(&c, PER_HOST);
    for (uint32_t a = 0; a < HOSTS; a++) /* those that the last ones are compared with */
        for (uint32_t b = a + 1; b < HOSTS; b++)
            if (a != 1 || b != 4)
                add_group(&c, (uint32_t[]){a * PER_HOST, b * PER_HOST + 1}, 2, bytes);
    add_group(&c, (uint32_t[]){PER_HOST, 4 * PER_HOST + 1}, 2, bytes);
    p.pair[0] = 1;
    p.pair[1] = 4;
    p.nearly = 1;
    p.longer = longer;
    assert_true(judge(&c, &p, 0, found) > 0);
    return found[0].suspects[0].kind;
}

static void fast_groups_clear_what_they_hold(void **state) {
    (void)state;
    assert_int_equal(judge_with_others(1, LARGE / 2), SUSPECT_MEMBERS);
    assert_int_equal(judge_with_others(1, LARGE / 4), SUSPECT_PAIR);
    assert_int_equal(judge_with_others(1.07, LARGE / 2), SUSPECT_MEMBERS);
    assert_int_equal(judge_with_others(1.16, LARGE / 2), SUSPECT_PAIR);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_slow_is_told_by_who_is_not),
        cmocka_unit_test(what_cannot_be_told_apart_is_ambiguous),
        cmocka_unit_test(small_operations_and_wide_groups_clear_no_pair),
        cmocka_unit_test(layouts_accuse_nobody),
        cmocka_unit_test(uneven_networks_accuse_nobody),
        cmocka_unit_test(what_is_explained_is_left_out),
        cmocka_unit_test(only_what_all_wait_for_is_taken),
        cmocka_unit_test(sixteen_collectives_of_four_alike_are_compared),
        cmocka_unit_test(fast_groups_clear_what_they_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
