/* SPDX-License-Identifier: Apache-2.0
 *
 * The document commtap.links/1.
 * Lives here: the links of a judged job, and what is said beside them.
 * Must not live here: figures (profile/link_table.h), columns (render/link_rows.h), options.
 */
#ifndef COMMTAP_DOCUMENTS_LINKS_DOCUMENT_H
#define COMMTAP_DOCUMENTS_LINKS_DOCUMENT_H

#include <jansson.h>

#include "analyzer/cli/session.h"
#include "analyzer/profile/link_table.h"
#include "analyzer/render/link_rows.h"

/* The links that the session's filter lets pass. Returns false when memory is short; the caller frees with
 * link_table_free in every case. */
bool links_of_session(struct link_table *links, const struct session *session, bool by_host);

/* Whether they hold every message: totals of messages have counters of their own that may run full. */
bool links_totals_complete(const struct session *session);

/* `table` has those of the rows that are shown. NULL when memory is short. */
json_t *links_document(const struct session *session, const struct link_table *links, const struct table *table);

#endif
