/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/pauses.h"

#include <stdlib.h>

#include "analyzer/base/statistics.h"

enum {
    PAUSE_GOES_ON = 10, /* while a stretch is longer by a tenth of what the one is longer by that is most so */
    PAUSE_ALIKE = 2,    /* another pause: longer by half of that at least */
};

struct peers {
    const struct straggler_analysis *analysis;
    size_t *dumps;
    size_t count;
    int64_t *self_ns; /* room for one of each */
};

static bool has_bin(const struct rank_bins *bins, uint32_t number) {
    return number >= bins->first && number - bins->first < bins->count && bins->calls[number - bins->first] > 0;
}

/* By how much longer the rank worked in a bin than the median of its peers; 0 where these do not have it. */
static int64_t longer_in(const struct peers *peers, const struct rank_bins *own, uint32_t number) {
    size_t count = 0;
    for (size_t i = 0; i < peers->count; i++) {
        const struct rank_bins *bins = &peers->analysis->times[peers->dumps[i]].bins;
        if (bins->shift == own->shift && has_bin(bins, number))
            peers->self_ns[count++] = bins->self_ns[number - bins->first];
    }
    if (!has_bin(own, number) || 2 * count < peers->count || count == 0)
        return 0;
    return own->self_ns[number - own->first] - median_int64(peers->self_ns, count);
}

/* Takes the stretch that is longer by most, with those around it that are longer, too, out of the list; of so many
 * bins. Returns what they come to. */
static int64_t take_piece(int64_t *longer, uint32_t count, uint32_t most) {
    int64_t sum = 0, least = longer[most] / PAUSE_GOES_ON;
    uint32_t from = most, to = most + 1;
    while (from > 0 && longer[from - 1] > least)
        from--;
    while (to < count && longer[to] > least)
        to++;
    for (uint32_t i = from; i < to; i++) {
        sum = add_ns(sum, longer[i]);
        longer[i] = 0;
    }
    return sum;
}

static uint32_t place_of_most(const int64_t *longer, uint32_t count) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = longer[i] > longer[most] ? i : most;
    return most;
}

/* Uses up the list. */
static struct pauses count_pauses(int64_t *longer, uint32_t count) {
    struct pauses pauses = {0};
    int64_t all = 0, first = count > 0 ? longer[place_of_most(longer, count)] : 0;
    for (uint32_t i = 0; i < count; i++)
        all = add_ns(all, longer[i]);
    for (; first > 0 && pauses.count <= PAUSES_FEW; pauses.count++) {
        uint32_t most = place_of_most(longer, count);
        if (longer[most] < first / PAUSE_ALIKE)
            break;
        pauses.in_all_ns = add_ns(pauses.in_all_ns, take_piece(longer, count, most));
    }
    return pauses.count <= PAUSES_FEW && pauses.in_all_ns >= all / 2 ? pauses : (struct pauses){0};
}

static void list_peers(struct peers *peers, size_t dump) {
    const uint32_t *group_of = peers->analysis->comparison_groups.group_of;
    for (size_t d = 0; d < peers->analysis->directory->dump_count; d++)
        if (d != dump && group_of[d] == group_of[dump])
            peers->dumps[peers->count++] = d;
}

struct pauses pauses_find(const struct straggler_analysis *analysis, size_t dump, bool *no_memory) {
    const struct rank_bins *own = &analysis->times[dump].bins;
    struct pauses pauses = {0};
    if (!analysis->comparison_groups.group_of || analysis->comparison_groups.group_of[dump] == NOWHERE)
        return pauses;
    struct peers peers = {.analysis = analysis,
                          .dumps = malloc((analysis->directory->dump_count + 1) * sizeof *peers.dumps),
                          .self_ns = malloc((analysis->directory->dump_count + 1) * sizeof *peers.self_ns)};
    int64_t *longer = malloc((own->count + 1u) * sizeof *longer);
    bool done = peers.dumps && peers.self_ns && longer;
    if (done) {
        list_peers(&peers, dump);
        for (uint32_t i = 0; i < own->count; i++)
            longer[i] = longer_in(&peers, own, own->first + i);
        pauses = count_pauses(longer, own->count);
    }
    *no_memory |= !done;
    free(peers.dumps);
    free(peers.self_ns);
    free(longer);
    return pauses;
}
