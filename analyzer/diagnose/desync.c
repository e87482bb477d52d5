/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: the binary search over prefix hashes, sides and majorities.
 * Must not live here: who waits.
 */
#include "analyzer/diagnose/desync.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzer/base/statistics.h"
#include "analyzer/load/rows.h"

enum { CHECKPOINTS = PROGRESS_RECENT + PROGRESS_EVERY + PROGRESS_POWERS + 1, OPEN_LOOKED_AT = 64 };

/* ---- prefix hashes --------------------------------------------------------------------------- */

bool prefix_hash(const struct progress *progress, uint64_t uid, uint64_t k, uint64_t *hash) {
    uint64_t hashed = progress->hashed;
    if (k > hashed)
        return false;
    if (k == 0)
        *hash = uid;
    else if (k == hashed)
        *hash = progress->prefix_hash;
    else if (hashed - k < PROGRESS_RECENT)
        *hash = progress->recent[k % PROGRESS_RECENT];
    else if (k % 64 == 0 && hashed / 64 - k / 64 < PROGRESS_EVERY)
        *hash = progress->every[k / 64 % PROGRESS_EVERY];
    else if ((k & (k - 1)) == 0 && k >> PROGRESS_POWERS == 0)
        *hash = progress->powers[63 - __builtin_clzll(k)];
    else
        return false;
    return *hash != 0;
}

/* Lengths at which both rows know their hash, ascending. */
static size_t common_checkpoints(const struct progress *a, const struct progress *b, uint64_t uid, uint64_t *lengths) {
    uint64_t end = a->hashed < b->hashed ? a->hashed : b->hashed, candidates[CHECKPOINTS], hash;
    size_t count = 0, kept = 0;
    for (uint64_t i = 0; i < PROGRESS_RECENT && i <= end; i++)
        candidates[count++] = end - i;
    for (uint64_t i = 0; i < PROGRESS_EVERY && i <= end / 64; i++)
        candidates[count++] = (end / 64 - i) * 64;
    for (unsigned i = 0; i < PROGRESS_POWERS; i++)
        candidates[count++] = UINT64_C(1) << i;
    qsort(candidates, count, sizeof *candidates, compare_uint64);
    for (size_t i = 0; i < count; i++)
        if ((i == 0 || candidates[i] != candidates[i - 1]) && prefix_hash(a, uid, candidates[i], &hash) &&
            prefix_hash(b, uid, candidates[i], &hash))
            lengths[kept++] = candidates[i];
    return kept;
}

bool histories_differ(const struct progress *a, const struct progress *b, uint64_t uid, uint64_t *equal,
                      uint64_t *differ) {
    uint64_t lengths[CHECKPOINTS], left, right;
    size_t count = common_checkpoints(a, b, uid, lengths), low = 0, high = count;
    while (low < high) { /* once different, always different */
        size_t middle = (low + high) / 2;
        prefix_hash(a, uid, lengths[middle], &left);
        prefix_hash(b, uid, lengths[middle], &right);
        if (left == right)
            low = middle + 1;
        else
            high = middle;
    }
    *equal = low > 0 ? lengths[low - 1] : 0;
    *differ = low < count ? lengths[low] : 0;
    return low < count;
}

/* ---- single collectives ---------------------------------------------------------------------- */

/* A collective's name without its library's prefix and the I of MPI's non-blocking ones. */
static const char *bare_name(const char *name) {
    if (strncmp(name, "MPI_", 4) == 0 || strncmp(name, "nccl", 4) == 0)
        name += 4;
    return name[0] == 'I' && name[1] >= 'a' && name[1] <= 'z' ? name + 1 : name;
}

/* Collectives in which every member names the same number of bytes. */
static bool one_size_rules(const struct call_name *call) {
    static const char *const own_sizes[] = {"Gatherv", "Scatterv", "Alltoallv", "Alltoallw", "Neighbor"};
    const char *name = bare_name(call->name);
    if (call->call_class != CLASS_COLLECTIVE)
        return false;
    for (size_t i = 0; i < sizeof own_sizes / sizeof *own_sizes; i++)
        if (strncasecmp(name, own_sizes[i], strlen(own_sizes[i])) == 0)
            return false;
    return true;
}

