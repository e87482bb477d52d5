/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of sentences about a diagnosis, and what stands beside its culprits.
 * Lives here: what a rank does, whom it waits for, why it is to blame, in words.
 * Must not live here: whole sentences (sentences.h), judging.
 */
#ifndef COMMTAP_DIAGNOSE_PHRASES_H
#define COMMTAP_DIAGNOSE_PHRASES_H

#include "analyzer/diagnose/diagnose.h"

/* These append to `text`, cut to `size`. */
__attribute__((format(printf, 3, 4))) void phrase(char *text, size_t size, const char *format, ...);
/* " on MPI_COMM_WORLD"; nothing for NULL. */
void phrase_communicator(char *text, size_t size, const struct shared_communicator *communicator);
/* A collective as one side of a mismatch called it; types and reductions are said where `other` has different ones. */
void phrase_signature(char *text, size_t size, const struct signature *signature, const struct signature *other);
/* ", of signal 9"; nothing where it is not known how. */
void phrase_death(char *text, size_t size, const struct job_end *end);
/* "3.1 ms" */
void phrase_duration(char *text, size_t size, int64_t ns);

/* These fill `text`. */
/* "MPI_Recv(source 5, tag 7) on MPI_COMM_WORLD" */
void phrase_wait(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size);
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

#endif
