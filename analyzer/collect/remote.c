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
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/remote_shell.h"
#include "analyzer/collect/collect.h"
#include "analyzer/collect/incoming.h"

enum { BLOCK = 1 << 16 };

#define LIST_END "END_OF_LIST\n"

/* What both scripts begin with. */
static const char preamble[] = "is_ours() { [ -n \"$(find \"$1\" -prune -type f -user \"$me\" 2>/dev/null)\" ]; }\n"
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

/* ---- what the host says ---------------------------------------------------------------------- */

static bool script_begin(struct remote_shell *shell, const struct collect_item *item,
                         const struct collect_request *request) {
    bool begun = remote_shell_begin(shell, item->stub.boot_id);
    shell->patience_ms = request->patience_ms;
    return begun && fprintf(shell->script, "%s", preamble) > 0;
}

/* Reads what the host says of one dump. False with `reason` where it says nothing of any dump. */
static bool next_answer(const struct remote_shell *shell, char line[REMOTE_LINE], char reason[REMOTE_LINE]) {
    return remote_shell_line(shell, line) && !remote_shell_is_away(line, reason);
}

/* ---- fetching -------------------------------------------------------------------------------- */

/* Reads that many bytes off the answer; into `incoming` as long as *reason is NULL. False where the answer ends. */
static bool receive(const struct remote_shell *shell, struct incoming *incoming, uint64_t bytes, const char **reason) {
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

static bool fetch_file(int directory, struct collect_item *item, const struct remote_shell *shell, bool used,
                       uint64_t bytes) {
    char line[REMOTE_LINE] = "";
    struct incoming incoming;
    const char *reason = incoming_begin(&incoming, directory, &item->stub);
    bool whole = receive(shell, &incoming, bytes, &reason) && remote_shell_line(shell, line);
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
static bool fetch_next(int directory, struct collect_item *item, const struct remote_shell *shell,
                       char reason[REMOTE_LINE]) {
    char line[REMOTE_LINE], state[8];
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

static void fetch(int directory, struct collect_item **items, size_t count, const struct collect_request *request) {
    struct remote_shell shell;
    char reason[REMOTE_LINE] = "";
    bool ready = script_begin(&shell, items[0], request) && fprintf(shell.script, "%s", sender) > 0;
    for (size_t i = 0; ready && i < count; i++)
        ready = fprintf(shell.script, "%s\n", items[i]->stub.path) > 0;
    ready =
        ready && fprintf(shell.script, LIST_END) > 0 && remote_shell_open(&shell, request->ssh, items[0]->stub.host);
    if (!ready)
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    else if (remote_shell_answers(&shell))
        for (size_t i = 0; i < count && fetch_next(directory, items[i], &shell, reason); i++)
            ;
    remote_shell_complain(&shell, reason);
    fail_rest(items, count, reason);
    for (size_t i = 0; strcmp(reason, REMOTE_REBOOTED) == 0 && i < count; i++)
        items[i]->is_gone = strncmp(items[i]->stub.path, "/dev/shm/", 9) == 0; /* the others may outlive a reboot */
    remote_shell_close(&shell);
}

/* ---- removing -------------------------------------------------------------------------------- */

static void take_removals(struct collect_item **items, size_t count, const struct remote_shell *shell,
                          char reason[REMOTE_LINE]) {
    char line[REMOTE_LINE];
    for (size_t i = 0; i < count; i++) {
        if (items[i]->state != COLLECT_DONE)
            continue;
        if (reason[0] || !next_answer(shell, line, reason)) {
            remote_shell_complain(shell, reason);
            snprintf(items[i]->not_removed, sizeof items[i]->not_removed, "%s", reason);
        } else if (strcmp(line, "removed") == 0) {
            items[i]->is_gone = true;
        } else {
            snprintf(items[i]->not_removed, sizeof items[i]->not_removed, "%s",
                     strncmp(line, "no ", 3) == 0 ? line + 3 : "the host's answer makes no sense");
        }
    }
}

static void remove_fetched(struct collect_item **items, size_t count, const struct collect_request *request) {
    struct remote_shell shell;
    char reason[REMOTE_LINE] = "";
    bool ready = script_begin(&shell, items[0], request) && fprintf(shell.script, "%s", remover) > 0;
    for (size_t i = 0; ready && i < count; i++)
        if (items[i]->state == COLLECT_DONE)
            ready = fprintf(shell.script, "%s %" PRIu32 " %" PRIu64 "\n", items[i]->stub.path, items[i]->sum,
                            items[i]->bytes) > 0;
    ready =
        ready && fprintf(shell.script, LIST_END) > 0 && remote_shell_open(&shell, request->ssh, items[0]->stub.host);
    if (!ready)
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    else if (!remote_shell_answers(&shell))
        remote_shell_complain(&shell, reason);
    take_removals(items, count, &shell, reason);
    remote_shell_close(&shell);
}

void collect_there(int directory, struct collect_item **items, size_t count, const struct collect_request *request) {
    if (!remote_shell_is_host(items[0]->stub.host)) {
        fail_rest(items, count, "the stub names an impossible host");
        return;
    }
    fetch(directory, items, count, request);
    for (size_t i = 0; request->remove && i < count; i++)
        if (items[i]->state == COLLECT_DONE) {
            remove_fetched(items, count, request);
            return;
        }
}