/* Of the name without what tells a twin: for large counts, or with a configuration of NCCL's for one call. */
static size_t length_of_stem(const char *name) {
    static const char *const twins[] = {"_c", "Config"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (length > strlen(twins[i]) && strcmp(name + length - strlen(twins[i]), twins[i]) == 0)
            return length - strlen(twins[i]);
    return length;
}

/* Two names of one function, which ranks may mix: twins, and what NCCL and RCCL call by two names. */
static bool same_function(const char *a, const char *b) {
    size_t left = length_of_stem(a), right = length_of_stem(b);
    if (left == right && strncmp(a, b, left) == 0)
        return true;
    return (strcmp(a, "ncclBcast") == 0 && strcmp(b, "ncclBroadcast") == 0) ||
           (strcmp(a, "ncclBroadcast") == 0 && strcmp(b, "ncclBcast") == 0) ||
           (strncmp(a, "nccl", 4) == 0 && strcasecmp(a, b) == 0);
}

/* MPI's ranks may describe the same data by different types; NCCL's may not. */
static bool types_clash(const struct signature *a, const struct signature *b) {
    return a->dtype != b->dtype && strncmp(a->call->name, "nccl", 4) == 0;
}

static bool agree(const struct signature *a, const struct signature *b) {
    if (!a->call || !b->call)
        return true; /* cannot tell */
    if (!same_function(a->call->name, b->call->name) || a->root != b->root)
        return false;
    if (a->recorded && b->recorded && (a->redop != b->redop || types_clash(a, b)))
        return false;
    return a->bytes == b->bytes || a->bytes == BYTES_UNKNOWN || b->bytes == BYTES_UNKNOWN || !one_size_rules(a->call);
}

/* ---- sides ----------------------------------------------------------------------------------- */

/* Members of a communicator with what tells them apart: a hash, or the class their signature is in. */
struct sided {
    const struct membership *member;
    uint64_t side;
};

static int compare_sides(const void *a, const void *b) {
    const struct sided *left = a, *right = b;
    if (left->side != right->side)
        return left->side < right->side ? -1 : 1;
    return left->member < right->member ? -1 : left->member > right->member;
}

/* Fills the mismatch from members sorted out by side; only called where there are at least two sides. */
static bool take_sides(struct mismatch *mismatch, struct sided *members, size_t count) {
    size_t best = 0, best_count = 0;
    bool tie = false;
    qsort(members, count, sizeof *members, compare_sides);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && members[end].side == members[i].side; end++)
            ;
        if (end - i == best_count) {
            tie = true;
            if (members[i].member < members[best].member) /* the side of the lowest rank comes first */
                best = i;
        } else if (end - i > best_count) {
            best = i;
            best_count = end - i;
            tie = false;
        }
    }
    uint32_t *parties = malloc(count * sizeof *parties);
    if (!parties)
        return false;
    size_t at = 0;
    for (size_t i = best; i < best + best_count; i++)
        parties[at++] = members[i].member->party;
    for (size_t i = 0; i < count; i++)
        if (i < best || i >= best + best_count)
            parties[at++] = members[i].member->party;
    free(mismatch->parties);
    mismatch->parties = parties;
    mismatch->expected_count = best_count;
    mismatch->other_count = count - best_count;
    mismatch->tie = tie;
    return true;
}

static const struct membership *member_of(const struct shared_communicator *communicator, uint32_t party) {
    return world_membership(communicator, party);
}

static bool is_refused(const struct record *record) {
    return (record->kind == RECORD_CALL || record->kind == RECORD_POST) && (record->flags & FLAG_FAILED) &&
           !(record->flags & (FLAG_COLLECTIVE | FLAG_SEND | FLAG_RECV | FLAG_UNMATCHED));
}

/* The call on the communicator that a member's library refused between its collectives `seq` - 1 and `seq`. NULL: there
 * is none on record. */
static const struct call_name *refused_before(const struct world *world, const struct membership *member,
                                              uint64_t seq) {
    const struct dump *dump = world->parties[member->party].dump;
    struct record_reader reader;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        const struct call_name *found = NULL;
        record_reader_begin(&reader, dump, lane);
        for (uint64_t t = l->end_ticket; t > l->first_ticket && l->end_ticket - t < RECORDS_LOOKED_AT; t--) {
            const struct record *r = record_reader_at(&reader, t - 1);
            if (!r || r->comm != member->local)
                continue;
            if (is_refused(r))
                found = dump_call(dump, r->call);
            else if (r->flags & FLAG_COLLECTIVE && r->seq >= seq)
                found = NULL;
            else if (r->flags & FLAG_COLLECTIVE)
                break;
        }
        if (found)
            return found;
    }
    return NULL;
}

/* The first differing collective of each side, narrowed down by what the rings still hold. */
static void find_calls(struct mismatch *mismatch, const struct world *world) {
    const struct membership *a = member_of(mismatch->communicator, mismatch->parties[0]);
    const struct membership *b = member_of(mismatch->communicator, mismatch->parties[mismatch->expected_count]);
    mismatch->expected_party = a->party;
    mismatch->other_party = b->party;
    for (uint64_t seq = mismatch->from_seq; seq <= mismatch->to_seq && seq - mismatch->from_seq < 4096; seq++) {
        mismatch->expected = signature_of(world, a, seq);
        mismatch->other = signature_of(world, b, seq);
        if (agree(&mismatch->expected, &mismatch->other))
            continue;
        mismatch->from_seq = mismatch->to_seq = seq;
        mismatch->expected.refused = refused_before(world, a, seq);
        mismatch->other.refused = refused_before(world, b, seq);
        return;
    }
    if (mismatch->from_seq != mismatch->to_seq)
        mismatch->expected = mismatch->other = (struct signature){0};
}

