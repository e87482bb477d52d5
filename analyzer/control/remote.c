/* SPDX-License-Identifier: Apache-2.0
 *
 * On the host a directory is made that holds the stubs of its processes and nothing else, and commtap there is called
 * on it: it finds the staged dumps by their stubs, as it does where the job's own directory is shared. Stubs are
 * written anew from what was understood of them; the words of an order are quoted. What comes back is not trusted: it
 * is bounded, and what it says of processes that were not asked for is passed over.
 */
#include "analyzer/control/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/remote_shell.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/dumps/stub.h"

enum { ANSWER_MOST = 1 << 24, PATH_MOST = 4096 };

/* Stands before the paths of commtap that are tried; the one where this commtap lies is the user's or root's, or none.
 */
static const char search[] =
    "is_safe() { [ -n \"$(find -L \"$1\" -prune -type f '(' -user \"$me\" -o -user 0 ')' 2>/dev/null)\" ]; }\n"
    "program=$(command -v commtap) || program=\n"
    "if is_safe \"$own\" && \"$own\" --version >/dev/null 2>&1; then program=$own; fi\n"
    "if [ -z \"$program\" ]; then echo 'away no commtap there, neither where this one lies nor in the PATH that ssh "
    "gives: install it there, or give the order on that host'; exit 0; fi\n"
    "here=$(mktemp -d) || exit 1\n"
    "trap 'rm -rf \"$here\"' EXIT\n"
    "trap 'exit 1' HUP INT TERM\n"
    "mkdir \"$here/dumps\" || exit 1\n"
    "cd \"$here/dumps\" || exit 1\n";

/* Stands before the words of the order. The answer: what commtap complained of, its document, an end;
 * nothing is left before it is sent. Where nobody lives it has no document, unless it is only asked. */
static const char giving[] =
    "give() { \"$program\" ctl --format json \"$@\" >\"$here/answer\" 2>\"$here/said\" </dev/null; code=$?; }\n"
    "answer() {\n"
    "    exec 3<\"$here/answer\" 4<\"$here/said\"\n"
    "    rm -rf \"$here\"\n"
    "    echo \"said $(head -n 1 <&4 | cut -c 1-200)\"\n"
    "    cat <&3\n"
    "    echo END_OF_ANSWER\n"
    "}\n";

#define ANSWER_END "END_OF_ANSWER\n"

/* A process with its stub as it was understood. */
struct asked {
    struct remote_process *item;
    struct stub stub;
};

/* One host's share of them. */
struct remote_host {
    struct asked *asked;
    size_t count;
};

struct remote_work {
    const struct remote_order *order;
    struct remote_host *hosts;
    size_t count;
};

/* ---- what is asked --------------------------------------------------------------------------- */

static void write_stub(const struct remote_shell *shell, const struct stub *stub) {
    int stem = (int)(strlen(stub->dump_name) - strlen(FORMAT_FILE_SUFFIX));
    fputs("printf '%s\\n' host=", shell->script);
    remote_shell_quote(shell, stub->host);
    fputs(" boot_id=", shell->script);
    remote_shell_quote(shell, stub->boot_id);
    fputs(" path=", shell->script);
    remote_shell_quote(shell, stub->path);
    fprintf(shell->script, " pid=%" PRId64 " rank=%" PRId32 " >'%.*s" FORMAT_STUB_SUFFIX "'\n", stub->pid, stub->rank,
            stem, stub->dump_name);
}

static void write_own_path(const struct remote_shell *shell) {
    char path[PATH_MOST];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    fputs("own=", shell->script);
    remote_shell_quote(shell, path);
    fputc('\n', shell->script);
}

