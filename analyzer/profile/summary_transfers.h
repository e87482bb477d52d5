/* SPDX-License-Identifier: Apache-2.0
 *
 * What a summary's operations took once everybody had come: transfer times and bandwidths beside those of whole calls.
 * Lives here: joining the sums of transfers.h with a summary's entries; measuring them where nobody has yet.
 * Must not live here: what a transfer is (waits.h), printing.
 */
#ifndef COMMTAP_PROFILE_SUMMARY_TRANSFERS_H
#define COMMTAP_PROFILE_SUMMARY_TRANSFERS_H

#include "analyzer/base/team.h"
#include "analyzer/profile/summary.h"
#include "analyzer/waits/waits.h"

/* Fills in the transfers of a summary that was built by operation, communicator and size (SUMMARY_BY_DEFAULT). */
void summary_add_transfers(struct summary *summary, const struct transfers *transfers,
                           const struct match_directory *directory);

/* The same from the records of one job's dumps, which the team walks once more, with `threads` threads in each process.
 * Returns false when memory is short. */
bool summary_measure_transfers(struct summary *summary, struct dump *const *dumps, size_t count, struct team *team,
                               unsigned threads);

#endif
