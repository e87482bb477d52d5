/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/dumps/lifetime.h"

#include <stdlib.h>
#include <string.h>

static void stretch(struct lifetime *life, const struct dump *dump, uint64_t ticks) {
    if (ticks == 0 || dump->anchor_count == 0) /* without an anchor its clock tells no date */
        return;
    int64_t when = dump_realtime_ns(dump, ticks);
    life->start_ns = !life->known || when < life->start_ns ? when : life->start_ns;
    life->end_ns = !life->known || when > life->end_ns ? when : life->end_ns;
    life->known = true;
}

bool dump_has_finished(const struct dump_header *header) {
    return header->state & STATE_FINALISED ||
           (header->state & STATE_EXITED && header->state & STATE_INITIALISED && header->mpi_family == 0);
}

struct lifetime dump_lifetime(const struct dump *dump) {
    const struct dump_header *header = dump->header;
    struct lifetime life = {.ended = header->state & (STATE_EXITED | STATE_FINALISED)};
    const uint64_t moments[] = {header->activated_ticks, header->initialised_ticks, header->finalise_ticks,
                                header->finalised_ticks, header->exited_ticks};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        stretch(&life, dump, moments[i]);
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        stretch(&life, dump, dump->in_flight[i].call ? dump->in_flight[i].enter : 0);
        stretch(&life, dump, dump->in_flight[i].last_leave);
    }
    return life;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* One dump of a (run, world, generation). */
struct launched {
    struct dump *dump;
    size_t at;         /* in the caller's list */
    size_t rank_key;   /* the same for dumps of one rank; `at` itself where the rank is not known */
    uint64_t children; /* forked from it, or from these, whose dumps are still to be found */
    struct lifetime life;
};

/* The launch that dumps are being added to. */
struct launch {
    uint32_t number;
    struct launched *members; /* in the order of their beginnings */
    size_t count;
    uint64_t children; /* of all of them */
};

static int compare_starts(const void *a, const void *b) {
    const struct launched *left = a, *right = b;
    if (left->life.start_ns != right->life.start_ns)
        return left->life.start_ns < right->life.start_ns ? -1 : 1;
    return (left->at > right->at) - (left->at < right->at);
}

static bool is_after(const struct launched *later, const struct launched *earlier) {
    return later->life.known && earlier->life.known && later->life.start_ns > earlier->life.end_ns;
}

static bool is_same_process(const struct dump *a, const struct dump *b) {
    return a->header->pid == b->header->pid && strcmp(a->boot_id, b->boot_id) == 0 &&
           a->header->activated_ticks == b->header->activated_ticks;
}

/* The one of that rank in the launch, NULL where there is none. */
static const struct launched *of_rank(const struct launched *const *last_of_rank, const struct launch *launch,
                                      const struct launched *like) {
    const struct launched *last = last_of_rank[like->rank_key];
    return last && last->dump->launch == launch->number ? last : NULL;
}

/* Clocks of several hosts may be far apart: those of other hosts tell nothing. Looking back ends at the first that had
 * not ended, which in a launch under way is the very last. */
static bool begins_after_its_host(const struct launch *launch, const struct launched *next) {
    bool any = false;
    for (size_t i = launch->count; i-- > 0;) {
        const struct launched *member = &launch->members[i];
        if (strcmp(member->dump->boot_id, next->dump->boot_id) != 0)
            continue;
        if (!member->life.ended || !is_after(next, member))
            return false;
        any = true;
    }
    return any;
}

/* ---- forked processes ------------------------------------------------------------------------ */

/* How many of them left dumps. */
static uint64_t children_of(const struct dump *dump) {
    uint64_t forked = dump->header->children, unrecorded = dump->header->losses.children_unrecorded;
    return forked > unrecorded ? forked - unrecorded : 0;
}

/* By so much a dump may tell too late when its process was started (shim/record/identity.c: /proc/uptime without its
 * fraction); too early by a tick of the kernel's at most. */
#define STARTED_LATE_NS UINT64_C(1000000000)

static bool started_before_end(const struct dump *child, const struct launched *parent) {
    return !parent->life.ended ||
           child->header->process_start_realtime_ns < (uint64_t)parent->life.end_ns + STARTED_LATE_NS;
}

static bool may_be_child(const struct launched *child, const struct launched *parent) {
    return parent->children > 0 && strcmp(child->dump->boot_id, parent->dump->boot_id) == 0 &&
           !is_same_process(child->dump, parent->dump) &&
           (child->rank_key == parent->rank_key || child->dump->header->rank == RANK_UNKNOWN) &&
           started_before_end(child->dump, parent);
}

/* A process that a member of the launch has forked is of that launch whenever it makes its first call, and also where
 * the member has ended by then. Its own parent it may no longer have. */
static bool take_as_child(struct launch *launch, const struct launched *next) {
    for (size_t i = 0; launch->children > 0 && i < launch->count; i++)
        if (may_be_child(next, &launch->members[i])) {
            launch->members[i].children--;
            launch->children--;
            return true;
        }
    return false;
}

static void part_group(struct launched *group, size_t count, const struct launched **last_of_rank) {
    struct launch launch = {.members = group};
    qsort(group, count, sizeof *group, compare_starts);
    for (size_t i = 0; i < count; i++) {
        struct launched *next = &group[i];
        const struct launched *same_rank = of_rank(last_of_rank, &launch, next);
        bool again = same_rank && !is_same_process(same_rank->dump, next->dump) && is_after(next, same_rank);
        bool child = take_as_child(&launch, next);
        if (!child && (again || begins_after_its_host(&launch, next))) {
            launch = (struct launch){.number = launch.number + 1, .members = next};
            same_rank = NULL;
        }
        next->dump->launch = launch.number;
        next->dump->is_duplicate = same_rank != NULL;
        launch.count++;
        launch.children += next->children;
        if (!same_rank)
            last_of_rank[next->rank_key] = next;
    }
}

static bool same_group(const struct dump *a, const struct dump *b) {
    return strcmp(a->run_id, b->run_id) == 0 && a->world_id == b->world_id && a->generation == b->generation;
}

bool launches_part(struct dump **dumps, size_t count) {
    struct launched *all = calloc(count + 1, sizeof *all);
    const struct launched **last_of_rank = calloc(count + 1, sizeof(const struct launched *));
    bool done = all && last_of_rank;
    for (size_t i = 0; done && i < count; i++) {
        bool same_rank = i > 0 && same_group(dumps[i - 1], dumps[i]) && dumps[i]->header->rank != RANK_UNKNOWN &&
                         dumps[i - 1]->header->rank == dumps[i]->header->rank;
        all[i] = (struct launched){.dump = dumps[i],
                                   .at = i,
                                   .rank_key = same_rank ? all[i - 1].rank_key : i,
                                   .children = children_of(dumps[i]),
                                   .life = dump_lifetime(dumps[i])};
    }
    for (size_t first = 0, end; done && first < count; first = end) {
        for (end = first + 1; end < count && same_group(dumps[first], dumps[end]);)
            end++;
        part_group(all + first, end - first, last_of_rank);
    }
    free(all);
    free(last_of_rank);
    return done;
}
