/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank of a trace as a dump file, by shim/format.h.
 * Lives here: laying out one file, its tables and its ring.
 * Must not live here: trace formats; anything from the shim's own writer, which works in a live process.
 */
#ifndef COMMTAP_IMPORT_WRITE_DUMP_H
#define COMMTAP_IMPORT_WRITE_DUMP_H

#include <sys/types.h>

#include "analyzer/import/trace.h"

/* Writes one dump per rank that was seen into `directory`, which must exist; files get `mode`. The trace must be
 * numbered. File names and run id depend on the trace alone: importing twice gives the same files. Returns the number
 * of dumps, or -1 with errno set; files written so far stay. */
int write_dumps(const struct trace *trace, const char *directory, mode_t mode);

#endif
