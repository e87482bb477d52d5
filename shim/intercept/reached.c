/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/reached.h"

#include <string.h>

#include "shim/base/linker.h"
#include "shim/base/unloads.h"

any_function real_functions[CALL_INDEX_COUNT];
any_function real_profiling_functions[CALL_INDEX_COUNT];
const void *reached_provider;
static uint32_t doubts_so_far;

uint32_t reached_doubts(void) {
    return __atomic_load_n(&doubts_so_far, __ATOMIC_ACQUIRE);
}

static void forget(any_function *slot) {
    __atomic_store_n(slot, NULL, __ATOMIC_RELEASE);
}

void reached_set(any_function *slot, any_function found, uint32_t doubts) {
    __atomic_store_n(slot, found, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&doubts_so_far, __ATOMIC_SEQ_CST) != doubts)
        forget(slot);
}

void reached_doubt(const char *name) {
    const char *plain = name[0] == 'P' ? name + 1 : name;
    __atomic_add_fetch(&doubts_so_far, 1, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < commtap_call_count; i++)
        if (!strcmp(commtap_calls[i].name, plain))
            forget(plain == name ? &real_functions[i] : &real_profiling_functions[i]);
    for (const struct hook *hook = __start_commtap_hooks; plain[0] == 'M' && hook < __stop_commtap_hooks; hook++)
        if (!strcmp(hook_target(&hook->name), name))
            forget(hook_target(&hook->real));
}

static void forget_if_unloaded(any_function *slot) {
    Dl_info info;
    any_function function = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (function && !linker_dladdr((const void *)function, &info))
        forget(slot);
}

void reached_look(void) {
    static uint32_t known;
    Dl_info info;
    uint32_t unloads = __atomic_load_n(&unloads_so_far, __ATOMIC_ACQUIRE);
    if (__atomic_exchange_n(&known, unloads, __ATOMIC_ACQ_REL) == unloads)
        return;
    __atomic_add_fetch(&doubts_so_far, 1, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < commtap_call_count; i++) {
        forget_if_unloaded(&real_functions[i]);
        forget_if_unloaded(&real_profiling_functions[i]);
    }
    for (const struct hook *hook = __start_commtap_hooks; hook < __stop_commtap_hooks; hook++)
        forget_if_unloaded(hook_target(&hook->real));
    if (reached_provider && !linker_dladdr(reached_provider, &info))
        __atomic_store_n(&reached_provider, NULL, __ATOMIC_RELEASE);
}
