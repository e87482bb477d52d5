/* SPDX-License-Identifier: Apache-2.0
 *
 * Single calls of a job as tables of a database: records, collectives, messages, and what they refer to.
 * Lives here: walking the dumps once for the records, and once for what was matched. Private to database/.
 * Must not live here: sums (job_tables.h).
 */
#ifndef COMMTAP_DATABASE_RECORD_TABLES_H
#define COMMTAP_DATABASE_RECORD_TABLES_H

#include "analyzer/cli/session.h"
#include "analyzer/database/database.h"

/* Returns false where the database failed (it says why) or memory is short. */
bool record_tables_add(struct database *database, const struct session *session);

#endif
