/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/archive/rows.h"

#include <string.h>

static const size_t widths[ROWS_KINDS] = {[ROWS_OF_16] = 16, [ROWS_OF_64] = 64};

/* The 32-bit word of each row less that of the row before it, byte by byte into columns. */
static void order_words(size_t width, size_t column, const uint8_t *from, uint8_t *to, size_t count) {
    uint32_t before = 0;
    for (size_t row = 0; row < count; row++) {
        uint32_t word;
        memcpy(&word, from + row * width + column, sizeof word);
        uint32_t more = word - before;
        before = word;
        for (size_t byte = 0; byte < sizeof word; byte++)
            to[(column + byte) * count + row] = (uint8_t)(more >> (8 * byte));
    }
}

static void restore_words(size_t width, size_t column, const uint8_t *from, uint8_t *to, size_t count) {
    uint32_t word = 0;
    for (size_t row = 0; row < count; row++) {
        for (size_t byte = 0; byte < sizeof word; byte++)
            word += (uint32_t)from[(column + byte) * count + row] << (8 * byte);
        memcpy(to + row * width + column, &word, sizeof word);
    }
}

typedef void words_function(size_t width, size_t column, const uint8_t *from, uint8_t *to, size_t count);

/* What is no whole row stays as it is behind them. */
static void by_words(enum rows rows, words_function *words, const uint8_t *from, uint8_t *to, size_t bytes) {
    size_t width = widths[rows], count = width > 0 ? bytes / width : 0;
    for (size_t column = 0; count > 0 && column < width; column += sizeof(uint32_t))
        words(width, column, from, to, count);
    memcpy(to + count * width, from + count * width, bytes - count * width);
}

void rows_order(enum rows rows, const uint8_t *from, uint8_t *to, size_t bytes) {
    by_words(rows, order_words, from, to, bytes);
}

void rows_restore(enum rows rows, const uint8_t *from, uint8_t *to, size_t bytes) {
    by_words(rows, restore_words, from, to, bytes);
}
