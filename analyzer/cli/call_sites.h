/* SPDX-License-Identifier: Apache-2.0
 *
 * What every command that names call sites shares: the options, the skip list, symbols.
 * Lives here: reading --skip-frames and --debug-dir.
 * Must not live here: what is done with stacks.
 */
#ifndef COMMTAP_CLI_CALL_SITES_H
#define COMMTAP_CLI_CALL_SITES_H

#include "analyzer/cli/options.h"
#include "analyzer/symbols/skip_list.h"
#include "analyzer/symbols/symbols.h"

/* clang-format off */
#define OPTION_SKIP_FRAMES \
    {.name = "skip-frames", .argument = "WHAT", .repeats = true, \
     .doc = "plumbing that a call site is not named after, on top of the built-in list: module:GLOB, function:GLOB, file:GLOB, a file of such lines, ! before one to keep frames, none to empty the list"}
#define OPTION_DEBUG_DIR \
    {.name = "debug-dir", .argument = "DIR", .fallback = SYMBOLS_DEBUG_DIRECTORY, .doc = "where separate debug files are"}
/* clang-format on */

struct call_sites {
    struct skip_list skip;
    struct symbols *symbols; /* over the dumps; nothing is looked up yet */
};

/* Returns EXIT_FINE, or after one message EXIT_USAGE or EXIT_OUTPUT. The caller ends with call_sites_close in every
 * case. */
int call_sites_open(struct call_sites *sites, const struct options *options, struct dump *const *dumps, size_t count);
void call_sites_close(struct call_sites *sites);

#endif
