/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests with several ranks, each a process. Lives here: starting them, their device, communicator and stream,
 * expecting. Must not live here: what is tested.
 */
#ifndef STANDIN_RANKS_H
#define STANDIN_RANKS_H

#ifdef STANDIN_REAL_NCCL
#include <cuda.h>
#else
#include "test/standin/cuda_api.h"
#endif
#include "test/standin/nccl_api.h"

#include <stdio.h>
#include <stdlib.h>

/* In a rank or in the test itself: says what is wrong and ends the process. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, ncclGetLastError(NULL));       \
            _Exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

struct rank {
    int rank, ranks;
    ncclUniqueId id;
    char *shared; /* 4096 bytes that all ranks and the test see, zeroed */
};

enum outcome { RANK_OK, RANK_FAILED, RANK_KILLED, RANK_HUNG };

#define MAX_TEST_RANKS 8

/* Runs `body` in `ranks` processes and fills outcomes[]. One that runs after `seconds` is killed and counts as hung. */
void ranks_run(int ranks, double seconds, void (*body)(struct rank *), enum outcome *outcomes);
/* The same, and every rank must end well. */
void ranks_succeed(int ranks, void (*body)(struct rank *));

/* Inside a rank: device `rank` made current, its communicator, a stream; and the end of all that. */
ncclComm_t rank_communicator(struct rank *r);
CUstream new_stream(void);
void use_device(int device);

/* Milliseconds from one event to the other, both finished. */
double elapsed_ms(CUevent from, CUevent to);
CUevent recorded(CUstream stream);
void sleep_ms(double ms);
double now_ms(void);

#endif
