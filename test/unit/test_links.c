/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow links among the messages of pretended jobs: named when there is one, never for a slow rank or clock; the host
 * or the pair of hosts where it is theirs; never for how a network is laid out.
 * Lives here: messages made from latency, bandwidth, noise and what is planted. Must not live here: records, matching.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/links/links.h"
#include "test/scenes/scene.h"

enum { RANKS = 64, PER_HOST = 4, HOSTS = RANKS / PER_HOST, BYTES = 1 << 20 };

struct network {
    uint64_t seed;
    unsigned messages;        /* of each pair */
    double noise;             /* sd of ln of a transfer */
    double uneven;            /* sd of ln between pairs, for good */
    double outliers;          /* share of messages that take ten times as long */
    int slow_from, slow_to;   /* link; -1: none */
    int slow_rank, slow_host; /* all its messages, both ways; -1: none */
    int slow_hosts[2];        /* all messages between them, both ways; -1: none */
    unsigned per_switch;      /* hosts of one switch; 0: all */
    double farther;           /* time of messages between switches */
    double factor;            /* time of slow ones */
    int64_t host_shift;       /* host 1's clock is so far ahead */
    int64_t clock_error;      /* claimed */
    bool buffered;            /* messages are gone before the receive is posted */
    /* of rounds of exchanges; `apart` is in transfers */
    double apart;    /* how far apart ranks come, sd */
    bool rendezvous; /* no message moves before both are there; its send ends with it */
    uint64_t bytes;
    double overlapped; /* ns of work between posting and waiting */
};

static const struct network even = {.seed = 1,
                                    .messages = 100,
                                    .noise = 0.2,
                                    .uneven = 0.03,
                                    .outliers = 0.02,
                                    .slow_from = -1,
                                    .slow_to = -1,
                                    .slow_rank = -1,
                                    .slow_host = -1,
                                    .slow_hosts = {-1, -1},
                                    .factor = 1,
                                    .clock_error = 1000,
                                    .apart = 1,
                                    .rendezvous = true,
                                    .bytes = BYTES,
                                    .farther = 1};

/* What the calls are to the analyzer. */
static const struct call_name names[] = {{.call_class = CLASS_RECV}, {.call_class = CLASS_SENDRECV}};
static struct match_call calls[] = {{.name = &names[0]}, {.name = &names[1]}};
static const struct match_directory directory = {.calls = calls, .call_count = 2}; /* no dump has transfer rows */

struct hand {
    struct common_clock clock;
    struct clock_host hosts[HOSTS];
    struct clock_domain domains[HOSTS];
    uint32_t host_of[RANKS]; /* each host has a clock of its own */
    int64_t none[RANKS];
};

static void make_clock(struct hand *hand, const struct network *network) {
    memset(hand, 0, sizeof *hand);
    hand->clock = (struct common_clock){.dump_count = RANKS,
                                        .hosts = hand->hosts,
                                        .host_count = HOSTS,
                                        .host_of = hand->host_of,
                                        .domains = hand->domains,
                                        .domain_count = HOSTS,
                                        .domain_of = hand->host_of,
                                        .reading_error = hand->none,
                                        .device_error = hand->none};
    for (unsigned r = 0; r < RANKS; r++)
        hand->host_of[r] = r / PER_HOST;
    for (unsigned h = 1; h < HOSTS; h++)
        hand->domains[h].error_ns = network->clock_error;
}

static double transfer(const struct network *n, unsigned from, unsigned to, uint64_t *random) {
    uint64_t pair = n->seed * 7919 + from * 131 + to;
    bool inside = from / PER_HOST == to / PER_HOST;
    double bytes = (double)n->bytes, ns = inside ? 2000 + bytes / 20 : 15000 + bytes / 10;
    ns *= exp(n->uneven * scene_gauss(&pair) + n->noise * scene_gauss(random));
    if (scene_uniform(random) < n->outliers)
        ns *= 10;
    bool host = n->slow_host >= 0 && !inside &&
                (from / PER_HOST == (unsigned)n->slow_host || to / PER_HOST == (unsigned)n->slow_host);
    int here = (int)(from / PER_HOST), there = (int)(to / PER_HOST);
    bool hosts = (here == n->slow_hosts[0] && there == n->slow_hosts[1]) ||
                 (here == n->slow_hosts[1] && there == n->slow_hosts[0]);
    if (n->per_switch && here / (int)n->per_switch != there / (int)n->per_switch)
        ns *= n->farther;
    bool slow = hosts || ((int)from == n->slow_from && (int)to == n->slow_to) || (int)from == n->slow_rank ||
                (int)to == n->slow_rank || host;
    return slow ? ns * n->factor : ns;
}

