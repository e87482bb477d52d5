/* SPDX-License-Identifier: Apache-2.0
 *
 * Epochs of one-sided communication among groups (MPI_Win_post, start, complete, wait), as one worker reads them.
 * Lives here: whom the epoch that is open at a rank's window was begun with.
 * Must not live here: records' times, pairing what two ranks need of each other (pairing.h).
 *
 * The k-th Post of a rank that names another one belongs to the k-th Start of that one that names the first (MPI 4.1,
 * 12.5.2): the ordinals of both are in the records. Complete and Wait name nobody: they end what was begun last.
 */
#ifndef COMMTAP_MATCH_EPOCHS_H
#define COMMTAP_MATCH_EPOCHS_H

#include <stdbool.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/load/dump.h"

enum { EPOCH_PARTNERS_KEPT = 64 }; /* the library names no more */

struct epoch_key {
    uint32_t dump, comm; /* comm: the dump's local index of the window */
    uint32_t access;     /* 1: begun by Start; 0: by Post */
};

struct epoch_partner {
    int32_t peer;     /* a rank of the window */
    uint32_t ordinal; /* of the epochs with it, SEQ_NONE where unknown */
};

struct epoch_group {
    struct epoch_key key;
    uint32_t count, size; /* partners seen, and how many the call named */
    struct epoch_partner partners[EPOCH_PARTNERS_KEPT];
};

struct epochs {
    struct hash_table open; /* of groups; all zero at the beginning */
};

void epochs_free(struct epochs *epochs);

/* Takes one partner of the call that begins an epoch, as its record (RECORD_PARTNER) tells. False: memory is short. */
bool epochs_begin(struct epochs *epochs, const struct epoch_key *key, const struct record *record,
                  const struct epoch_partner *partner);

/* The epoch is over. False where it is not known whom all it was begun with. */
bool epochs_end(struct epochs *epochs, const struct epoch_key *key, struct epoch_group *group);

/* Records of the dump are missing: which epochs are open there is not known any more. */
void epochs_forget(struct epochs *epochs, uint32_t dump);

#endif
