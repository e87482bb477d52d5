/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's beginning and end. The constructor runs in every process below a preload, most of which never
 * communicate: it reads the policy and the environment, names this library there to
 * others, and does nothing else.
 */
#include <stddef.h>

#include "shim/base/os.h"
#include "shim/gpu/timing.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/nvtx.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/plugin.h"
#include "shim/record/recorder.h"

/* atexit() wants it of the compiler's start files, which the library leaves out (test programs do not: weak). NULL:
 * handlers run at the program's exit. */
__attribute__((visibility("hidden"), weak)) void *const __dso_handle = NULL;

/* What the data begins with (layout.ld). */
__attribute__((section(".first_data"), used)) static void *first_data;

/* Most processes have none of our variables: then the page of the knobs stays untouched. */
AT_START __attribute__((constructor)) static void library_begin(void) {
    bool given = recorder_read_environment();
    nvtx_offer(given ? &recorder.knobs : NULL);
    plugin_offer(given ? &recorder.knobs : NULL);
}

AT_START __attribute__((destructor)) static void library_end(void) {
    if (!*recorder_armed)
        return;
    gpu_timing_exit();
    nccl_communicators_end();
    activation_end();
}
