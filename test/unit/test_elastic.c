/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of elastic DeepSpeed jobs: worked examples, configurations that are refused, and when a host is worth its
 * place. Must not live here: the comparison with DeepSpeed's own code (make check-elastic).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/elastic/config.h"
#include "analyzer/elastic/eviction.h"

static struct elastic_config read_config(const char *text) {
    struct elastic_config config;
    char error[ELASTIC_ERROR] = "";
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    if (!elastic_config_read(root, &config, error))
        fail_msg("%s", error);
    json_decref(root);
    return config;
}

/* Up to 1500 GPUs, batches up to 10000. */
static struct elastic_config large_job(void) {
    return read_config("{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 10000, \"micro_batch_sizes\": "
                       "[8, 12, 16, 17], \"min_gpus\": 32, \"max_gpus\": 1500, \"version\": 0.1}}");
}

static void assert_counts(const struct elastic_batch *batch, const int64_t *counts, size_t count) {
    assert_int_equal(batch->count, count);
    assert_memory_equal(batch->counts, counts, count * sizeof *counts);
}

static void worked_examples_of_version_1(void **state) {
    (void)state;
    static const int64_t large[] = {32,  34,  36,  48,  51,  64,  68,  72,  96,  102, 136, 144,
                                    153, 192, 204, 272, 288, 306, 408, 576, 612, 816, 1224},
                         small[] = {1, 2, 3, 4, 6, 8, 12, 24}, middle[] = {1, 2, 3, 4, 6, 8, 12};
    struct elastic_config config = large_job();
    struct elastic_batch batch;
    assert_int_equal(elastic_batch_find(&config, 64, &batch), ELASTIC_OK);
    assert_int_equal(batch.batch_size, 9792);
    assert_counts(&batch, large, sizeof large / sizeof *large);
    assert_int_equal(batch.micro_batch, 17);
    assert_int_equal(elastic_accumulation(batch.batch_size, batch.micro_batch, 64), 9);
    elastic_batch_free(&batch);
    assert_int_equal(elastic_batch_find(&config, 128, &batch), ELASTIC_OK);
    assert_false(elastic_batch_has(&batch, 128));
    assert_int_equal(batch.micro_batch, 0);
    elastic_batch_free(&batch);

    config = read_config("{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 32, \"micro_batch_sizes\": "
                         "[1, 2, 3, 7], \"version\": 0.1}}");
    assert_int_equal(elastic_batch_find(&config, 4, &batch), ELASTIC_OK);
    assert_int_equal(batch.batch_size, 24);
    assert_counts(&batch, small, sizeof small / sizeof *small);
    assert_int_equal(batch.micro_batch, 3);
    elastic_batch_free(&batch);

    config = read_config("{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 100, \"micro_batch_sizes\": "
                         "[8, 10, 12], \"version\": \"0.1\"}}");
    assert_int_equal(elastic_batch_find(&config, 0, &batch), ELASTIC_OK);
    assert_int_equal(batch.batch_size, 96);
    assert_counts(&batch, middle, sizeof middle / sizeof *middle);
    elastic_batch_free(&batch);
}

/* Nodes of 8 GPUs, models split over two: 4 data-parallel ranks to a node. Bound per node 100 / 4 = 25: batch 24. */
static void version_2_counts_nodes(void **state) {
    (void)state;
    static const int64_t counts[] = {4, 8, 12, 16, 24, 48};
    struct elastic_config config = read_config(
        "{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 100, \"micro_batch_sizes\": [2, 4], "
        "\"num_gpus_per_node\": 8, \"model_parallel_size\": 2, \"version\": 0.2}}");
    struct elastic_batch batch;
    assert_int_equal(elastic_batch_find(&config, 0, &batch), ELASTIC_OK);
    assert_int_equal(batch.batch_size, 96);
    assert_counts(&batch, counts, sizeof counts / sizeof *counts);
    struct elastic_row *rows = elastic_rows(&config, &batch, 8, 24);
    assert_non_null(rows);
    assert_int_equal(rows[4].gpus, 48);
    assert_int_equal(rows[4].nodes, 6);
    assert_int_equal(rows[4].micro_batch, 4);
    assert_int_equal(rows[4].accumulation, 1);
    assert_true(rows[4].is_asked_for && !rows[3].is_asked_for);
    free(rows);
    elastic_batch_free(&batch);

    config.model_parallel_size = 3;
    assert_int_equal(elastic_batch_find(&config, 0, &batch), ELASTIC_NODE_NOT_DIVISIBLE);
}

