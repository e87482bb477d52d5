/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps that were staged on another host: a shell script over the user's ssh sends them, since commtap itself need not
 * be installed there.
 *
 * The script holds nothing but what dumps/stub.c has let pass: paths of a fixed form without a single character that is
 * special to a shell. On the node, /dev/shm, /tmp and /var/tmp are taken to be as the system makes them: nobody but its
 * owner (and root) can put another file in the place of one. What comes back is not trusted: it is bounded by what was
 * asked for, written under a partial name, compared with the sum of the original and checked to be the dump in
 * question.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/collect/collect.h"
#include "analyzer/collect/incoming.h"

extern char **environ;

enum { BLOCK = 1 << 16, LINE_BYTES = 256, CHATTER_LINES_MAX = 1000 };

#define ANSWER_BEGINS "commtap-collect answers\n"
#define LIST_END      "END_OF_LIST\n"
#define REBOOTED      "the host was rebooted since"

/* What both scripts begin with; %s is the boot id. A login script may have printed something before. */
static const char preamble[] = "LC_ALL=C\n"
                               "export LC_ALL\n"
                               "echo 'commtap-collect answers'\n"
                               "if [ \"$(cat /proc/sys/kernel/random/boot_id)\" != '%s' ]; then\n"
                               "    echo 'away " REBOOTED "'\n"
                               "    exit 0\n"
                               "fi\n"
                               "me=$(id -u)\n"
                               "is_ours() { [ -n \"$(find \"$1\" -prune -type f -user \"$me\" 2>/dev/null)\" ]; }\n"
                               "refuse() {\n"
                               "    if [ -L \"$1\" ]; then echo 'no is a symbolic link'\n"
                               "    elif [ ! -e \"$1\" ]; then echo 'no is not there'\n"
                               "    elif [ ! -f \"$1\" ]; then echo 'no is no regular file'\n"
                               "    else echo 'no belongs to another user'\n"
                               "    fi\n"
                               "}\n";

/* Of each path on a line: "file used|ended SIZE", that many bytes whatever happens to the file meanwhile, "sum CRC
 * SIZE" of the file as it is then. */
static const char sender[] =
    "mapped=$(cat /proc/[0-9]*/maps 2>/dev/null | grep /commtap | sed 's/^[^/]*//' | sort -u)\n"
    "while read -r path; do\n"
    "    if ! is_ours \"$path\"; then refuse \"$path\"; continue; fi\n"
    "    size=$(($(wc -c <\"$path\")))\n"
    "    state=ended\n"
    "    case \"\n$mapped\n\" in *\"\n$path\n\"*) state=used ;; esac\n"
    "    echo \"file $state $size\"\n"
    "    { cat \"$path\"; head -c \"$size\" /dev/zero; } 2>/dev/null | head -c \"$size\"\n"
    "    echo \"sum $(cksum <\"$path\")\"\n"
    "done <<'END_OF_LIST'\n";

/* Of each "PATH CRC SIZE" on a line: "removed", or why not. What another collector was faster to remove is removed. */
static const char remover[] =
    "while read -r path sum; do\n"
    "    if is_ours \"$path\" && [ \"$(cksum <\"$path\")\" = \"$sum\" ] && rm -f \"$path\"; then echo removed\n"
    "    elif [ ! -e \"$path\" ] && [ ! -L \"$path\" ]; then echo removed\n"
    "    elif is_ours \"$path\"; then echo 'no has changed since it was copied, or cannot be removed'\n"
    "    else refuse \"$path\"\n"
    "    fi\n"
    "done <<'END_OF_LIST'\n";

/* ---- a shell on the host --------------------------------------------------------------------- */

struct shell {
    FILE *answer;
    int script, errors; /* its standard input and standard error: files in memory, so that nothing can block */
    pid_t pid;
};

