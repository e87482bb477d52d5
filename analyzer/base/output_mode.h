/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may read what is written: COMMTAP_MODE, as the library takes it.
 * Lives here: permissions of files and directories made for dumps. Must not live here: what is written.
 */
#ifndef COMMTAP_BASE_OUTPUT_MODE_H
#define COMMTAP_BASE_OUTPUT_MODE_H

#include <sys/types.h>

/* 0640 where `text` (COMMTAP_MODE; NULL: not set) says so, else 0600. */
mode_t output_file_mode(const char *text);

/* Gives an open file that mode, whatever the umask. */
void output_give_mode(int file, mode_t mode);

/* Creates a directory with its parents, as mkdir -p does, for files of that mode: 0700 or 0750. Returns 0, or an errno:
 * EEXIST where it was there. `path` is changed meanwhile. */
int output_make_directories(char *path, mode_t mode);

#endif
