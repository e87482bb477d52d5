/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a launch once it has run: its record, its row in the tables, its communicator's progress; and what
 * is looked at now and then: anchors, memory in use. All of it the harvester's, in a lane of its own.
 * Must not live here: which span is looked at when (harvester.c).
 */
#ifndef COMMTAP_GPU_FINISH_H
#define COMMTAP_GPU_FINISH_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/device.h"

/* Opens the lane and the sections of devices. False when there is no room. */
bool finish_begin(void);

/* A record of the lane of device records; its commit word is filled here. For the harvester's place alone. */
void finish_record(const struct record *content);

/* A span whose stop is complete. Returns the driver's status; GPU_NOT_READY: its time cannot be told yet. */
int finish_span(struct gpu_span *span);

/* One launch ran from t0 to t1 (device ns). `flags` are added to the launch's own. */
void finish_operation(struct gpu_device *device, const struct gpu_launch *launch, uint32_t epoch_bits, uint64_t t0,
                      uint64_t t1, uint16_t flags);

/* The collectives of a launch that made its communicator's progress reach `reached` are running, or done. 0: it makes
 * no progress. */
void finish_progress(const struct gpu_launch *launch, uint64_t reached, bool done);

/* Keeps an anchor of the device's clock in the dump: `raw` on that clock was `monotonic_ns`, give or take half of
 * `width_ns`. */
void finish_anchor(const struct gpu_device *device, enum source source, uint64_t monotonic_ns, uint64_t width_ns,
                   uint64_t raw);

/* Its stop is not complete; its start may be. */
void finish_started(struct gpu_span *span);

/* Its events answered with an error. */
void finish_failed(struct gpu_span *span, int status);

/* Nobody will look at it again. */
void finish_unfinished(const struct gpu_span *span);

/* Anchors and memory of one live device, when they are due. */
void finish_housekeeping(struct gpu_device *device, uint64_t now_ns);

/* The communicator's launches in flight end some other way than by running to their end. Any thread. */
void finish_abort(uint32_t comm);
bool finish_is_aborted(uint32_t comm);

#endif
