/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/plugin_contexts.h"

struct plugin_context plugin_contexts[PLUGIN_CONTEXTS];

struct plugin_context *plugin_context_take(uint32_t asker) {
    for (uint32_t i = 0; i < PLUGIN_CONTEXTS; i++)
        if (!__atomic_exchange_n(&plugin_contexts[i].taken, 1, __ATOMIC_ACQUIRE)) {
            plugin_contexts[i].comm = 0;
            plugin_contexts[i].asker = asker;
            return &plugin_contexts[i];
        }
    return NULL;
}
