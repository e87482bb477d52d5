/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's environment variables as they are set here: the value in force of each, and what is wrong with it.
 * Lives here: what `commtap env` and `commtap doctor` say alike. Must not live here: printing, what a knob does.
 */
#ifndef COMMTAP_CLI_KNOBS_H
#define COMMTAP_CLI_KNOBS_H

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

struct knob_setting {
    const struct knob *knob;
    const char *value; /* in force */
    char number[24];   /* private */
};

/* Something about a variable of the environment that its user should know. */
struct knob_complaint {
    const char *name, *given; /* given NULL: no knob has that name */
    const char *why;          /* "is not understood" */
    const char *used;         /* value in force; NULL where `given` is NULL */
    const char *near;         /* the name that was meant, or NULL */
};
typedef void knob_complain(void *context, const struct knob_complaint *complaint);

/* Fills settings[KNOBS] and complains of values that the library cannot take. */
void knobs_in_force(struct knob_setting *settings, knob_complain *complain, void *context);
/* Complains of variables that begin like ours and are none. */
void knobs_unknown(knob_complain *complain, void *context);

#endif
