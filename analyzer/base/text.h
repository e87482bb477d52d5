/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of files, names and numbers that somebody typed.
 * Lives here: how names end, which known one was probably meant, seconds.
 * Must not live here: the messages that say so.
 */
#ifndef COMMTAP_BASE_TEXT_H
#define COMMTAP_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `text` ends in `end`, or is it. */
bool text_ends_in(const char *text, const char *end);

/* Of the `count` names the one nearest to `name` by edit distance, NULL when none is near. */
const char *nearest_name(const char *name, const char *const *names, size_t count);

/* A number of seconds from `least` to `most`, as "2", "0.5" or ".5". False: `text` is none, and *seconds is as it was.
 */
bool text_seconds(const char *text, double least, double most, double *seconds);

#endif
