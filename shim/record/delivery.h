/* SPDX-License-Identifier: Apache-2.0
 *
 * How a dump that could not be mapped in the output directory gets there, and how one that cannot is found.
 * Lives here: the stub, the copy at exit, tables that were kept in memory, taking all of it back.
 * Must not live here: where a dump is mapped (dump_file.h), who says on stderr what went wrong.
 */
#ifndef COMMTAP_SHIM_RECORD_DELIVERY_H
#define COMMTAP_SHIM_RECORD_DELIVERY_H

#include <stdbool.h>

#include "shim/base/os.h"
#include "shim/record/dump_file.h"

/* Writes the stub of a staged dump, whole or not at all, once the header knows host and rank. On failure `why` gets a
 * line for the user, which says where the dump is, for it may be found by that only. */
bool delivery_write_stub(struct dumpfile *file, struct text *why);

/* At exit: a staged or memory dump is copied into the output directory, whole or not at all, and the staged file and
 * the stub are removed; tables that were kept in memory are written. On failure what was staged stays, and `why` gets a
 * line for the user, unless there is nothing new to say. */
bool delivery_at_exit(struct dumpfile *file, struct text *why);

/* At exit, in its place: nothing of the dump stays. `with_directory`: nor the output directory, once it is empty. What
 * is mapped stays so: other threads may still write there. */
void delivery_withdraw(struct dumpfile *file, bool with_directory);

#endif
