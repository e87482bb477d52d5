/* SPDX-License-Identifier: Apache-2.0
 *
 * This library as NCCL's profiler plugin: a second sensor, inside of NCCL. It counts calls, so that those which the
 * wrappers miss show; and where launches are not timed by events, it times them by the stamps of the kernels' channels
 * and tells what the network proxies waited for.
 * Lives here: being loaded, the event mask. Must not live here: the events (plugin_events.c, plugin_proxy.h), what
 * becomes of stamps (gpu/kernel_times.h).
 *
 * NCCL only asks for events that the mask names; it is one int in each copy of the library, whose address is kept, and
 * set when the way of timing is known:
 *
 *   COMMTAP_GPU_TIMING=off     nothing
 *   kernel times in force      calls, tasks, channels, proxies
 *   otherwise                  calls: they are counted, no more
 */
#ifndef COMMTAP_NCCL_PLUGIN_H
#define COMMTAP_NCCL_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/record/knobs.h"

/* Does the user want timing by it? */
bool plugin_is_wanted(const struct knobs *knobs);

/* For the constructor: names this library in NCCL_PROFILER_PLUGIN, unless the user has a plugin or wants no timing.
 * `knobs` is NULL where none is given. */
void plugin_offer(const struct knobs *knobs);

/* Once per activation, when NCCL's version is known. */
void plugin_begin(void);

/* How launches are timed is known: asks NCCL for the events that it takes. */
void plugin_follow_mode(void);

/* NCCL has loaded the plugin in this process. */
bool plugin_is_used(void);

/* A copy of NCCL begins to use the plugin for one of its communicators, or ends. `mask` is where that copy keeps the
 * events that it asks for, `v4` whether it speaks version 4 of the interface. Returns the context; NULL where the
 * plugin cannot serve it, with an empty mask then. */
void *plugin_admit(int *mask, bool v4);
void plugin_dismiss(void *context);

#endif
