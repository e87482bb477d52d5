/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of numbers as a page holds them.
 * Lives here: writing a column whose places are all alike as that one value.
 * Must not live here: what columns there are.
 */
#ifndef COMMTAP_PAGE_COLUMNS_H
#define COMMTAP_PAGE_COLUMNS_H

#include <jansson.h>

/* Puts a column into an object; takes over the reference. One of several places that are all the same is that value
 * alone: much is not known, or the same, everywhere. */
void columns_add(json_t *object, const char *key, json_t *column);

#endif
