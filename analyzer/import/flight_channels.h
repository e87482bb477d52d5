/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of messages: which send and which receive are one.
 * Lives here: channels, counting, what is on record of their beginnings.
 * Must not live here: which messages hang together where counting does not tell (flight_shifts.h).
 */
#ifndef COMMTAP_IMPORT_FLIGHT_CHANNELS_H
#define COMMTAP_IMPORT_FLIGHT_CHANNELS_H

#include "analyzer/import/trace.h"

/* Numbers the messages of the events, which are sorted by rank and launch, and sets per event that of the other half.
 * What cannot be numbered is marked `gone` where it has ended. False: memory is short. */
bool flight_channels_number(struct trace *trace, size_t *mates);

#endif
