/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's knobs as they are set here, by the environment and the operator's policy: the value in force of each,
 * where it is from, and what is wrong with it. Lives here: what `commtap env` and `commtap doctor` say alike. Must not
 * live here: printing, what a knob does.
 */
#ifndef COMMTAP_CLI_KNOBS_H
#define COMMTAP_CLI_KNOBS_H

#include <stdbool.h>
#include <stddef.h>

struct knob {
    const char *name, *type, *fallback, *doc;
};

enum {
#define KNOB(field, name, type, fallback, doc) KNOB_OF_##field,
#include "shim/knobs.def"
#undef KNOB
    KNOBS
};

/* Where the value in force is from. */
enum knob_source {
    KNOB_FROM_DEFAULT = 0,
    KNOB_FROM_POLICY,
    KNOB_FROM_ENVIRONMENT,
    KNOB_FIXED_BY_POLICY,
};

struct knob_setting {
    const struct knob *knob;
    const char *value; /* in force */
    enum knob_source source;
    char number[24];   /* private */
    char *from_policy; /* private; owned */
    bool is_fixed;     /* private */
};

struct knobs_here {
    struct knob_setting settings[KNOBS];
    char
        *policy; /* path of the policy that was found, or looked for where COMMTAP_POLICY names it; NULL: none; owned */
};

/* Something about a setting that its user should know. */
struct knob_complaint {
    const char *where; /* line of the policy, or the policy as a whole; NULL: it is the environment's */
    const char *name;  /* NULL: it is about no knob, `why` says it all */
    const char *given; /* NULL: no knob has that name */
    const char *why;   /* "is not understood" */
    const char *used;  /* value in force; NULL where `given` is NULL */
    const char *near;  /* the name that was meant, or NULL */
};
typedef void knob_complain(void *context, const struct knob_complaint *complaint);

/* Looks at the policy and the environment, and complains of what the library cannot take. False where memory is short;
 * knobs_free in any case. */
bool knobs_in_force(struct knobs_here *here, knob_complain *complain, void *context);
void knobs_free(struct knobs_here *here);
/* Names of all knobs, in the order of their table; NULL behind the last. */
const char *knob_name_at(size_t index);
/* The value in force of one, by its name; "" where it has none. */
const char *knobs_value(const struct knobs_here *here, const char *name);
/* Complains of variables that begin like ours and are none. */
void knobs_unknown(knob_complain *complain, void *context);

#endif
