/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-in libcuda.so.1 offers beyond CUDA's own API: a place in a stream for host work (the stand-in NCCL
 * and the tests use it) and counts of the calls that a profiler must never make. Not for the library under test,
 * which must not know that it runs on a stand-in; CUDA's API itself is in cuda_api.h.
 *
 * Known to differ from CUDA: kernels take their place in a stream but do not run; destroying or resetting a context
 * drops what has not begun and waits for what runs; cuEventElapsedTime and cuMemGetInfo count as unsafe under capture
 * (stricter than CUDA documents); cuMemAllocAsync and cuMemFreeAsync under capture return 801; instantiated graphs
 * are updated where nodes are of the same kinds in the same order; the per-thread default stream only by its handle 2,
 * not by functions of its own (_ptsz); no IPC. All of this follows CUDA's manual; it has not been compared with a real
 * driver.
 *
 * Environment, read once at cuInit:
 *   STANDIN_DEVICES=n              devices in the machine, 0 to 64 (default 4); 0 makes cuInit return 100
 *   STANDIN_MEMORY=bytes           capacity of each device (default 16 GiB)
 *   STANDIN_HANDLES_REUSED=1       a destroyed stream or event is freed at once, so that its address comes back soon;
 *                                  by default the last 1024 stay recognizable and using one returns 400
 *   STANDIN_EVENT_QUERY_HANG=name  cuEventQuery called from a library whose path contains `name` never returns, as
 *                                  was seen behind a stuck kernel
 *   STANDIN_EVENT_DESTROY_HANG=1   cuEventDestroy of an unfinished event returns when the event has finished
 *   STANDIN_CLOCK_DRIFT=ppm        event times run faster than CLOCK_MONOTONIC by so much from cuInit on (default 0;
 *                                  negative = slower; 1000000 = twice as fast, which soon shows how coarse float is)
 *   STANDIN_REPORT=file            at exit the counts of standin_count are appended to it, one line
 *                                  "pid<tab>count's name<tab>library's path<tab>number" each
 */
#ifndef COMMTAP_TEST_STANDIN_H
#define COMMTAP_TEST_STANDIN_H

#include <stdint.h>

struct CUstream_st; /* CUstream is a pointer to it */

/* Gives host work a place in a stream, like a kernel: it runs on the stream's own thread after all work before it,
 * and work after it starts when it has returned. It may sleep, wait for other processes and take locks; it must not
 * call CUDA. The special handles 0, 1 and 2 mean streams of the calling thread's current context.
 *
 * While the stream is being captured nothing runs: the work becomes a node of the graph and runs at EVERY launch of
 * every executable graph made from it, so `argument` must live as long as those (see standin_stream_enqueue_owned).
 * Distinguish the two with cuStreamGetCaptureInfo_v2 before the call, as NCCL does.
 *
 * Returns a CUresult: 0, or what cuLaunchHostFunc would return (201, 400, 709, 901, 906 ...); then nothing is kept. */
int standin_stream_enqueue(struct CUstream_st *stream, void (*work)(void *), void *argument);

/* The same, and `release(argument)` is called once, when the work can never run again: after it has run, or, captured,
 * when the graph and all executable graphs made from it are gone and no launch is in flight. `release` runs on any
 * thread and must not call CUDA. Not called when an error is returned. */
int standin_stream_enqueue_owned(struct CUstream_st *stream, void (*work)(void *), void *argument,
                                 void (*release)(void *));

/* The same for work that belongs between this call's operation and the next: it takes its place in the stream right
 * after the next event record there (that of whoever times the operation just enqueued), or before any other work that
 * comes first. So a delay planted here is seen as a stream that reaches its next operation late. 401 while the stream
 * is being captured or has such work already. */
int standin_stream_enqueue_late(struct CUstream_st *stream, void (*work)(void *), void *argument,
                                void (*release)(void *));

/* Makes the stream busy for so long, like a kernel that takes its time (without using a processor). Returns as
 * standin_stream_enqueue. */
int standin_stream_busy(struct CUstream_st *stream, uint64_t nanoseconds);

/* What is counted for each library that called; the names are those of STANDIN_REPORT. */
enum standin_count {
    STANDIN_SYNCHRONIZE,    /* "synchronize": waits for a stream, context or event; a synchronous copy or fill */
    STANDIN_FREE,           /* "free": frees of device or pinned memory, which wait for the device */
    STANDIN_CREATE_CONTEXT, /* "create-context": a context came to be, also a primary one by a first use */
    STANDIN_DESTROY_BUSY,   /* "destroy-busy": an event destroyed before its work had finished */
    STANDIN_COUNTS
};

/* How often libraries whose path contains `library` ("" = all) made such calls since the process began. The caller is
 * the nearest frame of the stack outside libcuda and libcudart, so that what a runtime function does on behalf of a
 * library counts for that library. Any thread, at any time. */
uint64_t standin_count(enum standin_count what, const char *library);

#endif
