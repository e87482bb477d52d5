/* SPDX-License-Identifier: Apache-2.0
 *
 * Which directory the dump goes to.
 * Lives here: COMMTAP_DIR with this process's own job, user, host, process and rank in it.
 * Must not live here: how a pattern is written out (base/directory_pattern.h), making the directory.
 */
#ifndef COMMTAP_SHIM_RECORD_OUTPUT_DIRECTORY_H
#define COMMTAP_SHIM_RECORD_OUTPUT_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "shim/format.h"

/* Writes the directory that `pattern` (COMMTAP_DIR) means here; commtap-<run id> where it is empty or stands for
 * nothing, which knobs_complain tells. False: it does not fit. */
bool output_directory(char *to, size_t size, const char *pattern, const struct dump_header *identity);

/* Whether it is named for a job or a process, and so for its dumps alone. */
bool output_directory_is_own(const char *pattern);

#endif
