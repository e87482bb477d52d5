/* SPDX-License-Identifier: Apache-2.0
 *
 * A dlerror() message of the job's, kept across look-ups of ours: every dl function, successful or not, forgets the
 * message of the one before. Must not live here: the look-ups.
 */
#ifndef COMMTAP_SHIM_BASE_PENDING_ERROR_H
#define COMMTAP_SHIM_BASE_PENDING_ERROR_H

/* Before and after our own calls of dlopen, dlsym, dlclose: afterwards the thread's dlerror() tells what it would have
 * told before, and nothing of ours. Pairs may be nested. Neither touches errno. */
void pending_error_hold(void);
void pending_error_release(void);

#endif
