/* SPDX-License-Identifier: Apache-2.0
 *
 * Where one rank's numbers fall behind the others'. A call that the library refused takes no number; where the other
 * ranks did take part in that collective (a Bcast reaches those who are there), theirs did.
 * Lives here: finding such calls, and by how much later numbers are to be moved.
 * Must not live here: refused calls that no other rank made: these shift nothing.
 */
#ifndef COMMTAP_MATCH_SLIPS_H
#define COMMTAP_MATCH_SLIPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/match/directory.h"

/* From number `seq` on, as recorded, the numbers on `comm` (local index) are one more. */
struct slip {
    uint32_t comm, seq;
    uint16_t call; /* the refused one; index into the directory's calls */
};

struct slips {
    struct slip *items; /* by comm, then by seq */
    size_t count;
};

/* Fills slips[d] of every dump. A rank is only moved where it would otherwise have called something else than the
 * others, and they called what it was refused. Returns false when memory is short; the caller frees each with
 * slips_free in every case. */
bool slips_find(struct slips *slips, const struct match_directory *directory);
void slips_free(struct slips *slips);

/* What to add to a number. */
static inline uint32_t slips_before(const struct slips *slips, uint32_t comm, uint32_t seq) {
    uint32_t before = 0;
    for (size_t i = 0; i < slips->count; i++)
        before += slips->items[i].comm == comm && slips->items[i].seq <= seq;
    return before;
}

#endif
