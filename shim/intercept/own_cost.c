/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/own_cost.h"

#include "shim/gpu/timing.h"
#include "shim/record/call_cache.h"
#include "shim/stacks/stacks.h"

enum {
    GAP_FIRST = 8,        /* calls from one that is measured to the next: so many at first, */
    GAP_MOST = 1024,      /* and at most: measuring takes about half a microsecond */
    SAMPLES_MS = 10,      /* measured calls need not be closer: 100 in a second take less than 0.01 % of it */
    INTERRUPTED_US = 500, /* more than a call's work, even with a page fault; less than the kernel's shortest time slice
                             (0.75 ms): the thread was taken off its processor */
    USUAL_TIMES = 32, /* a call that took more met with something rare, such as an interrupt or a stolen processor, */
    USUAL_US = 5,     /* unless that is less than a page fault takes on a virtual machine; */
    USUAL_OF = 8      /* usual is the mean of about so many measured calls */
};

static uint64_t of_second(uint32_t parts) {
    return recorder.anchors.tick_hz / parts;
}

void own_cost_begin(void) {
    recorder.header->own_cost.budget_millionths = (uint32_t)recorder.knobs.budget;
    budget_begin(&recorder.budget, (uint32_t)recorder.knobs.budget, recorder.anchors.tick_hz, ticks());
}

void own_cost_attach(struct thread *self) {
    self->due = 0;
    self->until_measured = GAP_FIRST;
    self->measured = (struct measured_call){.gap = GAP_FIRST, .stands_for = GAP_FIRST + 1, .random = self->tid};
}

void own_cost_enter(struct thread *self) {
    self->outer = 0;
    self->measured.rare = 0;
    self->measured.begin = ticks();
}

/* Between half and one and a half of the gap: a loop of the job's that calls in a fixed order has all its calls
 * measured (xorshift32, Marsaglia 2003). */
static uint32_t next_gap(struct measured_call *m) {
    m->random ^= m->random << 13;
    m->random ^= m->random >> 17;
    m->random ^= m->random << 5;
    return m->gap / 2 + m->random % m->gap;
}

void own_cost_turn(struct thread *self) {
    uint64_t now = ticks();
    struct measured_call *m = &self->measured;
    if (m->begin) {
        m->ticks = now - m->begin;
        m->begin = 0;
        m->phase = MEASURED_ENTRY;
        self->until_measured = m->drawn = next_gap(m);
    } else {
        m->phase = MEASURED_NEXT;
        self->until_measured = 1;
    }
    self->due = 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Those that leave out anything in this process. */
static uint32_t available_steps(void) {
    return (uint32_t)gpu_events_are_in_use() << SHED_GPU_TIMING |
           (uint32_t)(__atomic_load_n(&stacks_mode, __ATOMIC_RELAXED) != STACK_OFF) << SHED_STACKS |
           (uint32_t)(recorder.header->keep != KEEP_SUMMARY) << SHED_RECORDS;
}

static void note_step(struct shed *shed, bool in_force, uint64_t now) {
    if (in_force && !shed->since) {
        shed->times++;
        shed->since = now;
    } else if (!in_force && shed->since) {
        shed->ticks += now - shed->since;
        shed->since = 0;
    }
}

/* What is remembered of calls knows their stack and their template: all of it is found anew. */
static void put_in_force(uint32_t steps, uint64_t now) {
    for (int step = 0; step < SHED_STEPS; step++)
        note_step(&recorder.header->own_cost.shed[step], steps >> step & 1, now);
    gpu_events_shed(steps >> SHED_GPU_TIMING & 1);
    stacks_shed(steps >> SHED_STACKS & 1);
    __atomic_store_n(&recorder.records_shed, steps >> SHED_RECORDS & 1, __ATOMIC_RELAXED);
    call_cache_forget();
}

/* One thread at a time; what another one spends meanwhile is decided upon with the next call that is measured. */
static void spend(uint64_t spent, uint64_t now) {
    __atomic_fetch_add(&recorder.unaccounted, spent, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&recorder.budget_busy, 1, __ATOMIC_ACQUIRE))
        return;
    uint64_t all = __atomic_exchange_n(&recorder.unaccounted, 0, __ATOMIC_RELAXED);
    if (budget_spend(&recorder.budget, all, now, available_steps()))
        put_in_force(recorder.budget.shed, now);
    __atomic_store_n(&recorder.budget_busy, 0, __ATOMIC_RELEASE);
}

/* ---- the end of a call ----------------------------------------------------------------------- */

/* So that measured calls come about SAMPLES_MS apart, or GAP_MOST calls. */
static void choose_gap(struct measured_call *m, uint64_t now) {
    uint64_t apart = now - m->last, wanted = of_second(1000 / SAMPLES_MS);
    if (apart < wanted / 2 && m->gap < GAP_MOST)
        m->gap *= 2;
    else if (apart > wanted * 2 && m->gap > GAP_FIRST)
        m->gap /= 2;
    m->last = now;
}

/* Of what a measured call took: as much as the calls that it stands for may have taken as well. What is beyond that
 * happened once: taken times hundreds of calls, a tenth of a millisecond would be the whole budget of a second. */
static uint64_t usual_part(struct measured_call *m, uint64_t took) {
    uint64_t most = m->usual * USUAL_TIMES, least = of_second(1000000 / USUAL_US);
    uint64_t part = most < least ? least : most;
    part = took < part ? took : part;
    m->usual = (m->usual * (USUAL_OF - 1) + part) / USUAL_OF;
    return part;
}

/* `took`: what commtap did in that call, and read the clock one time more than it does in others. */
static void count_measured(struct measured_call *m, uint64_t took, uint64_t now) {
    struct own_cost *cost = &recorder.header->own_cost;
    uint64_t reading = ticks() - now;
    took -= took < m->rare + reading ? took : m->rare + reading;
    choose_gap(m, now);
    if (took > of_second(1000000 / INTERRUPTED_US)) {
        count_loss(&cost->interrupted);
        m->stands_for += m->drawn + 1;
        return;
    }
    uint64_t usual = usual_part(m, took);
    uint64_t spent = usual * m->stands_for + (took - usual) + m->rare_unaccounted;
    __atomic_fetch_add(&cost->samples, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cost->calls, m->stands_for, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cost->ticks, spent, __ATOMIC_RELAXED);
    m->stands_for = m->drawn + 1;
    m->rare_unaccounted = 0;
    spend(spent, now);
}

void own_cost_left(struct thread *self, uint64_t t1) {
    uint64_t now = ticks();
    struct measured_call *m = &self->measured;
    enum measured_phase phase = m->phase;
    m->phase = MEASURED_NOTHING;
    if (t1 >= __atomic_load_n(&recorder.anchors.next_due, __ATOMIC_RELAXED))
        anchors_take(&recorder.anchors);
    self->due = __atomic_load_n(&recorder.anchors.next_due, __ATOMIC_RELAXED);
    if (phase == MEASURED_NEXT)
        self->outer = OUTER_MEASURED;
    else if (phase == MEASURED_ENTRY)
        count_measured(m, m->ticks + (now - t1), now);
}
