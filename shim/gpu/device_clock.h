/* SPDX-License-Identifier: Apache-2.0
 *
 * When something happened on a GPU, in this host's time.
 * Lives here: anchors - events whose host time is known within a bracket - and the mapping of other events by them.
 * Must not live here: the job's streams. Used by the harvester alone.
 *
 * The distance of two events comes as a float of milliseconds, whose last bit is 0.06 us at 1 s and 250 us at 1 h:
 * every time is told from the nearest anchor, and anchors are at most DEVICE_CLOCK_INTERVAL_NS apart.
 */
#ifndef COMMTAP_GPU_DEVICE_CLOCK_H
#define COMMTAP_GPU_DEVICE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define DEVICE_CLOCK_INTERVAL_NS 3500000000u
#define DEVICE_CLOCK_ANCHORS     16u

struct gpu_device;

struct device_clock {
    void *stream;    /* our own, non-blocking */
    void *spares[2]; /* events for the next attempt, and of the best one so far */
    struct {
        void *event;
        uint64_t monotonic_ns; /* middle of the bracket */
        uint64_t width_ns;     /* its length */
    } anchors[DEVICE_CLOCK_ANCHORS];
    uint32_t taken; /* so far; the newest is anchors[(taken - 1) % DEVICE_CLOCK_ANCHORS] */
    uint64_t due_ns;
    double rate; /* host ns per device ns */
};

/* Makes the stream and the events; the device's context must be current. Returns the driver's status. */
int device_clock_begin(struct device_clock *clock);

/* Takes an anchor, its context being current. Queries only, for a fraction of a millisecond at most; a device too busy
 * to give a narrow one is asked again soon. True when there is a new one (the last of clock->anchors). */
bool device_clock_take(struct device_clock *clock, uint64_t now_ns);

/* CLOCK_MONOTONIC ns at which `event`, which must be complete, happened, and the width of the anchor that it was
 * measured from, by which it may be off (NULL: not wanted). Returns the driver's status; GPU_NOT_READY while there is
 * no anchor. */
int device_clock_read(const struct device_clock *clock, void *event, uint64_t *ns, uint64_t *width_ns);

/* Where what took `length` and was read to start at `t0` lies, as far as the host knows for certain: nothing starts
 * before it was enqueued or ends after it was seen complete. CLOCK_MONOTONIC ns. */
uint64_t device_clock_narrow(uint64_t t0, uint64_t length, uint64_t enqueued, uint64_t seen);

/* Device ns between two complete events; 0 where the second is not later. Returns the driver's status. */
int device_clock_length(void *start, void *stop, uint64_t *ns);

#endif
