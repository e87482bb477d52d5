/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/render/wrapped_text.h"

#include <stdbool.h>
#include <string.h>

#include "analyzer/render/escape.h"

enum { SCREEN = 100 };

void print_wrapped(FILE *stream, const char *text, unsigned column, unsigned indent) {
    char word[256];
    bool first = true;
    while (*text) {
        text += strspn(text, " ");
        size_t length = strcspn(text, " ");
        if (length == 0)
            break;
        size_t kept = length < sizeof word ? length : sizeof word - 1;
        memcpy(word, text, kept);
        word[kept] = '\0';
        text += kept;
        size_t width = escape_text(NULL, word);
        if (!first && column + 1 + width > SCREEN) {
            fprintf(stream, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        if (!first)
            fputc(' ', stream);
        column += (unsigned)(escape_text(stream, word) + !first);
        first = false;
    }
    fputc('\n', stream);
}
