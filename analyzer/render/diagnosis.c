/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: keys and looks.
 * Must not live here: judging, sentences.
 */
#include "analyzer/render/diagnosis.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/render/escape.h"
#include "analyzer/render/table.h"
#include "analyzer/render/wrapped_text.h"
#include "analyzer/wait_for_graph/ranks.h"

enum { TARGETS_SHOWN = 64 };

static json_t *party_rank(const struct diagnosis *diagnosis, uint32_t party) {
    int32_t rank = diagnosis->world.parties[party].rank;
    return rank >= 0 ? json_integer(rank) : json_null();
}

static json_t *uid_to_json(const struct shared_communicator *communicator) {
    char text[17];
    if (!communicator)
        return json_null();
    snprintf(text, sizeof text, "%016" PRIx64, communicator->uid);
    return json_string(text);
}

static json_t *name_to_json(const struct shared_communicator *communicator) {
    return communicator && communicator->name[0] ? escape_json(communicator->name) : json_null();
}

static json_t *ranks_to_json(const int32_t *ranks, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < count; i++)
        json_array_append_new(array, json_integer(ranks[i]));
    return array;
}

static json_t *members_to_json(struct diagnosis *diagnosis, const struct stalled *stalled, bool missing) {
    size_t most = (size_t)stalled->communicator->side_size[0] + stalled->communicator->side_size[1] + 1;
    int32_t *ranks = malloc(most * sizeof *ranks);
    if (!ranks)
        return NULL;
    json_t *array = ranks_to_json(ranks, stalled_ranks(&diagnosis->wait_for_graph, stalled, missing, ranks, most));
    free(ranks);
    return array;
}

static json_t *collectives_to_json(struct diagnosis *diagnosis) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < diagnosis->wait_for_graph.stalled_count; i++) {
        const struct stalled *stalled = &diagnosis->wait_for_graph.stalled[i];
        json_array_append_new(
            array,
            json_pack("{s:o, s:o, s:I, s:o, s:b, s:o, s:o, s:o}", "comm", uid_to_json(stalled->communicator),
                      "comm_name", name_to_json(stalled->communicator), "seq", (json_int_t)stalled->seq, "start",
                      stalled->started ? json_integer(stalled->start) : json_null(), "replayed", (int)stalled->replayed,
                      "op", escape_json(stalled->call->name), "entered", members_to_json(diagnosis, stalled, false),
                      "missing", members_to_json(diagnosis, stalled, true)));
    }
    return array;
}

static json_t *wait_to_json(const struct diagnosis *diagnosis, const struct wait *wait) {
    int32_t ranks[TARGETS_SHOWN];
    size_t count = wait_targets(&diagnosis->wait_for_graph, wait, ranks, TARGETS_SHOWN);
    bool tagged = !wait->collective && wait->tag != TAG_NONE && wait->tag != TAG_ANY && wait->peer != PEER_NONE;
    return json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "rank", party_rank(diagnosis, wait->party), "waits_for",
                     ranks_to_json(ranks, count), "op", escape_json(wait->call->name), "replayed", (int)wait->replayed,
                     "tag", tagged ? json_integer(wait->tag) : json_null(), "comm", uid_to_json(wait->communicator),
                     "seq", wait->collective ? json_integer(wait->seq) : json_null());
}

static json_t *cycle_to_json(const struct diagnosis *diagnosis) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < diagnosis->cycle_count; i++)
        json_array_append_new(array, wait_to_json(diagnosis, &diagnosis->wait_for_graph.items[diagnosis->cycle[i]]));
    return array;
}

static bool asks_for_waits(const struct filter *filter) {
    return filter->rank_count > 0 || filter_chooses_calls(filter);
}

static bool is_asked_for(const struct diagnosis *diagnosis, const struct filter *filter, const struct wait *wait) {
    const struct shared_communicator *communicator = wait->communicator;
    return filter_rank(filter, diagnosis->world.parties[wait->party].rank) && filter_op(filter, wait->call->name) &&
           filter_bytes(filter, wait->bytes) &&
           (!filter->comm || (communicator && filter_comm(filter, communicator->uid, communicator->name)));
}

static json_t *waits_to_json(const struct diagnosis *diagnosis, const struct filter *filter) {
    if (!asks_for_waits(filter))
        return json_null();
    json_t *array = json_array();
    for (size_t i = 0; array && i < diagnosis->wait_for_graph.count; i++)
        if (is_asked_for(diagnosis, filter, &diagnosis->wait_for_graph.items[i]))
            json_array_append_new(array, wait_to_json(diagnosis, &diagnosis->wait_for_graph.items[i]));
    return array;
}

