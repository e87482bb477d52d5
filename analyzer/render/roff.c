/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/render/roff.h"

#include <stdbool.h>

#include "analyzer/render/escape.h"

/* What means something else to roff, or would be printed as a typographic relative of itself. */
static const struct {
    char character;
    const char *written;
} special[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"}, {'`', "\\(ga"},
               {'^', "\\(ha"}, {'~', "\\(ti"}, {'"', "\\(dq"},  {'|', "|\\:"}};

static const char *special_form(char character) {
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (special[i].character == character)
            return special[i].written;
    return NULL;
}

/* Writes one character of `text`. Returns its length in bytes. */
static size_t put_character(FILE *stream, const char *text) {
    unsigned code = '?';
    size_t length = utf8_decode(text, &code);
    const char *written = special_form(*text);
    if (written)
        fputs(written, stream);
    else if (code < 0x80)
        fputc((int)code, stream);
    else
        fprintf(stream, "\\[u%04X]", code);
    return length ? length : 1;
}

void roff_plain(FILE *stream, const char *text) {
    while (*text)
        text += put_character(stream, text);
}

static void put_in_font(FILE *stream, const char *font, const char *text) {
    fprintf(stream, "\\f%s", font);
    roff_plain(stream, text);
    fputs("\\fR", stream);
}

void roff_bold(FILE *stream, const char *text) {
    put_in_font(stream, "B", text);
}

void roff_italic(FILE *stream, const char *text) {
    put_in_font(stream, "I", text);
}

void roff_text(FILE *stream, const char *text) {
    bool begins = true;
    for (; *text; begins = text[-1] == '\n') {
        if (begins && *text == '.')
            fputs("\\&", stream);
        text += put_character(stream, text);
    }
    if (!begins)
        fputc('\n', stream);
}

void roff_begin(FILE *stream, const char *name, char section, const char *version) {
    fputs(".TH ", stream);
    roff_plain(stream, name);
    fprintf(stream, " %c \"\" \"commtap %s\"\n.nh\n.ad l\n", section, version);
}

void roff_section(FILE *stream, const char *heading) {
    fprintf(stream, ".SH %s\n", heading);
}

void roff_item(FILE *stream) {
    fputs(".TP\n", stream);
}

void roff_paragraph(FILE *stream) {
    fputs(".PP\n", stream);
}

void roff_command_line(FILE *stream, const char *line) {
    fputs(".PP\n.RS 4\n.nf\n", stream);
    roff_bold(stream, line);
    fputs("\n.fi\n.RE\n", stream);
}
