/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/hung_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void hung_make(struct hung_job *hung, unsigned ranks) {
    *hung = (struct hung_job){.ranks = ranks};
    for (unsigned r = 0; r < ranks; r++) {
        const struct dump_plan plan = {.rank = (int32_t)r, .world_size = (int32_t)ranks, .ring_records = 64};
        struct dump_builder *builder = hung->builders[r] = dump_builder_new(&plan);
        dump_builder_standard_calls(builder);
        dump_builder_world(builder);
        hung->slots[r] = dump_builder_in_flight(builder);
        hung->slots[r]->comm = COMM_NONE;
    }
}

void hung_make_worlds(struct hung_job *hung, unsigned ranks, unsigned size, uint32_t records) {
    *hung = (struct hung_job){.ranks = ranks};
    for (unsigned r = 0; r < ranks; r++) {
        const struct dump_plan plan = {
            .rank = (int32_t)(r % size), .world_size = (int32_t)size, .ring_records = records, .devices = 1};
        struct dump_builder *builder = hung->builders[r] = dump_builder_new(&plan);
        dump_builder_header(builder)->generation = r / size;
        dump_builder_standard_calls(builder);
        dump_builder_world(builder);
        dump_builder_progress(builder, 0)->prefix_hash = BUILDER_WORLD_UID;
        hung->slots[r] = dump_builder_in_flight(builder);
        hung->slots[r]->comm = COMM_NONE;
        hung->states[r] = PROCESS_RUNS;
    }
}

void hung_make_living(struct hung_job *hung, unsigned ranks) {
    hung_make_worlds(hung, ranks, ranks, 16);
}

struct in_flight *hung_call(struct hung_job *hung, unsigned rank, uint16_t call, uint32_t flags, uint32_t comm,
                            int32_t peer, int32_t tag, uint32_t seq, uint64_t enter) {
    struct in_flight *slot = hung->slots[rank];
    *slot = (struct in_flight){.tid = slot->tid,
                               .call = call,
                               .flags = flags,
                               .comm = comm,
                               .peer = peer,
                               .tag = tag,
                               .seq = seq,
                               .enter = enter};
    return slot;
}

void hung_enter(struct hung_job *hung, unsigned rank, uint16_t call, uint32_t flags, int32_t peer, int32_t tag,
                uint32_t seq) {
    uint32_t comm = call == BUILDER_WAITALL || call == BUILDER_WAITANY ? COMM_NONE : 0;
    hung_call(hung, rank, call, flags, comm, peer, tag, seq, 0);
}

struct pending *hung_pending(struct hung_job *hung, unsigned rank, uint16_t call, uint16_t flag, int32_t peer,
                             uint32_t op, uint32_t seq) {
    struct pending *p = dump_builder_pending(hung->builders[rank]);
    p->call = call;
    p->flags = flag;
    p->peer = peer;
    p->tag = 1;
    p->op = op;
    p->seq = seq;
    p->active = 1;
    return p;
}

void hung_progress(struct hung_job *hung, unsigned rank, uint32_t comm, uint64_t begun, uint64_t ended) {
    struct progress *progress = dump_builder_progress(hung->builders[rank], comm);
    progress->prefix_hash = dump_builder_definition(hung->builders[rank], comm)->uid;
    progress->enqueued = progress->started = begun;
    progress->completed = ended;
}

const struct diagnosis *hung_judge(struct hung_job *hung, struct diagnose_request request) {
    for (unsigned r = 0; r < hung->ranks; r++) {
        size_t bytes;
        const void *data = dump_builder_data(hung->builders[r], &bytes);
        assert_non_null(hung->dumps[r] = dump_open_buffer("hung", data, bytes));
        if (request.settled && hung->states[r] == PROCESS_GONE)
            hung->states[r] = PROCESS_RUNS;
    }
    const struct dump_set set = {
        .directory = "hung", .dumps = hung->dumps, .count = hung->ranks, .duplicate = hung->duplicate};
    request.states = hung->states;
    assert_int_equal(job_select(&hung->job, &set, NULL, NULL), 0);
    assert_true(diagnose(&hung->diagnosis, &hung->job, &request));
    assert_true(diagnosis_text_make(&hung->text, &hung->diagnosis, &request, NULL));
    return &hung->diagnosis;
}

bool hung_says(const struct hung_job *hung, const char *text) {
    for (size_t i = 0; i < hung->text.sentence_count; i++)
        if (strstr(hung->text.sentences[i], text))
            return true;
    return false;
}

const char *hung_culprits(const struct hung_job *hung, char text[64]) {
    text[0] = '\0';
    for (size_t i = 0; i < hung->diagnosis.culprit_count; i++)
        snprintf(text + strlen(text), 64 - strlen(text), "%d ",
                 hung->diagnosis.world.parties[hung->diagnosis.culprits[i].party].rank);
    return text;
}

void hung_free(struct hung_job *hung) {
    diagnosis_text_free(&hung->text);
    diagnosis_free(&hung->diagnosis);
    job_free(&hung->job);
    for (unsigned r = 0; r < hung->ranks; r++) {
        dump_close(hung->dumps[r]);
        dump_builder_free(hung->builders[r]);
    }
}
