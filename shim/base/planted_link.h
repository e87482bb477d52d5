/* SPDX-License-Identifier: Apache-2.0
 *
 * Links on the way to an output directory that somebody else may have put there: what the library and `commtap doctor`
 * must agree about.
 * Lives here: the rule. Must not live here: walking the path.
 * Header only, for the analyzer uses it, too.
 */
#ifndef COMMTAP_SHIM_BASE_PLANTED_LINK_H
#define COMMTAP_SHIM_BASE_PLANTED_LINK_H

#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* In a directory that all may write to (`above`), a link of neither its owner nor ours leads where somebody else wants.
 * Linux follows none there itself where fs.protected_symlinks is set. `itself`: what is there, no link followed. */
static inline bool is_planted_link(const struct stat *itself, const struct stat *above) {
    return S_ISLNK(itself->st_mode) && above->st_mode & S_IWOTH && itself->st_uid != geteuid() &&
           itself->st_uid != above->st_uid;
}

#endif