/* Each rank sends to its four neighbours in a ring; now the sender comes first, now the receiver. */
static void send_all(const struct network *n, struct links *links, unsigned first, unsigned stride) {
    static const unsigned steps[] = {1, 4, RANKS - 1, RANKS - 4};
    uint64_t random = n->seed;
    for (unsigned i = 0; i < n->messages; i++)
        for (unsigned from = 0; from < RANKS; from++)
            for (unsigned a = 0; a < 4; a++) {
                unsigned to = (from + steps[a]) % RANKS;
                int64_t ready = 1000000000 + (int64_t)i * 20000000;
                int64_t apart = (int64_t)((scene_uniform(&random) - 0.5) * 1e6);
                int64_t done = ready + (int64_t)transfer(n, from, to, &random);
                int64_t sent = apart > 0 ? ready - apart : ready, posted = apart > 0 ? ready : ready + apart;
                int64_t from_shift = from / PER_HOST == 1 ? n->host_shift : 0;
                int64_t to_shift = to / PER_HOST == 1 ? n->host_shift : 0;
                struct match_member send = {.enter = sent + from_shift, .leave = done + from_shift};
                if (n->buffered) {
                    send.enter -= 2000000;
                    send.leave = send.enter + 1000;
                }
                struct match_member receive = {.enter = posted + to_shift, .leave = done + to_shift};
                send.wait = send.enter;
                receive.wait = receive.enter;
                struct match_message message = {
                    .from_dump = from, .to_dump = to, .bytes = BYTES, .send = send, .receive = receive};
                if ((from + i) % stride == first)
                    links_add(links, &message);
            }
}

/* ---- exchanges ------------------------------------------------------------------------------- */

enum { WAYS = 4 };

static const int ahead[WAYS] = {1, PER_HOST, -1, -PER_HOST};

static unsigned neighbour(unsigned rank, unsigned way) {
    return (unsigned)((int)rank + ahead[way] + RANKS) % RANKS;
}

struct round {
    int64_t posts[RANKS], waits[RANKS], leaves[RANKS];
    int64_t over[RANKS][WAYS]; /* when the message sent that way has arrived */
};

/* Everybody comes, posts everything, works on what needs no neighbour, and waits for all. */
static void play_round(const struct network *n, unsigned number, struct round *round, uint64_t *random) {
    double usual = 15000 + (double)n->bytes / 10;
    for (unsigned r = 0; r < RANKS; r++) {
        double late = n->apart * usual * scene_gauss(random);
        round->posts[r] = 1000000000 + (int64_t)number * 50000000 + (int64_t)late;
        round->waits[r] = round->posts[r] + 500 + (int64_t)(n->overlapped * (1 + 0.05 * scene_gauss(random)));
        round->leaves[r] = round->waits[r] + 300;
    }
    for (unsigned r = 0; r < RANKS; r++)
        for (unsigned w = 0; w < WAYS; w++) {
            unsigned to = neighbour(r, w);
            bool later = n->rendezvous && round->posts[to] > round->posts[r];
            int64_t begun = later ? round->posts[to] : round->posts[r];
            int64_t over = begun + (int64_t)transfer(n, r, to, random);
            round->over[r][w] = over;
            if (over > round->leaves[to])
                round->leaves[to] = over;
            if (n->rendezvous && over > round->leaves[r])
                round->leaves[r] = over;
        }
}

static void note_done(struct links *links, unsigned rank, int64_t left) {
    struct record record = {.kind = RECORD_DONE};
    links_note(links, &(struct match_record){.record = &record, .dump = rank, .t1 = left}, NULL);
}

