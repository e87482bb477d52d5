/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/wait_for_graph/deaths.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/dumps/lifetime.h"
#include "analyzer/wait_for_graph/beats.h"
#include "analyzer/wait_for_graph/slots.h"

/* ---- what dumps tell ------------------------------------------------------------------------- */

bool has_finished(const struct dump *dump) {
    return dump_has_finished(dump->header);
}

/* Without MPI_Finalize, by exit() or MPI_Abort: both leave their time. */
static bool left_early(const struct dump *dump) {
    uint32_t state = dump->header->state;
    return !has_finished(dump) && state & (STATE_EXITED | STATE_ABORTING);
}

static struct first_death end_of(const struct world *world, uint32_t party) {
    const struct dump *dump = world->parties[party].dump;
    bool aborted = dump->header->state & STATE_ABORTING;
    uint64_t ticks = !aborted && dump->header->exited_ticks ? dump->header->exited_ticks : last_sign_of_life(dump);
    return (struct first_death){.known = true, .party = party, .of_itself = aborted, .when = moment_of(dump, ticks)};
}

/* Whether a thread was inside of a call that waits for others. */
static bool was_waiting(const struct dump *dump) {
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = slot_read(&dump->in_flight[i]);
        const struct call_name *call = slot.tid ? slot_call(dump, &slot) : NULL;
        if (call && slot_can_block(call, &slot))
            return true;
    }
    return false;
}

bool exited_at_work(const struct dump *dump) {
    uint32_t state = dump->header->state;
    return state & STATE_EXITED && !(state & STATE_ABORTING) && !was_waiting(dump);
}

static bool left_together(const struct first_death *a, const struct first_death *b) {
    return moments_apart(&a->when, &b->when) < EXITS_TOGETHER_NS;
}

bool exit_is_a_consequence(const struct world *world, uint32_t party, const struct first_death *first) {
    const struct dump *dump = world->parties[party].dump;
    if (dump->header->state & STATE_ABORTING)
        return false;
    struct first_death mine = end_of(world, party);
    return was_waiting(dump) || (first->known && first->party != party && left_together(&mine, first));
}

/* ---- what was noted -------------------------------------------------------------------------- */

/* Signals that a process brings upon itself. Others, and SIGKILL of all, come from outside: from a user, a launcher, or
 * the kernel that is short of memory. */
static bool is_of_itself(const struct job_end *end) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (end->signal == own[i])
            return true;
    return end->status >= 0;
}

static bool take_note(const struct world *world, const struct job_end *end, struct first_death *death) {
    if (!end || !end->dead_known || !end->sure || end->monotonic_ns <= 0 || end->dead >= world->dump_count)
        return false;
    const struct dump *dump = world->parties[end->dead].dump;
    if (strcmp(end->boot_id, dump->boot_id) != 0)
        return false;
    *death = (struct first_death){.known = true,
                                  .party = (uint32_t)end->dead,
                                  .of_itself = is_of_itself(end),
                                  .when = moment_at(dump, end->monotonic_ns)};
    return true;
}

/* ---- what beats tell ------------------------------------------------------------------------- */

struct moment last_known_alive(const struct party *party) {
    struct moment own = moment_of(party->dump, last_sign_of_life(party->dump));
    return party->seen_ns > own.monotonic_ns ? moment_at(party->dump, party->seen_ns) : own;
}

/* Whether it lived on for longer than ends of one cause are apart. */
static bool outlived(const struct party *party, const struct moment *end) {
    struct moment last = last_known_alive(party);
    bool same = strcmp(last.boot_id, end->boot_id) == 0;
    int64_t least = EXITS_TOGETHER_NS + (same ? 0 : REALTIME_APART_NS);
    return moment_is_earlier(end, &last) && moments_apart(&last, end) >= least;
}

/* Whether some did, and all, but for those that came to their end and those that were missed, too. */
static bool others_lived_on(const struct world *world, const struct moment *gone) {
    bool some = false;
    for (uint32_t p = 0; p < world->dump_count; p++) {
        const struct party *party = &world->parties[p];
        if (has_finished(party->dump))
            continue;
        bool lived_on = outlived(party, gone);
        if (!lived_on && party->gone_ns == 0)
            return false;
        some |= lived_on;
    }
    return some;
}

/* Of those that were missed together with the first one: one that did not wait for others, if there is one. */
static uint32_t one_at_work(const struct world *world, uint32_t missed, const struct moment *gone) {
    for (uint32_t p = 0; p < world->dump_count; p++) {
        const uint32_t next = (missed + p) % world->dump_count;
        const struct party *party = &world->parties[next];
        struct moment when = moment_at(party->dump, party->gone_ns);
        if (party->gone_ns > 0 && !has_finished(party->dump) && !was_waiting(party->dump) &&
            moments_apart(&when, gone) < EXITS_TOGETHER_NS)
            return next;
    }
    return missed;
}

/* The process that was missed while all others are known to have lived on; of several that went together one. Of a
 * job whose processes can still be asked that is told from them. */
static void find_missed(const struct world *world, struct first_death *first) {
    uint32_t missed = NOBODY;
    struct moment gone;
    for (uint32_t p = 0; p < world->dump_count; p++) {
        const struct party *party = &world->parties[p];
        if (party->process == PROCESS_RUNS || party->process == PROCESS_STOPPED)
            return;
        if (party->gone_ns == 0 || has_finished(party->dump) || left_early(party->dump))
            continue;
        struct moment when = moment_at(party->dump, party->gone_ns);
        if (missed == NOBODY || moment_is_earlier(&when, &gone)) {
            missed = p;
            gone = when;
        }
    }
    if (missed == NOBODY || (first->known && !moment_is_earlier(&gone, &first->when)))
        return;
    if (!others_lived_on(world, &gone))
        return;
    missed = one_at_work(world, missed, &gone);
    *first = (struct first_death){
        .known = true, .missed = true, .party = missed, .when = last_known_alive(&world->parties[missed])};
}

/* ---- all together ---------------------------------------------------------------------------- */

struct first_death first_death_find(const struct world *world, const struct job_end *end) {
    struct first_death first = {0};
    bool together = false;
    take_note(world, end, &first);
    for (uint32_t p = 0; p < world->dump_count; p++) {
        if (!left_early(world->parties[p].dump))
            continue;
        struct first_death other = end_of(world, p);
        together |= first.known && first.party != p && left_together(&first, &other);
        if (!first.known || moment_is_earlier(&other.when, &first.when))
            first = other;
    }
    if (first.known && left_early(world->parties[first.party].dump))
        first.of_itself |= !together && !was_waiting(world->parties[first.party].dump);
    find_missed(world, &first);
    return first;
}

bool first_death_of_job(struct first_death *first, const struct job *job, const struct job_end *end) {
    struct world world;
    enum process_state *states = calloc(job->count + 1, sizeof *states); /* PROCESS_GONE */
    *first = (struct first_death){0};
    if (!states)
        return false;
    bool done = world_build(&world, job, states) && beats_take_in(&world);
    if (done)
        *first = first_death_find(&world, end);
    world_free(&world);
    free(states);
    return done;
}
