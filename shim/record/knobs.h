/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of the environment variables in knobs.def, and what the operator's policy says of them.
 * Lives here: reading and checking them once, in the constructor; complaints, told at activation.
 * Must not live here: what a value means to the part that uses it, reading the policy's file (policy.h).
 */
#ifndef COMMTAP_SHIM_RECORD_KNOBS_H
#define COMMTAP_SHIM_RECORD_KNOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/base/knob_values.h"

typedef char knob_STRING[4096];
typedef bool knob_SWITCH;
typedef uint64_t knob_NUMBER;
typedef uint64_t knob_PERCENT; /* millionths of the whole */

enum knob_index {
#define KNOB(field, name, type, fallback, doc) KNOB_##field,
#include "shim/knobs.def"
#undef KNOB
};

struct knobs {
    uint32_t given; /* bit i: the i-th knob was set and understood */
    uint32_t fixed; /* bit i: the policy fixes it, for orders to a process that runs as well */
#define KNOB(field, name, type, fallback, doc) knob_##type field;
#include "shim/knobs.def"
#undef KNOB
};

/* Reads what the policy and the environment set, touching nothing else: this runs in every process of the job. The
 * environment wins, but where the policy fixes a value. False when they set none: `knobs` was not touched then. */
bool knobs_read(struct knobs *knobs);

/* At activation: what was not given, or not understood, gets its default. */
void knobs_default(struct knobs *knobs);

/* False when COMMTAP_ENABLE says so; may be asked before knobs_default. */
bool knobs_enabled(const struct knobs *knobs);

/* COMMTAP_STACK as the environment has it, "" when it does not; may be asked before knobs_default. */
const char *knobs_stack(const struct knobs *knobs);

/* COMMTAP_QUIET; may be asked before knobs_default. */
bool knobs_quiet(const struct knobs *knobs);

/* Writes one line per value that could not be read or does not mean what it says, per COMMTAP_ name that is no knob
 * (with the nearest one), per line of the policy that says nothing and per variable that the policy overrules. */
void knobs_complain(void);

/* True when `text` matches one of the comma-separated globs of `patterns` (COMMTAP_OPS): letters in either case, `api`
 * prefixes MPI_ and nccl may be left out, a leading ! excludes; a list of exclusions only starts from everything. */
bool knobs_match(const char *patterns, const char *text);

#endif
