/* SPDX-License-Identifier: Apache-2.0
 *
 * Exposed communication: a stream that the job makes wait for an event behind communication has nothing else to do from
 * the moment it reaches that wait until the communication ends.
 * Lives here: which launch an event of the job stands behind; our own event in front of such a wait.
 * Must not live here: the interception of the job's calls (wrap_cuda.c).
 *
 * Streams by special handles are not followed as communication streams: what is enqueued there orders everything.
 */
#ifndef COMMTAP_GPU_WAITS_H
#define COMMTAP_GPU_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/device.h"

/* Application threads: `op` is the last launch on that stream; the job recorded an event there; the job is about to
 * make a stream wait for an event. */
void waits_launched(const void *stream, uint32_t op);
void waits_event_recorded(const void *event, const void *stream);
void waits_before_wait(void *stream, const void *event);

/* Harvester: forgets everything; a launch has ended at t1 (device ns); the stream of a SPAN_WAIT has reached its wait.
 * The last returns the driver's status. */
void waits_begin(void);
void waits_ended(uint32_t op, uint64_t t1);
int waits_reached(const struct gpu_span *span);

#endif
