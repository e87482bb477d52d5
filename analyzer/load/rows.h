/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading rows of a dump's tables, whose writer may be alive or have died in the middle.
 * Lives here: the version protocol of operation rows, what makes a row sound, the bounds of histogram buckets.
 * Must not live here: sums over rows.
 */
#ifndef COMMTAP_LOAD_ROWS_H
#define COMMTAP_LOAD_ROWS_H

#include "analyzer/load/dump.h"

enum row_state {
    ROW_UNUSED,
    ROW_STABLE,
    ROW_TORN,    /* its writer stopped inside an update: the last call may be counted in part */
    ROW_DAMAGED, /* no writer would have left it so: not to be used (dump_open notes it as a problem) */
};

/* Copies everything of a row but its histogram (which stays 0). Only ROW_STABLE and ROW_TORN rows hold calls. */
enum row_state operation_row_read(const struct dump *dump, const struct operation_row *row, struct operation_row *copy);

/* The same for a row of the sites table, all of it. */
enum row_state site_row_read(const struct dump *dump, const struct site_row *row, struct site_row *copy);

/* What time_total of a row of host times is. */
enum row_time {
    ROW_TIME_INSIDE,          /* inside the calls */
    ROW_TIME_IN_FLIGHT,       /* from posting to completion; posting_total is what was spent inside the calls */
    ROW_TIME_IN_FLIGHT_ALONE, /* likewise, and what was spent inside is not known: sites of dumps before 2.1 */
};
enum row_time operation_row_time(const struct dump *dump, const struct operation_row *row);
enum row_time site_row_time(const struct dump *dump, const struct site_row *row);

/* Copies an entry of the pending table. True when it stands for an operation in flight: taken, sound, and not an
 * inactive persistent request. */
bool pending_read(const struct dump *dump, const struct pending *pending, struct pending *copy);

/* The same of a persistent request, started or not. */
bool persistent_read(const struct dump *dump, const struct pending *pending, struct pending *copy);

/* How often the process has started the persistent collective that collective `seq` of its communicator `local`
 * prepared. UINT64_MAX: the table of requests does not have it, since it was freed or had no room. */
uint64_t persistent_starts(const struct dump *dump, uint32_t local, uint32_t seq);

/* Copies a row of the peers table. True when it is in use and sound. */
bool peer_row_read(const struct dump *dump, const struct peer_row *row, struct peer_row *copy);

/* How far what graphs hold of a communicator came. */
struct captured_progress {
    bool known;                    /* all launches are counted here, and whether the newest has ended is known, too */
    bool running;                  /* that one has not ended */
    uint64_t launched;             /* graphs that hold something of it, */
    uint64_t collectives;          /* and collectives of it in these, all launches together */
    uint64_t ended;                /* number of the newest launch known to have ended */
    const struct capture_row *row; /* of the newest launch; NULL: there are no such graphs */
};
struct captured_progress captured_progress_read(const struct dump *dump, uint32_t local);

/* Records ever written to a lane, lost ones included. */
uint64_t dump_lane_written(const struct dump *dump, uint32_t lane);

/* A time in the middle of a histogram bucket, in the row's own unit (ticks, or ns of a device source). */
uint64_t histogram_middle(unsigned bucket);

#endif
