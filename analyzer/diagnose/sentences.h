/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis in words.
 * Lives here: what a rank does, why it is to blame, the paragraph for a tired person.
 * Must not live here: judging.
 */
#ifndef COMMTAP_DIAGNOSE_SENTENCES_H
#define COMMTAP_DIAGNOSE_SENTENCES_H

#include "analyzer/diagnose/diagnose.h"

/* What a party does, as "MPI_Recv(source 5, tag 7) on MPI_COMM_WORLD"; cut to `size`. */
void say_where(const struct diagnosis *diagnosis, uint32_t party, char *text, size_t size);
/* Whom a wait is for. */
void say_wait_of(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size);
/* Fills the reason of a culprit that others wait for. */
void say_sink(struct diagnosis *diagnosis, struct culprit *culprit);
/* Fills the reason of a culprit of a mismatch; `other`: it is not on the expected side. */
void say_mismatch_of(const struct diagnosis *diagnosis, struct culprit *culprit, bool other);
/* Fills the call sites of a mismatch. */
void say_sites(struct diagnosis *diagnosis);
/* Fills diagnosis->sentences. */
void say_all(struct diagnosis *diagnosis, const struct diagnose_request *request);

#endif
