/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/heartbeat.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/background_thread.h"
#include "shim/base/os.h"
#include "shim/base/system_call.h"
#include "shim/intercept/neighbours.h"
#include "shim/record/recorder.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#define CLOSE_ALL_UNSHARED 2 /* CLOSE_RANGE_UNSHARE */

#define BEATING    2u       /* processes of a node */
#define HEIRS      2u       /* that take over from them: as many again */
#define FOUND_BY   16u      /* beats after which an heir knows those before it, or does not wait for them */
#define SLACK_NS   5000000u /* a wake-up joins the next tick of the processor, if there is one: 4 ms apart at 250 Hz */
#define FIND_EVERY 32u      /* beats between two looks for new processes, once the job has begun */

/* The thread's own table of descriptors, empty: a file that it opens must not take the number that the job expects for
 * one of its own. False before Linux 5.9. */
static bool leave_the_jobs_descriptors(void) {
    return system_call(SYS_close_range, 0, UINT32_MAX, CLOSE_ALL_UNSHARED, 0) == 0;
}

/* To the next multiple of BEAT_NS, and by the clock that nobody sets: one that is set back must not stop the beats. */
static void sleep_to_the_beat(void) {
    uint64_t left = BEAT_NS - os_realtime_ns() % BEAT_NS;
    if (left < BEAT_NS / 2) /* it woke early: the calendar goes slower at times */
        left += BEAT_NS;
    struct timespec rest = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    nanosleep(&rest, NULL);
}

/* The process is about to end, or records no more. */
static bool is_over(const struct dump_header *header) {
    return __atomic_load_n(&header->state, __ATOMIC_RELAXED) & (STATE_EXITED | STATE_SWITCHED_OFF);
}

/* Waits until one of them ends, without waking before. False where the kernel does not tell. */
static bool wait_for_an_end(const int64_t *pids, uint32_t count) {
    struct pollfd ends[BEATING + HEIRS];
    uint32_t open = 0;
    while (open < count) {
        ends[open] = (struct pollfd){.fd = (int)system_call(SYS_pidfd_open, pids[open], 0, 0, 0), .events = POLLIN};
        if (ends[open].fd < 0)
            break;
        open++;
    }
    bool told = open == count || ends[open].fd == -ESRCH;
    if (open == count)
        system_call(SYS_ppoll, (long)ends, count, 0, 0);
    while (open > 0)
        close(ends[--open].fd);
    return told;
}

/* Who beats, if this process does not yet: true once it is its turn. Those that are before it are found in the first
 * beats; then only the end of one of them wakes this thread. False: it has nothing to wait for. */
static bool inherit(const struct dump_header *header) {
    int64_t pids[BEATING + HEIRS];
    uint32_t known = 0, live = 0;
    prctl(PR_SET_NAME, "commtap-heir");
    for (uint32_t count = 1, due = 1; count <= FOUND_BY && known < BEATING; count++) {
        sleep_to_the_beat();
        if (is_over(header))
            return false;
        if (count < due)
            continue;
        neighbours_find();
        live = neighbours_before(pids, BEATING + HEIRS, &known);
        due *= 2;
    }
    while (live >= BEATING) {
        if (live >= BEATING + HEIRS || !wait_for_an_end(pids, live) || is_over(header))
            return false;
        live = neighbours_before(pids, BEATING + HEIRS, &known);
        if (live >= BEATING)
            sleep_to_the_beat(); /* never in circles, should somebody seem to live that has ended */
    }
    return true;
}

static void *beat(void *nothing) {
    int64_t pids[BEATING + HEIRS];
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    const struct dump_header *header = recorder.header;
    bool finds = leave_the_jobs_descriptors(), numbered = header->local_rank >= 0;
    if (header->local_rank >= (int32_t)BEATING && !(finds && inherit(header)))
        return nothing;
    prctl(PR_SET_NAME, "commtap-beat");
    for (uint32_t count = 1, due = 1, known;; count++) {
        sleep_to_the_beat();
        if (is_over(header))
            break;
        if (finds && count == due) {
            neighbours_find();
            due += due < FIND_EVERY ? due : FIND_EVERY;
        }
        neighbours_look();
        if (count > 1 || numbered || neighbours_before(pids, 0, &known) < BEATING)
            continue;
        if (!inherit(header))
            break;
        prctl(PR_SET_NAME, "commtap-beat");
    }
    return nothing;
}

/* Children forked from a recorded process have inherited its number. */
void heartbeat_begin(void) {
    if (recorder.knobs.heartbeat && recorder.generation == 1 &&
        recorder.header->local_rank < (int32_t)(BEATING + HEIRS) && neighbours_begin())
        background_thread_start(beat, THREAD_UNTOLD);
}
