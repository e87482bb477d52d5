/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/wait_for_graph/standing_limits.h"

/* Whatever is usual. */
static int64_t least_ns(const struct world *world, bool unlike) {
    if (unlike)
        return STANDING_UNLIKE_NS;
    return world->crowded ? STANDING_CROWDED_NS : STANDING_LEAST_NS;
}

int64_t standing_most_ns(const struct world *world, int64_t usual_ns, bool unlike) {
    int64_t usual = usual_ns < INT64_MAX / STANDING_FEW ? usual_ns : INT64_MAX / STANDING_FEW;
    int64_t most = usual < 0 ? STANDING_UNCOMPARED_NS : STANDING_FEW * usual;
    int64_t least = least_ns(world, unlike);
    return most > least ? most : least;
}
