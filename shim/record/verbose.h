/* SPDX-License-Identifier: Apache-2.0
 *
 * COMMTAP_VERBOSE: one line per operation on stderr, each in a single write, so that lines of several ranks never mix.
 */
#ifndef COMMTAP_SHIM_RECORD_VERBOSE_H
#define COMMTAP_SHIM_RECORD_VERBOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/call.h"

/* Does this rank print? Values: off, all (or on), ranks:0,4-7. */
bool verbose_wanted(const char *knob, int32_t rank);

/* Prints one finished operation; n = ranks of its communicator, 0 when it has none. */
void verbose_line(const struct call *call, uint32_t n, uint64_t bytes, uint64_t time_ticks);
/* The same for a time in ns. */
void verbose_line_ns(const struct call *call, uint32_t n, uint64_t bytes, uint64_t ns);

#endif
