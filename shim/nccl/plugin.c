/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/plugin.h"

#include <string.h>

#include "shim/base/fork_page.h"
#include "shim/base/self_path.h"
#include "shim/gpu/harvester.h"
#include "shim/gpu/kernel_times.h"
#include "shim/nccl/nccl_copies.h"
#include "shim/nccl/plugin_abi.h"
#include "shim/nccl/plugin_contexts.h"
#include "shim/nccl/plugin_proxy.h"

#define VARIABLE      "NCCL_PROFILER_PLUGIN"
#define FIRST_VERSION 22700u /* of NCCL, with version 4 of the interface */
#define CALLS_MASK    (PROFILER_COLL_API | PROFILER_P2P_API)
#define CALLS_MASK_V4 (PROFILER_COLL | PROFILER_P2P)
#define KERNEL_MASK   (CALLS_MASK_V4 | PROFILER_KERNEL_CH | PROFILER_PROXY_OP | PROFILER_PROXY_STEP)

/* A copy of NCCL: its event mask, and how many of its communicators are alive. */
struct asker {
    int *mask; /* NULL = free; what it points to goes away with the last communicator */
    uint32_t users;
    bool v4;
};

static struct {
    uint32_t used;    /* generation in which the plugin was loaded */
    uint32_t proxies; /* generation that proxies have their tables for */
    struct asker askers[NCCL_COPIES];
} plugin;

extern char **environ;

/* ---- being loaded ---------------------------------------------------------------------------- */

bool plugin_is_wanted(const struct knobs *knobs) {
    return knobs_enabled(knobs) && strcmp(knobs->gpu_timing, "off") != 0;
}

AT_START void plugin_offer(const struct knobs *knobs) {
    static char variable[] = VARIABLE; /* not constant: then it lies in a page that is touched anyway */
    if (!knobs || plugin_is_wanted(knobs))
        self_offer(variable);
}

/* Before the first communicator of a process nobody has loaded it; where it is ours and the library knows plugins it
 * will be. */
static bool is_expected(void) {
    char path[512];
    if (recorder.header->nccl_version < FIRST_VERSION || !self_path(path, sizeof path))
        return false;
    for (char **entry = environ; entry && *entry; entry++)
        if (!strncmp(*entry, VARIABLE "=", sizeof VARIABLE) && !strcmp(*entry + sizeof VARIABLE, path))
            return true;
    return false;
}

void plugin_begin(void) {
    harvester_also = proxy_look;
    kernel_times_offer(plugin_is_wanted(&recorder.knobs) && (plugin_is_used() || is_expected()));
}

bool plugin_is_used(void) {
    return __atomic_load_n(&plugin.used, __ATOMIC_ACQUIRE) == *recorder_armed && *recorder_armed;
}

/* ---- the masks ------------------------------------------------------------------------------- */

/* Copies that look at the same time are rare and quick; whoever is refused leaves its mask as it is: empty. */
static bool change_begin(void) {
    for (int i = 0; i < 1000; i++)
        if (fork_lock_try(FORK_LOCK_PLUGIN))
            return true;
    return false;
}

static void change_end(void) {
    fork_lock_release(FORK_LOCK_PLUGIN);
}

static int mask_of(const struct asker *asker) {
    if (!*recorder_armed)
        return 0;
    int calls = asker->v4 ? CALLS_MASK_V4 : CALLS_MASK;
    return kernel_times_live() ? calls | KERNEL_MASK : calls;
}

void plugin_follow_mode(void) {
    if (!change_begin())
        return;
    if (kernel_times_live() && plugin.proxies != *recorder_armed) {
        plugin.proxies = *recorder_armed;
        proxy_begin();
    }
    for (uint32_t i = 0; i < NCCL_COPIES; i++) {
        const struct asker *asker = &plugin.askers[i];
        if (asker->mask && __atomic_load_n(asker->mask, __ATOMIC_RELAXED) != mask_of(asker))
            __atomic_store_n(asker->mask, mask_of(asker), __ATOMIC_RELAXED);
    }
    change_end();
}

/* The copy that a mask belongs to; NULL when there are too many. */
static struct asker *asker_of(int *mask, bool v4) {
    struct asker *free = NULL;
    for (uint32_t i = 0; i < NCCL_COPIES; i++) {
        if (plugin.askers[i].mask == mask)
            return &plugin.askers[i];
        if (!plugin.askers[i].mask)
            free = &plugin.askers[i];
    }
    if (free)
        *free = (struct asker){.mask = mask, .v4 = v4};
    return free;
}

/* ---- those who use it ------------------------------------------------------------------------ */

void *plugin_admit(int *mask, bool v4) {
    struct plugin_context *context = NULL;
    if (!change_begin())
        return NULL;
    struct asker *asker = asker_of(mask, v4);
    if (asker && (context = plugin_context_take((uint32_t)(asker - plugin.askers) + 1))) {
        asker->users++;
        __atomic_store_n(&plugin.used, *recorder_armed, __ATOMIC_RELEASE);
        __atomic_store_n(mask, mask_of(asker), __ATOMIC_RELAXED);
    }
    change_end();
    return context;
}

void plugin_dismiss(void *pointer) {
    struct plugin_context *context = plugin_context_of(pointer);
    if (!context || !__atomic_load_n(&context->taken, __ATOMIC_ACQUIRE))
        return;
    if (kernel_times_live())
        kernel_spans_release(plugin_owner_number(pointer));
    while (!change_begin())
        ;
    struct asker *asker = &plugin.askers[context->asker - 1];
    if (asker->users && --asker->users == 0) { /* the library may be unloaded now */
        __atomic_store_n(asker->mask, 0, __ATOMIC_RELAXED);
        asker->mask = NULL;
    }
    change_end();
    __atomic_store_n(&context->taken, 0, __ATOMIC_RELEASE);
}