/* ---- histories ------------------------------------------------------------------------------- */

struct member_progress {
    const struct membership *member;
    struct progress progress;
};

/* The longest history is compared with all others; where the first one differs, everybody takes a side. */
static bool compare_histories(struct mismatch *mismatch, struct world *world, struct shared_communicator *communicator,
                              const struct member_progress *histories, size_t count, struct sided *sides) {
    size_t longest = 0;
    uint64_t first = UINT64_MAX, known_equal = 0;
    for (size_t i = 1; i < count; i++)
        if (histories[i].progress.hashed > histories[longest].progress.hashed)
            longest = i;
    for (size_t i = 0; i < count; i++) {
        uint64_t equal, differ;
        if (!histories_differ(&histories[i].progress, &histories[longest].progress, communicator->uid, &equal, &differ))
            continue;
        if (differ < first) {
            first = differ;
            known_equal = equal;
        }
    }
    if (first == UINT64_MAX)
        return true;
    size_t sided = 0;
    for (size_t i = 0; i < count; i++)
        if (prefix_hash(&histories[i].progress, communicator->uid, first, &sides[sided].side))
            sides[sided++].member = histories[i].member;
    if (!take_sides(mismatch, sides, sided))
        return false;
    mismatch->communicator = communicator;
    mismatch->from_seq = known_equal;
    mismatch->to_seq = first - 1;
    find_calls(mismatch, world);
    return true;
}

/* ---- the collective they are in -------------------------------------------------------------- */

/* Of collective `seq`, everybody who has called it takes a side. */
static bool compare_at(struct mismatch *mismatch, struct world *world, struct shared_communicator *communicator,
                       const struct member_progress *histories, size_t count, struct sided *sides, uint64_t seq) {
    struct signature classes[16];
    size_t sided = 0, class_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (histories[i].progress.enqueued <= seq)
            continue;
        struct signature signature = signature_of(world, histories[i].member, seq);
        size_t class = 0;
        while (class < class_count && !agree(&classes[class], &signature))
            class ++;
        if (!signature.call || class == sizeof classes / sizeof *classes)
            continue;
        if (class == class_count)
            classes[class_count++] = signature;
        sides[sided++] = (struct sided){histories[i].member, class};
    }
    if (class_count < 2)
        return true;
    if (!take_sides(mismatch, sides, sided))
        return false;
    mismatch->communicator = communicator;
    mismatch->from_seq = mismatch->to_seq = seq;
    find_calls(mismatch, world);
    return true;
}

/* Collectives are hashed when they return: the one that members sit in is compared by its slots. Those who have left it
 * already, a Bcast's root for one, are asked for their record. */
static bool compare_current(struct mismatch *mismatch, struct world *world, struct shared_communicator *communicator,
                            const struct member_progress *histories, size_t count, struct sided *sides) {
    uint64_t seq = UINT64_MAX;
    for (size_t i = 0; i < count; i++)
        if (histories[i].progress.enqueued > histories[i].progress.hashed && histories[i].progress.hashed < seq)
            seq = histories[i].progress.hashed;
    if (seq == UINT64_MAX || (mismatch->communicator && seq >= mismatch->to_seq))
        return true;
    return compare_at(mismatch, world, communicator, histories, count, sides, seq);
}

/* ---- what was overcome ----------------------------------------------------------------------- */

/* Up to which number all members have ended their collectives; 0 where GPUs do not tell. What MPI lets one out of may
 * have left messages behind that the next one takes for its own. */
static uint64_t ended_by_all(const struct world *world, const struct member_progress *histories, size_t count) {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct progress *progress = &histories[i].progress;
        const struct dump *dump = world->parties[histories[i].member->party].dump;
        const struct call_name *last =
            progress->last_call <= UINT16_MAX ? dump_call(dump, (uint16_t)progress->last_call) : NULL;
        uint64_t ended = last && last->api == API_NCCL ? progress->completed : 0;
        least = ended < least ? ended : least;
    }
    return least;
}

/* Histories that differ once do so for ever: behind what was overcome the open collectives are compared one by one. */
static bool compare_open(struct mismatch *mismatch, struct world *world, struct shared_communicator *communicator,
                         const struct member_progress *histories, size_t count, struct sided *sides) {
    uint64_t from = ended_by_all(world, histories, count), to = 0;
    bool done = true;
    for (size_t i = 0; i < count; i++)
        to = histories[i].progress.enqueued > to ? histories[i].progress.enqueued : to;
    to = to - from > OPEN_LOOKED_AT ? from + OPEN_LOOKED_AT : to;
    for (uint64_t seq = from; done && seq < to && !mismatch->communicator; seq++)
        done = compare_at(mismatch, world, communicator, histories, count, sides, seq);
    return done;
}