/* 5 GPUs are no valid number: version 0.2 goes on with them, with the largest batch that they can share evenly. */
static void version_2_keeps_a_size_that_fits_nowhere(void **state) {
    (void)state;
    struct elastic_config config = read_config("{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 32, "
                                               "\"micro_batch_sizes\": [1, 2, 3, 7]}}");
    struct elastic_batch batch;
    assert_true(config.by_node);
    assert_int_equal(elastic_batch_find(&config, 5, &batch), ELASTIC_OK);
    assert_int_equal(batch.batch_size, 30);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.counts[0], 5);
    assert_int_equal(batch.micro_batch, 3);
    elastic_batch_free(&batch);
}

/* Two ranks to a node of 4. DeepSpeed lists 2 and 6 ranks, and divides by two once more when a job starts with them: 1
 * and 3 are no sizes of whole nodes. Of 12 and 16, 6 and 8 are. */
static void version_2_does_not_start_all_that_it_lists(void **state) {
    (void)state;
    struct elastic_config config = read_config(
        "{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 2000, \"micro_batch_sizes\": [2, 4], "
        "\"num_gpus_per_node\": 4, \"model_parallel_size\": 2, \"version\": 0.2}}");
    struct elastic_batch batch;
    assert_int_equal(elastic_batch_startable(&config, &batch), ELASTIC_OK);
    assert_int_equal(batch.batch_size, 1920);
    static const int64_t not_started[] = {1, 2, 3, 6, 7, 10, 14}, started[] = {4, 8, 12, 16, 20, 24};
    for (size_t i = 0; i < sizeof not_started / sizeof *not_started; i++)
        assert_false(elastic_batch_has(&batch, not_started[i]));
    for (size_t i = 0; i < sizeof started / sizeof *started; i++)
        assert_true(elastic_batch_has(&batch, started[i]));
    for (size_t i = 0; i < batch.count; i++) {
        struct elastic_batch job;
        assert_int_equal(elastic_batch_find(&config, batch.counts[i], &job), ELASTIC_OK);
        assert_true(elastic_batch_has(&job, batch.counts[i]) && job.micro_batch > 0);
        assert_int_equal(job.batch_size, batch.batch_size);
        elastic_batch_free(&job);
    }
    elastic_batch_free(&batch);
    struct eviction eviction; /* of 16 GPUs 4 go: 12, 6 ranks, are listed */
    assert_int_equal(eviction_judge(&config, 16, 4, 4, 1.5, &eviction), ELASTIC_OK);
    assert_int_equal(eviction.next.gpus, 8);
}

static void numbers_beyond_reason_are_refused_and_end(void **state) {
    (void)state;
    struct elastic_config config = {.max_train_batch_size = ELASTIC_NUMBER_MOST,
                                    .min_gpus = 1,
                                    .max_gpus = ELASTIC_NUMBER_MOST,
                                    .gpus_per_node = 1,
                                    .model_parallel_size = 1,
                                    .prefer_larger = true};
    struct elastic_batch batch;
    for (size_t i = 0; i < ELASTIC_MICRO_BATCHES; i++)
        config.micro_batches[config.micro_batch_count++] = (int64_t)i + 1;
    assert_int_equal(elastic_batch_find(&config, 0, &batch), ELASTIC_OK); /* without their least common multiple */
    assert_in_range(batch.batch_size, 1, ELASTIC_NUMBER_MOST);
    elastic_batch_free(&batch);
    config.micro_batch_count = 2;
    config.micro_batches[1] = config.max_train_batch_size = 720;
    config.micro_batches[0] = 721;
    assert_int_equal(elastic_batch_find(&config, 0, &batch), ELASTIC_MICRO_BATCH_TOO_LARGE);
    config.by_node = true;
    config.gpus_per_node = config.max_train_batch_size = ELASTIC_NUMBER_MOST;
    config.micro_batches[0] = config.micro_batches[1] = 1;
    assert_int_equal(elastic_batch_find(&config, 1, &batch), ELASTIC_OK);
    elastic_batch_free(&batch);
}

