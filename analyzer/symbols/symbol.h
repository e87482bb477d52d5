/* SPDX-License-Identifier: Apache-2.0
 *
 * What an address stands for.
 * Lives here: the struct. Must not live here: how it is found (symbols.h), where it is kept (stored_symbols.h).
 */
#ifndef COMMTAP_SYMBOLS_SYMBOL_H
#define COMMTAP_SYMBOLS_SYMBOL_H

#include <stdbool.h>
#include <stdint.h>

/* One place in the code. Equal places are one struct: pointers can be compared. */
struct symbol {
    const char *name;   /* demangled; "module+0x1a2b" where the function is not known, "[unknown]" outside any module */
    const char *module; /* last part of the module's path, "" = none */
    const char *file;   /* source file, NULL = unknown */
    uint32_t line;      /* 0 = unknown */
    bool named;         /* `name` is a function */
    const struct symbol
        *caller; /* the function that a compiler inlined it into, at the line that calls it; NULL = none */
};

#endif
