/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is who across dumps: communicators by uid, calls by name.
 * Lives here: joining every dump's own tables into one list of communicators and one list of calls.
 * Must not live here: records.
 */
#ifndef COMMTAP_MATCH_DIRECTORY_H
#define COMMTAP_MATCH_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/load/dump.h"

#define NOWHERE      UINT32_MAX /* no communicator, no dump */
#define CALL_UNKNOWN UINT16_MAX

struct match_communicator {
    uint64_t uid;
    const char *name; /* the first member that names it; "" when none does */
    uint32_t kind;    /* enum communicator_kind */
    uint32_t size;
    uint32_t dump_count; /* members with a dump: what the arrays below hold, in rank order */
    uint32_t *dump_of;   /* index of the member's dump */
    uint32_t *rank_of;   /* its rank in the communicator */
    uint32_t *local_of;  /* what its dump calls the communicator */
    /* An intercommunicator's members are those of both groups: `size` is both together, and the second group's ranks
     * are counted on behind those of the first. Which group is the first, its name for itself (members_hash) decides.
     * Elsewhere the first group is all. */
    uint32_t first_size;  /* ranks of the first group */
    uint32_t first_dumps; /* positions of the first group: [0, first_dumps) */
};

struct match_call {
    const struct call_name *name; /* of the first dump that lists it */
    uint16_t base;                /* index of the call without the "_c" of its large count twin, or its own */
};

/* What a dump's local communicator index means. */
struct match_place {
    uint32_t communicator; /* index into communicators, NOWHERE where it cannot be matched */
    uint32_t position;     /* of the dump's process among the members with a dump */
};

struct match_directory {
    struct dump *const *dumps; /* not owned */
    size_t dump_count;
    struct match_communicator *communicators; /* sorted by uid */
    size_t communicator_count;
    struct match_call *calls;
    size_t call_count;
    /* private: reach through the functions below */
    struct match_place **places;
    uint16_t **call_tables; /* per dump; equal lists share one */
    uint16_t **tables;      /* each once */
    size_t table_count;
};

/* Left out of matching: communicators whose uid may differ between ranks, those with members of another world, and
 * members that contradict each other (two dumps in one place, unequal sizes). Memory depends on the number of
 * definitions, not on the sizes they claim. Returns false when memory is short; the caller frees with
 * match_directory_free in every case. */
bool match_directory_build(struct match_directory *directory, struct dump *const *dumps, size_t count);
void match_directory_free(struct match_directory *directory);

/* Position of a rank of the communicator, NOWHERE when it has no dump. */
uint32_t match_position_of(const struct match_communicator *communicator, int32_t rank);

/* The rank of the communicator that `peer` (as recorded) means to the member at `position`: on an intercommunicator a
 * member of the other group, and the member itself for PEER_ROOT. Negative (`peer` itself) where it is no rank,
 * RANK_UNKNOWN where it lies outside the group. */
int32_t match_rank_of(const struct match_communicator *communicator, uint32_t position, int32_t peer);

/* Index into calls of a dump's call id, CALL_UNKNOWN when the dump does not list it. */
static inline uint16_t match_call_of(const struct match_directory *directory, size_t dump, uint16_t id) {
    return id < 4096 ? directory->call_tables[dump][id] : CALL_UNKNOWN;
}

static inline struct match_place match_place_of(const struct match_directory *directory, size_t dump, uint32_t local) {
    if (local >= directory->dumps[dump]->communicator_count)
        return (struct match_place){NOWHERE, 0};
    return directory->places[dump][local];
}

#endif
