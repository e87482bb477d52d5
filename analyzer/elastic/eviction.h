/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a job is better off without one of its hosts.
 * Lives here: the size that the job goes on with, what that costs beside what the host costs.
 * Must not live here: who is slow (stragglers/), sentences (findings/).
 */
#ifndef COMMTAP_ELASTIC_EVICTION_H
#define COMMTAP_ELASTIC_EVICTION_H

#include "analyzer/elastic/batch.h"

/* A size to go on with. */
struct elastic_size {
    int64_t gpus; /* 0: there is none */
    int64_t batch_size, micro_batch, accumulation;
    double cost_ratio; /* time per sample there / now, where it goes with the samples of each GPU: an upper bound, as
                          communication does not grow with them */
};

enum eviction_verdict {
    EVICTION_WORTH_IT,     /* the host costs more than the smaller size does */
    EVICTION_NOT_WORTH_IT, /* the other way round */
    EVICTION_NO_STRAGGLER, /* nobody on the host is named as slow */
    EVICTION_NO_SIZE,      /* the configuration has no size that the others could go on with */
};

struct eviction {
    int64_t gpus, leaving;          /* now, and those of the host */
    struct elastic_size next;       /* largest valid one */
    struct elastic_size whole_node; /* largest valid one of whole nodes, which may be the same */
    double straggler_speedup;       /* what the job gains with the host mended; 1: nothing, or not known */
    double gain_ratio; /* straggler_speedup / next.cost_ratio: above 1 the job is faster without the host */
    enum eviction_verdict verdict;
};

/* Judges a job of so many GPUs, `leaving` of which would go, of `per_node` on each host. Returns ELASTIC_OK or
 * ELASTIC_NO_MEMORY. */
enum elastic_result eviction_judge(const struct elastic_config *config, int64_t gpus, int64_t leaving, int64_t per_node,
                                   double straggler_speedup, struct eviction *eviction);

const char *eviction_verdict_name(enum eviction_verdict verdict); /* "evict", "keep", "no_straggler", "no_size" */

#endif
