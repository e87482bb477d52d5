/* SPDX-License-Identifier: Apache-2.0
 *
 * A shell script on another host, over the user's own ssh.
 * Lives here: starting it, its first words, where its answer begins, why there is none.
 * Must not live here: what the script does there, what its answer means.
 *
 * Whoever writes the script answers for every character of it: texts go into it by remote_shell_quote, or must be of a
 * form without any that is special to a shell. What comes back is not to be trusted.
 */
#ifndef COMMTAP_BASE_REMOTE_SHELL_H
#define COMMTAP_BASE_REMOTE_SHELL_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

enum { REMOTE_LINE = 256 }; /* bytes of a line that is read, with its end */

#define REMOTE_REBOOTED "the host was rebooted since"

struct remote_shell {
    FILE *script, *answer;
    int errors; /* its standard error; like the script a file in memory, so that nothing can block */
    pid_t pid;
    int end;              /* that the answer comes from */
    unsigned patience_ms; /* how long the host may be silent at a time, 0: for ever. The caller sets it before open */
    bool was_silent;      /* for longer: its answer has ended by that */
};

/* Whether that can be a host's name, and no option of ssh. */
bool remote_shell_is_host(const char *host);

/* Begins the script, which the caller goes on writing to `script`: there $me is the user's number, and where the boot
 * id is another one than `boot_id` (letters, digits, dashes) it ends. False with errno. The caller ends with
 * remote_shell_close in every case; `shell` must not move until then. */
bool remote_shell_begin(struct remote_shell *shell, const char *boot_id);
/* Writes one word as the shell reads it, whatever it holds. */
void remote_shell_quote(const struct remote_shell *shell, const char *word);
/* Starts the script, if all of it could be written: `ssh` is split at blanks by a shell of this host. */
bool remote_shell_open(struct remote_shell *shell, const char *ssh, const char *host);
void remote_shell_close(struct remote_shell *shell);

/* Skips what login scripts print. False where the script never began. */
bool remote_shell_answers(const struct remote_shell *shell);
/* The next line of the answer, without its end. False where it ends before, or the line is too long. */
bool remote_shell_line(const struct remote_shell *shell, char line[REMOTE_LINE]);
/* Whether that line says why the script does nothing there; then it is copied. */
bool remote_shell_is_away(const char *line, char reason[REMOTE_LINE]);
/* Where there is no better reason: what ssh or the host has complained of first, or at least something. */
void remote_shell_complain(const struct remote_shell *shell, char reason[REMOTE_LINE]);

#endif