static void what_is_wrong_in_a_configuration_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"[]", "it has no section elasticity"},
        {"{\"elasticity\": 1}", "elasticity is not an object"},
        {"{\"elasticity\": {}}", "elasticity.enabled is not true"},
        {"{\"elasticity\": {\"enabled\": 1}}", "elasticity.enabled is not true or false"},
        {"{\"elasticity\": {\"enabled\": true}}", "elasticity.max_train_batch_size is missing"},
        {"{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 0}}",
         "elasticity.max_train_batch_size is not an integer from 1 to 2147483647"},
        {"{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 8}}",
         "elasticity.micro_batch_sizes is missing"},
        {"{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 8, \"micro_batch_sizes\": 2}}",
         "elasticity.micro_batch_sizes is not a list of numbers"},
        {"{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 8, \"micro_batch_sizes\": [2, 0.5]}}",
         "elasticity.micro_batch_sizes has an entry that is no integer from 1 to 2147483647"},
        {"{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 8, \"micro_batch_sizes\": [2], \"min_gpus\": "
         "9, "
         "\"max_gpus\": 8}}",
         "elasticity.max_gpus is below min_gpus"},
        {"{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 8, \"micro_batch_sizes\": [2], \"version\": "
         "0.3}}",
         "elasticity.version is neither 0.1 nor 0.2"},
        {"{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 8, \"micro_batch_sizes\": [2], \"version\": "
         "0.1, "
         "\"model_parallel_size\": 2}}",
         "elasticity.model_parallel_size is above 1, which version 0.1 does not know"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct elastic_config config;
        char error[ELASTIC_ERROR] = "";
        json_t *root = json_loads(cases[i].text, 0, NULL);
        assert_false(elastic_config_read(root, &config, error));
        assert_string_equal(error, cases[i].error);
        json_decref(root);
    }
}

/* 64 GPUs without a node of 8: 51 are valid (64 / 51 = 1.255), of whole nodes 48 (1.333). */
static void a_host_is_evicted_where_it_costs_more_than_a_smaller_job(void **state) {
    (void)state;
    struct elastic_config config = large_job();
    struct eviction eviction;
    static const struct {
        double speedup;
        enum eviction_verdict verdict;
    } cases[] = {{1, EVICTION_NO_STRAGGLER}, {1.25, EVICTION_NOT_WORTH_IT}, {1.26, EVICTION_WORTH_IT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(eviction_judge(&config, 64, 8, 8, cases[i].speedup, &eviction), ELASTIC_OK);
        assert_int_equal(eviction.verdict, cases[i].verdict);
    }
    assert_int_equal(eviction.next.gpus, 51);
    assert_int_equal(eviction.next.micro_batch, 16);
    assert_int_equal(eviction.next.accumulation, 12);
    assert_float_equal(eviction.next.cost_ratio, 64.0 / 51, 1e-9);
    assert_int_equal(eviction.whole_node.gpus, 48);
    assert_float_equal(eviction.whole_node.cost_ratio, 64.0 / 48, 1e-9);
    assert_float_equal(eviction.gain_ratio, 1.26 * 51 / 64, 1e-9);
}

static void who_leaves_no_valid_size_stays(void **state) {
    (void)state;
    struct elastic_config config = large_job();
    struct eviction eviction;
    assert_int_equal(eviction_judge(&config, 34, 3, 1, 5, &eviction), ELASTIC_OK); /* 31 are below min_gpus */
    assert_int_equal(eviction.verdict, EVICTION_NO_SIZE);
    assert_int_equal(eviction_judge(&config, 34, 34, 34, 5, &eviction), ELASTIC_OK);
    assert_int_equal(eviction.verdict, EVICTION_NO_SIZE);
}

/* Version 0.2 goes on with the GPUs that are left whatever their number. */
static void version_2_goes_on_with_all_that_are_left(void **state) {
    (void)state;
    struct elastic_config config = read_config("{\"elasticity\": {\"enabled\": true, \"max_train_batch_size\": 32, "
                                               "\"micro_batch_sizes\": [1, 2, 3, 7]}}");
    struct eviction eviction;
    assert_int_equal(eviction_judge(&config, 6, 1, 1, 1.3, &eviction), ELASTIC_OK);
    assert_int_equal(eviction.next.gpus, 5);
    assert_int_equal(eviction.next.batch_size, 30);
    assert_int_equal(eviction.verdict, EVICTION_WORTH_IT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_examples_of_version_1),
        cmocka_unit_test(version_2_counts_nodes),
        cmocka_unit_test(version_2_keeps_a_size_that_fits_nowhere),
        cmocka_unit_test(version_2_does_not_start_all_that_it_lists),
        cmocka_unit_test(numbers_beyond_reason_are_refused_and_end),
        cmocka_unit_test(what_is_wrong_in_a_configuration_is_named),
        cmocka_unit_test(a_host_is_evicted_where_it_costs_more_than_a_smaller_job),
        cmocka_unit_test(who_leaves_no_valid_size_stays),
        cmocka_unit_test(version_2_goes_on_with_all_that_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
