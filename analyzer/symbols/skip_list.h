/* SPDX-License-Identifier: Apache-2.0
 *
 * Which frames are plumbing: communication libraries, frameworks, the language's run time.
 * Lives here: the built-in list, the user's additions, matching.
 * Must not live here: stacks.
 *
 * A pattern is a kind, a colon and a glob (fnmatch without flags, so * spans slashes):
 *   module:libmpi*.so*          last part of the path of the file that holds the code
 *   function:c10d::*            a native function, or a Python function's qualified name
 *   file:*-packages/torch/?*     a Python source file (native source files are never looked at: where a
 *                               library was built says nothing)
 * A leading ! takes frames out of the list again ("!module:libmpi_mine.so"): of several matching patterns the last one
 * given counts. `none` empties the list. Lines of a file are patterns; empty ones and those that begin with # are not.
 */
#ifndef COMMTAP_SYMBOLS_SKIP_LIST_H
#define COMMTAP_SYMBOLS_SKIP_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct skip_list {
    struct skip_pattern *patterns;
    size_t count;
};

enum skip_result { SKIP_OK = 0, SKIP_NO_PATTERN, SKIP_NO_FILE, SKIP_NO_MEMORY };

/* The built-in list. Returns false when memory is short; the caller frees with skip_list_free in every case. */
bool skip_list_init(struct skip_list *list);
void skip_list_free(struct skip_list *list);

/* Adds what a user gave: a pattern, `none`, or the path of a file of patterns. */
enum skip_result skip_list_add(struct skip_list *list, const char *text);

/* Whether a native frame is plumbing. `module` is the last part of its path. */
bool skip_native(const struct skip_list *list, const char *module, const char *function);
/* Whether a Python frame is. */
bool skip_python(const struct skip_list *list, const char *file, const char *function);

#endif
