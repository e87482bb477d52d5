/* SPDX-License-Identifier: Apache-2.0
 *
 * A dump's list of functions. The dumps of one job have the same one: it is in memory once.
 * Lives here: checking, sharing and looking up a list.
 * Must not live here: what a function is to the analyses.
 */
#ifndef COMMTAP_LOAD_CALL_TABLE_H
#define COMMTAP_LOAD_CALL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/format.h"

enum { CALL_TABLE_IDS = 4096 }; /* ids from here on are looked up as unknown */

struct call_table {
    const struct call_name *calls; /* by file order, names terminated */
    uint32_t count;
    uint16_t index[CALL_TABLE_IDS]; /* id -> index into calls; of two rows with one id the first counts */
};

/* Copies the list, or finds an equal one. `damaged` tells that names were not terminated: they are cut. NULL: memory is
 * short. The caller gives it back with call_table_release. */
const struct call_table *call_table_share(const struct call_name *calls, uint32_t count, bool *damaged);
void call_table_release(const struct call_table *table); /* NULL is fine */

#endif
