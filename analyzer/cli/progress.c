/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/progress.h"

#include <stdio.h>
#include <unistd.h>

struct progress_line progress_begin(const char *doing) {
    return (struct progress_line){.doing = doing, .terminal = isatty(STDERR_FILENO)};
}

void progress_show(void *context, unsigned permille) {
    struct progress_line *line = context;
    unsigned percent = permille / 10;
    if (!line->terminal || (line->shown && percent == line->percent))
        return;
    line->shown = true;
    line->percent = percent;
    fprintf(stderr, "\rcommtap: %s %u %%", line->doing, percent);
    fflush(stderr);
}

void progress_end(struct progress_line *line) {
    if (line->shown)
        fputs("\r\033[K", stderr);
    line->shown = false;
}
