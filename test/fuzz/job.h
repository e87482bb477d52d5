/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of up to eight ranks and its dumps, from a list of steps: who calls what when, and then what is wrong with the
 * dumps.
 * Lives here: playing the steps on all ranks at once, as the shim would have recorded them.
 * Must not live here: damaging dumps (faults.h), running commands.
 */
#ifndef COMMTAP_TEST_FUZZ_JOB_H
#define COMMTAP_TEST_FUZZ_JOB_H

#include <stdbool.h>

#include "test/fuzz/memory.h"
#include "test/fuzz/step.h"
#include "test/support/dump_builder.h"

enum { JOB_RANKS_MAX = 8, JOB_LANES_MAX = 3 };

struct played {
    struct memory_dump dumps[MEMORY_DUMPS_MAX];
    size_t count;
    struct dump_builder *builders[JOB_RANKS_MAX];
    struct stage *stage; /* private: who owns the builders where the job was staged */
};

/* Plays the steps of `data`: the first says how large everything is, and whether the times are the steps' own or follow
 * from rules (staged.h). `faults`: also those that damage the dumps. The
 * caller ends with played_free. */
void job_play(struct played *played, const uint8_t *data, size_t size, bool faults);
void played_free(struct played *played);

#endif
