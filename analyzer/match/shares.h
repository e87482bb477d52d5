/* SPDX-License-Identifier: Apache-2.0
 *
 * Which worker reads which dump.
 * Lives here: dealing out dumps so that all workers have about as many records to read.
 * Must not live here: threads, reading.
 */
#ifndef COMMTAP_MATCH_SHARES_H
#define COMMTAP_MATCH_SHARES_H

#include <stdint.h>

#include "analyzer/match/directory.h"

/* Records on the dump's lanes, as its tickets count them. */
uint64_t share_records(const struct dump *dump);

/* The worker, 0 .. workers - 1, of every dump: the largest dumps first, each to who has the least by then. To be freed;
 * NULL when memory is short. */
uint32_t *shares_deal(const struct match_directory *directory, unsigned workers);

#endif
