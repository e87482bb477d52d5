/* SPDX-License-Identifier: Apache-2.0
 *
 * What of the dump only the harvester writes: the lane of device records, the devices, the anchors of their clocks.
 * Must not live here: what is recorded when (finish.h, waits.h).
 */
#ifndef COMMTAP_GPU_DEVICE_LANE_H
#define COMMTAP_GPU_DEVICE_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/gpu/device.h"

/* Opens the lane and the sections of devices. False when there is no room. */
bool device_lane_begin(void);

/* A record; its commit word is filled here. For the harvester's place alone. */
void device_record(const struct record *content);
/* The same of a launch. */
void device_record_launch(const struct record *content, const struct gpu_launch *launch);

/* Counts an operation that took `ns`, or has that as its share of an interval, in its row. */
void device_count(const struct gpu_launch *launch, uint32_t epoch_bits, uint64_t ns, bool share);

/* Keeps an anchor of the device's clock, its `number`th. A full table loses every second anchor of each device, and
 * keeps every second from then on. */
void device_keep_anchor(uint32_t device, uint32_t number, const struct device_anchor *content);

/* Keeps an anchor that somebody else tells: `raw` on that clock was `monotonic_ns`, give or take half of `width_ns`. */
void device_tell_anchor(const struct gpu_device *device, enum source source, uint64_t monotonic_ns, uint64_t width_ns,
                        uint64_t raw);

/* Now and then: how the lane's clock relates to REALTIME. */
void device_lane_tick(uint64_t now_ns);

#endif
