/* SPDX-License-Identifier: Apache-2.0
 *
 * Who sent what to whom: four made-up ranks on two hosts, the last one without a dump, whose figures are known by hand.
 * Must not live here: who is slow (test_links.c), what a wait is (test_waits.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/profile/link_table.h"
#include "analyzer/stragglers/stragglers.h"
#include "test/unit/job_builder.h"

enum { RANKS = 4, WITH_DUMP = 3, SENT = 10, BYTES = 1000 };

struct scene {
    struct hand_job job;
    struct straggler_analysis analysis;
    struct link_table links;
};

static void begin(struct scene *scene) {
    *scene = (struct scene){0};
    hand_job_make(&scene->job, RANKS, (struct dump_plan){.transfers = 4});
    dump_builder_host(scene->job.builders[2], "other", "22222222-0000-0000-0000-000000000000", 1);
}

static void end(struct scene *scene) {
    link_table_free(&scene->links);
    straggler_analysis_free(&scene->analysis);
    hand_job_free(&scene->job);
}

static void build(struct scene *scene, const struct filter *filter, bool by_host) {
    const struct link_sources sources = {&scene->job.clock, &scene->analysis.links, &scene->analysis.waits.links,
                                         filter};
    link_table_free(&scene->links);
    assert_true(link_table_build(&scene->links, &sources, by_host));
}

static void analyse(struct scene *scene, const struct filter *filter, bool by_host) {
    const struct straggler_request request = {.workers = 1};
    hand_job_open(&scene->job, WITH_DUMP);
    assert_true(straggler_analyse(&scene->analysis, &scene->job.clock, &scene->job.directory, &request));
    build(scene, filter, by_host);
}

static void count(struct scene *scene, unsigned rank, int32_t peer, uint16_t direction, uint64_t messages) {
    struct peer_row *row = dump_builder_peer(scene->job.builders[rank], 0);
    row->peer = peer;
    row->call = direction == FLAG_SEND ? BUILDER_SEND : BUILDER_RECV;
    row->direction = direction;
    row->count = messages;
    row->bytes_total = messages * BYTES;
}

static struct operation_row *collectives(struct scene *scene, unsigned rank, uint16_t call, uint64_t calls) {
    struct operation_row *row = dump_builder_operation(scene->job.builders[rank], 0);
    row->call = call;
    row->source = SOURCE_HOST;
    row->bytes = BYTES;
    row->count = calls;
    row->bytes_total = calls * BYTES;
    return row;
}

/* NULL: there is none. */
static const struct link_row *find(const struct scene *scene, enum link_kind kind, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < scene->links.count; i++) {
        const struct link_row_key *key = &scene->links.rows[i].key;
        if (key->kind == kind && key->from == from && key->to == to)
            return &scene->links.rows[i];
    }
    return NULL;
}

