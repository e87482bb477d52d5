/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test program says it did: one row (function, bytes of one call) -> number of calls, written at its end.
 * Lives here: that ledger and the digest of results. Must not live here: MPI calls, anything a single test needs.
 *
 * EXPECT_DIR names the directory for the ledgers; without it nothing is written.
 */
#ifndef COMMTAP_TEST_EXPECT_H
#define COMMTAP_TEST_EXPECT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT_ROWS 1024

struct expect_row {
    char op[48];
    long long bytes;
    long long count;
};

static struct expect_row expect_rows[EXPECT_ROWS];
static int expect_used;
static uint64_t expect_digest_value = 1469598103934665603ull;

/* `count` calls of `op` with `bytes` each. */
static inline void expect(const char *op, long long bytes, long long count) {
    for (int i = 0; i < expect_used; i++) {
        if (expect_rows[i].bytes == bytes && strcmp(expect_rows[i].op, op) == 0) {
            expect_rows[i].count += count;
            return;
        }
    }
    if (expect_used == EXPECT_ROWS) {
        fprintf(stderr, "expect: table full\n");
        abort();
    }
    snprintf(expect_rows[expect_used].op, sizeof expect_rows[0].op, "%s", op);
    expect_rows[expect_used].bytes = bytes;
    expect_rows[expect_used++].count = count;
}

/* Adds results to the digest that expect_write prints: equal digests, bitwise equal results. */
static inline void expect_digest(const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        expect_digest_value = (expect_digest_value ^ byte[i]) * 1099511628211ull;
}

/* Writes this process's ledger; `rank` only names the file. */
static inline void expect_write(int rank) {
    const char *directory = getenv("EXPECT_DIR");
    if (!directory)
        return;
    char path[4096];
    snprintf(path, sizeof path, "%s/expect.%d.%ld", directory, rank, (long)getpid());
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        abort();
    }
    for (int i = 0; i < expect_used; i++)
        fprintf(file, "%s %lld %lld\n", expect_rows[i].op, expect_rows[i].bytes, expect_rows[i].count);
    fprintf(file, "digest %016llx %d\n", (unsigned long long)expect_digest_value, rank);
    if (fclose(file) != 0)
        abort();
}

/* Makes a call of MPI that is in the ledger and must succeed. */
#define CALLED(op, bytes, call)                                                                                        \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != 0) {                                                                                              \
            fprintf(stderr, "%s returned %d\n", #op, code_);                                                           \
            exit(9);                                                                                                   \
        }                                                                                                              \
        expect(#op, (bytes), 1);                                                                                       \
    } while (0)

#endif
