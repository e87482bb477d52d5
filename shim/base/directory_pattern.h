/* SPDX-License-Identifier: Apache-2.0
 *
 * COMMTAP_DIR with %j, %u, %h, %p, %r: job, user, host, process, rank.
 * Lives here: what the library and `commtap run` must agree about: how a pattern is written out, and which variables
 * tell the job and the user. Must not live here: making the directory.
 * Header only, for the analyzer uses it, too; nothing but libc's getenv, getuid and string functions.
 */
#ifndef COMMTAP_SHIM_BASE_DIRECTORY_PATTERN_H
#define COMMTAP_SHIM_BASE_DIRECTORY_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What each letter stands for, never NULL. */
struct directory_words {
    const char *job, *user, *host, *process, *rank;
    const char *percent; /* %% */
};

static inline const char *directory_word_of(const struct directory_words *words, char letter) {
    switch (letter) {
    case 'j':
        return words->job;
    case 'u':
        return words->user;
    case 'h':
        return words->host;
    case 'p':
        return words->process;
    case 'r':
        return words->rank;
    case '%':
        return words->percent;
    default:
        return NULL;
    }
}

/* The first % that stands for nothing, NULL where there is none. */
static inline const char *directory_pattern_mistake(const char *pattern) {
    static const struct directory_words any = {"", "", "", "", "", ""};
    for (const char *p = pattern; (p = strchr(p, '%')) != NULL; p += 2)
        if (!directory_word_of(&any, p[1]))
            return p;
    return NULL;
}

/* Writes out a pattern without mistakes. False where it does not fit. */
static inline bool directory_pattern_expand(char *to, size_t size, const char *pattern,
                                            const struct directory_words *words) {
    size_t used = 0;
    for (const char *p = pattern; *p; p++) {
        const char *word = *p == '%' ? directory_word_of(words, *++p) : p;
        size_t length = word == p ? 1 : strlen(word);
        if (used + length >= size)
            return false;
        memcpy(to + used, word, length);
        used += length;
    }
    to[used] = '\0';
    return true;
}

/* A value from the environment as part of a file name: no slash, no leading dot, nothing that a shell would take apart.
 * "x" where it is empty or NULL. */
static inline void directory_clean_word(char *to, size_t size, const char *value) {
    static const char kept[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = 0;
    for (const char *p = value && *value ? value : "x"; *p && length + 1 < size; p++, length++)
        to[length] = (char)(strchr(kept, *p) && (*p != '.' || length > 0) ? *p : '_');
    to[length] = '\0';
}

/* The job's id as its batch system tells it, else torchrun's; NULL where nobody does. */
static inline const char *directory_job_id(void) {
    static const struct {
        char name[20], also[12]; /* `also`: says that it is this batch system's, where others use the name, too */
    } variables[] = {{"SLURM_JOB_ID", ""},   {"SLURM_JOBID", ""},        {"PBS_JOBID", ""},    {"LSB_JOBID", ""},
                     {"FLUX_JOB_ID", ""},    {"PJM_JOBID", ""},          {"COBALT_JOBID", ""}, {"OAR_JOB_ID", ""},
                     {"JOB_ID", "SGE_ROOT"}, {"TORCHELASTIC_RUN_ID", ""}};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i].name);
        if (value && *value && strcmp(value, "none") != 0 && (!*variables[i].also || getenv(variables[i].also)))
            return value;
    }
    return NULL;
}

/* Whose job it is, also in a prolog or epilog that runs as root; NULL where the environment does not tell. The password
 * file is not asked: that may take a server. */
static inline const char *directory_user(void) {
    static const char variables[][16] = {"SLURM_JOB_USER", "USER", "LOGNAME"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *user = getenv(variables[i]);
        if (user && *user)
            return user;
    }
    return NULL;
}

/* The same as part of a file name; the number where the environment does not tell the name. */
static inline void directory_user_word(char *to, size_t size, const char *user) {
    char digits[24], *p = digits + sizeof digits - 1;
    *p = '\0';
    for (unsigned long uid = getuid(); p == digits + sizeof digits - 1 || uid > 0; uid /= 10)
        *--p = (char)('0' + uid % 10);
    directory_clean_word(to, size, user && *user ? user : p);
}

#endif
