/* SPDX-License-Identifier: Apache-2.0
 *
 * What each rank of a trace called on each communicator, as hashes by which histories are compared.
 * Lives here: chaining the signatures that a format gave its events.
 * Must not live here: what belongs to a signature (the formats), comparing (diagnose/desync).
 */
#ifndef COMMTAP_IMPORT_HISTORIES_H
#define COMMTAP_IMPORT_HISTORIES_H

#include "analyzer/import/trace.h"

/* The number from which each communicator's collectives are known of all ranks that know any: recorders have room for
 * their last thousands only. Its events are sorted by rank. NULL: memory is short; else the caller frees. */
uint32_t *histories_begin(const struct trace *trace);

/* Fills in `rows`, one per communicator, the hashes (shim/format.h, struct progress) of one rank's collectives from
 * `first` (histories_begin) on, up to the first that is missing or has no signature. What was before counts as equal.
 * False: memory is short. */
bool histories_fill(const struct trace *trace, const uint32_t *first, const struct trace_event *events, size_t count,
                    struct progress *rows);

#endif
