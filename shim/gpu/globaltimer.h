/* SPDX-License-Identifier: Apache-2.0
 *
 * What a GPU's globaltimer is behind CLOCK_MONOTONIC, from what launches tell by themselves: a kernel's start stamp is
 * not earlier than the enqueueing of its launch, and no stamp is later than the moment at which the host first had it.
 * Both together bracket the distance of the clocks; the tightest bounds so far hold, each loosened as the clocks may
 * have drifted since.
 * Where streams are never idle the lower bound is loose: enqueueing is long before. Stamps, though, are fetched by a
 * thread that polls for them, and the quickest fetch of several is within GLOBALTIMER_FETCH_NS of its stamp: a few
 * microseconds for a write to host memory and a turn of that loop. This is no proof, as the bracket is, but what the
 * error comes to; it shifts all times of a device alike.
 * Lives here: that bracket. Must not live here: where stamps come from. Pure; one thread at a time.
 */
#ifndef COMMTAP_GPU_GLOBALTIMER_H
#define COMMTAP_GPU_GLOBALTIMER_H

#include <stdbool.h>
#include <stdint.h>

/* More than two oscillators and NTP's slewing part. */
#define GLOBALTIMER_DRIFT_PPM 30

#define GLOBALTIMER_FETCH_NS 20000
#define GLOBALTIMER_FETCHES  8 /* before this many nothing is supposed of the quickest */

struct globaltimer {
    int64_t lower, upper;        /* CLOCK_MONOTONIC - globaltimer, ns */
    uint64_t lower_ns, upper_ns; /* CLOCK_MONOTONIC when each was last looked at; 0 = there is none */
    uint32_t fetches;            /* that `upper` is the quickest of */
};

/* A stamp whose moment was not before `host_ns`. */
void globaltimer_not_before(struct globaltimer *clock, uint64_t stamp, uint64_t host_ns);

/* A stamp that the host had at `host_ns`. */
void globaltimer_not_after(struct globaltimer *clock, uint64_t stamp, uint64_t host_ns);

/* The distance to add to a stamp. *width: length of a bracket around that value that holds the true one, 0 while none
 * can be told. False before the first upper bound. */
bool globaltimer_distance(const struct globaltimer *clock, int64_t *distance, uint64_t *width);

#endif
