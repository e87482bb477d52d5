/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a program or a library of the user's for a few words, in a child process that cannot hold anybody up.
 * Lives here: the child, its time limit, what it prints. Must not live here: what is asked.
 */
#ifndef COMMTAP_DOCTOR_CHILD_H
#define COMMTAP_DOCTOR_CHILD_H

#include <stdbool.h>
#include <stddef.h>

/* Runs argv (argv[0] is a path) with `name`=`value` added to its environment (NULL: nothing). What it prints to stdout
 * and stderr goes to text, cut at `size`. True where it exited with 0 in time. */
bool child_run(char *const *argv, const char *name, const char *value, char *text, size_t size);

/* The same of a function, which writes to the descriptor that it is given. */
bool child_call(void (*work)(const void *, int), const void *argument, char *text, size_t size);

#endif
