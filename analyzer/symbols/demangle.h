/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of functions as people write them.
 * Lives here: demangling, cutting off what compilers append.
 * Must not live here: symbol tables.
 */
#ifndef COMMTAP_SYMBOLS_DEMANGLE_H
#define COMMTAP_SYMBOLS_DEMANGLE_H

#include <stddef.h>

enum { FUNCTION_NAME_MAX = 1024 };

/* Writes a C++ or Rust function's name without its arguments, any other name as it is, and both without a compiler's
 * suffix (".constprop.0", ".cold"). A name that would be longer than FUNCTION_NAME_MAX stays mangled, cut to size. */
void demangle(char text[FUNCTION_NAME_MAX], const char *name);

#endif
