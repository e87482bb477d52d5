/* SPDX-License-Identifier: Apache-2.0
 *
 * Environment variables that are numbers or switches: what the library and `commtap env` must agree about, how they are
 * read and what holds where a number is given that the library cannot take.
 * Must not live here: other kinds of values (knobs.c).
 * Header only, for the analyzer uses it, too; nothing but libc's string functions.
 */
#ifndef COMMTAP_SHIM_BASE_KNOB_VALUES_H
#define COMMTAP_SHIM_BASE_KNOB_VALUES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    KNOBS_MODE_OWNER = 600,
    KNOBS_MODE_GROUP = 640, /* as written, in octal digits */
    KNOBS_RING_MIN = 16,
    KNOBS_RING_MAX = 16 << 20,
    KNOBS_STACK_DEPTH_MAX = 1024
};

/* `word` is in lower case. */
static inline bool knob_is_word(const char *text, const char *word) {
    for (; *text && *word; text++, word++)
        if ((*text >= 'A' && *text <= 'Z' ? *text + 'a' - 'A' : *text) != *word)
            return false;
    return !*text && !*word;
}

/* 0, off, no, false; 1, on, yes, true; in either case. */
static inline bool knob_switch(const char *text, bool *value) {
    static const char words[2][4][8] = {{"0", "off", "no", "false"}, {"1", "on", "yes", "true"}};
    for (int on = 0; on < 2; on++)
        for (int i = 0; i < 4; i++)
            if (knob_is_word(text, words[on][i])) {
                *value = on;
                return true;
            }
    return false;
}

/* Digits, and K, M, G or T behind them in either case. */
static inline bool knob_number(const char *text, uint64_t *value) {
    static const char suffixes[] = "kmgtKMGT";
    uint64_t number = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    const char *suffix = *p ? strchr(suffixes, *p) : NULL;
    unsigned shift = suffix ? 10 * (unsigned)((suffix - suffixes) % 4 + 1) : 0;
    if (p == text || p[suffix != NULL] || number > UINT64_MAX >> shift)
        return false;
    *value = number << shift;
    return true;
}

/* Records that a ring is given: the next power of two, as far as there are any. */
static inline uint64_t knob_ring(uint64_t wanted) {
    uint64_t records = KNOBS_RING_MIN;
    while (records < wanted && records < KNOBS_RING_MAX)
        records *= 2;
    return records;
}

static inline uint64_t knob_stack_depth(uint64_t wanted) {
    return wanted < 1 ? 1 : wanted > KNOBS_STACK_DEPTH_MAX ? KNOBS_STACK_DEPTH_MAX : wanted;
}

static inline uint64_t knob_mode(uint64_t wanted) {
    return wanted == KNOBS_MODE_GROUP ? KNOBS_MODE_GROUP : KNOBS_MODE_OWNER;
}

#endif
