/* SPDX-License-Identifier: Apache-2.0
 *
 * What collectives took once everybody had come: sums by function, communicator and size.
 * Lives here: the table.
 * Must not live here: what a transfer is (waits.h), bandwidths.
 */
#ifndef COMMTAP_WAITS_TRANSFERS_H
#define COMMTAP_WAITS_TRANSFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/base/parcel.h"

struct transfer_key {
    uint32_t communicator; /* index into the directory's */
    uint16_t call;         /* index into the directory's calls */
    bool device;           /* times of the GPUs */
    bool size_class;       /* `bytes` is the lower bound of a class of sizes: a power of two */
    uint64_t bytes;        /* of one operation, the largest of its members'; BYTES_UNKNOWN */
};

struct transfer {
    struct transfer_key key;
    uint64_t collectives; /* matched on all recorded members */
    uint64_t members;     /* parts of them that have a transfer time; of a launch that stands for alike operations of a
                             group each of these is one */
    int64_t wait_ns;      /* sums over members */
    int64_t transfer_ns;  /* from when the last one that this member needs had come until it left */
    int64_t completion_ns;
    uint64_t own_members;      /* of `members`, those whose time is not a share of an interval (match_member.share) */
    int64_t own_ns;            /* of `transfer_ns`, theirs */
    int64_t least_ns, most_ns; /* shortest and longest transfer of one member */
};

HASH_TABLE_OF(transfer_rows, struct transfer, struct transfer_key);

struct transfers {
    struct hash_table rows; /* of transfers */
    bool coarse;            /* there were too many sizes: every row is a class of them */
    bool no_memory;         /* some could not be added */
};

/* Starts zeroed. Adds one collective: key, and figures of its members with `members` > 0. */
void transfers_add(struct transfers *transfers, const struct transfer *one);
/* Whatever the order of adding and merging, the result is the same. */
void transfers_merge(struct transfers *into, const struct transfers *from);
void transfers_parcel(struct transfers *transfers, struct parcel *parcel);
void transfers_free(struct transfers *transfers);

/* The rows by communicator, function, size; NULL when there are none or memory is short. The caller frees. */
struct transfer *transfers_sorted(const struct transfers *transfers);

#endif
