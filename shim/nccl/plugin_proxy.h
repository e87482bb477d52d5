/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's network proxy operations and their steps, as its profiler plugin is told of them: bytes and waits per peer.
 * Must not live here: kernels, calls (plugin.c).
 *
 * One thread of NCCL drives an operation from start to stop; the harvester's place writes what became of it. A proxy
 * may work for another process of the host (PXN): then neither context nor parent means anything here, and the
 * transfers are counted under no communicator.
 */
#ifndef COMMTAP_NCCL_PLUGIN_PROXY_H
#define COMMTAP_NCCL_PLUGIN_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/format.h"
#include "shim/nccl/plugin_abi.h"

#define PROXY_OPERATIONS    4096u /* in flight at a time */
#define PROXY_STEPS         8u    /* of one operation in flight: NCCL_STEPS */
#define PROXY_TRANSFER_ROWS 1024u

/* Memory and the section of transfers, once per activation; false when there is no room. */
bool proxy_begin(void);

/* The section, PROXY_TRANSFER_ROWS of them; NULL before proxy_begin. */
const struct transfer_row *proxy_rows(void);

/* Handles, NULL when the event is not followed: too many (counted), too late. */
void *proxy_start(const void *context, const struct profiler_event *event);
void *proxy_step_start(const struct profiler_event *event);
void proxy_step_state(const void *handle, int state, const union profiler_state_details *details);
void proxy_step_stop(const void *handle);
void proxy_stop(const void *handle);

/* For the harvester's place: joins operations with their launches, writes those that have stopped. */
bool proxy_look(void);

#endif
