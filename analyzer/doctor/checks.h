/* SPDX-License-Identifier: Apache-2.0
 *
 * What `commtap doctor` has to say: a list of facts, each with how it bears on recording, and what to do about it.
 * Lives here: the list. Must not live here: looking at anything, printing.
 */
#ifndef COMMTAP_DOCTOR_CHECKS_H
#define COMMTAP_DOCTOR_CHECKS_H

#include <stdbool.h>
#include <stddef.h>

enum check_state {
    CHECK_FINE = 0, /* seen, or no hindrance */
    CHECK_PART,     /* something of the job will not be seen, or not as the user asked for it */
    CHECK_BLOCKED,  /* nothing of the job will be seen, or it will not start */
};

struct check {
    enum check_state state;
    const char *subject; /* one word, static */
    char *text;
    char *remedy; /* NULL: nothing needs to be done, or nothing can be */
};

struct checks {
    struct check *items;
    size_t count;
    bool no_memory; /* some could not be added */
};

/* Adds one; text and remedy are formatted as by printf, and parted by '\n' where there is a remedy. */
__attribute__((format(printf, 4, 5))) void checks_add(struct checks *checks, enum check_state state,
                                                      const char *subject, const char *format, ...);
void checks_free(struct checks *checks);

const char *check_state_name(enum check_state state);
/* The worst state of all. */
enum check_state checks_worst(const struct checks *checks);

#endif
