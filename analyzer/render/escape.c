/* SPDX-License-Identifier: Apache-2.0
 *
 * Escaping for terminals, CSV and JSON.
 * Lives here: what may not be written as it is.
 * Must not live here: layout.
 */
#include "analyzer/render/escape.h"

#include <stdlib.h>
#include <string.h>

size_t utf8_decode(const char *text, unsigned *code) {
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    size_t length = p[0] >= 0xf0 && p[0] < 0xf8   ? 4
                    : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                    : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                                                  : 0;
    if (length == 0)
        return 0;
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    *code = p[0] & (0xff >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (p[i] & 0x3f);
    }
    bool valid = *code >= least[length] && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
    return valid ? length : 0;
}

bool character_is_unsafe(unsigned code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

size_t escape_text(FILE *stream, const char *text) {
    size_t columns = 0;
    while (*text) {
        unsigned code;
        char escaped[16];
        size_t length = utf8_decode(text, &code);
        if (length > 0 && !character_is_unsafe(code)) {
            if (stream)
                fwrite(text, 1, length, stream);
            columns++;
        } else {
            if (length < 2)
                snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)*text);
            else
                snprintf(escaped, sizeof escaped, "\\u{%04x}", code);
            if (stream)
                fputs(escaped, stream);
            columns += strlen(escaped);
        }
        text += length ? length : 1;
    }
    return columns;
}

static bool is_plain_word(const char *text) {
    return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%")];
}

static bool is_safe(const char *text) {
    unsigned code;
    for (size_t length; *text; text += length)
        if ((length = utf8_decode(text, &code)) == 0 || character_is_unsafe(code))
            return false;
    return true;
}

void escape_shell(FILE *stream, const char *text) {
    if (is_plain_word(text)) {
        fputs(text, stream);
        return;
    }
    bool safe = is_safe(text);
    fputs(safe ? "'" : "$'", stream);
    for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++)
        if (!safe && (*byte < ' ' || *byte >= 0x7f))
            fprintf(stream, "\\%03o", *byte); /* of three digits always: what follows is no part of it */
        else if (*byte == '\'' || (!safe && *byte == '\\'))
            fputs(!safe ? (*byte == '\'' ? "\\'" : "\\\\") : "'\\''", stream);
        else
            fputc(*byte, stream);
    fputc('\'', stream);
}

void escape_csv(FILE *stream, const char *text) {
    bool formula = *text && strchr("=+-@", *text) != NULL;
    bool quoted = formula || strpbrk(text, ",\"; ") != NULL;
    if (!quoted) {
        escape_text(stream, text);
        return;
    }
    fputc('"', stream);
    if (formula)
        fputc('\'', stream);
    for (const char *quote; (quote = strchr(text, '"')); text = quote + 1) {
        char *part = strndup(text, (size_t)(quote - text));
        escape_text(stream, part ? part : "");
        free(part);
        fputs("\"\"", stream);
    }
    escape_text(stream, text);
    fputc('"', stream);
}

json_t *escape_json(const char *text) {
    size_t capacity = strlen(text) * 3 + 1, used = 0;
    char *clean = malloc(capacity);
    if (!clean)
        return NULL;
    while (*text) {
        unsigned code;
        size_t length = utf8_decode(text, &code);
        const char *from = length ? text : "\xef\xbf\xbd";
        size_t bytes = length ? length : 3;
        memcpy(clean + used, from, bytes);
        used += bytes;
        text += length ? length : 1;
    }
    json_t *json = json_stringn(clean, used);
    free(clean);
    return json;
}
