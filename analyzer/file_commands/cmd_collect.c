/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap collect: dumps that a job staged on its nodes come into its output directory. commtap-collect is this
 * command. Lives here: its options, its messages, what is tidied up when a signal ends it. Must not live here: how a
 * dump is fetched (collect/), reading dumps.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/collect/collect.h"
#include "analyzer/collect/incoming.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/options.h"
#include "analyzer/dumps/directories.h"
#include "analyzer/dumps/process.h"
#include "analyzer/render/escape.h"

enum { AT_ONCE_MAX = 128 };

static void abandon(int signal) {
    incoming_abandon_all();
    raise(signal); /* the handler is gone: SA_RESETHAND */
}

static void tidy_up_on_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    const struct sigaction action = {.sa_handler = abandon, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

static void say_item(const struct collect_item *item, const char *reason) {
    fputs("commtap-collect: ", stderr);
    if (item->stub.path[0]) {
        if (item->stub.rank >= 0)
            fprintf(stderr, "rank %d on ", (int)item->stub.rank);
        escape_text(stderr, item->stub.host);
        fputs(": ", stderr);
    }
    escape_text(stderr, item->stub.path[0] ? item->stub.path : item->stub_name);
    fputs(": ", stderr);
    escape_text(stderr, reason);
    fputc('\n', stderr);
}

static int say_collected(const struct collection *collection, const char *directory, bool remove) {
    size_t fetched = 0, used = 0, left = 0;
    for (size_t i = 0; i < collection->count; i++) {
        const struct collect_item *item = &collection->items[i];
        if (item->state == COLLECT_NOT)
            say_item(item, item->reason);
        if (item->not_removed[0]) {
            fputs("commtap-collect: copied but not removed: ", stderr);
            say_item(item, item->not_removed);
        }
        fetched += item->state != COLLECT_NOT;
        used += item->state == COLLECT_STILL_USED;
        left += item->not_removed[0] != '\0';
    }
    printf("commtap-collect: %zu of %zu dumps fetched from %zu host%s into ", fetched, collection->count,
           collection->hosts, collection->hosts == 1 ? "" : "s");
    escape_text(stdout, directory);
    fputc('\n', stdout);
    if (!remove && fetched > used)
        printf("commtap-collect: what was fetched lies on its nodes, too, until they are started anew; the same with\n"
               "--remove deletes it there\n");
    if (used > 0)
        printf("commtap-collect: %zu of them are still written to: collect again when their processes have ended\n",
               used);
    return fetched == collection->count && left == 0 ? EXIT_FINE : EXIT_FINDINGS;
}

static int collect(int directory, const char *shown, const struct collect_request *request) {
    struct collection collection;
    int code = EXIT_FINE;
    tidy_up_on_signals();
    if (!collect_all(&collection, directory, request)) {
        fputs("commtap-collect: ", stderr);
        escape_text(stderr, shown);
        fprintf(stderr, ": %s\n", strerror(errno));
        code = EXIT_OUTPUT;
    } else if (collection.count > 0) {
        code = say_collected(&collection, shown, request->remove);
    } else {
        fputs("commtap-collect: nothing to fetch for ", stdout);
        escape_text(stdout, shown);
        fputc('\n', stdout);
    }
    collect_free(&collection);
    return code;
}

static int refuse_directory(const char *shown) {
    int error = errno;
    fputs("commtap-collect: ", stderr);
    escape_text(stderr, shown);
    fprintf(stderr, ": %s\n", regular_file_error(error));
    return EXIT_USAGE;
}

/* One directory that was named: itself, or those below it that hold dumps or stubs. */
static int collect_place(const char *place, const struct collect_request *request) {
    struct names found = {0};
    int worst = EXIT_FINE;
    enum directories_result search = directories_find(place, &found);
    if (search == DIRECTORIES_FOUND && found.count == 0 && !names_add(&found, strdup(place)))
        search = DIRECTORIES_NO_MEMORY;
    if (search != DIRECTORIES_FOUND)
        worst = search == DIRECTORIES_UNREADABLE ? refuse_directory(place) : input_no_memory();
    for (size_t i = 0; search == DIRECTORIES_FOUND && i < found.count; i++) {
        int directory = open(found.items[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int code = directory < 0 ? refuse_directory(found.items[i]) : collect(directory, found.items[i], request);
        if (directory >= 0)
            close(directory);
        worst = code > worst ? code : worst;
    }
    names_free(&found);
    return worst;
}

static int run(const struct options *options) {
    const char *jobs = option_text(options, "jobs");
    char boot_id[64] = "", *end;
    errno = 0;
    long at_once = strtol(jobs, &end, 10);
    if (errno || *end || end == jobs || at_once < 1) {
        fprintf(stderr, "commtap-collect: --jobs takes a number from 1 up, not '%s'\n", jobs);
        return EXIT_USAGE;
    }
    process_boot_id(boot_id, sizeof boot_id); /* where it is unknown every host is another one */
    const struct collect_request request = {.ssh = option_text(options, "ssh"),
                                            .at_once = at_once < AT_ONCE_MAX ? (unsigned)at_once : AT_ONCE_MAX,
                                            .remove = option_given(options, "remove"),
                                            .boot_id = boot_id};
    int worst = EXIT_FINE;
    for (size_t i = 0; i < options->argument_count; i++) {
        int code = collect_place(options->arguments[i], &request);
        worst = code > worst ? code : worst;
    }
    return worst;
}

static const struct option option_rows[] = {
    {.name = "jobs", .argument = "N", .fallback = "16", .doc = "hosts asked at a time, at most 128"},
    {.name = "ssh",
     .argument = "COMMAND",
     .fallback = "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 -o ServerAliveCountMax=4",
     .doc = "how a host is reached: these words, split at blanks, and the host's name"},
    {.name = "remove", .doc = "delete each staged file once it is fetched, those that earlier calls fetched as well"},
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap collect DIR", "dumps that a killed job left on its nodes"},
    {"commtap collect --remove DIR", "likewise, and free their place there"},
    {NULL, NULL},
};

const struct command command_collect = {
    .name = "collect",
    .company = COMPANY_NONE,
    .summary = "fetch dumps that a killed job left on its nodes (commtap-collect)",
    .arguments = "DIR...",
    .details =
        "For each stub commtap.<run id>.<16 hex>.stub in DIR the dump is copied from where its process staged it, by\n"
        "your own ssh, each host being asked once. Only what the library can have written is touched: regular files\n"
        "that belong to you, named like their stub, in /dev/shm, /tmp or /var/tmp, that hold the dump of the stub's\n"
        "process. Once its dump has been copied and compared, a stub is renamed to .staged, by which --remove finds "
        "the\n"
        "dump on its node, now or later; one that is damaged stays. What still grows is copied as it is, and keeps "
        "its\n"
        "stub. Nothing in DIR is replaced but an earlier copy of the same dump.\n"
        "Run it as the user of the job: root, too, collects only what is root's.\n",
    .exits = "Exits with 0 where all is collected, 1 where something is not, or was not removed though --remove was\n"
             "given; with 2 on wrong usage, 4 where memory is short.\n",
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .examples = examples,
    .run = run,
};
