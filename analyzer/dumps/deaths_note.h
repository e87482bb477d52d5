/* SPDX-License-Identifier: Apache-2.0
 *
 * The note that `commtap run` leaves beside the dumps on how the job ended (format.h, FORMAT_DEATHS_SUFFIX).
 * Lives here: finding and reading it. Must not live here: what it says (job/deaths.h).
 */
#ifndef COMMTAP_DUMPS_DEATHS_NOTE_H
#define COMMTAP_DUMPS_DEATHS_NOTE_H

#include "analyzer/load/dump.h"

enum { DEATHS_NOTE_TEXT = 1024 }; /* more than any note needs */

/* The note beside a dump, cut to `size`. False when there is none, or none that can be read. */
bool deaths_note_read(const struct dump *dump, char *text, size_t size);

#endif
