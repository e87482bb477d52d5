/* SPDX-License-Identifier: Apache-2.0
 *
 * A program's own books: how often it called each function of NCCL and how many bytes that was, printed at its end.
 * Must not live here: anything that commtap tells.
 */
#ifndef COMMTAP_TEST_LEDGER_H
#define COMMTAP_TEST_LEDGER_H

#include <stdio.h>
#include <string.h>

static struct ledger_line {
    const char *function;
    unsigned long long calls, bytes;
} ledger[64];

static inline void ledger_add(const char *function, unsigned long long bytes) {
    struct ledger_line *line = ledger;
    while (line->function && strcmp(line->function, function))
        line++;
    line->function = function;
    line->calls++;
    line->bytes += bytes;
}

/* One line of JSON: {"ncclAllReduce": [calls, bytes], ...}. */
static inline void ledger_print(void) {
    printf("{");
    for (struct ledger_line *line = ledger; line->function; line++)
        printf("%s\"%s\": [%llu, %llu]", line == ledger ? "" : ", ", line->function, line->calls, line->bytes);
    printf("}\n");
}

#endif
