/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis in words.
 * Lives here: the paragraph for a tired person, what is said of each culprit.
 * Must not live here: its parts (diagnosis_phrases.h), judging (diagnose/).
 *
 * Texts hold names that come from the job (hosts, communicators): printers escape them.
 */
#ifndef COMMTAP_FINDINGS_DIAGNOSIS_TEXT_H
#define COMMTAP_FINDINGS_DIAGNOSIS_TEXT_H

#include "analyzer/diagnose/diagnose.h"
#include "analyzer/findings/finding.h"
#include "analyzer/symbols/site_labels.h"

struct culprit_text {
    char where[416];  /* what it does: "MPI_Recv(source 5, tag 7) on MPI_COMM_WORLD" */
    char reason[320]; /* why it is to blame */
};

/* Where the two calls of an unmatched message were made, as " at train_step (train.py:42)"; empty: not known. */
struct unmatched_text {
    char wanted_site[128], sent_site[128];
};

struct diagnosis_text {
    char **sentences; /* the verdict first; no final newlines */
    size_t sentence_count;
    struct culprit_text *culprits;            /* as diagnosis->culprits */
    struct unmatched_text *unmatched;         /* as diagnosis->unmatched.items */
    char expected_site[128], other_site[128]; /* where the two sides of a mismatch made the call; empty: not known */
    bool no_memory;
};

/* Words what was judged on that request. `labels` names call sites by dump of the job and stack; NULL: leave them out.
 * Returns false when memory is short; the caller frees with diagnosis_text_free in every case. */
bool diagnosis_text_make(struct diagnosis_text *text, struct diagnosis *diagnosis,
                         const struct diagnose_request *request, struct site_labels *labels);
void diagnosis_text_free(struct diagnosis_text *text);

/* Says before everything else what the job hangs on, where it does. */
void findings_put_diagnosis(struct findings *findings, const struct diagnosis *diagnosis,
                            const struct diagnosis_text *told);

/* Of what finding a report should speak, and how grave it is: a hang that may be none is a warning. */
enum severity diagnosis_severity(const struct diagnosis *diagnosis);

#endif
