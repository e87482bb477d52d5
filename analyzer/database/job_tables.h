/* SPDX-License-Identifier: Apache-2.0
 *
 * A judged job as tables of a database.
 * Lives here: which tables there are, their columns, what they are indexed by.
 * Must not live here: SQLite (database.h), figures: tables that a report has, too, are made of the same rows.
 */
#ifndef COMMTAP_DATABASE_JOB_TABLES_H
#define COMMTAP_DATABASE_JOB_TABLES_H

#include "analyzer/cli/session.h"
#include "analyzer/database/database.h"

enum job_tables_end { JOB_TABLES_DONE, JOB_TABLES_FAILED, JOB_TABLES_NO_MEMORY };

/* Writes everything that is known of the job, which was opened with its steps; the findings are those that the session
 * has by now. JOB_TABLES_FAILED: the database says why. */
enum job_tables_end job_tables_write(struct database *database, struct session *session);

#endif
