/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/device_clock.h"

#include <sched.h>

#include "shim/base/os.h"
#include "shim/gpu/driver.h"

#define ATTEMPTS         8
#define ATTEMPT_NS       200000u  /* an anchor that takes longer is no anchor */
#define FIRST_ATTEMPT_NS 5000000u /* ... but the first one is better wide than not at all */
#define ALL_ATTEMPTS_NS  2000000u /* no further one after that: where cores are short each takes a time slice */
#define NARROW_NS        15000u   /* good enough: no further attempt */
#define WIDE_NS          100000u  /* rejected unless there is nothing better for long */
#define LONG_WITHOUT_NS  30000000000u
#define RETRY_NS         250000000u
#define FIRST_RETRY_NS   10000000u    /* without any anchor nothing has a time */
#define RATE_BASE_NS     1000000000.0 /* anchors nearer to each other say nothing about the rate */
#define RATE_OFF         1e-3         /* no oscillator is this wrong: something else went wrong */

static uint64_t magnitude(double x) {
    return (uint64_t)((x < 0 ? -x : x) + 0.5);
}

int device_clock_begin(struct device_clock *clock) {
    *clock = (struct device_clock){.rate = 1};
    int status = gpu_driver.stream_create(&clock->stream, GPU_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < DEVICE_CLOCK_ANCHORS && status == GPU_SUCCESS; i++)
        status = gpu_driver.event_create(&clock->anchors[i].event, 0);
    for (uint32_t i = 0; i < 2 && status == GPU_SUCCESS; i++)
        status = gpu_driver.event_create(&clock->spares[i], 0);
    return status;
}

/* One attempt with the spare event: the host's time before the record and after it was seen. */
static bool bracket(const struct device_clock *clock, uint64_t *from, uint64_t *to) {
    uint64_t patience = clock->taken ? ATTEMPT_NS : FIRST_ATTEMPT_NS;
    int status;
    *from = os_monotonic_ns();
    if (gpu_driver.event_record(clock->spares[0], clock->stream) != GPU_SUCCESS)
        return false;
    for (;;) {
        status = gpu_driver.event_query(clock->spares[0]);
        *to = os_monotonic_ns();
        if (status != GPU_NOT_READY || *to - *from >= patience)
            break;
        sched_yield(); /* costs nothing where nobody else wants this core */
    }
    return status == GPU_SUCCESS;
}

static bool acceptable(const struct device_clock *clock, uint64_t width, uint64_t now) {
    if (width <= WIDE_NS || !clock->taken)
        return true;
    return now - clock->anchors[(clock->taken - 1) % DEVICE_CLOCK_ANCHORS].monotonic_ns > LONG_WITHOUT_NS;
}

/* The rate over all anchors at hand: a long base makes their widths small. Each is measured against the oldest, never
 * added up. */
static void find_rate(struct device_clock *clock) {
    uint32_t oldest = clock->taken > DEVICE_CLOCK_ANCHORS ? clock->taken % DEVICE_CLOCK_ANCHORS : 0;
    uint32_t newest = (clock->taken - 1) % DEVICE_CLOCK_ANCHORS;
    float milliseconds;
    if (oldest == newest || gpu_driver.event_elapsed(&milliseconds, clock->anchors[oldest].event,
                                                     clock->anchors[newest].event) != GPU_SUCCESS)
        return;
    double device = (double)milliseconds * 1e6;
    double host = (double)(clock->anchors[newest].monotonic_ns - clock->anchors[oldest].monotonic_ns);
    if (device < RATE_BASE_NS)
        return;
    double rate = host / device;
    clock->rate = rate > 1 - RATE_OFF && rate < 1 + RATE_OFF ? rate : 1;
}

static void swap(void **a, void **b) {
    void *kept = *a;
    *a = *b;
    *b = kept;
}

/* Soon where all times rest on one wide anchor so far, then less and less so. */
static uint64_t retry_after(const struct device_clock *clock, uint64_t now_ns) {
    uint64_t since = clock->taken == 1 ? now_ns - clock->anchors[0].monotonic_ns : 0;
    bool wide = clock->taken == 1 && clock->anchors[0].width_ns > WIDE_NS && now_ns > clock->anchors[0].monotonic_ns;
    if (clock->taken == 0 || (wide && since < FIRST_RETRY_NS))
        return FIRST_RETRY_NS;
    return wide && since < RETRY_NS ? since : RETRY_NS;
}

bool device_clock_take(struct device_clock *clock, uint64_t now_ns) {
    uint32_t place = clock->taken % DEVICE_CLOCK_ANCHORS;
    uint64_t best = UINT64_MAX, middle = 0, from, to;
    uint64_t begin = os_monotonic_ns();
    to = begin;
    for (int i = 0; i < ATTEMPTS && best > NARROW_NS && to - begin < ALL_ATTEMPTS_NS && bracket(clock, &from, &to);
         i++) {
        if (to - from >= best)
            continue;
        best = to - from;
        middle = from + best / 2;
        swap(&clock->spares[0], &clock->spares[1]);
    }
    bool accepted = best != UINT64_MAX && acceptable(clock, best, now_ns);
    clock->due_ns = now_ns + (accepted && best <= WIDE_NS ? DEVICE_CLOCK_INTERVAL_NS : retry_after(clock, now_ns));
    if (!accepted)
        return false;
    swap(&clock->spares[1], &clock->anchors[place].event);
    clock->anchors[place].monotonic_ns = middle;
    clock->anchors[place].width_ns = best;
    clock->taken++;
    find_rate(clock);
    return true;
}

int device_clock_read(const struct device_clock *clock, void *event, uint64_t *ns, uint64_t *width_ns) {
    uint32_t count = clock->taken < DEVICE_CLOCK_ANCHORS ? clock->taken : DEVICE_CLOCK_ANCHORS;
    uint64_t nearest = UINT64_MAX;
    for (uint32_t i = 1; i <= count; i++) {
        float milliseconds;
        uint32_t place = (clock->taken - i) % DEVICE_CLOCK_ANCHORS;
        int status = gpu_driver.event_elapsed(&milliseconds, clock->anchors[place].event, event);
        if (status != GPU_SUCCESS)
            return status;
        double host = (double)milliseconds * 1e6 * clock->rate;
        if (magnitude(host) >= nearest)
            break; /* older anchors are farther away */
        nearest = magnitude(host);
        *ns = clock->anchors[place].monotonic_ns + (host < 0 ? 0 - nearest : nearest);
        if (width_ns)
            *width_ns = clock->anchors[place].width_ns;
        if (host >= 0)
            break;
    }
    return nearest == UINT64_MAX ? GPU_NOT_READY : GPU_SUCCESS;
}

uint64_t device_clock_narrow(uint64_t t0, uint64_t length, uint64_t enqueued, uint64_t seen) {
    if (t0 + length > seen && seen > length)
        t0 = seen - length;
    return t0 < enqueued ? enqueued : t0;
}

int device_clock_length(void *start, void *stop, uint64_t *ns) {
    float milliseconds = 0;
    int status = gpu_driver.event_elapsed(&milliseconds, start, stop);
    *ns = status == GPU_SUCCESS && milliseconds > 0 ? magnitude((double)milliseconds * 1e6) : 0;
    return status;
}
