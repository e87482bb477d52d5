/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job did and no dump holds, because it was left out on purpose or never came by the library.
 * Lives here: filters, pauses, what COMMTAP_BUDGET sheds, calls that went past. Must not live here: what was lost
 * (findings.c).
 */
#ifndef COMMTAP_FINDINGS_LEFT_OUT_H
#define COMMTAP_FINDINGS_LEFT_OUT_H

#include "analyzer/findings/finding.h"

void findings_add_left_out(struct findings *findings, const struct job *job);

#endif
