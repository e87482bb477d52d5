/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/remote_shell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { CHATTER_LINES_MAX = 1000, END_LOOKS = 100, END_LOOK_NS = 10000000 };

#define ANSWER_BEGINS "commtap answers\n"

/* %s is the boot id. A login script may have printed something before. */
static const char first_words[] = "LC_ALL=C\n"
                                  "export LC_ALL\n"
                                  "echo 'commtap answers'\n"
                                  "if [ \"$(cat /proc/sys/kernel/random/boot_id)\" != '%s' ]; then\n"
                                  "    echo 'away " REMOTE_REBOOTED "'\n"
                                  "    exit 0\n"
                                  "fi\n"
                                  "me=$(id -u)\n";

bool remote_shell_is_host(const char *host) {
    return host[0] != '-' && host[0] != '\0' &&
           host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-")] == '\0';
}

/* ---- the script ------------------------------------------------------------------------------ */

bool remote_shell_begin(struct remote_shell *shell, const char *boot_id) {
    int script = memfd_create("script", MFD_CLOEXEC);
    *shell = (struct remote_shell){.script = script < 0 ? NULL : fdopen(script, "w"),
                                   .errors = memfd_create("errors", MFD_CLOEXEC)};
    if (script >= 0 && !shell->script)
        close(script);
    return shell->script && shell->errors >= 0 && fprintf(shell->script, first_words, boot_id) > 0;
}

/* Between single quotes nothing is special but the quote itself. */
void remote_shell_quote(const struct remote_shell *shell, const char *word) {
    fputc('\'', shell->script);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, shell->script);
    fputc('\'', shell->script);
}

static bool spawn(struct remote_shell *shell, const char *ssh, const char *host, int answer) {
    char *const argv[] = {"sh", "-c", "exec $0 \"$1\" sh -s", (char *)ssh, (char *)host, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    int error = posix_spawn_file_actions_adddup2(&actions, fileno(shell->script), 0);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, answer, 1);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, shell->errors, 2);
    error = error ? error : posix_spawn(&shell->pid, "/bin/sh", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        shell->pid = 0;
    errno = error;
    return error == 0;
}

/* ---- its end of the pipe, which is not waited for longer than the caller has patience ---------- */

static ssize_t read_answer(void *cookie, char *to, size_t bytes) {
    struct remote_shell *shell = cookie;
    struct pollfd ready = {.fd = shell->end, .events = POLLIN};
    int found = 1;
    do {
        found = shell->patience_ms > 0 ? poll(&ready, 1, (int)shell->patience_ms) : 1;
    } while (found < 0 && errno == EINTR);
    shell->was_silent |= found == 0;
    if (found <= 0) {
        errno = found == 0 ? ETIMEDOUT : errno;
        return -1;
    }
    return read(shell->end, to, bytes);
}

static int close_answer(void *cookie) {
    struct remote_shell *shell = cookie;
    return close(shell->end);
}

bool remote_shell_open(struct remote_shell *shell, const char *ssh, const char *host) {
    int ends[2];
    if (fflush(shell->script) != 0 || ferror(shell->script) || lseek(fileno(shell->script), 0, SEEK_SET) != 0 ||
        pipe2(ends, O_CLOEXEC) != 0)
        return false;
    bool started = spawn(shell, ssh, host, ends[1]);
    close(ends[1]);
    shell->end = ends[0];
    const cookie_io_functions_t functions = {.read = read_answer, .close = close_answer};
    shell->answer = started ? fopencookie(shell, "r", functions) : NULL;
    if (!shell->answer)
        close(ends[0]);
    return shell->answer != NULL;
}

/* Who was silent may not listen to a polite end either. */
static void end_child(const struct remote_shell *shell) {
    const struct timespec look = {.tv_nsec = END_LOOK_NS};
    kill(shell->pid, SIGTERM); /* it has ended by now, unless its answer made no sense */
    for (int i = 0; shell->was_silent && i < END_LOOKS; i++) {
        if (waitpid(shell->pid, NULL, WNOHANG) == shell->pid)
            return;
        nanosleep(&look, NULL);
    }
    if (shell->was_silent)
        kill(shell->pid, SIGKILL);
    waitpid(shell->pid, NULL, 0);
}

void remote_shell_close(struct remote_shell *shell) {
    if (shell->answer)
        fclose(shell->answer);
    if (shell->pid > 0)
        end_child(shell);
    if (shell->script)
        fclose(shell->script);
    if (shell->errors >= 0)
        close(shell->errors);
}

/* ---- the answer ------------------------------------------------------------------------------ */

bool remote_shell_answers(const struct remote_shell *shell) {
    char line[REMOTE_LINE];
    for (int i = 0; i < CHATTER_LINES_MAX && fgets(line, sizeof line, shell->answer); i++)
        if (strcmp(line, ANSWER_BEGINS) == 0)
            return true;
    return false;
}

bool remote_shell_line(const struct remote_shell *shell, char line[REMOTE_LINE]) {
    if (!fgets(line, REMOTE_LINE, shell->answer) || !strchr(line, '\n'))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

bool remote_shell_is_away(const char *line, char reason[REMOTE_LINE]) {
    if (strncmp(line, "away ", 5) != 0)
        return false;
    snprintf(reason, REMOTE_LINE, "%s", line + 5);
    return true;
}

void remote_shell_complain(const struct remote_shell *shell, char reason[REMOTE_LINE]) {
    if (reason[0])
        return;
    if (shell->was_silent) {
        snprintf(reason, REMOTE_LINE, "the host was silent for %g s", shell->patience_ms / 1e3);
        return;
    }
    ssize_t got = shell->errors < 0 ? 0 : pread(shell->errors, reason, REMOTE_LINE - 1, 0);
    reason[got > 0 ? got : 0] = '\0';
    reason[strcspn(reason, "\r\n")] = '\0';
    if (!reason[0])
        strcpy(reason, "the host's answer ended early");
}
