/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's beginning and end. The constructor runs in every process below a preload, most of which never
 * communicate: it reads the environment, names this library there to others, and
 * does nothing else.
 */
#include "shim/gpu/timing.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/plugin.h"
#include "shim/recorder.h"
#include "shim/stacks/nvtx.h"

__attribute__((constructor)) static void library_begin(void) {
    knobs_read(&recorder.knobs);
    if (!knobs_enabled(&recorder.knobs))
        recorder.gave_up = true; /* written only then: the page stays untouched otherwise */
    nvtx_offer(&recorder.knobs);
    plugin_offer(&recorder.knobs);
}

__attribute__((destructor)) static void library_end(void) {
    gpu_timing_exit();
    nccl_communicators_end();
    recorder_exit();
}
