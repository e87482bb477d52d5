/* SPDX-License-Identifier: Apache-2.0
 *
 * What the recording of NCCL needs once per activation.
 * Must not live here: the activation (recorder.h), what calls do.
 */
#ifndef COMMTAP_NCCL_BEGIN_H
#define COMMTAP_NCCL_BEGIN_H

#include <stdbool.h>
#include <stdint.h>

#define NCCL_PATIENCE_MS 100 /* that a thread waits for another's activation */

extern uint32_t nccl_generation; /* activation whose tables are ready */

/* Makes the tables; whoever comes meanwhile waits for them. `function` is one of the library's, from which its path and
 * version are found; NULL when none is known. False when there is no memory. */
bool nccl_begin(const void *function);

#endif