static void hand_over(const struct network *n, struct links *links, const struct round *round, unsigned rank,
                      unsigned way) {
    unsigned to = neighbour(rank, way);
    struct match_message message = {.from_dump = rank, .to_dump = to, .bytes = n->bytes};
    message.send = (struct match_member){.enter = round->posts[rank], .leave = round->leaves[rank]};
    message.receive = (struct match_member){.enter = round->posts[to], .leave = round->leaves[to]};
    message.send.wait = round->waits[rank];
    message.receive.wait = round->waits[to];
    links_add(links, &message);
}

static void exchange_all(const struct network *n, struct links *links, unsigned first, unsigned stride) {
    uint64_t random = n->seed;
    struct round round;
    for (unsigned i = 0; i < n->messages; i++) {
        play_round(n, i, &round, &random);
        for (unsigned r = 0; r < RANKS; r++) {
            for (unsigned w = 0; w < 2 * WAYS && r % stride == first; w++)
                note_done(links, r, round.leaves[r]);
            for (unsigned w = 0; w < WAYS; w++)
                if ((r + w + i) % stride == first)
                    hand_over(n, links, &round, r, w);
        }
    }
}

static size_t try_with(const struct network *network, struct slow_link *found,
                       void (*play)(const struct network *, struct links *, unsigned, unsigned)) {
    struct hand hand;
    struct links links;
    make_clock(&hand, network);
    assert_true(links_init(&links, &hand.clock, &directory));
    play(network, &links, 0, 1);
    links_finish(&links);
    size_t count = links_judge(&links, found, 4);
    assert_false(links.no_memory || links.overflow);
    links_free(&links);
    return count;
}

static size_t try_network(const struct network *network, struct slow_link *found) {
    return try_with(network, found, send_all);
}

static size_t try_exchange(const struct network *network, struct slow_link *found) {
    return try_with(network, found, exchange_all);
}

static void nothing_is_named_where_no_link_is_slow(void **state) {
    (void)state;
    static const double noises[] = {0.05, 0.2, 0.5, 1}, unevens[] = {0, 0.03, 0.1, 0.3};
    unsigned alarms = 0, jobs = 0;
    for (unsigned i = 0; i < 200; i++, jobs++) {
        struct network n = even;
        struct slow_link found[4];
        n.seed = 1000 + i;
        n.noise = noises[i % 4];
        n.uneven = unevens[i / 4 % 4];
        n.outliers = i % 3 * 0.05;
        n.messages = i % 2 ? 40 : 120;
        unsigned alarm = try_network(&n, found) > 0;
        alarms += alarm;
        if (alarm)
            print_message("    noise %.2f uneven %.2f, %u messages: %.2f at %.3f\n", n.noise, n.uneven, n.messages,
                          found[0].ratio, found[0].confidence);
    }
    print_message("    %u of %u even networks give an alarm\n", alarms, jobs);
    assert_true(alarms * 100 <= jobs);
}

static void a_slow_link_is_named(void **state) {
    (void)state;
    static const unsigned pairs[][2] = {{2, 3}, {3, 4}, {5, 9}, {0, RANKS - 1}};
    unsigned named = 0, jobs = 0;
    for (unsigned i = 0; i < 80; i++, jobs++) {
        struct network n = even;
        struct slow_link found[4];
        n.seed = 1 + i;
        n.slow_from = (int)pairs[i % 4][0];
        n.slow_to = (int)pairs[i % 4][1];
        n.factor = i % 8 < 4 ? 1.43 : 2; /* 30 and 50 % less bandwidth */
        size_t count = try_network(&n, found);
        named += count == 1 && found[0].from == pairs[i % 4][0] && found[0].to == pairs[i % 4][1] &&
                 fabs(found[0].ratio / n.factor - 1) < 0.15 && found[0].messages == n.messages &&
                 found[0].persistence > 0.5;
    }
    print_message("    %u of %u slow links are named, and nothing else\n", named, jobs);
    assert_true(named * 100 >= jobs * 97);
}

