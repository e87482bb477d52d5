/* SPDX-License-Identifier: Apache-2.0
 *
 * What flight recorders of all ranks tell together of operations that have not ended.
 * Lives here: numbers of messages, which launches have begun, and what ranks tell that does not fit together.
 * Must not live here: one document (flight_launches.h), verdicts: those are made of the dumps.
 *
 * PyTorch numbers a rank's messages, whoever they go to, and sees starts only with TORCH_NCCL_ENABLE_TIMING. The first
 * launch of a rank that has not ended is what holds it up: if nobody was missing there, and nothing stood before it, it
 * would have ended.
 */
#ifndef COMMTAP_IMPORT_FLIGHT_ORDER_H
#define COMMTAP_IMPORT_FLIGHT_ORDER_H

#include "analyzer/import/trace.h"

/* Sorts the events by rank and launch, numbers the messages of each channel, and sets what has begun. False: memory is
 * short. */
bool flight_order(struct trace *trace);

#endif
