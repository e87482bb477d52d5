/* SPDX-License-Identifier: Apache-2.0
 *
 * What NCCL itself said was wrong: calls that returned errors, asynchronous errors, communicators that were given up.
 * Lives here: finding these in the tables of all dumps. Must not live here: who made others wait, hangs that go on
 * (diagnose/).
 */
#ifndef COMMTAP_FINDINGS_FINDINGS_NCCL_H
#define COMMTAP_FINDINGS_FINDINGS_NCCL_H

#include "analyzer/findings/finding.h"

/* Adds FINDING_GIVEN_UP for each communicator that a process aborted or revoked while collectives on it were
 * unfinished, and one FINDING_NCCL_ERROR for each function of NCCL that reported errors. */
void findings_add_nccl(struct findings *findings, const struct job *job);

#endif
