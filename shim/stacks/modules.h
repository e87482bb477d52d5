/* SPDX-License-Identifier: Apache-2.0
 *
 * The libraries that addresses of stacks lie in: defined in the dump at first sight, noticed when they are unloaded.
 * Lives here: the table of modules and their unwind tables. Must not live here: walking, symbols (the analyzer's).
 */
#ifndef COMMTAP_MODULES_H
#define COMMTAP_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/stacks/cfi.h"

#define MODULES 1024u /* that a process may show on its stacks; code of any further one is unknown in the dump */

struct module {
    uintptr_t start, end, base;
    struct cfi_tables tables;
    uint64_t identity; /* hash of path and build id */
    uint32_t ready;    /* released once the above is filled */
    uint32_t gone_at;  /* number of unloads by which it was gone, 0 = loaded */
};

/* Forgets everything: a new activation. */
void modules_begin(void);

/* The module with `address`, defined in the dump the first time. False: no module of this name space has it. One call
 * into the dynamic linker, which takes its lock for the length of a short list. */
bool modules_find(uintptr_t address, struct module *found);

/* How many have been found so far: grows whenever code of another one shows on a stack. */
uint32_t modules_count(void);

/* Looks which modules are gone and writes that down. */
void modules_check(void);

/* Calls `visit` for every module that went after unload number `since`. */
void modules_each_gone(uint32_t since, void (*visit)(const struct module *module, void *data), void *data);

#endif
