/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up jobs that hang on GPUs: hosts that enqueue and go on, streams that do one thing after the other, collectives
 * that end when every member's GPU is in them.
 * Lives here: the entry for hang.c. Must not live here: anything of the analyzer's.
 */
#ifndef COMMTAP_TEST_HANG_NCCL_H
#define COMMTAP_TEST_HANG_NCCL_H

#include "test/scenes/hang.h"

/* Plays a scene with a fault of FAULT_NCCL_NONE and above: makes the job's builders and its truth. Ends the program
 * when memory is short. */
void hang_nccl_play(struct hang_job *job, const struct hang_scene *scene);

#endif
