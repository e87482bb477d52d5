/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the peers of a rank take for parts of a run that are like its own.
 * Lives here: stretches of own work by what is called in them and by their lengths, and the lengths of the peers'.
 * Must not live here: which stretches there are, and what is made of it (what_if.h).
 */
#ifndef COMMTAP_REPLAY_USUAL_LENGTHS_H
#define COMMTAP_REPLAY_USUAL_LENGTHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Own work of one rank in one part of the run. */
struct work_stretch {
    uint32_t part, peers, dump;
    uint32_t shape;           /* equal for parts in which the same is called */
    int64_t own_ns, usual_ns; /* usual: what it is to be, negative: as it is */
    int64_t hidden_ns;        /* what of it may have run besides while the rank waited for others: its own work is
                                 somewhere between own_ns and own_ns + hidden_ns */
    bool alone; /* set where no peer does the same in its parts (a stage of a pipeline): how work is spread
                   over a part is its rank's own */
};

/* Sets usual_ns of the stretches of those that `mended` marks: each takes what the median of the peers that are not
 * marked takes for theirs of the same shape and the same place among these, by length. Where the ranks with the same
 * number in `peers` do not have the same shapes, all count as one. As long as the work of the peers may have been
 * hidden, it is what the stretch takes already. Where nobody who is not marked does the same as one who is, in parts
 * that come again and again, how much longer than its others a part is stays its rank's own: all of them together take
 * what the median of the peers takes. `mended` has an entry for each of `dumps`. *found: whether everybody who is to be
 * mended has peers who are not. Returns false when memory is short. */
bool usual_lengths_find(struct work_stretch *stretches, size_t count, const bool *mended, size_t dumps, bool *found);

#endif