static void write_call(const struct remote_shell *shell, const struct remote_order *order, const char *word) {
    fputs("give --wait ", shell->script);
    remote_shell_quote(shell, order->wait);
    if (order->ranks) {
        fputs(" --rank ", shell->script);
        remote_shell_quote(shell, order->ranks);
    }
    fputs(" -- .", shell->script);
    for (const char *const words[] = {word, word ? order->text : NULL}, *const *next = words; next < words + 2 && *next;
         next++) {
        fputc(' ', shell->script);
        remote_shell_quote(shell, *next);
    }
    fputc('\n', shell->script);
}

static bool ask(struct remote_shell *shell, const struct remote_host *host, const struct remote_order *order) {
    if (!remote_shell_begin(shell, host->asked->stub.boot_id))
        return false;
    shell->patience_ms = order->patience_ms;
    write_own_path(shell);
    fputs(search, shell->script);
    for (size_t i = 0; i < host->count; i++)
        write_stub(shell, &host->asked[i].stub);
    fputs(giving, shell->script);
    write_call(shell, order, order->word);
    if (order->word) { /* says nothing of those that are over where nobody else is there */
        fputs("[ \"$code\" -ne 3 ] || [ -s \"$here/answer\" ] || ", shell->script);
        write_call(shell, order, NULL);
    }
    fputs("answer\n", shell->script);
    return remote_shell_open(shell, order->ssh, host->asked->stub.host);
}

static void say_trouble(struct controlled *process, const char *why) {
    snprintf(process->trouble, sizeof process->trouble, "%.*s", (int)sizeof process->trouble - 1, why);
}

/* ---- what is answered ------------------------------------------------------------------------ */

/* All that follows, up to its end. NULL where that is missing, it is too large or memory is short. The caller frees. */
static char *read_document(const struct remote_shell *shell, size_t *bytes) {
    char *text = malloc(ANSWER_MOST);
    const size_t end = strlen(ANSWER_END);
    size_t length = text ? fread(text, 1, ANSWER_MOST, shell->answer) : 0;
    if (length < ANSWER_MOST && length >= end && memcmp(text + length - end, ANSWER_END, end) == 0) {
        *bytes = length - end;
        return text;
    }
    free(text);
    return NULL;
}

