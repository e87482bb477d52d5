/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in another order, in which a compressor makes less of them: tables whose rows have a fixed length, column by
 * column, as differences from row to row (tickets, times and numbers of operations count on).
 * Lives here: the orders, there and back, and which one suits. Must not live here: what the bytes are, files.
 */
#ifndef COMMTAP_ARCHIVE_ROWS_H
#define COMMTAP_ARCHIVE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stored in archives: numbers keep their meaning. */
enum rows {
    ROWS_PLAIN = 0, /* as they are */
    ROWS_OF_16 = 1, /* bytes per row: slots of compact records */
    ROWS_OF_64 = 2, /* plain records */
    ROWS_KINDS,
};

enum {
    ROWS_BLOCK = 1 << 16, /* bytes that are put in order by themselves; the last ones may be fewer */
    ROWS_ALIGNED = 64,    /* a whole number of rows, of each kind */
};

/* `bytes` (ROWS_BLOCK at most) from `from` to `to`, which is another place: in the order `rows`, or back again. */
void rows_order(enum rows rows, const uint8_t *from, uint8_t *to, size_t bytes);
void rows_restore(enum rows rows, const uint8_t *from, uint8_t *to, size_t bytes);

#endif
