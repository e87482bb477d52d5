/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page is made of: texts that may be handed on, columns of numbers, time by intervals.
 * Must not live here: the page in a browser (test/e2e/test_html.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/page/columns.h"
#include "analyzer/page/heat.h"
#include "analyzer/page/memory.h"
#include "analyzer/page/participants.h"
#include "analyzer/page/redact.h"
#include "test/unit/job_builder.h"

/* ---- texts ----------------------------------------------------------------------------------- */

static char *hosts[] = {"node1", "node12", "gpu-a.cluster.org", "h2"};
static char *places[] = {"/data/my jobs/run 7", "/scratch/alice"};
static char *modules[] = {"prog.o", "train"};
static const struct redaction redaction = {.modules = modules,
                                           .module_count = 2,
                                           .names = hosts,
                                           .name_count = 4,
                                           .places = places,
                                           .place_count = sizeof places / sizeof *places};

static void assert_becomes(const char *text, const char *expected) {
    char *clean = redact_text(&redaction, text);
    assert_string_equal(clean, expected);
    free(clean);
}

static void test_hosts_have_numbers(void **state) {
    (void)state;
    assert_becomes("rank 1 on node1.", "rank 1 on host 1.");
    assert_becomes("node12, node1", "host 2, host 1");
    assert_becomes("node1.cluster.local:4", "host 1:4");
    assert_becomes("on gpu-a.cluster.org", "on host 3");
    assert_becomes("h2h, node123, mynode1, node1-ib", "h2h, node123, mynode1, node1-ib");
    assert_becomes("(h2)", "(host 4)");
}

static void test_of_paths_the_last_part_stays(void **state) {
    (void)state;
    assert_becomes("main (/home/alice/p.c:12)", "main (p.c:12)");
    assert_becomes("at src/secret/train.py:7", "at train.py:7");
    assert_becomes("../x/y ~/z", "y z");
    assert_becomes("commtap check /data/my jobs/run 7", "commtap check DIR");
    assert_becomes("in /scratch/alice.", "in DIR.");
    assert_becomes("/scratch/alice/node1/out", "out");
    assert_becomes("/data/my jobs/run 7/commtap.x.ct", "commtap.x.ct");
}

static void test_all_else_stays(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "12.3 GB/s",
                                        "send/recv and MPI_Send/ncclSend",
                                        "1.08 times, 1/2 of it",
                                        "root rank 0",
                                        "Tensor<float, 3>::operator/(int)",
                                        "/",
                                        "\xff\xfe"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_becomes(texts[i], texts[i]);
}

static void test_the_program_loses_its_name(void **state) {
    (void)state;
    assert_becomes("prog.o+0x1a2b", "module 1+0x1a2b");
    assert_becomes("main (prog.o)", "main (module 1)");
    assert_becomes("at train+0x3, train", "at module 2+0x3, train");
    assert_becomes("train (train.c:7)", "train (train.c:7)"); /* a function and its source file */
    json_t *json = json_pack("[{s:s, s:s}, {s:s}]", "module", "train", "function", "train", "module", "libc.so.6");
    assert_true(redact_json(&redaction, json));
    assert_string_equal(json_string_value(json_object_get(json_array_get(json, 0), "module")), "module 2");
    assert_string_equal(json_string_value(json_object_get(json_array_get(json, 0), "function")), "train");
    assert_string_equal(json_string_value(json_object_get(json_array_get(json, 1), "module")), "libc.so.6");
    json_decref(json);
}

static void test_documents_lose_who_ran_them(void **state) {
    (void)state;
    json_t *json = json_pack("{s:s, s:{s:s, s:[s, n, i]}, s:n}", "command", "./a --key 7", "job", "user", "alice",
                             "hosts", "node1", 3, "working_directory");
    assert_true(redact_json(&redaction, json));
    assert_string_equal(json_string_value(json_object_get(json, "command")), "");
    json_t *job = json_object_get(json, "job");
    assert_string_equal(json_string_value(json_object_get(job, "user")), "");
    assert_string_equal(json_string_value(json_array_get(json_object_get(job, "hosts"), 0)), "host 1");
    json_decref(json);
}

/* ---- columns --------------------------------------------------------------------------------- */

static void test_alike_columns_are_one_value(void **state) {
    (void)state;
    json_t *object = json_object();
    columns_add(object, "alike", json_pack("[i, i, i]", 7, 7, 7));
    columns_add(object, "unknown", json_pack("[n, n]"));
    columns_add(object, "one", json_pack("[i]", 7));
    columns_add(object, "none", json_array());
    columns_add(object, "last", json_pack("[i, i, i]", 7, 7, 8));
    assert_int_equal(json_integer_value(json_object_get(object, "alike")), 7);
    assert_true(json_is_null(json_object_get(object, "unknown")));
    assert_int_equal(json_array_size(json_object_get(object, "one")), 1);
    assert_int_equal(json_array_size(json_object_get(object, "none")), 0);
    assert_int_equal(json_array_size(json_object_get(object, "last")), 3);
    json_decref(object);
}

/* ---- time by intervals ----------------------------------------------------------------------- */

static json_int_t share(json_t *heat, const char *key, size_t at) {
    return json_integer_value(json_array_get(json_object_get(heat, key), at));
}

/* Two ranks in 600 intervals of a microsecond. */
static void test_time_goes_to_its_intervals(void **state) {
    (void)state;
    struct heat heat;
    assert_true(heat_init(&heat, 2, 600000));
    assert_int_equal(heat.intervals, HEAT_INTERVALS_MOST);
    heat_add(&heat, &(struct slice){
                        .dump = 1, .begin = 1500, .end = 3250, .waited = true, .wait_from = 2000, .wait_to = 2900});
    heat_add(&heat, &(struct slice){.dump = 0, .begin = -500, .end = 400});
    heat_add(&heat, &(struct slice){.dump = 0, .begin = 599000, .end = 700000});
    heat_add(&heat, &(struct slice){.dump = 0, .begin = 599000, .end = 700000});
    json_t *json = heat_to_json(&heat);
    const size_t second = HEAT_INTERVALS_MOST;
    assert_int_equal(share(json, "communicated_percent", second + 0), 0);
    assert_int_equal(share(json, "communicated_percent", second + 1), 50);
    assert_int_equal(share(json, "communicated_percent", second + 2), 100);
    assert_int_equal(share(json, "communicated_percent", second + 3), 25);
    assert_int_equal(share(json, "waited_percent", second + 1), 0);
    assert_int_equal(share(json, "waited_percent", second + 2), 90);
    assert_int_equal(share(json, "communicated_percent", 0), 40);
    assert_int_equal(share(json, "communicated_percent", 599), 100); /* two threads at once */
    json_decref(json);
    heat_free(&heat);
}

static void test_many_ranks_have_fewer_intervals(void **state) {
    (void)state;
    struct heat heat;
    assert_true(heat_init(&heat, 4096, 1000));
    assert_int_equal(heat.intervals, HEAT_CELLS_MOST / 4096);
    heat_free(&heat);
    assert_true(heat_init(&heat, 100000, 0));
    assert_int_equal(heat.intervals, HEAT_INTERVALS_LEAST);
    heat_free(&heat);
}

/* ---- parallel layout ------------------------------------------------------------------------- */

static const json_t *value_at(const json_t *page, const char *list, size_t place, const char *key) {
    return json_object_get(json_array_get(json_object_get(page, list), place), key);
}

/* Rank 0 has a GPU, and is the second of two in a group; rank 1 has neither. */
static void ranks_have_their_gpus_and_places_in_the_layout(void **state) {
    (void)state;
    struct hand_job hand;
    hand_job_make(&hand, 2, (struct dump_plan){.devices = 2});
    const struct member_run pair = {.start = 1, .count = 1, .stride = 1}, first = {.start = 0, .count = 1, .stride = 1};
    const struct member_run runs[] = {pair, first};
    dump_builder_communicator(hand.builders[0], 7, "mesh_tp", 1, runs, 2);
    dump_builder_communicator(hand.builders[0], 8, "", 0, &first, 1);
    dump_builder_device(hand.builders[0], 1000, 10);
    struct device_state *device = dump_builder_contents(hand.builders[0], SECTION_DEVICES, 0);
    strcpy(device->name, "NVIDIA H100");
    strcpy(device->bus, "0000:3b:00.0");
    device->ordinal = 3;
    hand_job_open(&hand, 2);
    const uint32_t stages[] = {0, 2};
    json_t *page = json_object();
    assert_true(participants_add(page, &(struct job){.dumps = hand.dumps, .count = 2}, stages));
    assert_true(json_is_null(value_at(page, "dumps", 0, "stage")));
    assert_int_equal(json_integer_value(value_at(page, "dumps", 1, "stage")), 2);
    const json_t *devices = value_at(page, "dumps", 0, "devices"), *gpu = json_array_get(devices, 0);
    assert_int_equal(json_array_size(devices), 1);
    assert_string_equal(json_string_value(json_object_get(gpu, "name")), "NVIDIA H100");
    assert_string_equal(json_string_value(json_object_get(gpu, "bus")), "0000:3b:00.0");
    assert_int_equal(json_integer_value(json_object_get(gpu, "ordinal")), 3);
    assert_int_equal(json_array_size(value_at(page, "dumps", 1, "devices")), 0);
    assert_int_equal(json_array_size(value_at(page, "dumps", 0, "groups")), 2); /* the world has a name, too */
    assert_int_equal(json_array_size(json_object_get(page, "communicators")), 2);
    assert_string_equal(json_string_value(value_at(page, "communicators", 1, "name")), "mesh_tp");
    assert_string_equal(json_string_value(value_at(page, "communicators", 1, "role")), "TP");
    assert_true(json_is_null(value_at(page, "communicators", 0, "role")));
    const json_t *group = json_array_get(value_at(page, "dumps", 0, "groups"), 1);
    assert_int_equal(json_integer_value(json_object_get(group, "place")), 1);
    json_decref(page);
    hand_job_free(&hand);
}

/* ---- memory of GPUs -------------------------------------------------------------------------- */

static json_t *memory_bytes(const json_t *json, size_t device, size_t interval) {
    const json_t *item = json_array_get(json_object_get(json, "devices"), device);
    return json_array_get(json_object_get(item, "bytes"), interval);
}

static void test_memory_is_the_most_of_each_interval(void **state) {
    (void)state;
    struct memory memory = {.intervals = 10, .span_ns = 1000};
    memory_add(&memory, &(struct memory_source){.dump = 4, .device = 1}, 150, 700);
    memory_add(&memory, &(struct memory_source){.dump = 4, .device = 1}, 199, 900);
    memory_add(&memory, &(struct memory_source){.dump = 4, .device = 1}, 101, 800);
    memory_add(&memory, &(struct memory_source){.dump = 4, .device = 1}, 1000, 0); /* the end of the last interval */
    memory_add(&memory, &(struct memory_source){.dump = 4, .device = 1}, 1001, 5000);
    memory_add(&memory, &(struct memory_source){.dump = 4, .device = 1}, -1, 5000);
    memory_add(&memory, &(struct memory_source){.dump = 4, .device = 0}, 0, UINT64_MAX - 1);
    memory_add(&memory, &(struct memory_source){.dump = 4, .device = 1, .call = 7, .name = "a part"}, 150, 300);
    json_t *json = memory_to_json(&memory);
    const json_t *devices = json_object_get(json, "devices");
    assert_int_equal(json_array_size(devices), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(devices, 0), "dump")), 4);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(devices, 0), "peak_bytes")), 900);
    assert_true(json_is_null(memory_bytes(json, 0, 0)));
    assert_int_equal(json_integer_value(memory_bytes(json, 0, 1)), 900);
    assert_int_equal(json_integer_value(memory_bytes(json, 0, 9)), 0);
    assert_int_equal(json_integer_value(memory_bytes(json, 1, 0)), INT64_MAX);
    assert_int_equal(json_integer_value(memory_bytes(json, 2, 1)), 300);
    assert_string_equal(json_string_value(json_object_get(json_array_get(devices, 0), "what")), "in use");
    assert_string_equal(json_string_value(json_object_get(json_array_get(devices, 2), "what")), "a part");
    assert_int_equal(json_integer_value(json_object_get(json, "samples_left_out")), 0);
    json_decref(json);
    memory_free(&memory);
}

