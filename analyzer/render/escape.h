/* SPDX-License-Identifier: Apache-2.0
 *
 * Making text that came from the job harmless: names are not to be trusted.
 * Lives here: escaping for terminals, CSV and JSON.
 * Must not live here: layout.
 */
#ifndef COMMTAP_RENDER_ESCAPE_H
#define COMMTAP_RENDER_ESCAPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Decodes one UTF-8 character at `text` (not at its end). Returns its length in bytes and stores the code point, or
 * returns 0 when the bytes are no valid UTF-8. */
size_t utf8_decode(const char *text, unsigned *code);

/* Control characters, line and paragraph separators, marks that reorder what is shown. */
bool character_is_unsafe(unsigned code);

/* Writes text for a terminal or a text file: control characters, characters that change the direction of writing and
 * bytes that are no UTF-8 become \xNN or \u{NNNN}; a backslash stays. Returns the columns written. With `stream` NULL
 * it only counts. */
size_t escape_text(FILE *stream, const char *text);

/* Writes a word that a shell takes for `text`, quoted where that is needed: by $'...', which bash, zsh and ksh know,
 * where it holds what a terminal should not be shown. */
void escape_shell(FILE *stream, const char *text);

/* Writes one CSV field: escaped as for text, quoted where needed, and kept from being taken for a formula. */
void escape_csv(FILE *stream, const char *text);

/* A JSON string of any bytes: what is no UTF-8 becomes U+FFFD. NULL when memory is short. */
json_t *escape_json(const char *text);

#endif
