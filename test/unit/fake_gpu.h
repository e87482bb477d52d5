/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU driver that does what a test tells it, step by step: the table of shim/gpu/driver.h filled with functions that
 * keep to the rules where timing could go wrong.
 * Must not live here: threads, real work (test/standin has a driver that runs).
 *
 * Device time is CLOCK_MONOTONIC ns less an offset of its own. A job's stream holds what was enqueued until the test
 * lets it go on; a stream made through the table (the anchors') runs everything at once.
 */
#ifndef COMMTAP_TEST_FAKE_GPU_H
#define COMMTAP_TEST_FAKE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_STREAMS    8
#define FAKE_CONTEXTS   4
#define FAKE_POISONED   907 /* CUDA_ERROR_CAPTURED_EVENT */
#define FAKE_IN_CAPTURE 900 /* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED */

struct fake_event {
    int context;
    int state; /* 0 never recorded, 1 pending, 2 done, 3 poisoned by an ordinary record under capture */
    uint64_t device_ns;
    unsigned queries, records;
};

/* What the code under test asked for. */
struct fake_calls {
    unsigned events_created, records, external_records, queries, pushes, pops;
};

struct fake_gpu {
    int current; /* context of the calling thread, -1 = none */
    struct fake_calls calls;
    int record_error, query_error, push_error; /* given to every call of the kind while not 0 */
    void *recorded_on;                         /* stream that an event was recorded on last, as the caller named it */
    uint64_t free_memory, total_memory;
    bool hang, hanging;  /* queries do not return while `hang` is set; one does not */
    void *capture_graph; /* of the stream under capture */
    uint64_t capture_id;
};
extern struct fake_gpu fake;

/* Forgets everything, context 0 becomes current, and fills the table. `graphs`: with what timing in graphs needs. */
void fake_gpu_begin(bool graphs);

void *fake_context(int number);
/* A job's stream in a context: handles as large as real ones. */
void *fake_stream(int number, int context);
/* The stream that a special handle means in a context: number 0 to FAKE_CONTEXTS - 1. */
void *fake_legacy_stream(int context);

/* Completes the next `count` things enqueued on the stream, the first at `host_ns`, each `gap_ns` after the one before.
 * Returns how many there were. */
unsigned fake_run(void *stream, unsigned count, uint64_t host_ns, uint64_t gap_ns);

/* Begins and ends capture of a stream into fake.capture_graph. */
void fake_capture(void *stream, bool on);

/* The nodes of the capture that ended last run, as a replay does; the first at `host_ns`. */
unsigned fake_replay(uint64_t host_ns, uint64_t gap_ns);

#endif
