/* SPDX-License-Identifier: Apache-2.0
 *
 * One launch of GPU work as a communication library describes it; from there to its record it stays as it is.
 */
#ifndef COMMTAP_GPU_LAUNCH_H
#define COMMTAP_GPU_LAUNCH_H

#include <stdint.h>

#include "shim/format.h"

/* What was launched. A group of several operations is one launch. */
struct gpu_launch {
    uint64_t bytes;
    uint32_t seq;
    uint32_t op; /* of the POST or GROUP record */
    uint32_t comm;
    int32_t peer;
    uint32_t stack;
    uint32_t ranks; /* of the communicator */
    uint16_t call;
    uint16_t flags;
    uint8_t dtype;
    uint8_t redop;
    struct progress *progress; /* of the communicator; may be NULL */
    uint32_t collectives;      /* how many of its collectives this launch ends; when it is not 0, started and completed
                                  reach what `enqueued` is at gpu_span_end */
};

#endif
