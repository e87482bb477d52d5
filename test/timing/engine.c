/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of engine.h.
 */
#include "test/timing/engine.h"

#include "shim/gpu/timing.h"
#include "shim/intercept/activate.h"
#include "shim/record/recorder.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void engine_open(void) {
    if (!activate_process())
        return;
    for (uint32_t comm = 0; comm < 16; comm++)
        if (!recorder.progress[comm].version) {
            recorder.progress[comm].comm = comm;
            recorder.progress[comm].version = 2;
        }
}

EXPORTED int engine_attach(void) {
    return gpu_attach_device();
}

EXPORTED void *engine_begin(int device, void *stream, uint32_t streams) {
    return gpu_span_begin(device, stream, streams);
}

EXPORTED void engine_end(void *span, uint32_t comm, uint32_t op) {
    struct progress *progress = &recorder.progress[comm];
    struct gpu_launch launch = {.bytes = 4096,
                                .seq = (uint32_t)progress->enqueued,
                                .op = op,
                                .comm = comm,
                                .peer = PEER_NONE,
                                .ranks = 2,
                                .call = commtap_calls[INDEX_MPI_Allreduce].id,
                                .flags = FLAG_COLLECTIVE,
                                .progress = progress,
                                .collectives = 1};
    progress->enqueued++;
    gpu_span_end(span, &launch);
}

EXPORTED uint64_t engine_enqueued(uint32_t comm) {
    return recorder.progress[comm].enqueued;
}

EXPORTED uint64_t engine_completed(uint32_t comm) {
    return __atomic_load_n(&recorder.progress[comm].completed, __ATOMIC_ACQUIRE);
}

EXPORTED void engine_abort(uint32_t comm) {
    gpu_abort_communicator(comm);
}
