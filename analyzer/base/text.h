/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that somebody typed.
 * Lives here: which known name was probably meant.
 * Must not live here: the messages that say so.
 */
#ifndef COMMTAP_BASE_TEXT_H
#define COMMTAP_BASE_TEXT_H

#include <stddef.h>

/* Of the `count` names the one nearest to `name` by edit distance, NULL when none is near. */
const char *nearest_name(const char *name, const char *const *names, size_t count);

#endif