static void test_memory_of_too_many_gpus_is_counted(void **state) {
    (void)state;
    enum { INTERVALS = 600, GPUS = MEMORY_CELLS_MOST / INTERVALS };
    struct memory memory = {.intervals = INTERVALS, .span_ns = 1};
    for (uint32_t device = 0; device < GPUS + 3; device++)
        memory_add(&memory, &(struct memory_source){.dump = 0, .device = device}, 0, 1);
    json_t *json = memory_to_json(&memory);
    assert_int_equal(json_array_size(json_object_get(json, "devices")), GPUS);
    assert_int_equal(json_integer_value(json_object_get(json, "samples_left_out")), 3);
    json_decref(json);
    memory_free(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_have_their_gpus_and_places_in_the_layout),
        cmocka_unit_test(test_hosts_have_numbers),
        cmocka_unit_test(test_of_paths_the_last_part_stays),
        cmocka_unit_test(test_all_else_stays),
        cmocka_unit_test(test_the_program_loses_its_name),
        cmocka_unit_test(test_documents_lose_who_ran_them),
        cmocka_unit_test(test_alike_columns_are_one_value),
        cmocka_unit_test(test_time_goes_to_its_intervals),
        cmocka_unit_test(test_many_ranks_have_fewer_intervals),
        cmocka_unit_test(test_memory_is_the_most_of_each_interval),
        cmocka_unit_test(test_memory_of_too_many_gpus_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
