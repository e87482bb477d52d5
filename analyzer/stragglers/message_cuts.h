/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing ranks that share no collective often enough: by their messages.
 * Lives here: finding for them a channel each that carries equally many messages, and who is tied to whom by messages.
 * Must not live here: comparison by collectives (comparison_groups.h), times of stretches (ranks.h).
 *
 * In a step most programs send one message, or equally many, through each of their channels (communicator, sender,
 * receiver, tag), so that some number of messages is that of a channel of every rank: the k-th message there ends the
 * k-th stretch of each. Where there is no such number, as where work is handed out on demand, ranks that exchange
 * messages go on together, and what each of them works in the same slice of time is compared.
 *
 * Comparison groups whose ranks exchange messages in every step (two halves that reduce among themselves) become one.
 */
#ifndef COMMTAP_STRAGGLERS_MESSAGE_CUTS_H
#define COMMTAP_STRAGGLERS_MESSAGE_CUTS_H

#include "analyzer/align/common_clock.h"
#include "analyzer/stragglers/comparison_groups.h"

/* Adds comparison groups for the ranks that comparison_groups_choose left alone or could compare by a few collectives
 * only, and joins those that messages tie together. Ranks whose GPU operations are timed are left as they are. Returns
 * false when memory is short. */
bool message_cuts_choose(struct comparison_groups *groups, const struct match_directory *directory,
                         const struct common_clock *clock);

#endif
