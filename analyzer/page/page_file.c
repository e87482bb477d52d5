/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/page_file.h"

#include <string.h>

#include "analyzer/render/escape.h"

/* The two parts around the data, which the linker brings from files (test/page.mk); not there where D3 was not. */
extern const char page_head[] __attribute__((weak)), page_head_end[] __attribute__((weak));
extern const char page_tail[] __attribute__((weak)), page_tail_end[] __attribute__((weak));

/* What page_head begins with. */
static const char first_line[] = "<!DOCTYPE html><!-- commtap html -->\n";

const char *page_lacks(void) {
    return page_head
               ? NULL
               : "this commtap was built without D3, which draws the page: install it (Debian: node-d3) and build "
                 "commtap again";
}

void page_begin(FILE *stream) {
    fputs(first_line, stream);
    fwrite(page_head, 1, (size_t)(page_head_end - page_head), stream);
}

void page_end(FILE *stream) {
    fwrite(page_tail, 1, (size_t)(page_tail_end - page_tail), stream);
}

bool page_is_ours(const char *first, size_t count) {
    return count >= sizeof first_line - 1 && memcmp(first, first_line, sizeof first_line - 1) == 0;
}

/* The length of the character at `text`, of which `room` bytes are there; `code` is 0 where it is none. */
static size_t next_character(const char *text, size_t room, unsigned *code) {
    char whole[5] = "";
    memcpy(whole, text, room < 4 ? room : 4);
    size_t length = whole[0] ? utf8_decode(whole, code) : 0;
    if (length == 0)
        *code = 0;
    return length ? length : 1;
}

/* Within JSON, < is found in strings only, and so is what is beyond ASCII. Escaped there, no name can end the element
 * (</script>) or change how what follows is read (<!--), nor the order in which a line is shown. */
static int write_escaped(const char *text, size_t count, void *stream) {
    const char *end = text + count, *written = text;
    while (text < end) {
        unsigned code = (unsigned char)*text;
        size_t length = code < 0x80 ? 1 : next_character(text, (size_t)(end - text), &code);
        if (code == '<' || (code >= 0x80 && character_is_unsafe(code))) {
            fwrite(written, 1, (size_t)(text - written), stream);
            fprintf(stream, code == '<' ? "\\u%04x" : "\\\\u{%04x}", code);
            written = text + length;
        }
        text += length;
    }
    fwrite(written, 1, (size_t)(end - written), stream);
    return 0;
}

/* As many digits as the commands print. */
bool page_add(FILE *stream, const char *id, json_t *json) {
    if (!json)
        return false;
    fprintf(stream, "<script type=\"application/json\" id=\"data-%s\">", id);
    bool done = json_dump_callback(json, write_escaped, stream, JSON_COMPACT | JSON_REAL_PRECISION(15)) == 0;
    fputs("</script>\n", stream);
    json_decref(json);
    return done;
}
