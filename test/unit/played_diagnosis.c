/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/played_diagnosis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char boot[] = "11111111-2222-3333-4444-555555555555";

struct dump_builder *played_rank(struct played_diagnosis *play, const struct dump_plan *plan) {
    struct dump_builder *builder = play->builders[play->ranks++] = dump_builder_new(plan);
    dump_builder_standard_calls(builder);
    dump_builder_host(builder, "host0", boot, 1);
    dump_builder_world(builder);
    dump_builder_in_flight(builder)->comm = COMM_NONE;
    dump_builder_header(builder)->nccl_version = 22809;
    dump_builder_header(builder)->gpu_timing = GPU_TIMING_EVENTS;
    dump_builder_lane(builder, 1)->device = 1;
    return builder;
}

enum verdict played_judge(struct played_diagnosis *play, enum process_state state, int64_t moment_ns) {
    const enum process_state states[PLAYED_RANKS_MOST] = {state, state, state, state};
    const struct moment now = {.boot_id = boot, .monotonic_ns = moment_ns, .realtime_ns = moment_ns};
    struct job_end end = {.monotonic_ns = moment_ns};
    bool alive = state == PROCESS_RUNS;
    strcpy(end.boot_id, boot);
    for (unsigned r = 0; r < play->ranks; r++) {
        size_t bytes;
        const void *data = dump_builder_data(play->builders[r], &bytes);
        assert_non_null(play->dumps[r] = dump_open_buffer("made", data, bytes));
    }
    const struct dump_set set = {
        .directory = "made", .dumps = play->dumps, .count = play->ranks, .duplicate = play->duplicate};
    const struct diagnose_request request = {
        .states = states, .settled = alive, .now = alive ? &now : NULL, .end = alive ? NULL : &end};
    assert_int_equal(job_select(&play->job, &set, NULL, NULL), 0);
    assert_true(diagnose(&play->diagnosis, &play->job, &request));
    assert_true(diagnosis_text_make(&play->text, &play->diagnosis, &request, NULL));
    return play->diagnosis.verdict;
}

void played_leave(struct played_diagnosis *play) {
    diagnosis_text_free(&play->text);
    diagnosis_free(&play->diagnosis);
    job_free(&play->job);
    for (unsigned r = 0; r < play->ranks; r++) {
        dump_close(play->dumps[r]);
        dump_builder_free(play->builders[r]);
    }
}
