/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator's policy, as this process found it when it started (base/policy_file.h).
 * Lives here: reading it, once. Must not live here: what its lines set (knobs.h).
 */
#ifndef COMMTAP_SHIM_RECORD_POLICY_H
#define COMMTAP_SHIM_RECORD_POLICY_H

#include <stdbool.h>

#include "shim/base/policy_file.h"

/* Reads the policy that COMMTAP_POLICY (NULL: it is not set) names, else POLICY_FILE. Calls nothing of libc's: this
 * runs in every process of the job, before libraries that interpose on it are up. False: there is none, or it is not
 * taken. */
bool policy_read(const char *named);

/* Its lines, one after another; `line` starts as zeros, *at as NULL. False behind the last one. */
bool policy_line_next(const char **at, struct policy_line *line);

/* Where it is, and why it was not taken: NULL where it was, or where there is none that anybody named. */
const char *policy_path(void);
const char *policy_trouble(void);
struct text;
/* Adds the latter, with its offset where it has one. There is one. */
void policy_add_trouble(struct text *t);

#endif
