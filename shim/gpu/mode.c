/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gpu/mode.h"

#include <string.h>

#include "shim/base/os.h"
#include "shim/gpu/kernel_times.h"
#include "shim/record/recorder.h"

extern char **environ;

static enum gpu_timing without_events(const struct gpu_surroundings *s) {
    return s->kernel ? GPU_TIMING_KERNEL : GPU_TIMING_HOST;
}

enum gpu_timing gpu_mode_choose(const char *wanted, const struct gpu_surroundings *s, const char **why) {
    *why = NULL;
    if (!strcmp(wanted, "off")) {
        *why = "COMMTAP_GPU_TIMING=off";
        return GPU_TIMING_OFF;
    }
    if (!strcmp(wanted, "host")) {
        *why = "COMMTAP_GPU_TIMING=host";
        return GPU_TIMING_HOST;
    }
    if (!s->driver) {
        *why = "no GPU driver in the process that has what event timing needs";
        return without_events(s);
    }
    if (!strcmp(wanted, "kernel")) {
        *why = s->kernel ? NULL : "NCCL's profiler plugin is not in use: events instead";
        return s->kernel ? GPU_TIMING_KERNEL : GPU_TIMING_EVENTS;
    }
    if (!strcmp(wanted, "events"))
        return GPU_TIMING_EVENTS;
    if (strcmp(wanted, "auto") != 0)
        *why = "COMMTAP_GPU_TIMING not understood: auto";
    if (s->one_connection) {
        *why = "CUDA_DEVICE_MAX_CONNECTIONS=1: timing events would undo overlap";
        return without_events(s);
    }
    return GPU_TIMING_EVENTS;
}

/* The environment as it is now: a script may set this after the process has started. */
static bool one_connection(void) {
    for (char **entry = environ; entry && *entry; entry++)
        if (!strcmp(*entry, "CUDA_DEVICE_MAX_CONNECTIONS=1"))
            return true;
    return false;
}

enum gpu_timing gpu_mode_begin(bool driver) {
    const char *why;
    struct gpu_surroundings surroundings = {
        .driver = driver, .one_connection = one_connection(), .kernel = driver && kernel_times_offered()};
    enum gpu_timing mode = gpu_mode_choose(recorder.knobs.gpu_timing, &surroundings, &why);
    recorder.header->gpu_timing = mode;
    copy_text(recorder.header->gpu_timing_why, sizeof recorder.header->gpu_timing_why, why);
    return mode;
}
