/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy: a file by which a machine's operator sets knobs for all jobs.
 * Lives here: what the library and `commtap env` must agree about: where it is, whose it may be, what a line says.
 * Must not live here: opening it, what knobs mean.
 * Header only, for the analyzer uses it, too; nothing but libc's string functions.
 *
 * A line is NAME=VALUE, for where the environment says nothing, or `fixed NAME=VALUE`, which holds whatever the
 * environment says. Of several lines with one name the last one counts. Empty lines and those that begin with # say
 * nothing. There are no quotes: a value goes to the end of the line, without blanks around it.
 */
#ifndef COMMTAP_SHIM_BASE_POLICY_FILE_H
#define COMMTAP_SHIM_BASE_POLICY_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "shim/base/knob_values.h"

#define POLICY_FILE "/etc/commtap.conf" /* where COMMTAP_POLICY names no other one */

enum {
    POLICY_BYTES = 16384,    /* a longer file is not taken */
    POLICY_LINE_BYTES = 2048 /* a longer line neither: room for a path and what is around it */
};

/* No link, nothing that waits (a FIFO), nothing that becomes a terminal. */
enum { POLICY_OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY };

/* `COMMTAP_POLICY=off`: there is none. */
static inline bool policy_is_off(const char *path) {
    return knob_is_word(path, "off");
}

/* Why an open file is not taken: whoever may write to it decides where jobs write. NULL: it is. */
static inline const char *policy_objection(const struct stat *status, uid_t user) {
    if (!S_ISREG(status->st_mode))
        return "it is no regular file";
    if (status->st_uid != 0 && status->st_uid != user)
        return "it belongs neither to root nor to the user";
    if (status->st_mode & (S_IWGRP | S_IWOTH))
        return "others than its owner may write to it";
    return status->st_size >= POLICY_BYTES ? "it is longer than 16383 bytes" : NULL;
}

/* A byte that is zero would hide all that is behind it: the policy is refused, with the offset between these. */
#define POLICY_ZERO_BEFORE "its byte at offset "
#define POLICY_ZERO_BEHIND " is zero, and a policy is text"

struct policy_line {
    unsigned number;    /* from 1; 0 before the first one */
    const char *wrong;  /* why it says nothing; NULL: the rest is filled */
    const char *name;   /* "NAME=VALUE", as in an environment */
    const char *value;  /* within that */
    size_t name_length; /* without = */
    bool fixed;
    char text[POLICY_LINE_BYTES];
};

static inline bool policy_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* A run's own name, and where the policy is, are not for a policy to say. */
static inline bool policy_is_no_setting(const struct policy_line *line) {
    static const char names[][16] = {"COMMTAP_POLICY", "COMMTAP_RUN_ID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == line->name_length && !memcmp(names[i], line->name, line->name_length))
            return true;
    return false;
}

static inline void policy_take_apart(struct policy_line *line) {
    static const char word[] = "fixed";
    const size_t length = sizeof word - 1;
    const char *at = line->text;
    line->fixed = !strncmp(at, word, length) && policy_is_blank(at[length]);
    at += line->fixed ? length : 0;
    while (policy_is_blank(*at))
        at++;
    const char *equals = strchr(at, '=');
    line->name = at;
    line->name_length = equals ? (size_t)(equals - at) : 0;
    line->value = equals ? equals + 1 : "";
    bool is_setting = equals && !strncmp(at, "COMMTAP_", 8) && !policy_is_blank(equals[-1]);
    line->wrong = !is_setting                  ? "it is no COMMTAP_NAME=VALUE"
                  : policy_is_no_setting(line) ? "a policy cannot set this"
                                               : NULL;
}

/* The next line that says something, from *at on, which ends with a zero and is moved behind the line. False: none. */
static inline bool policy_next(const char **at, struct policy_line *line) {
    while (**at) {
        const char *from = *at, *end = from + strcspn(from, "\n");
        *at = end + (*end == '\n');
        line->number++;
        while (from < end && policy_is_blank(*from))
            from++;
        while (end > from && policy_is_blank(end[-1]))
            end--;
        if (from == end || *from == '#')
            continue;
        size_t length = (size_t)(end - from);
        line->wrong = "it is longer than 2047 bytes";
        if (length < sizeof line->text) {
            memcpy(line->text, from, length);
            line->text[length] = '\0';
            policy_take_apart(line);
        }
        return true;
    }
    return false;
}

#endif
