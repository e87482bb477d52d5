/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions with frames of every shape, compiled once per set of compiler options; STEPS names the table of them.
 * Must not live here: what a stack should look like.
 */
#include <alloca.h>
#include <stdlib.h>
#include <string.h>

#include "test/stacks/steps.h"

#define STEP __attribute__((noinline)) static long

STEP small(int depth) {
    long below = go_on(depth);
    return below * 3 + depth;
}

STEP array(int depth) {
    char bytes[1000];
    touch(bytes);
    bytes[depth & 255] = 1;
    long below = go_on(depth);
    touch(bytes);
    return below + bytes[depth & 255];
}

STEP huge(int depth) {
    char bytes[40000];
    touch(bytes);
    long below = go_on(depth);
    touch(bytes);
    return below + 1;
}

STEP variable(int depth) {
    size_t n = 16 + 16 * draw(64);
    char *bytes = alloca(n);
    memset(bytes, 1, n);
    touch(bytes);
    long below = go_on(depth);
    look();
    return below + bytes[n - 1];
}

STEP aligned(int depth) {
    _Alignas(128) char bytes[256];
    touch(bytes);
    long below = go_on(depth);
    touch(bytes);
    return below ^ 5;
}

/* Realigned and of variable size at once. */
STEP aligned_variable(int depth) {
    _Alignas(64) char fixed[64];
    char *bytes = alloca(16 + 16 * draw(8));
    touch(fixed);
    touch(bytes);
    long below = go_on(depth);
    touch(fixed);
    return below ^ 9;
}

__attribute__((noinline)) static long many(long a, long b, long c, long d, long e, long f, long g, long h, long i,
                                           int depth) {
    long below = go_on(depth);
    return a + b + c + d + e + f + g + h + i + below;
}

STEP pushed_arguments(int depth) {
    return many(1, 2, 3, 4, 5, 6, 7, 8, 9, depth) + 1;
}

/* Keeps every register that a callee must save busy across the call. */
STEP registers(int depth) {
    long a = draw(9), b = draw(9), c = draw(9), d = draw(9), e = draw(9), f = draw(9);
    long below = go_on(depth);
    look();
    return a * b + c * d + e * f + below;
}

STEP early_return(int depth) {
    if (depth & 1)
        return go_on(depth) + 1;
    char bytes[64];
    touch(bytes);
    for (int i = 0; i < 2; i++)
        look();
    return go_on(depth) + bytes[0];
}

STEP recursion(int depth) {
    long below = depth > 0 && draw(4) ? recursion(depth - 1) : go_on(depth);
    return below + 1;
}

static int compare(const void *a, const void *b) {
    static int depth_left = 3;
    int x = *(const int *)a, y = *(const int *)b;
    if (depth_left > 0) {
        depth_left--;
        go_on(1);
        depth_left++;
    }
    return (x > y) - (x < y);
}

/* Through frames of libc. */
STEP callback(int depth) {
    int values[] = {3, 1, 2};
    qsort(values, 3, sizeof *values, compare);
    return values[0] + go_on(depth);
}

const step_function STEPS[] = {
    small,     array,     huge,         variable, aligned, aligned_variable, pushed_arguments,
    registers, recursion, early_return, callback, NULL};
