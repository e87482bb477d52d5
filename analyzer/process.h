/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the process that wrote a dump still runs, asked of this host's kernel.
 * Lives here: pids, boot id, start time.
 * Must not live here: what a dump holds.
 */
#ifndef COMMTAP_PROCESS_H
#define COMMTAP_PROCESS_H

#include "analyzer/diagnose/process_state.h"
#include "analyzer/load/dump.h"

/* A process of this boot with the dump's pid that started when the dump says (to 5 s), which may be stopped; gone
 * where there is none or it is a zombie; elsewhere where the dump was written under another boot id. */
enum process_state process_state(const struct dump *dump);

/* A live process of that pid that started then (to 5 s). */
bool process_is_that(int64_t pid, uint64_t start_realtime_ns);

/* Running or stopped. */
bool process_is_alive(const struct dump *dump);

#endif