static json_t *away_to_json(int64_t ns) {
    return ns < 0 ? json_null() : json_real((double)ns / 1e9);
}

static json_t *culprits_to_json(const struct diagnosis *diagnosis, const struct diagnosis_text *told) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < diagnosis->culprit_count; i++) {
        const struct culprit *culprit = &diagnosis->culprits[i];
        const struct culprit_text *words = &told->culprits[i];
        const struct dump *dump = diagnosis->world.parties[culprit->party].dump;
        json_array_append_new(
            array,
            json_pack("{s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "rank", party_rank(diagnosis, culprit->party), "host",
                      dump && dump->host[0] ? escape_json(dump->host) : json_null(), "pid",
                      dump ? json_integer(dump->header->pid) : json_null(), "state", culprit_state_name(culprit->state),
                      "where", words->where[0] ? escape_json(words->where) : json_null(), "reason",
                      escape_json(words->reason), "away_seconds", away_to_json(culprit->absence.away_ns),
                      "longest_away_seconds", away_to_json(culprit->absence.longest_ns)));
    }
    return array;
}

static json_t *side_to_json(const struct diagnosis *diagnosis, const uint32_t *parties, size_t count,
                            const struct signature *signature, const char *site) {
    json_t *ranks = json_array();
    for (size_t i = 0; ranks && i < count; i++)
        json_array_append_new(ranks, party_rank(diagnosis, parties[i]));
    bool known = signature->call != NULL;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "ranks", ranks, "op",
                     known ? escape_json(signature->call->name) : json_null(), "bytes",
                     known && signature->bytes != BYTES_UNKNOWN ? unsigned_to_json(signature->bytes) : json_null(),
                     "root", known && signature->root >= 0 ? json_integer(signature->root) : json_null(), "stack",
                     known && signature->stack != STACK_NONE ? json_integer(signature->stack) : json_null(), "site",
                     site[0] ? escape_json(site + strlen(" at ")) : json_null());
}

static json_t *mismatch_to_json(const struct diagnosis *diagnosis, const struct diagnosis_text *told) {
    const struct mismatch *m = &diagnosis->mismatch;
    if (!m->communicator)
        return json_null();
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:b, s:o, s:o}", "comm", uid_to_json(m->communicator), "comm_name",
        name_to_json(m->communicator), "from_seq", (json_int_t)m->from_seq, "to_seq", (json_int_t)m->to_seq, "tie",
        m->tie, "expected", side_to_json(diagnosis, m->parties, m->expected_count, &m->expected, told->expected_site),
        "other", side_to_json(diagnosis, m->parties + m->expected_count, m->other_count, &m->other, told->other_site));
}

static json_t *message_side_to_json(const struct diagnosis *diagnosis, const struct message_side *side,
                                    const char *site) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rank", party_rank(diagnosis, side->party), "peer",
                     side->peer_party == NOBODY ? json_null() : party_rank(diagnosis, side->peer_party), "op",
                     escape_json(side->call->name), "tag", side->tag == TAG_ANY ? json_null() : json_integer(side->tag),
                     "comm", uid_to_json(side->communicator), "comm_name", name_to_json(side->communicator), "bytes",
                     side->bytes == BYTES_UNKNOWN ? json_null() : unsigned_to_json(side->bytes), "site",
                     site[0] ? escape_json(site + strlen(" at ")) : json_null());
}

static json_t *unmatched_to_json(const struct diagnosis *diagnosis, const struct diagnosis_text *told) {
    static const char *const differences[] = {
        [DIFFERENT_TAG] = "tag", [DIFFERENT_COMMUNICATOR] = "comm", [DIFFERENT_SOURCE] = "source"};
    json_t *array = json_array();
    for (size_t i = 0; array && i < diagnosis->unmatched.count; i++) {
        const struct unmatched_message *message = &diagnosis->unmatched.items[i];
        const struct unmatched_text *sites = &told->unmatched[i];
        json_array_append_new(array,
                              json_pack("{s:o, s:o, s:s}", "wanted",
                                        message_side_to_json(diagnosis, &message->wanted, sites->wanted_site), "sent",
                                        message_side_to_json(diagnosis, &message->sent, sites->sent_site), "differs",
                                        differences[message->difference]));
    }
    return array;
}

