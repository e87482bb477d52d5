/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/render/wrapped_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "analyzer/render/escape.h"

size_t screen_columns(FILE *stream) {
    struct winsize size;
    int file = fileno(stream);
    if (file < 0 || !isatty(file) || ioctl(file, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 0;
    return size.ws_col < SCREEN_LEAST ? SCREEN_LEAST : size.ws_col;
}

static size_t sentence_columns(FILE *stream) {
    size_t screen = screen_columns(stream);
    return screen > 0 && screen < SENTENCE_COLUMNS ? screen : SENTENCE_COLUMNS;
}

void print_wrapped(FILE *stream, const char *text, unsigned column, unsigned indent) {
    char word[256];
    bool first = true;
    const size_t screen = sentence_columns(stream);
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
        if (!first && column + 1 + width > screen) {
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

/* The bytes of `text`, which is escaped, that take the first `columns` of it: every character takes one. */
static size_t bytes_of(const char *text, size_t columns) {
    size_t bytes = 0;
    unsigned code;
    for (size_t i = 0; i < columns && text[bytes]; i++) {
        size_t length = utf8_decode(text + bytes, &code);
        bytes += length ? length : 1;
    }
    return bytes;
}

size_t print_shortened(FILE *stream, const char *text, size_t most) {
    size_t columns = escape_text(NULL, text), bytes;
    if (most < 3 || columns <= most)
        return stream ? escape_text(stream, text) : columns;
    char *escaped = NULL;
    FILE *memory = stream ? open_memstream(&escaped, &bytes) : NULL;
    if (memory) {
        escape_text(memory, text);
        if (fclose(memory) == 0) {
            size_t before = (most - 1) / 2, after = most - 2 - before;
            fprintf(stream, "%.*s..%s", (int)bytes_of(escaped, before), escaped,
                    escaped + bytes_of(escaped, columns - after));
        }
        free(escaped);
    }
    return most;
}
