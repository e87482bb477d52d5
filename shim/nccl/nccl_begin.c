/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/nccl_begin.h"

#include <time.h>

#include "shim/base/fork_page.h"
#include "shim/base/os.h"
#include "shim/comm/communicators.h"
#include "shim/comm/ordinals.h"
#include "shim/nccl/nccl_abi.h"
#include "shim/nccl/nccl_communicators.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/nccl/nccl_sensors.h"
#include "shim/nccl/plugin.h"
#include "shim/record/lanes.h"
#include "shim/record/recorder.h"
#include "shim/record/verbose.h"

uint32_t nccl_generation;

static void describe_library(const void *function) {
    int copy = function ? nccl_copy_of_function(function) : -1, version = 0;
    int (*get_version)(int *) = (int (*)(int *))nccl_copy_symbol(copy, "ncclGetVersion");
    copy_text(recorder.header->nccl_library, sizeof recorder.header->nccl_library, nccl_copy_path(copy));
    if (get_version && get_version(&version) == NCCL_SUCCESS)
        recorder.header->nccl_version = (uint32_t)version;
}

static bool make_tables(const void *function) {
    recorder.multithreaded = true; /* a watchdog's thread looks after communicators, if nothing else */
    if (!nccl_communicators_begin() || !ordinals_begin()) {
        recorder_switch_off("no memory for commtap's tables; nothing is recorded");
        return false;
    }
    sensors_begin();
    lanes_expect_threads();
    describe_library(function);
    plugin_begin();
    recorder.verbose = verbose_wanted(recorder.knobs.verbose, recorder.header->rank);
    return true;
}

bool nccl_begin(const void *function) {
    uint32_t generation = recorder.generation;
    for (int i = 0; i < NCCL_PATIENCE_MS; i++) {
        if (__atomic_load_n(&nccl_generation, __ATOMIC_ACQUIRE) == generation)
            return true;
        if (fork_lock_try(FORK_LOCK_NCCL)) {
            bool made = nccl_generation == generation || make_tables(function);
            if (made)
                __atomic_store_n(&nccl_generation, generation, __ATOMIC_RELEASE);
            fork_lock_release(FORK_LOCK_NCCL);
            return made;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}
