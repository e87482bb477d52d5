/* SPDX-License-Identifier: Apache-2.0
 *
 * What the harvester makes of the spans that it looks at, by their kind, and what it looks at now and then: anchors,
 * memory in use.
 * Must not live here: which span is looked at when (harvester.c).
 */
#ifndef COMMTAP_GPU_SPAN_ENDS_H
#define COMMTAP_GPU_SPAN_ENDS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/device.h"

/* A span whose stop is complete. Returns the driver's status; GPU_NOT_READY: its time cannot be told yet. */
int span_ended(struct gpu_span *span);

/* Its stop is not complete; its start may be. */
void span_started(struct gpu_span *span);

/* Its events answered with an error. */
void span_failed(struct gpu_span *span, int status);

/* Nobody will look at it again. */
void span_unfinished(struct gpu_span *span);
/* ... at any of those under way: the thread that looks is stuck in the driver. What it finds when it comes back after
 * all is not counted again. */
void spans_unfinished(void);

/* Anchors and memory of one live device, when they are due. */
void keep_device(struct gpu_device *device, uint64_t now_ns);

#endif
