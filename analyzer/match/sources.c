/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/sources.h"

size_t match_sources(const struct match_directory *directory, const struct match_instance *instance, uint32_t position,
                     uint32_t positions[NEIGHBOURS_MOST]) {
    const struct match_communicator *communicator = instance->communicator;
    const struct dump *dump = directory->dumps[communicator->dump_of[position]];
    size_t listed = dump_neighbours_at(dump, communicator->local_of[position], instance->seq, positions), count = 0;
    if (listed == SIZE_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i < listed; i++) { /* ranks become positions in their place: there are no more of these */
        uint32_t source = match_position_of(communicator, (int32_t)positions[i]);
        if (source != NOWHERE && source != position)
            positions[count++] = source;
    }
    return count;
}
