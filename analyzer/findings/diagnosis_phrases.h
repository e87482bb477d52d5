/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of sentences about a diagnosis, and what stands beside its culprits.
 * Lives here: what a rank does, whom it waits for, why it is to blame, in words.
 * Must not live here: whole sentences (diagnosis_text.h), judging.
 */
#ifndef COMMTAP_FINDINGS_DIAGNOSIS_PHRASES_H
#define COMMTAP_FINDINGS_DIAGNOSIS_PHRASES_H

#include "analyzer/diagnose/diagnose.h"
#include "analyzer/symbols/site_labels.h"

/* How the process begins and ends: "MPI_Finalize"; without MPI there are no such functions. */
const char *name_of_start(const struct diagnosis *diagnosis, uint32_t party);
const char *name_of_end(const struct diagnosis *diagnosis, uint32_t party);

/* These append to `text`, cut to `size`. */
/* " on MPI_COMM_WORLD"; nothing for NULL. */
void phrase_communicator(char *text, size_t size, const struct shared_communicator *communicator);
/* "MPI_Allreduce #40 on MPI_COMM_WORLD", "MPI_Allreduce_init #0, start #7, on MPI_COMM_WORLD" */
void phrase_stalled(char *text, size_t size, const struct stalled *stalled);
/* A collective as one side of a mismatch called it; types and reductions are said where `other` has different ones. */
void phrase_signature(char *text, size_t size, const struct signature *signature, const struct signature *other);
/* "MPI_Send(destination 0, tag 42) on MPI_COMM_WORLD" */
void phrase_message_call(char *text, size_t size, const struct diagnosis *diagnosis, const struct message_side *side,
                         bool sent);
/* ", of signal 9"; nothing where it is not known how. */
void phrase_death(char *text, size_t size, const struct job_end *end);

/* These fill `text`, cut to `size`. `labels`: as in diagnosis_text.h. */
/* "MPI_Recv(source 5, tag 7) on MPI_COMM_WORLD" */
void phrase_wait(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size);
/* " at train_step (train.py:42)", where the call of a wait was made; "" where that is not known. */
void say_wait_site(const struct diagnosis *diagnosis, struct site_labels *labels, const struct wait *wait, char *text,
                   size_t size);
/* Whom a wait is for. */
void say_wait_of(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size);
/* Where both GPUs are at a message and nobody else is waited for: that what lies between the two does not move. False:
 * it is not so. Without a beginning on record something else may lie before it on their streams. */
bool say_met(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size);
/* What a culprit does, as "MPI_Recv(source 5, tag 7) on MPI_COMM_WORLD at train_step (train.py:42)". */
void say_where(const struct diagnosis *diagnosis, struct site_labels *labels, const struct culprit *culprit, char *text,
               size_t size);
/* Why it is to blame. */
void say_reason(const struct diagnosis *diagnosis, const struct culprit *culprit, char *text, size_t size);
/* " at train_step (train.py:42)", where one side of a mismatch made its call; "" where that is not known. */
void say_mismatch_site(const struct diagnosis *diagnosis, struct site_labels *labels, bool other, char *text,
                       size_t size);
/* " at train_step (train.py:42)", where one side of a message made its call; "" where that is not known. */
void say_message_site(const struct diagnosis *diagnosis, struct site_labels *labels, const struct message_side *side,
                      char *text, size_t size);

#endif
