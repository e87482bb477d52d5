/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of environment variables: what the library and `commtap env` must agree about, how numbers, switches and words
 * are read and what holds where a number is given that the library cannot take.
 * Must not live here: what the values mean, patterns (knobs.c).
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

/* Per cent with up to four decimals, 0 to 100, in millionths of the whole. */
static inline bool knob_percent(const char *text, uint64_t *millionths) {
    uint64_t value = 0, scale = 10000;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && value <= 100; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    bool any = p > text;
    value *= scale;
    if (any && *p == '.')
        for (p++; *p >= '0' && *p <= '9' && scale > 1; p++)
            value += (uint64_t)(*p - '0') * (scale /= 10);
    if (!any || *p || value > 1000000)
        return false;
    *millionths = value;
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

/* The words that a knob takes; NULL: it takes other values. */
static inline const char *knob_words(const char *name) {
    return strcmp(name, "COMMTAP_STACK") == 0        ? "off site native python full"
           : strcmp(name, "COMMTAP_KEEP") == 0       ? "all summary"
           : strcmp(name, "COMMTAP_GPU_TIMING") == 0 ? "auto events kernel host off"
                                                     : NULL;
}

static inline bool knob_is_one_of(const char *words, const char *text) {
    size_t length = strcspn(text, " ");
    if (text[length] != '\0') /* two of them are none */
        return false;
    for (const char *word = words; word && length > 0 && (word = strstr(word, text)) != NULL; word += length)
        if ((word == words || word[-1] == ' ') && (word[length] == ' ' || word[length] == '\0'))
            return true;
    return false;
}

/* "0,4-7" */
static inline bool knob_is_rank_list(const char *text) {
    const char digits[] = "0123456789";
    while (*text) {
        size_t first = strspn(text, digits), last = text[first] == '-' ? strspn(text + first + 1, digits) : 0;
        if (first == 0 || (text[first] == '-' && last == 0))
            return false;
        text += first + (last ? 1 + last : 0);
        if (*text && *text++ != ',')
            return false;
    }
    return true;
}

/* The names of ranges in "nvtx:NAME", "" in anything else. */
static inline const char *knob_region_ranges(const char *text) {
    return strncmp(text, "nvtx:", 5) == 0 ? text + 5 : "";
}

/* Of COMMTAP_REGION. */
static inline bool knob_region_is_sound(const char *text) {
    return knob_is_one_of("profiler pcontrol", text) || *knob_region_ranges(text);
}

/* Of COMMTAP_VERBOSE. */
static inline bool knob_verbose_is_sound(const char *text) {
    return knob_is_one_of("off 0 no false all on 1 yes true", text) ||
           (strncmp(text, "ranks:", 6) == 0 && text[6] && knob_is_rank_list(text + 6));
}

#endif
