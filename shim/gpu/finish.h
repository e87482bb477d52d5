/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a launch once it has run: its record, its row in the tables, its communicator's progress. For the
 * harvester's place alone, but for finish_abort.
 * Must not live here: how its times were found (span_ends.c, graph_replays.c, kernel_times.c).
 */
#ifndef COMMTAP_GPU_FINISH_H
#define COMMTAP_GPU_FINISH_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/device.h"

/* Forgets everything. */
void finish_begin(void);

/* One launch ran from t0 to t1 (device ns). */
void finish_operation(struct gpu_device *device, const struct gpu_launch *launch, uint32_t epoch_bits, uint64_t t0,
                      uint64_t t1);

/* A launch is running, or done, and so are its collectives, which made its communicator's progress reach `reached`; 0:
 * it has none. */
void finish_progress(const struct gpu_launch *launch, uint64_t reached, bool done);

/* Nobody will learn of the launch whether it ran. Any thread. */
void finish_unfollowed(const struct gpu_launch *launch);

/* The communicator's launches in flight end some other way than by running to their end. Any thread. */
void finish_abort(uint32_t comm);
bool finish_is_aborted(uint32_t comm);

#endif
