/* SPDX-License-Identifier: Apache-2.0
 *
 * A dump on its way into the output directory: under a name that no reader takes until it is whole, and never in the
 * place of anything but an earlier copy of the same dump.
 * Lives here: the partial file, its checks, its renaming.
 * Must not live here: where the bytes come from, stubs, staged files.
 */
#ifndef COMMTAP_COLLECT_INCOMING_H
#define COMMTAP_COLLECT_INCOMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "analyzer/dumps/stub.h"

struct incoming {
    int directory;           /* not owned */
    int file;                /* the partial copy, for reading and writing; -1 = none */
    const struct stub *stub; /* not owned */
    uint64_t bytes;          /* added so far */
    bool replaces;           /* an earlier copy: */
    struct stat earlier;
    int slot; /* in the list of what is to be removed on a signal */
};

enum incoming_result {
    INCOMING_IN_PLACE,
    INCOMING_OVERTAKEN, /* a copy of the same dump that is not older came into its place meanwhile: ours is dropped */
    INCOMING_FAILED,
};

/* Is there a copy of the stub's dump in `directory`? */
bool incoming_is_there(int directory, const struct stub *stub);

/* Makes the partial file for the dump of `stub`. Returns NULL, or why it cannot (static text). Where something of the
 * dump's name is there that is no copy of this dump, that is why. incoming_end releases in every case. */
const char *incoming_begin(struct incoming *incoming, int directory, const struct stub *stub);

/* Appends. Zeros become holes. False with errno where the disk is full or broken. */
bool incoming_add(struct incoming *incoming, const void *data, size_t bytes);

/* Checks that what was added is the dump that the stub means. Returns NULL or why not (static text). */
const char *incoming_judge(struct incoming *incoming);

/* CRC and length of the partial file as it is on disk, as cksum(1) prints them. False with errno. */
bool incoming_sum(const struct incoming *incoming, uint32_t *sum);

/* Marks it as a copy, writes it out and gives it its name. `final`: the dump's process had ended and its bytes were
 * compared, so that the copy may take the place of any other copy of this dump; one that was taken of a dump in use
 * takes only the place of the copy that was there when it was begun. *reason is set on INCOMING_FAILED. */
enum incoming_result incoming_settle(struct incoming *incoming, bool final, const char **reason);

/* Closes, and removes the partial file where it was not settled. */
void incoming_end(struct incoming *incoming);

/* Removes all partial files there are now. For signal handlers. */
void incoming_abandon_all(void);

#endif
