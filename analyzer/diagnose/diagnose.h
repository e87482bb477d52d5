/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a job hangs.
 * Lives here: from waits and histories to a verdict and culprits (diagnosis.h).
 * Must not live here: opening files, asking the system, sentences (findings/diagnosis_text.h), printing.
 */
#ifndef COMMTAP_DIAGNOSE_DIAGNOSE_H
#define COMMTAP_DIAGNOSE_DIAGNOSE_H

#include "analyzer/diagnose/diagnosis.h"

/* Judges a job. Returns false when memory is short; the caller frees with diagnosis_free in every case. The job must
 * outlive it. */
bool diagnose(struct diagnosis *diagnosis, const struct job *job, const struct diagnose_request *request);
/* Finds who waits for whom at this very moment, and judges nothing: in a job that works most waits are over at once. */
bool diagnose_waits(struct diagnosis *diagnosis, const struct job *job, const struct diagnose_request *request);

#endif
