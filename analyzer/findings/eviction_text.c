/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/eviction_text.h"

#include <inttypes.h>

#include "analyzer/findings/words.h"

static void say_sizes(char *text, const struct eviction *eviction) {
    const struct elastic_size *next = &eviction->next, *nodes = &eviction->whole_node;
    phrase(text, EVICTION_TEXT,
           " Without it the job goes on with %" PRId64 " of the other %" PRId64 " GPUs (batch %" PRId64
           ", micro-batch %" PRId64 ", accumulation %" PRId64 "); the same samples then take up to %.3f times as long",
           next->gpus, eviction->gpus - eviction->leaving, next->batch_size, next->micro_batch, next->accumulation,
           next->cost_ratio);
    if (nodes->gpus > 0 && nodes->gpus != next->gpus)
        phrase(text, EVICTION_TEXT, ", on whole nodes alone (%" PRId64 " GPUs) %.3f times", nodes->gpus,
               nodes->cost_ratio);
    phrase(text, EVICTION_TEXT, ".");
}

void eviction_say(char text[EVICTION_TEXT], const struct eviction *eviction, const char *host) {
    text[0] = '\0';
    switch (eviction->verdict) {
    case EVICTION_WORTH_IT:
        phrase(text, EVICTION_TEXT,
               "evict %s: at its peers' pace the job would run %.3f times as fast, which is more than a smaller job "
               "costs: it would be %.3f times as fast as now at least.",
               host, eviction->straggler_speedup, eviction->gain_ratio);
        break;
    case EVICTION_NOT_WORTH_IT:
        phrase(text, EVICTION_TEXT,
               "keep %s, or replace it: at its peers' pace the job would run %.3f times as fast, and a smaller job may "
               "cost more.",
               host, eviction->straggler_speedup);
        break;
    case EVICTION_NO_STRAGGLER:
        phrase(text, EVICTION_TEXT, "keep %s: nobody on it is named as slow.", host);
        break;
    case EVICTION_NO_SIZE:
        phrase(text, EVICTION_TEXT,
               "keep %s, or replace it: without its %" PRId64 " GPUs no size is left that the configuration allows.",
               host, eviction->leaving);
        return;
    }
    say_sizes(text, eviction);
}
