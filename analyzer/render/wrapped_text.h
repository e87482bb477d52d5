/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences on a screen.
 * Lives here: breaking lines at blanks.
 * Must not live here: the sentences.
 */
#ifndef COMMTAP_RENDER_WRAPPED_TEXT_H
#define COMMTAP_RENDER_WRAPPED_TEXT_H

#include <stdio.h>

/* Escaped text wrapped at blanks to 100 columns, further lines indented by `indent`; the first line starts at
 * `column`. */
void print_wrapped(FILE *stream, const char *text, unsigned column, unsigned indent);

#endif