static void a_slow_rank_or_clock_is_no_link_and_a_host_is_its_own(void **state) {
    (void)state;
    unsigned alarms = 0, hosts = 0;
    for (unsigned i = 0; i < 60; i++) {
        struct network n = even;
        struct slow_link found[4];
        n.seed = 1 + i;
        n.factor = 2;
        if (i % 3 == 0)
            n.slow_rank = (int)(i % RANKS);
        else if (i % 3 == 1)
            n.slow_host = (int)(i % HOSTS);
        else
            n.host_shift = 60000, n.clock_error = 100000;
        size_t count = try_network(&n, found);
        if (i % 3 == 1)
            hosts += count == 1 && found[0].scope == LINK_HOST && found[0].from == i % HOSTS;
        else
            alarms += count > 0;
    }
    assert_int_equal(alarms, 0);
    assert_int_equal(hosts, 20);
}

static void a_pair_of_hosts_is_named_once(void **state) {
    (void)state;
    unsigned named = 0, jobs = 0;
    for (unsigned i = 0; i < 40; i++, jobs++) {
        struct network n = even;
        struct slow_link found[4];
        n.seed = 1 + i;
        n.factor = i % 2 ? 1.43 : 2;
        n.slow_hosts[0] = (int)(i % HOSTS);
        n.slow_hosts[1] = (int)((i + 1) % HOSTS);
        n.noise = i % 2 ? 0.05 : 0.2;
        size_t count = i % 4 < 2 ? try_network(&n, found) : try_exchange(&n, found);
        named += count == 1 && found[0].scope == LINK_HOSTS && found[0].both && !found[0].layout &&
                 found[0].from + found[0].to == (unsigned)(n.slow_hosts[0] + n.slow_hosts[1]) && found[0].pairs == 10;
    }
    print_message("    %u of %u slow pairs of hosts are named, once\n", named, jobs);
    assert_true(named * 100 >= jobs * 85);
}

/* Exchanges of all kinds in which one link is slow, and in which none is. */
static void a_slow_link_is_named_where_calls_wait_for_several(void **state) {
    (void)state;
    static const unsigned pairs[][2] = {{3, 4}, {5, 9}, {0, RANKS - 1}, {2, 3}};
    unsigned named = 0, others = 0, jobs = 0;
    for (unsigned i = 0; i < 32; i++, jobs++) {
        struct network n = even;
        struct slow_link found[4];
        n.seed = 1 + i;
        n.slow_from = (int)pairs[i % 4][0];
        n.slow_to = (int)pairs[i % 4][1];
        n.factor = i % 8 < 4 ? 1.5 : 2;
        n.noise = i % 8 < 4 ? 0.05 : 0.2;
        if (i % 4 == 3) /* within a host, where messages take half as long as those that come from others */
            n.factor *= 2;
        n.messages = 600;
        n.rendezvous = i % 16 < 8;
        n.bytes = n.rendezvous ? BYTES * 2 : 65536;
        size_t count = try_exchange(&n, found);
        for (size_t f = 0; f < count; f++) {
            bool there = found[f].from == pairs[i % 4][0] && found[f].to == pairs[i % 4][1];
            bool back = found[f].to == pairs[i % 4][0] && found[f].from == pairs[i % 4][1];
            named += there && found[f].scope == LINK_RANKS;
            others += !there && !(back && n.rendezvous); /* what goes both ways ends together */
        }
    }
    print_message("    %u of %u slow links are named, %u others\n", named, jobs, others);
    assert_int_equal(others, 0);
    assert_true(named * 100 >= jobs * 70);
}

