/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/epochs.h"

#include "shim/record/call_cache.h"
#include "shim/record/recorder.h"

bool epoch_begin(void) {
    uint32_t before = __atomic_load_n(&recorder.epoch_bits, __ATOMIC_RELAXED), now;
    do {
        if (before >> 24 == EPOCHS_MAX - 1) {
            count_loss(&recorder.header->losses.epochs_merged);
            return false;
        }
        now = before + (1u << 24);
    } while (
        !__atomic_compare_exchange_n(&recorder.epoch_bits, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    call_cache_forget(); /* all rows are new ones now */
    struct epoch_definition *d = definitions_reserve(&recorder.definitions, sizeof *d);
    if (d) {
        d->epoch = now >> 24;
        d->ticks = ticks();
        definitions_commit(d, DEFINITION_EPOCH);
    }
    return true;
}
