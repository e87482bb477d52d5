/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sensor times GPU operations: what COMMTAP_GPU_TIMING asks for and what the process allows.
 * Must not live here: the sensors.
 */
#ifndef COMMTAP_GPU_MODE_H
#define COMMTAP_GPU_MODE_H

#include <stdbool.h>

#include "shim/format.h"

/* What the choice hangs on besides the knob. */
struct gpu_surroundings {
    bool driver;         /* a GPU driver is loaded and has what events need */
    bool one_connection; /* CUDA_DEVICE_MAX_CONNECTIONS=1: the job relies on the order in which work is enqueued, and an
                            event between a collective and the kernels it overlaps with would keep them apart */
    bool kernel;         /* NCCL's profiler plugin tells times from inside the kernels */
};

/* The mode in force for one of the knob's words (auto, events, kernel, host, off); *why says why it is not what was
 * asked for, or what auto did without: NULL where there is nothing to say. */
enum gpu_timing gpu_mode_choose(const char *wanted, const struct gpu_surroundings *surroundings, const char **why);

/* Looks at the process and writes the choice into the dump's header. */
enum gpu_timing gpu_mode_begin(bool driver);

#endif
