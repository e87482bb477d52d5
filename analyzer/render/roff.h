/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual pages in roff, for man(7) macros.
 * Lives here: escaping, the few macros that our pages are made of.
 * Must not live here: what a page says.
 */
#ifndef COMMTAP_RENDER_ROFF_H
#define COMMTAP_RENDER_ROFF_H

#include <stdio.h>

/* The head of a page. The version stands in its foot; a date would make two builds differ. */
void roff_begin(FILE *stream, const char *name, char section, const char *version);
void roff_section(FILE *stream, const char *heading);

/* Text as it is, within a line: hyphens and quotes stay the characters of ASCII that a shell knows, so that they can be
 * copied; after a bar a line may end. No line may begin with a dot that comes from here. */
void roff_plain(FILE *stream, const char *text);
void roff_bold(FILE *stream, const char *text);
void roff_italic(FILE *stream, const char *text);

/* Running text of one or more lines; the last one's end is added where it lacks one. */
void roff_text(FILE *stream, const char *text);

/* Begins an item of a list: what follows on the line is its name, roff_text then says what it is. */
void roff_item(FILE *stream);
void roff_paragraph(FILE *stream);
/* A line to be typed, apart from the text. */
void roff_command_line(FILE *stream, const char *line);

#endif