json_t *diagnosis_brief_to_json(const struct diagnosis *diagnosis) {
    json_t *culprits = json_array();
    for (size_t i = 0; culprits && i < diagnosis->culprit_count; i++)
        json_array_append_new(culprits,
                              json_pack("{s:o, s:s}", "rank", party_rank(diagnosis, diagnosis->culprits[i].party),
                                        "state", culprit_state_name(diagnosis->culprits[i].state)));
    return json_pack("{s:s, s:s, s:o}", "verdict", verdict_name(diagnosis->verdict), "severity",
                     severity_name(diagnosis_severity(diagnosis)), "culprits", culprits);
}

/* Null where the job was seen to stand, or nobody waited. */
static json_t *standing_to_json(const struct diagnosis *diagnosis) {
    static const char *const kinds[] = {
        [STANDING_LONG] = "long", [STANDING_BRIEF] = "brief", [STANDING_UNTOLD] = "untold"};
    const struct standing *standing = &diagnosis->standing;
    if (standing->kind == STANDING_NONE)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:f, s:o, s:b, s:b}", "kind", kinds[standing->kind], "rank",
                     party_rank(diagnosis, standing->party), "op",
                     standing->call ? escape_json(standing->call->name) : json_null(), "seconds",
                     (double)standing->age_ns / 1e9, "usual_seconds",
                     standing->usual_ns < 0 ? json_null() : json_real((double)standing->usual_ns / 1e9),
                     "usual_of_others", standing->unlike, "end_known", standing->end_known);
}

json_t *diagnosis_to_json(struct diagnosis *diagnosis, const struct diagnosis_text *told, const struct job *job,
                          unsigned looks, const struct filter *filter) {
    json_t *text = json_array();
    for (size_t i = 0; text && i < told->sentence_count; i++)
        json_array_append_new(text, escape_json(told->sentences[i]));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o}", "schema",
                     "commtap.diagnose/1", "verdict", verdict_name(diagnosis->verdict), "severity",
                     severity_name(diagnosis_severity(diagnosis)), "standing", standing_to_json(diagnosis),
                     "collectives", collectives_to_json(diagnosis), "cycle", cycle_to_json(diagnosis), "culprits",
                     culprits_to_json(diagnosis, told), "run_id", escape_json(job->dumps[0]->run_id), "looks",
                     (json_int_t)looks, "mismatch", mismatch_to_json(diagnosis, told), "unmatched",
                     unmatched_to_json(diagnosis, told), "waits", waits_to_json(diagnosis, filter), "text", text);
}

void diagnosis_print(FILE *stream, const struct diagnosis *diagnosis, const struct diagnosis_text *told, bool color) {
    bool fine = diagnosis->verdict == VERDICT_OK;
    for (size_t i = 0; i < told->sentence_count; i++) {
        if (i > 0)
            fputs("  ", stream);
        else if (color)
            fputs(fine ? "\033[1;32m" : "\033[1;31m", stream);
        print_wrapped(stream, told->sentences[i], i > 0 ? 2 : 0, 2);
        if (i == 0 && color)
            fputs("\033[0m", stream);
    }
}

static void print_wait(FILE *stream, const struct diagnosis *diagnosis, const struct wait *wait) {
    int32_t ranks[TARGETS_SHOWN];
    size_t count = wait_targets(&diagnosis->wait_for_graph, wait, ranks, TARGETS_SHOWN);
    fprintf(stream, "  rank %" PRId32 ": ", diagnosis->world.parties[wait->party].rank);
    escape_text(stream, wait->call->name);
    if (wait->communicator) {
        fputs(" on ", stream);
        if (wait->communicator->name[0])
            escape_text(stream, wait->communicator->name);
        else
            fprintf(stream, "%016" PRIx64, wait->communicator->uid);
    }
    if (wait->collective)
        fprintf(stream, ", number %" PRIu32, wait->seq);
    fputs(count > 0 ? ", waits for" : "", stream);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "%s %" PRId32, i > 0 ? "," : "", ranks[i]);
    fputc('\n', stream);
}

void diagnosis_print_waits(FILE *stream, const struct diagnosis *diagnosis, const struct filter *filter, size_t top) {
    size_t count = 0;
    if (!asks_for_waits(filter))
        return;
    fputs("\nof what was asked for:\n", stream);
    for (size_t i = 0; i < diagnosis->wait_for_graph.count; i++)
        if (is_asked_for(diagnosis, filter, &diagnosis->wait_for_graph.items[i])) {
            if (count++ < top || top == 0)
                print_wait(stream, diagnosis, &diagnosis->wait_for_graph.items[i]);
        }
    if (count == 0)
        fputs("  nothing waits\n", stream);
    else if (top > 0 && count > top)
        fprintf(stream, "  ... and %zu more\n", count - top);
}
