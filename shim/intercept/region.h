/* SPDX-License-Identifier: Apache-2.0
 *
 * COMMTAP_REGION: only what is called inside a region that the job marks is recorded.
 * Lives here: which marks count, whether the process is inside.
 * Must not live here: how a mark is seen (nvtx.c, wrap_cuda.c, wrap_mpi.c), what a call outside does (wrap_*.c).
 *
 * A region is the process's, not a thread's: backward passes communicate from threads of their own. Marks count from
 * the process's start on, for a range may be open before the first communication call.
 */
#ifndef COMMTAP_SHIM_INTERCEPT_REGION_H
#define COMMTAP_SHIM_INTERCEPT_REGION_H

#include <stdbool.h>

#include "shim/record/knobs.h"

enum region { REGION_NONE, REGION_RANGES, REGION_PROFILER, REGION_PCONTROL };

/* What marks the region; REGION_NONE: everything is recorded, or the knob's value means nothing. */
enum region region_marked_by(const struct knobs *knobs);

/* At activation, once the header is there: says in the dump that a region is in force. */
void region_begin(void);

/* True when an NVTX range of this text is a region. */
bool region_is_range(const char *text);

/* A range that is a region begins, or ends: inside is where at least one is open. */
void region_open(void);
void region_close(void);

/* For marks that do not nest. */
void region_set(bool inside);

#endif
