/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON document of `commtap elastic`.
 * Must not live here: text for people, how the figures come about (elastic/).
 */
#ifndef COMMTAP_DOCUMENTS_ELASTIC_DOCUMENT_H
#define COMMTAP_DOCUMENTS_ELASTIC_DOCUMENT_H

#include <jansson.h>

#include "analyzer/elastic/eviction.h"
#include "analyzer/render/table.h"

/* What was asked, and what came out. */
struct elastic_answer {
    struct elastic_config config;
    struct elastic_batch batch;
    struct elastic_row *rows; /* batch.count of them */
    int64_t world_size;       /* 0: not known */
    int64_t gpus_per_node;
    const char *host; /* whose eviction was judged; NULL: none */
    struct eviction eviction;
    const char *advice; /* the same in words */
};

/* Whether it is valid; of an unknown one nothing is said. */
static inline bool elastic_answer_fits(const struct elastic_answer *answer) {
    return answer->world_size == 0 || elastic_batch_has(&answer->batch, answer->world_size);
}

/* `sizes`: the rows. NULL when memory is short. */
json_t *elastic_document(const struct elastic_answer *answer, const struct table *sizes);

#endif
