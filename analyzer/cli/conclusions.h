/* SPDX-License-Identifier: Apache-2.0
 *
 * What is concluded of a judged job beside the stragglers: a hang, long parts of the steps, links below the mean.
 * Lives here: adding those findings to a session's, the same for every command that shows them.
 * Must not live here: judging, sentences.
 */
#ifndef COMMTAP_CLI_CONCLUSIONS_H
#define COMMTAP_CLI_CONCLUSIONS_H

#include "analyzer/cli/session.h"
#include "analyzer/cli/watch.h"
#include "analyzer/findings/advice.h"

/* What is long in the job's steps, where there are not too many records to look for them here, and slow among links.
 * Returns EXIT_FINE, or EXIT_OUTPUT after one message. */
int conclusions_add_advice(struct session *session, const struct options *options, const struct advice_limits *limits);

/* What `commtap diagnose` says of the job, before everything else. Returns EXIT_FINE; otherwise a message was printed.
 * The caller frees with diagnosis_free and diagnosis_text_free in every case; both start zeroed. */
int conclusions_add_diagnosis(struct session *session, const struct options *options, struct diagnosis *diagnosis,
                              struct diagnosis_text *told);

#endif