static void layouts_and_even_exchanges_name_nobody(void **state) {
    (void)state;
    static const double noises[] = {0.05, 0.2, 0.5}, aparts[] = {0.1, 1, 10}, fars[] = {1, 1.4, 2, 4};
    static const unsigned switches[] = {0, 4, 8, 3};
    unsigned alarms = 0, suspicions = 0, jobs = 0;
    for (unsigned i = 0; i < 240; i += 2, jobs++) {
        struct network n = even;
        struct slow_link found[4];
        n.seed = 77 + i;
        n.noise = noises[i % 3];
        n.apart = aparts[i / 3 % 3];
        n.farther = fars[i / 9 % 4];
        n.per_switch = switches[i / 36 % 4];
        n.uneven = i % 8 < 4 ? 0.03 : 0.15;
        n.rendezvous = i % 5 < 3;
        n.overlapped = i % 7 == 0 ? 300000 : 0;
        n.messages = 150;
        size_t count = i % 8 ? try_exchange(&n, found) : try_network(&n, found);
        bool alarm = false;
        for (size_t f = 0; f < count; f++) {
            alarm |= !found[f].layout;
            suspicions += found[f].layout;
        }
        if (alarm)
            print_message("    job %u: scope %d, ratio %.2f at %.3f\n", i, (int)found[0].scope, found[0].ratio,
                          found[0].confidence);
        alarms += alarm;
    }
    print_message("    %u of %u even networks give an alarm, %u suspicions\n", alarms, jobs, suspicions);
    assert_true(alarms * 100 <= jobs);
}

/* ---- NCCL's proxies -------------------------------------------------------------------------- */

/* A row for every neighbour of every rank; `rings`: of the next one only. */
struct proxies {
    struct dump dumps[RANKS], *list[RANKS];
    struct transfer_row rows[RANKS][WAYS + 1];
    struct match_place places[RANKS][1], *place_lists[RANKS];
    uint32_t numbers[RANKS];
    struct match_communicator world;
    struct match_directory directory;
};

static void make_proxies(struct proxies *p, int from, int to, bool ring) {
    uint64_t random = 9;
    memset(p, 0, sizeof *p);
    for (uint32_t r = 0; r < RANKS; r++) {
        p->numbers[r] = r;
        p->list[r] = &p->dumps[r];
        p->places[r][0] = (struct match_place){0, r};
        p->place_lists[r] = p->places[r];
        p->dumps[r] = (struct dump){.transfers = p->rows[r], .transfer_count = WAYS + 1, .communicator_count = 1};
        for (unsigned w = 0; w < WAYS; w++) {
            if (ring && w > 0)
                continue;
            unsigned peer = ring ? (r + 1) % RANKS : neighbour(r, w);
            double step = 40000 * exp(0.03 * scene_gauss(&random));
            bool slow = (int)r == from && (int)peer == to;
            p->rows[r][w] = (struct transfer_row){.version = 2,
                                                  .peer = (int32_t)peer,
                                                  .sends = 1,
                                                  .channels = 2,
                                                  .operations = 2000,
                                                  .steps = 64000,
                                                  .bytes = 64000 * UINT64_C(524288),
                                                  .wait_gpu = 1000000000000, /* counts for nothing */
                                                  .wait_wire = (uint64_t)(64000 * step * (slow ? 2 : 1))};
        }
        p->rows[r][WAYS] = p->rows[r][0]; /* what is received, slow everywhere and at random */
        p->rows[r][WAYS].sends = 0;
        p->rows[r][WAYS].wait_wire *= 1 + scene_random(&random) % 10;
    }
    p->world = (struct match_communicator){
        .size = RANKS, .first_size = RANKS, .dump_count = RANKS, .dump_of = p->numbers, .rank_of = p->numbers};
    p->directory = (struct match_directory){.dumps = p->list,
                                            .dump_count = RANKS,
                                            .communicators = &p->world,
                                            .communicator_count = 1,
                                            .calls = calls,
                                            .call_count = 2,
                                            .places = p->place_lists};
}

static size_t judge_proxies(int from, int to, bool ring, struct slow_link *found) {
    static struct proxies proxies;
    struct hand hand;
    struct links links;
    make_clock(&hand, &even);
    make_proxies(&proxies, from, to, ring);
    assert_true(links_init(&links, &hand.clock, &proxies.directory));
    links_finish(&links);
    size_t count = links_judge(&links, found, 4);
    links_free(&links);
    return count;
}

