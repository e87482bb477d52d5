/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading rows of the operation tables, whose writer may be alive or have died in the middle.
 * Lives here: the version protocol of those rows, the bounds of their histogram's buckets.
 * Must not live here: sums over rows.
 */
#ifndef COMMTAP_LOAD_ROWS_H
#define COMMTAP_LOAD_ROWS_H

#include "analyzer/load/dump.h"

enum row_state {
    ROW_UNUSED,
    ROW_STABLE,
    ROW_TORN, /* its writer stopped inside an update: the last call may be counted in part */
};

/* Copies everything of a row but its histogram (which stays 0). */
enum row_state operation_row_read(const struct operation_row *row, struct operation_row *copy);

/* A time in the middle of a histogram bucket, in the row's own unit (ticks, or ns of a device source). */
uint64_t histogram_middle(unsigned bucket);

#endif
