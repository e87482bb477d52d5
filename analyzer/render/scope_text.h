/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said about the part of the time that was looked at, in text and JSON.
 * Lives here: sentences and keys, the same for all commands.
 * Must not live here: how windows are found (profile/scope.h).
 * A scope may be NULL: no limits.
 */
#ifndef COMMTAP_RENDER_SCOPE_TEXT_H
#define COMMTAP_RENDER_SCOPE_TEXT_H

#include <jansson.h>
#include <stdio.h>

#include "analyzer/profile/scope.h"

/* One line of text, with a line feed: which part of the job was looked at and how much of it is on record, or why there
 * is nothing to look at. Nothing where the scope has no limits. */
void scope_print(FILE *stream, const struct scope *scope);

/* The window that was asked for: {from_seconds, to_seconds, steps, seen_share, complete}, with nulls where nothing lies
 * in it; null where there are no limits. */
json_t *scope_to_json(const struct scope *scope);

/* Adds to a command's coverage: source, where the sums come from ("tables": every call, exactly; "records": calls on
 * record that begin in the window), and window. */
void scope_add_to_json(json_t *coverage, const struct scope *scope);

#endif
