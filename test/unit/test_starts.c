/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes of an elastic job were started together (dumps/starts.h).
 * Lives here: directories of dumps as torchrun's agents leave them. Must not live here: numbering starts (test_job.c),
 * real restarts (test/e2e/test_generations.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/job/job_list.h"
#include "test/support/dump_builder.h"

enum { WORLD = 4, DUMPS = 12 };
#define SECOND UINT64_C(1000000000)

/* A process: its world and restart count as its agent has them, its communicator (0: none), and when it was there. */
struct process {
    uint64_t world;
    uint32_t counted;
    int32_t rank;
    const char *boot_id;
    uint64_t uid, from, until;
};

static char directory[64];

static int make_directory(void **state) {
    (void)state;
    strcpy(directory, "/tmp/commtap-test-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static void define_world(struct dump_builder *builder, const struct process *process) {
    const struct member_run all = {.start = 0, .count = WORLD, .stride = 1};
    uint32_t index = dump_builder_communicator(builder, process->uid, "", process->rank, &all, 1);
    dump_builder_definition(builder, index)->created_by = BUILDER_NCCL_ALL_REDUCE;
}

static void leave(const struct process *processes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct process *process = &processes[i];
        struct dump_builder *builder =
            dump_builder_new(&(struct dump_plan){.rank = process->rank, .world_size = WORLD});
        struct dump_header *header = dump_builder_header(builder);
        char path[128];
        header->world_id = process->world;
        header->generation = process->counted;
        header->activated_ticks = process->from * SECOND;
        header->exited_ticks = process->until * SECOND;
        header->state |= STATE_EXITED;
        dump_builder_host(builder, process->boot_id, process->boot_id, 1);
        dump_builder_standard_calls(builder);
        dump_builder_anchor(builder, 1, 1, 1, 0);
        if (process->uid)
            define_world(builder, process);
        snprintf(path, sizeof path, "%s/commtap.r.%016zx.ct", directory, i);
        assert_int_equal(dump_builder_write(builder, path, 0), 0);
        dump_builder_free(builder);
    }
}

/* `text` names the boot ids of all ranks of each start in their order; the first start has the number `generation`. */
static void assert_starts(const char *const *text, size_t count, unsigned generation) {
    struct dump_set set;
    struct job_list list;
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    assert_true(job_list_build(&list, &set));
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++) {
        char found[WORLD + 1] = "----";
        const struct listed_job *job = &list.items[i];
        for (size_t d = job->first; d < job->first + job->count; d++) {
            assert_false(set.duplicate[d]);
            found[set.dumps[d]->header->rank] = set.dumps[d]->boot_id[0];
        }
        assert_string_equal(found, text[i]);
        assert_int_equal(job->generation, generation + i);
        assert_int_equal(job->ranks, WORLD);
    }
    job_list_free(&list);
    dump_set_close(&set);
}

/* A worker of host b fails, then one of host a: each agent has counted its own restart alone. */
static void starts_are_whole_whatever_each_agent_counts(void **state) {
    (void)state;
    const struct process processes[] = {
        {1, 0, 0, "a", 10, 100, 200}, {1, 0, 1, "a", 10, 100, 200}, {1, 0, 2, "b", 10, 100, 200},
        {1, 0, 3, "b", 10, 100, 199}, {1, 0, 0, "a", 20, 300, 400}, {1, 0, 1, "a", 20, 300, 400},
        {2, 1, 2, "b", 20, 301, 400}, {2, 1, 3, "b", 20, 301, 400}, {2, 1, 0, "a", 30, 501, 600},
        {2, 1, 1, "a", 30, 501, 600}, {2, 1, 2, "b", 30, 500, 600}, {2, 1, 3, "b", 30, 500, 600},
    };
    const char *const starts[] = {"aabb", "aabb", "aabb"};
    leave(processes, DUMPS);
    assert_starts(starts, 3, 0);
}

/* The first process of a start comes from a host that had none in the start that time would put it to. */
static void communicators_tell_more_than_time(void **state) {
    (void)state;
    const struct process processes[] = {
        {2, 1, 0, "a", 20, 300, 400}, {2, 1, 1, "a", 20, 300, 400}, {1, 0, 2, "b", 20, 300, 400},
        {1, 0, 3, "b", 20, 300, 400}, {2, 1, 2, "b", 30, 500, 600}, {2, 1, 0, "a", 30, 501, 600},
        {2, 1, 1, "a", 30, 501, 600}, {2, 1, 3, "c", 30, 501, 600},
    };
    const char *const starts[] = {"aabb", "aabc"};
    leave(processes, 8);
    assert_starts(starts, 2, 1);
}

/* It died before it had made its communicator. */
static void who_has_no_communicator_goes_with_its_launch(void **state) {
    (void)state;
    const struct process processes[] = {
        {1, 0, 0, "a", 10, 100, 200}, {1, 0, 1, "a", 10, 100, 200}, {1, 0, 2, "b", 10, 100, 200},
        {1, 0, 3, "b", 10, 100, 199}, {1, 0, 0, "a", 20, 300, 400}, {1, 0, 1, "a", 20, 300, 400},
        {2, 1, 2, "b", 20, 301, 400}, {2, 1, 3, "b", 0, 301, 302},
    };
    const char *const starts[] = {"aabb", "aabb"};
    leave(processes, 8);
    assert_starts(starts, 2, 0);
}

/* MPI_COMM_WORLD is called alike by all starts with one count. */
static void communicators_of_mpi_join_nobody(void **state) {
    (void)state;
    struct dump_set set;
    struct job_list list;
    for (int32_t i = 0; i < 4; i++) {
        struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = i % 2, .world_size = 2});
        struct dump_header *header = dump_builder_header(builder);
        char path[128];
        header->generation = (uint32_t)i / 2;
        header->world_id = 1 + (uint64_t)(i / 2);
        dump_builder_standard_calls(builder);
        dump_builder_world(builder);
        snprintf(path, sizeof path, "%s/commtap.r.%d.ct", directory, (int)i);
        assert_int_equal(dump_builder_write(builder, path, 0), 0);
        dump_builder_free(builder);
    }
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    assert_true(job_list_build(&list, &set));
    assert_int_equal(list.count, 2);
    job_list_free(&list);
    dump_set_close(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(starts_are_whole_whatever_each_agent_counts, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(communicators_tell_more_than_time, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(who_has_no_communicator_goes_with_its_launch, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(communicators_of_mpi_join_nobody, make_directory, remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