static void transfers_of_proxies_tell_of_links(void **state) {
    (void)state;
    struct slow_link found[4];
    assert_int_equal(judge_proxies(-1, -1, false, found), 0);
    assert_int_equal(judge_proxies(-1, -1, true, found), 0);
    assert_int_equal(judge_proxies(5, 9, false, found), 1);
    assert_true(found[0].from == 5 && found[0].to == 9 && found[0].steps && !found[0].alone && !found[0].layout);
    assert_int_equal(found[0].messages, 64000);
    assert_true(found[0].ratio > 1.8 && found[0].ratio < 2.2);
    assert_true(isnan(found[0].persistence));
    int64_t longer = INT64_C(64000) / 16 * 40000; /* two channels, eight steps at once */
    assert_true(found[0].extra_ns > longer * 3 / 4 && found[0].extra_ns < longer * 5 / 4);
    assert_int_equal(judge_proxies(3, 4, true, found), 1); /* in a ring nobody has another partner */
    assert_true(found[0].from == 3 && found[0].to == 4 && found[0].alone);
}

static void too_little_names_nothing(void **state) {
    (void)state;
    struct slow_link found[4];
    struct network n = even;
    n.slow_from = 3;
    n.slow_to = 4;
    n.factor = 3;
    assert_int_equal(try_network(&n, found), 1);
    n.clock_error = 10000000; /* between hosts 0 and 1: more than the transfer */
    assert_int_equal(try_network(&n, found), 0);
    n = even;
    n.slow_from = 2;
    n.slow_to = 3;
    n.factor = 3;
    n.messages = LINK_MESSAGES_MIN - 1;
    assert_int_equal(try_network(&n, found), 0);
    n.messages = 100;
    n.buffered = true; /* they were there before anybody asked */
    assert_int_equal(try_network(&n, found), 0);
}

/* On GPUs a message of a group, or one whose time is a share of an interval, does not tell how long it took. */
static void only_what_ran_alone_tells_how_long_it_took(void **state) {
    (void)state;
    struct hand hand;
    struct links links;
    make_clock(&hand, &even);
    assert_true(links_init(&links, &hand.clock, &directory));
    const struct match_member alone = {.enter = 0, .leave = 1000000}, share = {.leave = 1000000, .share = true},
                              grouped = {.leave = 1000000, .shared = true};
    const struct match_member *members[] = {&share, &grouped, &alone};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(links.cells.count, 0);
        links_add(
            &links,
            &(struct match_message){
                .from_dump = 0, .to_dump = 1, .device = true, .bytes = BYTES, .send = alone, .receive = *members[i]});
    }
    assert_int_equal(links.cells.count, 1);
    links_free(&links);
}

static void parts_add_up(void **state) {
    (void)state;
    struct network n = even;
    struct hand hand;
    struct links whole, parts[3];
    struct slow_link one[4], three[4];
    n.slow_from = 2;
    n.slow_to = 3;
    n.factor = 2;
    make_clock(&hand, &n);
    assert_true(links_init(&whole, &hand.clock, &directory));
    send_all(&n, &whole, 0, 1);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(links_init(&parts[i], &hand.clock, &directory));
        send_all(&n, &parts[i], i, 3);
    }
    links_merge(&parts[2], &parts[0]);
    links_merge(&parts[2], &parts[1]);
    assert_int_equal(links_judge(&whole, one, 4), 1);
    assert_int_equal(links_judge(&parts[2], three, 4), 1);
    assert_memory_equal(one, three, sizeof *one);
    links_free(&whole);
    for (unsigned i = 0; i < 3; i++)
        links_free(&parts[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_named_where_no_link_is_slow),
        cmocka_unit_test(a_slow_link_is_named),
        cmocka_unit_test(a_slow_rank_or_clock_is_no_link_and_a_host_is_its_own),
        cmocka_unit_test(a_pair_of_hosts_is_named_once),
        cmocka_unit_test(a_slow_link_is_named_where_calls_wait_for_several),
        cmocka_unit_test(layouts_and_even_exchanges_name_nobody),
        cmocka_unit_test(transfers_of_proxies_tell_of_links),
        cmocka_unit_test(too_little_names_nothing),
        cmocka_unit_test(only_what_ran_alone_tells_how_long_it_took),
        cmocka_unit_test(parts_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
