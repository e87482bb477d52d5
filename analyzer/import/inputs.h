/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a user means by files and directories.
 * Lives here: listing what lies in a directory. Must not live here: what the files hold.
 */
#ifndef COMMTAP_IMPORT_INPUTS_H
#define COMMTAP_IMPORT_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct import_inputs {
    char **paths;
    size_t count;
    uint64_t stored; /* bytes of those that are there, as they are on the disk */
};

/* Adds a file, or the regular files of a directory in the order of their names: not of directories in it, nor hidden
 * ones, nor dumps. What is not there is added as it is: opening tells. Returns false with errno set when the directory
 * cannot be read or memory is short. */
bool import_inputs_add(struct import_inputs *inputs, const char *path);
void import_inputs_free(struct import_inputs *inputs);

#endif