static bool is_host_name(const char *host) {
    return host[0] != '-' &&
           host[strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-")] == '\0';
}

static void shell_close(struct shell *shell) {
    if (shell->answer)
        fclose(shell->answer);
    if (shell->pid > 0) {
        kill(shell->pid, SIGTERM); /* it has ended by now, unless its answer made no sense */
        waitpid(shell->pid, NULL, 0);
    }
    if (shell->script >= 0)
        close(shell->script);
    if (shell->errors >= 0)
        close(shell->errors);
}

static bool spawn(struct shell *shell, const char *ssh, const char *host, int answer) {
    char *const argv[] = {"sh", "-c", "$0 \"$1\" sh -s", (char *)ssh, (char *)host, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    int error = posix_spawn_file_actions_adddup2(&actions, shell->script, 0);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, answer, 1);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, shell->errors, 2);
    error = error ? error : posix_spawn(&shell->pid, "/bin/sh", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        shell->pid = 0;
    errno = error;
    return error == 0;
}

/* Starts the script on the host. shell_close releases in every case. */
static bool shell_open(struct shell *shell, const char *ssh, const char *host) {
    int ends[2];
    if (lseek(shell->script, 0, SEEK_SET) != 0 || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    bool started = spawn(shell, ssh, host, ends[1]);
    close(ends[1]);
    shell->answer = started ? fdopen(ends[0], "r") : NULL;
    if (!shell->answer)
        close(ends[0]);
    return shell->answer != NULL;
}

static bool script_begin(struct shell *shell, const struct collect_item *item) {
    *shell =
        (struct shell){.script = memfd_create("script", MFD_CLOEXEC), .errors = memfd_create("errors", MFD_CLOEXEC)};
    return shell->script >= 0 && shell->errors >= 0 && dprintf(shell->script, preamble, item->stub.boot_id) > 0;
}

static bool next_line(const struct shell *shell, char line[LINE_BYTES]) {
    if (!fgets(line, LINE_BYTES, shell->answer) || !strchr(line, '\n'))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* Skips what login scripts print. False where the script never began. */
static bool answer_begins(const struct shell *shell) {
    char line[LINE_BYTES];
    for (int i = 0; i < CHATTER_LINES_MAX && fgets(line, sizeof line, shell->answer); i++)
        if (strcmp(line, ANSWER_BEGINS) == 0)
            return true;
    return false;
}

/* Reads what the host says of one dump. False with `reason` where it says nothing of any dump. */
static bool next_answer(const struct shell *shell, char line[LINE_BYTES], char reason[LINE_BYTES]) {
    bool answered = next_line(shell, line);
    if (answered && strncmp(line, "away ", 5) == 0)
        strcpy(reason, line + 5);
    return answered && !reason[0];
}

/* Where there is no better reason: what ssh or the host has complained of first, or at least something. */
static void complain_of_shell(const struct shell *shell, char reason[LINE_BYTES]) {
    if (reason[0])
        return;
    ssize_t got = shell->errors < 0 ? 0 : pread(shell->errors, reason, LINE_BYTES - 1, 0);
    reason[got > 0 ? got : 0] = '\0';
    reason[strcspn(reason, "\r\n")] = '\0';
    if (!reason[0])
        strcpy(reason, "the host's answer ended early");
}

/* ---- fetching -------------------------------------------------------------------------------- */

/* Reads that many bytes off the answer; into `incoming` as long as *reason is NULL. False where the answer ends. */
static bool receive(const struct shell *shell, struct incoming *incoming, uint64_t bytes, const char **reason) {
    char block[BLOCK];
    while (bytes > 0) {
        size_t wanted = bytes < sizeof block ? (size_t)bytes : sizeof block;
        if (fread(block, 1, wanted, shell->answer) != wanted)
            return false;
        if (!*reason && !incoming_add(incoming, block, wanted))
            *reason = strerror(errno);
        bytes -= wanted;
    }
    return true;
}

/* Whether the copy is what the host's file holds now. */
static bool same_checksum(struct collect_item *item, const struct incoming *incoming, const char *line) {
    uint32_t theirs;
    uint64_t bytes;
    return sscanf(line, "sum %" SCNu32 " %" SCNu64, &theirs, &bytes) == 2 && bytes == incoming->bytes &&
           incoming_sum(incoming, &item->sum) && item->sum == theirs;
}

static bool fetch_file(int directory, struct collect_item *item, const struct shell *shell, bool used, uint64_t bytes) {
    char line[LINE_BYTES] = "";
    struct incoming incoming;
    const char *reason = incoming_begin(&incoming, directory, &item->stub);
    bool whole = receive(shell, &incoming, bytes, &reason) && next_line(shell, line);
    if (!reason && whole)
        reason = incoming_judge(&incoming);
    if (!reason && whole && !used && !same_checksum(item, &incoming, line))
        reason = "changed while it was copied, or arrived damaged";
    item->bytes = incoming.bytes;
    if (reason)
        collect_fail(item, "%s", reason);
    else if (whole)
        collect_settle(directory, item, &incoming, !used);
    incoming_end(&incoming);
    return whole;
}

/* False where the answer ends or makes no sense: then there is nothing to expect for the dumps that follow either. */
static bool fetch_next(int directory, struct collect_item *item, const struct shell *shell, char reason[LINE_BYTES]) {
    char line[LINE_BYTES], state[8];
    uint64_t bytes;
    if (!next_answer(shell, line, reason))
        return false;
    if (strncmp(line, "no ", 3) == 0) {
        collect_fail(item, "%s", line + 3);
        item->is_gone = strcmp(line + 3, "is not there") == 0;
        return true;
    }
    if (sscanf(line, "file %7s %" SCNu64, state, &bytes) != 2 || bytes > INT64_MAX) {
        strcpy(reason, "the host's answer makes no sense");
        return false;
    }
    return fetch_file(directory, item, shell, strcmp(state, "ended") != 0, bytes);
}

static void fail_rest(struct collect_item **items, size_t count, const char *reason) {
    for (size_t i = 0; i < count; i++)
        if (items[i]->state == COLLECT_NOT && !items[i]->reason[0])
            collect_fail(items[i], "%s", reason);
}

static void fetch(int directory, struct collect_item **items, size_t count, const char *ssh) {
    struct shell shell;
    char reason[LINE_BYTES] = "";
    bool ready = script_begin(&shell, items[0]) && dprintf(shell.script, "%s", sender) > 0;
    for (size_t i = 0; ready && i < count; i++)
        ready = dprintf(shell.script, "%s\n", items[i]->stub.path) > 0;
    ready = ready && dprintf(shell.script, LIST_END) > 0 && shell_open(&shell, ssh, items[0]->stub.host);
    if (!ready)
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    else if (answer_begins(&shell))
        for (size_t i = 0; i < count && fetch_next(directory, items[i], &shell, reason); i++)
            ;
    complain_of_shell(&shell, reason);
    fail_rest(items, count, reason);
    for (size_t i = 0; strcmp(reason, REBOOTED) == 0 && i < count; i++)
        items[i]->is_gone = strncmp(items[i]->stub.path, "/dev/shm/", 9) == 0; /* the others may outlive a reboot */
    shell_close(&shell);
}

/* ---- removing -------------------------------------------------------------------------------- */

static void take_removals(struct collect_item **items, size_t count, const struct shell *shell,
                          char reason[LINE_BYTES]) {
    char line[LINE_BYTES];
    for (size_t i = 0; i < count; i++) {
        if (items[i]->state != COLLECT_DONE)
            continue;
        if (reason[0] || !next_answer(shell, line, reason)) {
            complain_of_shell(shell, reason);
            snprintf(items[i]->not_removed, sizeof items[i]->not_removed, "%s", reason);
        } else if (strcmp(line, "removed") == 0) {
            items[i]->is_gone = true;
        } else {
            snprintf(items[i]->not_removed, sizeof items[i]->not_removed, "%s",
                     strncmp(line, "no ", 3) == 0 ? line + 3 : "the host's answer makes no sense");
        }
    }
}

static void remove_fetched(struct collect_item **items, size_t count, const char *ssh) {
    struct shell shell;
    char reason[LINE_BYTES] = "";
    bool ready = script_begin(&shell, items[0]) && dprintf(shell.script, "%s", remover) > 0;
    for (size_t i = 0; ready && i < count; i++)
        if (items[i]->state == COLLECT_DONE)
            ready = dprintf(shell.script, "%s %" PRIu32 " %" PRIu64 "\n", items[i]->stub.path, items[i]->sum,
                            items[i]->bytes) > 0;
    ready = ready && dprintf(shell.script, LIST_END) > 0 && shell_open(&shell, ssh, items[0]->stub.host);
    if (!ready)
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    else if (!answer_begins(&shell))
        complain_of_shell(&shell, reason);
    take_removals(items, count, &shell, reason);
    shell_close(&shell);
}

void collect_there(int directory, struct collect_item **items, size_t count, const struct collect_request *request) {
    if (!is_host_name(items[0]->stub.host)) {
        fail_rest(items, count, "the stub names an impossible host");
        return;
    }
    fetch(directory, items, count, request->ssh);
    for (size_t i = 0; request->remove && i < count; i++)
        if (items[i]->state == COLLECT_DONE) {
            remove_fetched(items, count, request->ssh);
            return;
        }
}
