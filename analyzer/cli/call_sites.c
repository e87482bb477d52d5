/* SPDX-License-Identifier: Apache-2.0
 *
 * The options about call sites.
 * Lives here: reading them.
 * Must not live here: what is done with stacks.
 */
#include "analyzer/cli/call_sites.h"

#include <errno.h>
#include <string.h>

#include "analyzer/cli/input.h"
#include "analyzer/base/regular_file.h"

static int refuse_skip(const struct options *options, enum skip_result result, const char *text) {
    if (result == SKIP_NO_MEMORY)
        return input_no_memory();
    fprintf(stderr,
            "commtap %s: --skip-frames takes module:GLOB, function:GLOB, file:GLOB or a file of these: %.200s%s%s\n",
            options->command->name, text, result == SKIP_NO_FILE ? ": " : "",
            result == SKIP_NO_FILE ? regular_file_error(errno) : " is or holds none");
    return EXIT_USAGE;
}

int call_sites_open(struct call_sites *sites, const struct options *options, struct dump *const *dumps, size_t count) {
    *sites = (struct call_sites){0};
    if (!skip_list_init(&sites->skip))
        return input_no_memory();
    size_t position = 0;
    const char *text;
    while ((text = option_next(options, "skip-frames", &position)) != NULL) {
        enum skip_result result = skip_list_add(&sites->skip, text);
        if (result != SKIP_OK)
            return refuse_skip(options, result, text);
    }
    sites->symbols = symbols_new(dumps, count, option_text(options, "debug-dir"));
    return sites->symbols ? EXIT_FINE : input_no_memory();
}

void call_sites_close(struct call_sites *sites) {
    symbols_free(sites->symbols);
    skip_list_free(&sites->skip);
    *sites = (struct call_sites){0};
}
