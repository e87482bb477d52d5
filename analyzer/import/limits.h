/* SPDX-License-Identifier: Apache-2.0
 *
 * What one import may take: a few bytes of a trace can stand for gigabytes and hours.
 * Lives here: every limit with its reason, and the account that is kept of them.
 * Must not live here: what is done with a trace.
 *
 * An import of 10 MB takes 1 GB and a few seconds at most. Most limits grow with the size of the files as they are
 * stored: who has a large trace has room for it.
 */
#ifndef COMMTAP_IMPORT_LIMITS_H
#define COMMTAP_IMPORT_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text, decompressed: real traces shrink to a twelfth to a seventh of it. 10 MB make 256 MB, which take 8 s to parse.
 */
#define LIMIT_TEXT_RATIO 24
#define LIMIT_TEXT_LEAST (UINT64_C(16) << 20)

/* Memory for what is kept of a trace. An event of 100 bytes takes up to 500 (as read, as an event, its number, room to
 * grow): 10 MB of plain text 50 MB, compressed to a tenth 500 MB. */
#define LIMIT_MEMORY_RATIO 48
#define LIMIT_MEMORY_LEAST (UINT64_C(256) << 20)

/* One value that is parsed as a whole: an event, or a list of process groups. jansson takes up to 400 bytes for an
 * empty object. */
#define LIMIT_VALUE_BYTES (UINT64_C(1) << 24)
#define LIMIT_VALUES      (UINT64_C(1) << 18) /* in it: 100 MB */
#define LIMIT_DEPTH       512                 /* of values in each other; real ones have 6 */

/* Ranks: a dump of its own for each takes about 1 ms and 40 KB. Real traces hold 10 KB and more per rank. */
#define LIMIT_RANK_BYTES  2048
#define LIMIT_RANKS_LEAST 64

/* Every rank is looked for in every communicator: 27 million take 3 s. A job of 1024 ranks has 4 million. */
#define LIMIT_PLACES_LEAST (UINT64_C(1) << 24)
#define LIMIT_PLACES_RATIO 1

struct import_limits {
    uint64_t stored;     /* bytes of all files, as they are on the disk */
    uint64_t text, kept; /* bytes so far */
    uint64_t given_up;   /* of text, in documents that were too much */
    char exceeded[160];  /* which limit, as a sentence's end; empty: none */
};

/* Each adds to the account. False: that was too much, and `exceeded` says so. */
bool limits_text(struct import_limits *limits, uint64_t bytes);
bool limits_keep(struct import_limits *limits, uint64_t bytes);
/* After a document that was too much, whose text and memory count from these: forgets it, and what was exceeded. It has
 * taken its time, though: text that is given up has the limit of all text. */
void limits_give_up(struct import_limits *limits, uint64_t text, uint64_t kept);
/* Whether so many ranks, and communicators among them, can be written. */
bool limits_ranks(struct import_limits *limits, uint64_t ranks, uint64_t communicators);

#endif