static const char *text_in(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static uint32_t number_in(const json_t *row, const char *key) {
    json_int_t number = json_integer_value(json_object_get(row, key));
    return number > 0 ? number < UINT32_MAX ? (uint32_t)number : UINT32_MAX : 0;
}

#define COPY(FIELD, KEY) snprintf(FIELD, sizeof(FIELD), "%s", text_in(row, KEY))

static void take_row(struct remote_process *item, const json_t *row) {
    struct controlled *process = item->process;
    const json_t *rank = json_object_get(row, "rank"), *since = json_object_get(row, "since_seconds");
    const char *recording = text_in(row, "recording");
    double seconds = json_is_number(since) ? json_number_value(since) : -1;
    item->answered = true;
    item->since_ns = seconds >= 0 && seconds < 9e9 ? (int64_t)(seconds * 1e9) : -1;
    COPY(item->doing, "doing");
    COPY(item->refused, "refused");
    COPY(process->trouble, "why");
    COPY(process->wishes.verbose, "verbose");
    COPY(process->wishes.operations, "ops");
    COPY(process->wishes.stack, "stack");
    if (process->rank < 0 && json_is_integer(rank) && json_integer_value(rank) >= 0)
        process->rank = (int32_t)(json_integer_value(rank) & INT32_MAX);
    process->answers = recording[0] != '\0';
    process->answer.paused_since = strcmp(recording, "paused") == 0;
    process->answer.pauses = number_in(row, "pauses");
    process->answer.epoch = number_in(row, "epoch");
}

/* A row of nobody who was asked for is passed over. */
static void take_answer(const struct remote_host *host, const json_t *row) {
    json_int_t pid = json_integer_value(json_object_get(row, "pid"));
    int state = order_state_named(text_in(row, "answer"));
    const json_t *rank = json_object_get(row, "rank");
    for (size_t i = 0; state >= 0 && i < host->count; i++) {
        struct remote_process *item = host->asked[i].item;
        if (item->answered || item->process->pid != pid ||
            (item->process->rank >= 0 && item->process->rank != json_integer_value(rank)))
            continue;
        take_row(item, row);
        item->process->state = (enum order_state)state;
        return;
    }
}

static void take_document(const struct remote_host *host, const char *text, size_t bytes) {
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *rows = json_object_get(root, "processes");
    for (size_t i = 0; strcmp(text_in(root, "schema"), "commtap.ctl/1") == 0 && i < json_array_size(rows); i++)
        take_answer(host, json_array_get(rows, i));
    json_decref(root);
}

/* What commtap complained of, if it did; then its document. */
static void take_all(const struct remote_host *host, const struct remote_shell *shell, char reason[REMOTE_LINE]) {
    char line[REMOTE_LINE];
    size_t bytes = 0;
    if (!remote_shell_line(shell, line) || remote_shell_is_away(line, reason) || strncmp(line, "said ", 5) != 0)
        return;
    char *text = read_document(shell, &bytes);
    if (text) {
        take_document(host, text, bytes);
        snprintf(reason, REMOTE_LINE, "%s", line[5] ? line + 5 : "commtap there does not find it");
    }
    free(text);
}

static void ask_host(void *context, size_t number) {
    const struct remote_work *work = context;
    const struct remote_host *host = &work->hosts[number];
    struct remote_shell shell;
    char reason[REMOTE_LINE] = "";
    if (!ask(&shell, host, work->order))
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    else if (remote_shell_answers(&shell))
        take_all(host, &shell, reason);
    remote_shell_complain(&shell, reason);
    remote_shell_close(&shell);
    for (size_t i = 0; i < host->count; i++)
        if (!host->asked[i].item->answered)
            say_trouble(host->asked[i].item->process, reason);
}

/* ---- host by host ---------------------------------------------------------------------------- */

/* A stub that somebody else wrote names no host that ssh is called with. */
static bool may_be_asked(struct asked *asked, struct remote_process *item) {
    const char *damage = stub_read(AT_FDCWD, item->stub->path, &asked->stub);
    asked->item = item;
    if (!damage && asked->stub.owner != geteuid())
        damage = "belongs to another user, who alone gives it orders";
    if (!damage && !remote_shell_is_host(asked->stub.host))
        damage = "names an impossible host";
    if (damage)
        snprintf(item->process->trouble, sizeof item->process->trouble, "its stub %s", damage);
    return !damage;
}

static int compare_hosts(const struct asked *a, const struct asked *b) {
    int order = strcmp(a->stub.host, b->stub.host);
    return order ? order : strcmp(a->stub.boot_id, b->stub.boot_id);
}

static int compare_asked(const void *a, const void *b) {
    return compare_hosts(a, b);
}

static void split_by_host(struct remote_work *work, struct asked *asked, size_t count) {
    if (count > 0)
        qsort(asked, count, sizeof *asked, compare_asked);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_hosts(&asked[i - 1], &asked[i]) != 0)
            work->hosts[work->count++] = (struct remote_host){.asked = &asked[i]};
        work->hosts[work->count - 1].count++;
    }
}

bool control_give_there(struct remote_process *processes, size_t count, const struct remote_order *order) {
    struct remote_work work = {.order = order, .hosts = calloc(count + 1, sizeof *work.hosts)};
    struct asked *asked = calloc(count + 1, sizeof *asked);
    bool enough_memory = work.hosts && asked;
    size_t sound = 0;
    for (size_t i = 0; enough_memory && i < count; i++)
        sound += may_be_asked(&asked[sound], &processes[i]);
    if (enough_memory) {
        split_by_host(&work, asked, sound);
        side_by_side(order->at_once, work.count, ask_host, &work);
    }
    free(work.hosts);
    free(asked);
    return enough_memory;
}
