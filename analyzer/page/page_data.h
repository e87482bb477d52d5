/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page shows: a judged job as blocks of JSON (doc/PAGE.md).
 * Lives here: which blocks there are, what each is made of.
 * Must not live here: figures that another command prints (documents/, render/), drawing (browser/).
 */
#ifndef COMMTAP_PAGE_PAGE_DATA_H
#define COMMTAP_PAGE_PAGE_DATA_H

#include <stdio.h>

#include "analyzer/cli/session.h"
#include "analyzer/findings/diagnosis_text.h"
#include "analyzer/page/redact.h"

struct page_request {
    struct session *session; /* with all its conclusions */
    struct diagnosis *diagnosis;
    const struct diagnosis_text *told;
    const char *title;
    const struct redaction *redaction; /* what is to be taken out of every text; NULL = nothing */
};

/* Writes every block, one after the other: no more than one is in memory. Returns false when memory is short. */
bool page_write_data(FILE *stream, const struct page_request *request);

#endif
