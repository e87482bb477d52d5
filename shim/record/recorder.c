/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/recorder.h"

#include "shim/base/fork_page.h"

struct recorder recorder;
__thread struct thread *this_thread;

static const volatile uint32_t never_armed;
const volatile uint32_t *recorder_armed = &never_armed;

AT_START bool recorder_read_environment(void) {
    enum { NOT_READ = 1, NONE_GIVEN, GIVEN };
    static uint32_t environment = NOT_READ; /* not 0: then it lies in a page that is touched anyway */
    if (environment == NOT_READ) {
        environment = knobs_read(&recorder.knobs) ? GIVEN : NONE_GIVEN;
        if (environment == GIVEN && !knobs_enabled(&recorder.knobs))
            recorder.gave_up = true;
    }
    return environment == GIVEN;
}

void recorder_switch_off(const char *why) {
    if (!*recorder_armed)
        return;
    fork_page()->armed = 0;
    recorder.gave_up = true;
    copy_text(recorder.header->trouble, sizeof recorder.header->trouble, why);
    __atomic_fetch_or(&recorder.header->state, STATE_SWITCHED_OFF, __ATOMIC_RELEASE);
    if (recorder.header->rank <= 0)
        message(why);
}

/* ---- threads --------------------------------------------------------------------------------- */

void *thread_scratch_more(struct thread *self, size_t bytes) {
    struct thread_part *scratch = &self->parts[PART_SCRATCH];
    struct thread_part more = {.bytes = bytes < 65536 ? 65536 : bytes * 2};
    more.memory = os_memory(more.bytes);
    if (!more.memory)
        return NULL;
    if (scratch->memory)
        os_unmap(scratch->memory, scratch->bytes);
    *scratch = more;
    return more.memory;
}

/* ---- the ring -------------------------------------------------------------------------------- */

void record_mark(struct thread *self, int32_t level) {
    uint64_t ticket, now = ticks();
    struct record *record = ring_begin(self->lane, &ticket);
    if (!record)
        return;
    *record = (struct record){
        .t0 = now, .t1 = now, .seq = SEQ_NONE, .comm = COMM_NONE, .peer = PEER_NONE, .tag = level, .kind = RECORD_MARK};
    ring_end(self->lane, record, ticket);
}

/* Of a ring that is hardly used a page, of a busy one few calls of the kernel. */
static uint64_t next_slots(const struct lane *lane, uint64_t slots, uint64_t needed) {
    const uint64_t page = 4096 / sizeof *lane->ring, most = SECTION_ALIGN / sizeof *lane->ring;
    uint64_t step = slots < page ? page : slots < most ? slots : most;
    uint64_t next = slots + step > needed ? slots + step : needed + 1;
    return next <= lane->mask ? next : lane->mask + 1;
}

bool ring_make_room(struct lane *lane, uint64_t ticket) {
    uint64_t slot = ticket & lane->mask, slots = __atomic_load_n(&lane->slots, __ATOMIC_ACQUIRE);
    if (slot < slots)
        return true;
    uint64_t next = next_slots(lane, slots, slot);
    if (!dumpfile_make_room(&recorder.file, &lane->ring[slots], (next - slots) * sizeof *lane->ring))
        return false;
    while (slots < next &&
           !__atomic_compare_exchange_n(&lane->slots, &slots, next, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    __atomic_store_n(&lane->room, next > lane->mask ? UINT64_MAX : next, __ATOMIC_RELAXED);
    return true;
}

void ring_skip(struct lane *lane) {
    lane->head++;
    __atomic_store_n(&lane->state->head, lane->head, __ATOMIC_RELAXED);
}

struct record *ring_claim_shared(struct lane *lane, uint64_t *ticket) {
    uint64_t mine = __atomic_fetch_add(&lane->state->head, 1, __ATOMIC_RELAXED);
    if (mine >= __atomic_load_n(&lane->room, __ATOMIC_RELAXED) && !ring_make_room(lane, mine))
        return NULL;
    struct record *record = &lane->ring[mine & lane->mask];
    uint64_t commit = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE);
    bool free = mine <= lane->mask ? commit == 0 : commit == mine - lane->mask;
    if (free && commit && record->t0 >= __atomic_load_n(&lane->keep_from, __ATOMIC_RELAXED) &&
        !__atomic_exchange_n(&lane->trace_window.busy, 1, __ATOMIC_ACQUIRE)) {
        trace_windows_keep(&recorder.trace_windows, &lane->trace_window, lane->clock, record, &lane->keep_from);
        __atomic_store_n(&lane->trace_window.busy, 0, __ATOMIC_RELEASE);
    }
    /* The slot's last writer may be slower than a whole round: its record stays, this one is lost and shows as a gap.
     */
    if (!free || (commit &&
                  !__atomic_compare_exchange_n(&record->commit, &commit, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
        return NULL;
    *ticket = mine;
    return record;
}
