/* SPDX-License-Identifier: Apache-2.0
 *
 * What dumps hold, row by row, for other programs: records, operations, peers,
 * transfers, communicators.
 * Lives here: the stable column sets of `commtap export`.
 * Must not live here: walking dumps.
 */
#ifndef COMMTAP_RENDER_EXPORT_TABLE_H
#define COMMTAP_RENDER_EXPORT_TABLE_H

#include "analyzer/load/dump.h"
#include "analyzer/render/table.h"

/* One row of any of the tables; the parts that its table needs are set. */
struct export_row {
    const struct dump *dump;
    uint32_t generation; /* of the dump: listed_job's */
    uint32_t lane;
    uint16_t call;
    const struct dump_communicator *communicator; /* NULL = none */
    int32_t peer;                                 /* as in records */
    const struct record *record;
    const struct operation_row *operation;
    bool torn;
    const struct peer_row *peer_row;
    const struct transfer_row *transfer;
};

/* Names one of the tables and its columns. */
struct export_table {
    const char *name;
    const struct column *columns;
};

extern const struct export_table export_records, export_operations, export_peers, export_transfers,
    export_communicators;

#endif