/* Of two communicators the one whose members disagreed earlier counts. */
static void keep_earlier(struct mismatch *kept, struct mismatch *found) {
    if (!found->communicator || (kept->communicator && found->to_seq >= kept->to_seq)) {
        mismatch_free(found);
        return;
    }
    mismatch_free(kept);
    *kept = *found;
}

static bool compare_members(struct mismatch *mismatch, struct mismatch *overcome, struct world *world,
                            struct shared_communicator *communicator, const struct member_progress *histories,
                            size_t count, struct sided *sides) {
    struct mismatch found = {0}, open = {0};
    bool done = compare_histories(&found, world, communicator, histories, count, sides);
    if (done && found.communicator && ended_by_all(world, histories, count) > found.to_seq + MISMATCH_OVERCOME) {
        keep_earlier(overcome, &found);
        done = compare_open(&open, world, communicator, histories, count, sides);
        keep_earlier(mismatch, &open);
        return done;
    }
    done = done && compare_current(&found, world, communicator, histories, count, sides);
    keep_earlier(mismatch, &found);
    return done;
}

static bool look_at_communicator(struct mismatch *mismatch, struct mismatch *overcome, struct world *world,
                                 struct shared_communicator *communicator) {
    struct member_progress *histories = malloc(communicator->present_count * sizeof *histories);
    struct sided *sides = malloc(communicator->present_count * sizeof *sides);
    size_t count = 0;
    bool done = histories && sides;
    for (uint32_t i = 0; done && i < communicator->present_count; i++)
        if (membership_history(world, &communicator->present[i], &histories[count].progress))
            histories[count++].member = &communicator->present[i];
    done = done && (count < 2 || compare_members(mismatch, overcome, world, communicator, histories, count, sides));
    free(histories);
    free(sides);
    return done;
}

bool desync_find(struct mismatch *mismatch, struct mismatch *overcome, struct world *world) {
    *mismatch = *overcome = (struct mismatch){0};
    bool done = true;
    for (uint32_t c = 0; done && c < world->communicator_count; c++) {
        struct shared_communicator *communicator = &world->communicators[c];
        if (communicator->kind == COMMUNICATOR_INTRA && communicator->present_count > 1)
            done = look_at_communicator(mismatch, overcome, world, communicator);
    }
    return done;
}

bool mismatch_of_sizes(struct mismatch *mismatch, const struct world *world, struct shared_communicator *communicator,
                       uint64_t seq) {
    uint32_t count = communicator->present_count, *parties = malloc((count + 1) * sizeof *parties);
    struct mismatch found = {.communicator = communicator, .from_seq = seq, .to_seq = seq, .unfit = true};
    if (!parties)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct membership *member = &communicator->present[i];
        struct signature signature = signature_of(world, member, seq);
        if ((signature.unfit ? found.other_count : found.expected_count) == 0)
            *(signature.unfit ? &found.other : &found.expected) = signature;
        found.total_in += signature.bytes;
        found.total_out += signature.bytes_out;
        if (signature.unfit)
            parties[count - ++found.other_count] = member->party;
        else
            parties[found.expected_count++] = member->party;
    }
    if (found.other_count == 0) {
        free(parties);
        return true;
    }
    for (uint32_t *first = parties + found.expected_count, *last = parties + count - 1; first < last; first++, last--) {
        uint32_t party = *first; /* they came from the end on */
        *first = *last;
        *last = party;
    }
    found.parties = parties;
    found.other_party = parties[found.expected_count];
    found.expected_party = parties[0];
    *mismatch = found;
    return true;
}

bool mismatch_of_message(struct mismatch *mismatch, struct shared_communicator *communicator, uint32_t seq,
                         uint32_t sender, const struct signature *sent, uint32_t receiver,
                         const struct signature *received) {
    uint32_t *parties = malloc(2 * sizeof *parties);
    if (!parties)
        return false;
    parties[0] = sender;
    parties[1] = receiver;
    *mismatch = (struct mismatch){.communicator = communicator,
                                  .from_seq = seq,
                                  .to_seq = seq,
                                  .parties = parties,
                                  .expected_count = 1,
                                  .other_count = 1,
                                  .message = true,
                                  .number = SEQ_NONE,
                                  .tie = true,
                                  .expected = *sent,
                                  .other = *received,
                                  .expected_party = sender,
                                  .other_party = receiver};
    return true;
}

void mismatch_free(struct mismatch *mismatch) {
    free(mismatch->parties);
    *mismatch = (struct mismatch){0};
}
