/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases that the totals are told apart by: a call belongs to the one that it ends in.
 * Lives here: beginning one. Must not live here: who asks for it (wrap_mpi.c, intercept/orders.h).
 */
#ifndef COMMTAP_SHIM_RECORD_EPOCHS_H
#define COMMTAP_SHIM_RECORD_EPOCHS_H

#include <stdbool.h>

/* Calls that end from now on count in rows of their own. False: there are as many epochs as there can be, so that they
 * count with the last. Safe from any thread. */
bool epoch_begin(void);

#endif