/* The sender comes 2 us late to the first message and 2 us early to the second; they take 3 and 2 us. */
static void send_two(struct scene *scene) {
    struct dump_builder **ranks = scene->job.builders;
    dump_builder_p2p(ranks[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 7, 0, BYTES, 3000, 5000);
    dump_builder_p2p(ranks[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 7, 0, BYTES, 1000, 6000);
    dump_builder_p2p(ranks[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 7, 1, BYTES, 10000, 14000);
    dump_builder_p2p(ranks[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 7, 1, BYTES, 12000, 14000);
}

static void totals_count_and_matched_messages_tell_times(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    count(&scene, 0, 1, FLAG_SEND, SENT);
    count(&scene, 1, 0, FLAG_RECV, SENT - 1);
    send_two(&scene);
    analyse(&scene, NULL, false);
    assert_int_equal(scene.links.count, 1);
    const struct link_row *row = find(&scene, LINK_MESSAGES, 0, 1);
    assert_non_null(row);
    assert_int_equal(row->messages, SENT);
    assert_int_equal(row->bytes, SENT * BYTES);
    assert_int_equal(row->counted_by, COUNTED_BY_SENDER);
    assert_int_equal(row->matched, 2);
    assert_int_equal(row->late_sender_ns, 2000);
    assert_int_equal(row->late_receiver_ns, 2000);
    assert_int_equal(row->timed, 2);
    assert_int_equal(row->timed_bytes, 2 * BYTES);
    assert_int_equal(row->timed_ns, 5000);
    assert_int_equal(row->method, LINK_TIMED);
    assert_int_equal(row->gap, LINK_GAP_NONE);
    assert_int_equal(row->type, LINK_WITHIN_HOST);
    const struct rank_waits *waits = scene.analysis.waits.ranks;
    assert_int_equal(waits[1].states_ns[WAIT_LATE_SENDER], row->late_sender_ns);
    assert_int_equal(waits[0].states_ns[WAIT_LATE_RECEIVER], row->late_receiver_ns);
    end(&scene);
}

static void records_count_where_no_totals_are(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    count(&scene, 0, 1, FLAG_SEND, 1);
    send_two(&scene);
    analyse(&scene, NULL, false);
    const struct link_row *row = find(&scene, LINK_MESSAGES, 0, 1);
    assert_int_equal(row->messages, 2);
    assert_int_equal(row->bytes, 2 * BYTES);
    assert_int_equal(row->counted_by, COUNTED_BY_RECORDS);
    end(&scene);
}

static void what_was_not_measured_is_said_to_be(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    count(&scene, 0, 3, FLAG_SEND, SENT);
    count(&scene, 2, 3, FLAG_RECV, SENT);
    count(&scene, 1, 1, FLAG_SEND, SENT);
    count(&scene, 1, 2, FLAG_SEND, SENT);
    count(&scene, 1, PEER_ANY, FLAG_RECV, SENT);
    count(&scene, 1, PEER_NULL, FLAG_SEND, SENT);
    count(&scene, 1, RANKS, FLAG_SEND, SENT); /* no rank of the communicator */
    analyse(&scene, NULL, false);
    assert_int_equal(scene.links.count, 4);
    const struct link_row *lost = find(&scene, LINK_MESSAGES, 0, 3), *from_lost = find(&scene, LINK_MESSAGES, 3, 2);
    const struct link_row *self = find(&scene, LINK_MESSAGES, 1, 1), *far = find(&scene, LINK_MESSAGES, 1, 2);
    assert_int_equal(lost->gap, LINK_GAP_NO_DUMP);
    assert_int_equal(lost->type, LINK_TYPE_UNKNOWN);
    assert_null(lost->to_host);
    assert_int_equal(from_lost->counted_by, COUNTED_BY_RECEIVER);
    assert_int_equal(from_lost->messages, SENT);
    assert_int_equal(self->gap, LINK_GAP_SELF);
    assert_int_equal(self->type, LINK_WITHIN_PROCESS);
    assert_int_equal(far->gap, LINK_GAP_UNMATCHED);
    assert_int_equal(far->type, LINK_BETWEEN_HOSTS);
    assert_int_equal(far->method, LINK_COUNTED);
    assert_false(far->waits_known);
    scene.analysis.waits.links.overflow = true;
    build(&scene, NULL, false);
    assert_int_equal(find(&scene, LINK_MESSAGES, 1, 2)->gap, LINK_GAP_TOO_MANY);
    end(&scene);
}

/* A message that was sent and gone before its receive was posted is matched and tells nothing of the link. */
static void early_messages_are_not_timed(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    dump_builder_p2p(scene.job.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 7, 0, BYTES, 1000, 1500);
    dump_builder_p2p(scene.job.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 7, 0, BYTES, 9000, 9500);
    analyse(&scene, NULL, false);
    assert_int_equal(find(&scene, LINK_MESSAGES, 0, 1)->gap, LINK_GAP_UNTIMED);
    end(&scene);
}

static void bounds_prove_a_least_bandwidth(void **state) {
    (void)state;
    enum { PAIRS = 2, SIZE = 1 << 20, TOOK = 100000 };
    struct scene scene;
    begin(&scene);
    count(&scene, 0, 1, FLAG_SEND, SENT);
    analyse(&scene, NULL, false);
    struct exchange_pair *pairs = calloc(PAIRS, sizeof *pairs);
    for (unsigned i = 0; i < PAIRS; i++) {
        pairs[i] = (struct exchange_pair){.from = 0, .to = 1, .size = log_bin_of(SIZE) - i, .count = 100};
        pairs[i].bins[log_bin_of(TOOK)] = 100;
    }
    free(scene.analysis.links.pairs);
    scene.analysis.links.pairs = pairs;
    scene.analysis.links.pair_count = PAIRS;
    build(&scene, NULL, false);
    const struct link_row *row = find(&scene, LINK_MESSAGES, 0, 1);
    double truth = (double)SIZE / TOOK;
    assert_int_equal(row->method, LINK_BOUNDED);
    assert_true(row->least_bytes_per_ns <= truth && row->least_bytes_per_ns > 0.8 * truth);
    assert_int_equal(row->timed_ns, 0);
    end(&scene);
}

static void proxies_are_rows_of_their_own(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    struct transfer_row *rows = dump_builder_contents(scene.job.builders[0], SECTION_TRANSFERS, 0);
    for (unsigned i = 0; i < 2; i++)
        rows[i] = (struct transfer_row){.version = 2,
                                        .comm = 0,
                                        .peer = 2,
                                        .sends = 1,
                                        .channels = 2,
                                        .operations = 40,
                                        .steps = 80,
                                        .bytes = UINT64_C(80) << (10 + 4 * i), /* of two sizes of step */
                                        .wait_wire = 1000000};
    count(&scene, 0, 2, FLAG_SEND, SENT);
    analyse(&scene, NULL, false);
    const struct link_row *row = find(&scene, LINK_NETWORK, 0, 2);
    assert_non_null(row);
    assert_int_equal(row->messages, 160);
    assert_int_equal(row->bytes, 80 * (1024 + 16384));
    assert_int_equal(row->timed_ns, 2000000);
    assert_int_equal(row->method, LINK_BY_PROXIES);
    assert_int_equal(row->gap, LINK_GAP_NONE);
    assert_int_equal(find(&scene, LINK_MESSAGES, 0, 2)->messages, SENT);
    end(&scene);
}

/* Of an Allreduce of B bytes on n ranks a ring puts 2 (n - 1) / n B on each of its links. */
static void collectives_are_estimated_for_a_ring(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    for (unsigned r = 0; r < RANKS; r++)
        collectives(&scene, r, BUILDER_ALLREDUCE, 8);
    collectives(&scene, 1, BUILDER_ALLGATHER, 4);
    collectives(&scene, 0, BUILDER_ALLREDUCE, 8)->source = SOURCE_GPU_EVENT; /* the same ones, as the GPU saw them */
    collectives(&scene, 1, BUILDER_BCAST, 5);
    collectives(&scene, 2, BUILDER_BCAST, 5);
    analyse(&scene, NULL, false);
    assert_int_equal(scene.links.count, WITH_DUMP);
    const struct link_row *row = find(&scene, LINK_COLLECTIVES, 0, 1);
    assert_int_equal(row->messages, 8);
    assert_int_equal(row->bytes, 8 * BYTES * 2 * 3 / 4);
    assert_int_equal(row->method, LINK_ESTIMATED);
    assert_int_equal(row->gap, LINK_GAP_ALGORITHM);
    assert_int_equal(row->timed_ns, 0);
    assert_int_equal(find(&scene, LINK_COLLECTIVES, 1, 2)->bytes, 8 * BYTES * 2 * 3 / 4 + 4 * BYTES * 3 / 4);
    assert_non_null(find(&scene, LINK_COLLECTIVES, 2, 3));
    assert_int_equal(scene.links.left_out_count, 1);
    assert_string_equal(scene.links.left_out[0].key, "MPI_Bcast");
    assert_int_equal(scene.links.left_out[0].why, LEFT_OUT_ROOT);
    assert_int_equal(scene.links.left_out[0].calls, 10);
    assert_int_equal(scene.links.left_out[0].bytes, 10 * BYTES);
    end(&scene);
}

static void hosts_are_sums_of_their_ranks(void **state) {
    (void)state;
    struct scene scene;
    begin(&scene);
    count(&scene, 0, 2, FLAG_SEND, SENT);
    count(&scene, 1, 2, FLAG_SEND, 2 * SENT);
    count(&scene, 2, 3, FLAG_SEND, SENT);
    send_two(&scene);
    analyse(&scene, NULL, true);
    assert_int_equal(scene.links.count, 3);
    const struct link_row *between = find(&scene, LINK_MESSAGES, 0, 1), *within = find(&scene, LINK_MESSAGES, 0, 0);
    assert_int_equal(between->messages, 3 * SENT);
    assert_string_equal(between->from_host, "host0");
    assert_string_equal(between->to_host, "other");
    assert_int_equal(between->type, LINK_BETWEEN_HOSTS);
    assert_int_equal(between->gap, LINK_GAP_UNMATCHED);
    assert_int_equal(within->timed_ns, 5000);
    assert_int_equal(within->late_sender_ns, 2000);
    assert_int_equal(within->from_rank, RANK_UNKNOWN);
    assert_int_equal(find(&scene, LINK_MESSAGES, 1, NOWHERE)->gap, LINK_GAP_NO_DUMP);
    end(&scene);
}

static void ranks_asked_for_are_either_end(void **state) {
    (void)state;
    struct scene scene;
    struct filter filter = {0};
    begin(&scene);
    count(&scene, 0, 1, FLAG_SEND, SENT);
    count(&scene, 1, 2, FLAG_SEND, SENT);
    count(&scene, 2, 0, FLAG_SEND, SENT);
    assert_int_equal(filter_set_ranks(&filter, "0"), 0);
    analyse(&scene, &filter, false);
    assert_int_equal(scene.links.count, 2);
    assert_null(find(&scene, LINK_MESSAGES, 1, 2));
    filter_free(&filter);
    end(&scene);
}

static void too_many_links_have_no_waits(void **state) {
    (void)state;
    struct link_waits waits = {0}, other = {0};
    for (uint32_t i = 0; i < LINK_WAITS_MOST; i++)
        link_waits_add(&waits, &(struct link_waits_row){.key = {i, 1}, .messages = 1, .late_sender_ns = 2});
    assert_false(waits.overflow);
    assert_int_equal(waits.rows.count, LINK_WAITS_MOST);
    link_waits_add(&other, &(struct link_waits_row){.key = {0, 1}, .messages = 1, .late_sender_ns = 3});
    link_waits_merge(&waits, &other);
    assert_int_equal(link_waits_rows_find(&waits.rows, &(struct link_waits_key){0, 1})->late_sender_ns, 5);
    link_waits_add(&other, &(struct link_waits_row){.key = {0, 2}, .messages = 1});
    link_waits_merge(&waits, &other);
    assert_true(waits.overflow);
    assert_int_equal(waits.rows.count, 0);
    link_waits_merge(&other, &waits);
    assert_true(other.overflow);
    link_waits_free(&waits);
    link_waits_free(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_count_and_matched_messages_tell_times),
        cmocka_unit_test(records_count_where_no_totals_are),
        cmocka_unit_test(what_was_not_measured_is_said_to_be),
        cmocka_unit_test(early_messages_are_not_timed),
        cmocka_unit_test(bounds_prove_a_least_bandwidth),
        cmocka_unit_test(proxies_are_rows_of_their_own),
        cmocka_unit_test(collectives_are_estimated_for_a_ring),
        cmocka_unit_test(hosts_are_sums_of_their_ranks),
        cmocka_unit_test(ranks_asked_for_are_either_end),
        cmocka_unit_test(too_many_links_have_no_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
