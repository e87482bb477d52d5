/* SPDX-License-Identifier: Apache-2.0
 *
 * The document commtap.report/1.
 * Lives here: which figures of a judged job make it, in which order.
 * Must not live here: single tables (render/), judging, options.
 */
#ifndef COMMTAP_DOCUMENTS_REPORT_DOCUMENT_H
#define COMMTAP_DOCUMENTS_REPORT_DOCUMENT_H

#include <jansson.h>

#include "analyzer/cli/generations.h"
#include "analyzer/cli/session.h"
#include "analyzer/profile/summary.h"
#include "analyzer/render/straggler_table.h"

struct report_figures {
    const struct session *session;
    const struct diagnosis *diagnosis;
    struct summary summary;
    struct rank_row *ranks; /* of the ranks that are shown */
    size_t rank_count;
    const struct generations *generations; /* NULL: nobody asked */
};

/* Of a session with all its conclusions, which must outlive them. Returns false when memory is short; the caller frees
 * with report_figures_free in every case. */
bool report_figures_build(struct report_figures *figures, const struct session *session,
                          const struct diagnosis *diagnosis);
void report_figures_free(struct report_figures *figures);

/* NULL when memory is short. */
json_t *report_document(const struct report_figures *figures);

#endif
