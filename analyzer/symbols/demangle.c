/* SPDX-License-Identifier: Apache-2.0
 *
 * Demangling by libiberty, with an end to it.
 * Lives here: one name.
 * Must not live here: symbol tables.
 */
#include "analyzer/symbols/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A few bytes of mangled name can stand for gigabytes: once the text is full it is left by a jump. The callback forms
 * of libiberty hold no memory that could leak by it. */
struct demangled_text {
    char *text;
    size_t used;
    jmp_buf full;
};

static void append_part(const char *part, size_t bytes, void *context) {
    struct demangled_text *output = context;
    if (bytes >= FUNCTION_NAME_MAX - output->used)
        longjmp(output->full, 1);
    memcpy(output->text + output->used, part, bytes);
    output->used += bytes;
    output->text[output->used] = '\0';
}

static bool try_demangling(struct demangled_text *output, const char *name) {
    output->used = 0;
    if (strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0)
        return false;
    if (setjmp(output->full))
        return false;
    if (rust_demangle_callback(name, 0, append_part, output))
        return true;
    output->used = 0;
    return cplus_demangle_v3_callback(name, 0, append_part, output) && output->used > 0;
}

/* Length of a name without the suffixes that compilers give to their copies of a function. */
static size_t without_suffix(const char *name) {
    static const char *const suffixes[] = {".cold",   ".part.",     ".isra.", ".constprop.",
                                           ".clone.", ".lto_priv.", ".llvm.", "@"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const char *found = strstr(name, suffixes[i]);
        if (found && found > name && (size_t)(found - name) < length)
            length = (size_t)(found - name);
    }
    return length;
}

void demangle(char text[FUNCTION_NAME_MAX], const char *name) {
    char plain[4 * FUNCTION_NAME_MAX];
    struct demangled_text output = {.text = text};
    size_t length = without_suffix(name);
    if (length < sizeof plain) {
        memcpy(plain, name, length);
        plain[length] = '\0';
        if (try_demangling(&output, plain))
            return;
    }
    snprintf(text, FUNCTION_NAME_MAX, "%.*s", (int)(length < FUNCTION_NAME_MAX ? length : FUNCTION_NAME_MAX - 1), name);
}
