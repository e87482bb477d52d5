/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/base/unloads.h"

#include "shim/base/linker.h"

uint32_t unloads_so_far;

void unloads_count(void) {
    __atomic_add_fetch(&unloads_so_far, 1, __ATOMIC_RELEASE);
}

uint64_t unloads_of_linker(const struct dl_phdr_info *info, size_t size) {
    return size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs ? info->dlpi_subs : 0;
}

static int ask_linker(struct dl_phdr_info *info, size_t size, void *data) {
    *(uint64_t *)data = unloads_of_linker(info, size);
    return 1;
}

void unloads_look(void) {
    static uint64_t known; /* the dynamic linker's count at the last look */
    uint64_t now = 0;
    linker_iterate(ask_linker, &now);
    if (__atomic_exchange_n(&known, now, __ATOMIC_ACQ_REL) != now)
        unloads_count();
}
