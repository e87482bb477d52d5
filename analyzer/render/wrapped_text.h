/* SPDX-License-Identifier: Apache-2.0
 *
 * Text on a screen.
 * Lives here: how wide the screen is, breaking sentences at blanks, shortening what is too wide for a cell.
 * Must not live here: the sentences, tables.
 */
#ifndef COMMTAP_RENDER_WRAPPED_TEXT_H
#define COMMTAP_RENDER_WRAPPED_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Of sentences, wherever they go: longer lines are hard to read. */
enum { SENTENCE_COLUMNS = 100, SCREEN_LEAST = 40 };

/* Columns of the terminal that the stream writes to, at least SCREEN_LEAST; 0: it is none, and nothing bounds lines. */
size_t screen_columns(FILE *stream);

/* Escaped text wrapped at blanks to SENTENCE_COLUMNS, or to the terminal where that is narrower, further lines indented
 * by `indent`; the first line starts at `column`. */
void print_wrapped(FILE *stream, const char *text, unsigned column, unsigned indent);

/* Escaped text in at most `most` columns (0: as many as it takes): of what is wider the middle is left out, as in
 * "exchange_ha..o.c:312)". Returns the columns written; with `stream` NULL it only counts. */
size_t print_shortened(FILE *stream, const char *text, size_t most);

#endif
