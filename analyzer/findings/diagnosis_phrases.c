/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/diagnosis_phrases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings/words.h"
#include "analyzer/load/code_names.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/ranks.h"

enum { LIST = 160 };

void phrase_communicator(char *text, size_t size, const struct shared_communicator *communicator) {
    if (!communicator)
        return;
    if (communicator->name[0])
        phrase(text, size, " on %.64s", communicator->name);
    else
        phrase(text, size, " on communicator %016" PRIx64, communicator->uid);
}

/* A partner by its world rank where it is known, else by its rank in the communicator. */
static void append_partner(char *text, size_t size, const struct diagnosis *diagnosis, const char *role, int32_t peer,
                           uint32_t party) {
    if (peer == PEER_ANY)
        phrase(text, size, "%s any", role);
    else if (peer == PEER_NULL)
        phrase(text, size, "%s none", role);
    else if (party != NOBODY && diagnosis->world.parties[party].rank >= 0)
        phrase(text, size, "%s %" PRId32, role, diagnosis->world.parties[party].rank);
    else
        phrase(text, size, "%s %" PRId32 " of the communicator", role, peer);
}

void phrase_stalled(char *text, size_t size, const struct stalled *stalled) {
    phrase(text, size, "%.40s #%" PRIu32, stalled->call->name, stalled->seq);
    if (stalled->replayed)
        phrase(text, size, " in CUDA graphs");
    if (stalled->started)
        phrase(text, size, ", start #%" PRIu32 ",", stalled->start);
    phrase_communicator(text, size, stalled->communicator);
}

static void append_tag(char *text, size_t size, int32_t tag) {
    if (tag == TAG_ANY)
        phrase(text, size, ", any tag");
    else if (tag != TAG_NONE)
        phrase(text, size, ", tag %" PRId32, tag);
}

void phrase_wait(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size) {
    snprintf(text, size, "%.40s", wait->call->name);
    if (wait->collective && wait->seq != SEQ_NONE) {
        phrase(text, size, " #%" PRIu32, wait->seq);
        if (wait->started)
            phrase(text, size, ", start #%" PRIu32 ",", (uint32_t)wait->tag);
    } else if (wait->call->call_class == CLASS_WAIT && wait->requests != 1) {
        if (wait->requests > 0)
            phrase(text, size, " of %" PRIu32 " requests", wait->requests);
    } else if (wait->peer != PEER_NONE) {
        bool receives = wait->call->call_class == CLASS_RECV || wait->call->call_class == CLASS_PROBE;
        phrase(text, size, "(");
        append_partner(text, size, diagnosis,
                       receives                               ? "source"
                       : wait->call->call_class == CLASS_WAIT ? "partner"
                                                              : "destination",
                       wait->peer, wait->peer_party);
        append_tag(text, size, wait->tag);
        if (wait->number != SEQ_NONE)
            phrase(text, size, ", p2p_seq_id %" PRIu32, wait->number);
        else if (wait->call->api == API_NCCL && wait->seq != SEQ_NONE)
            phrase(text, size, ", message #%" PRIu32, wait->seq);
        phrase(text, size, ")");
    }
    if (wait->replayed)
        phrase(text, size, " in a CUDA graph");
    phrase_communicator(text, size, wait->communicator);
    if (wait->device)
        phrase(text, size, ", on its GPU");
}

static void phrase_since(char *text, size_t size, int64_t after_ns) {
    char after[32];
    say_seconds(after, sizeof after, after_ns);
    phrase(text, size, " since %s after its start", after);
}

static void append_since(const struct diagnosis *diagnosis, uint32_t party, char *text, size_t size) {
    const struct dump *dump = diagnosis->world.parties[party].dump;
    uint64_t since = diagnosis->wait_for_graph.parties[party].since;
    if (dump && since > dump->header->activated_ticks && dump->header->activated_ticks > 0)
        phrase_since(text, size, dump_duration_ns(dump, since - dump->header->activated_ticks));
}

/* " at train_step (train.py:42)" where the call site is on record. */
static void append_site(char *text, size_t size, const struct diagnosis *diagnosis, struct site_labels *labels,
                        uint32_t party, uint32_t stack) {
    if (labels && stack != STACK_NONE && party < diagnosis->world.dump_count)
        phrase(text, size, " at %.120s", site_label(labels, party, stack));
}

void say_mismatch_site(const struct diagnosis *diagnosis, struct site_labels *labels, bool other, char *text,
                       size_t size) {
    const struct mismatch *m = &diagnosis->mismatch;
    const struct signature *signature = other ? &m->other : &m->expected;
    text[0] = '\0';
    append_site(text, size, diagnosis, labels, other ? m->other_party : m->expected_party,
                signature->call ? signature->stack : STACK_NONE);
}

void say_message_site(const struct diagnosis *diagnosis, struct site_labels *labels, const struct message_side *side,
                      char *text, size_t size) {
    text[0] = '\0';
    append_site(text, size, diagnosis, labels, side->party, side->stack);
}

void phrase_message_call(char *text, size_t size, const struct diagnosis *diagnosis, const struct message_side *side,
                         bool sent) {
    phrase(text, size, "%.40s(", side->call->name);
    append_partner(text, size, diagnosis, sent ? "destination" : "source", side->peer_party == NOBODY ? PEER_ANY : 0,
                   side->peer_party);
    append_tag(text, size, side->tag);
    phrase(text, size, ")");
    phrase_communicator(text, size, side->communicator);
}

/* ", after MPI_Allreduce at train_step (train.py:42)" */
static void append_last_call(char *text, size_t size, const struct diagnosis *diagnosis, struct site_labels *labels,
                             const struct culprit *culprit) {
    if (!culprit->last_call)
        return;
    phrase(text, size, ", after %.40s", culprit->last_call->name);
    append_site(text, size, diagnosis, labels, culprit->party, culprit->last_stack);
}

/* The call site of a wait; work on a GPU was called from where its collective was. */
static uint32_t stack_of(const struct diagnosis *diagnosis, const struct wait *wait) {
    bool enqueued = wait->device && wait->collective && !wait->replayed;
    const struct membership *member = enqueued ? world_membership(wait->communicator, wait->party) : NULL;
    return member ? signature_of(&diagnosis->world, member, wait->seq).stack : wait->stack;
}

void say_wait_site(const struct diagnosis *diagnosis, struct site_labels *labels, const struct wait *wait, char *text,
                   size_t size) {
    text[0] = '\0';
    append_site(text, size, diagnosis, labels, wait->party, stack_of(diagnosis, wait));
}

static bool party_is_nccl_alone(const struct diagnosis *diagnosis, uint32_t party) {
    const struct dump *dump = diagnosis->world.parties[party].dump;
    return dump && is_nccl_alone(dump);
}

const char *name_of_start(const struct diagnosis *diagnosis, uint32_t party) {
    return party_is_nccl_alone(diagnosis, party) ? "its start, before its first communicator" : "MPI_Init";
}

const char *name_of_end(const struct diagnosis *diagnosis, uint32_t party) {
    return party_is_nccl_alone(diagnosis, party) ? "its end" : "MPI_Finalize";
}

void say_where(const struct diagnosis *diagnosis, struct site_labels *labels, const struct culprit *culprit, char *text,
               size_t size) {
    uint32_t party = culprit->party;
    const struct party_state *state = &diagnosis->wait_for_graph.parties[party];
    size_t first = culprit->blame == BLAME_CYCLE || culprit->blame == BLAME_UNSENT ? culprit->wait : state->first_wait;
    const struct wait *wait = state->doing == DOING_BLOCKED ? &diagnosis->wait_for_graph.items[first] : NULL;
    text[0] = '\0';
    switch (state->doing) {
    case DOING_BLOCKED:
        phrase_wait(diagnosis, wait, text, size);
        append_site(text, size, diagnosis, labels, party, stack_of(diagnosis, wait));
        break;
    case DOING_CALL:
        snprintf(text, size, "%.40s", state->call->name);
        append_site(text, size, diagnosis, labels, party, state->stack);
        break;
    case DOING_POLL:
        snprintf(text, size, "user code, asking with %.40s", state->call->name);
        append_site(text, size, diagnosis, labels, party, state->stack);
        break;
    case DOING_INIT:
        snprintf(text, size, "%s", name_of_start(diagnosis, party));
        break;
    case DOING_FINALIZE:
        snprintf(text, size, "MPI_Finalize");
        break;
    case DOING_FINISHED:
        snprintf(text, size, "after %s", name_of_end(diagnosis, party));
        break;
    case DOING_USER_CODE:
        snprintf(text, size, "user code");
        append_since(diagnosis, party, text, size);
        append_last_call(text, size, diagnosis, labels, culprit);
        break;
    case DOING_GONE:
    case DOING_UNKNOWN:
        break;
    }
}

void say_wait_of(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size) {
    int32_t ranks[16];
    char who[LIST];
    size_t count = wait_targets(&diagnosis->wait_for_graph, wait, ranks, sizeof ranks / sizeof *ranks);
    size_t possible =
        count > 0 ? 0 : wait_possible_targets(&diagnosis->wait_for_graph, wait, ranks, sizeof ranks / sizeof *ranks);
    if (count + possible == 0) {
        snprintf(text, size, "waits");
        return;
    }
    say_ranks(who, sizeof who, ranks, count + possible);
    snprintf(text, size, "waits for %s%s%s", possible ? "one or more of " : "", who,
             count == sizeof ranks / sizeof *ranks ? " ..." : "");
    if (wait->locked)
        phrase(text, size, ", which %s the lock", count == 1 ? "holds" : "hold");
    else if (possible)
        phrase(text, size, ": which of them lacks its half is overwritten");
    else if (wait->never && diagnosis->wait_for_graph.parties[wait->peer_party].doing == DOING_BLOCKED)
        phrase(text, size,
               ", which never called the other half, nor one of an earlier message, as far as is on record");
}

void phrase_death(char *text, size_t size, const struct job_end *end) {
    if (end->signal > 0)
        phrase(text, size, ", of signal %d", end->signal);
    else if (end->status >= 0)
        phrase(text, size, ", with exit status %d", end->status);
}

static bool say_death(const struct diagnosis *diagnosis, const struct culprit *culprit, char *text, size_t size) {
    const struct job_end *end = &diagnosis->end;
    if (!end->dead_known || !end->sure || end->dead != culprit->party || culprit->state != CULPRIT_DEAD)
        return false;
    snprintf(text, size, "was the first to die");
    phrase_death(text, size, end);
    return true;
}

/* ", away from the library for 20.1 s by then, on record before that for 3.2 ms at most"; of an import ", its newest
 * entry 640 s old when the file was written, entries before that 1.0 ms apart at most" */
static void append_absence(char *text, size_t size, const struct diagnosis *diagnosis, const struct culprit *culprit) {
    const struct absence *absence = &culprit->absence;
    const struct dump *dump = diagnosis->world.parties[culprit->party].dump;
    bool stands = diagnosis->standing.kind == STANDING_NONE, imported = dump && dump->header->pid == 0;
    char away[32], longest[32];
    if (absence->away_ns <= 0) /* at 0 it ended together with its last call */
        return;
    say_seconds(away, sizeof away, absence->away_ns);
    say_seconds(longest, sizeof longest, absence->longest_ns);
    if (imported)
        phrase(text, size, ", its newest entry %s %s", away,
               dump->lived_on_ms > 0 ? "old when the file was written" : "older than the newest of all");
    else
        phrase(text, size, ", away from the library for %s by %s", away, stands ? "now" : "then");
    if (absence->longest_ns < 0)
        return;
    if (imported)
        phrase(text, size, ", entries before that %s apart at most", longest);
    else
        phrase(text, size, ", on record before that for %s at most", longest);
}

/* Of a job that may have been killed at work, what was under way then need not have stood. */
static const char *reason_of_blocked(const struct diagnosis *diagnosis, const struct party_state *state) {
    if (state->doing == DOING_CALL)
        return "called it too, but has not come out of the call";
    if (state->doing == DOING_USER_CODE && diagnosis->standing.kind == STANDING_UNTOLD)
        return "called it too, but its GPU had not begun it by then: something lay before it on the stream";
    if (state->doing == DOING_USER_CODE)
        return "called it too, but its GPU has not begun it: what lies before it on the stream does not end";
    return "has not come out of it, though all have come to it: stopped, or its messages do not get through";
}

bool say_met(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size) {
    bool untold = diagnosis->standing.kind == STANDING_UNTOLD;
    if (!wait->met || wait->peer_party == NOBODY)
        return false;
    const struct rank_text other = rank_text(diagnosis->world.parties[wait->peer_party].rank);
    const struct dump *dump = diagnosis->world.parties[wait->party].dump;
    if (dump->header->pid == 0 && dump->header->gpu_timing_why[0] != '\0')
        snprintf(text, size,
                 "has not come out of it, though %s has called its half, too; whether their GPUs began it is not on "
                 "record (TORCH_NCCL_ENABLE_TIMING=1 has that noted)",
                 other.text);
    else
        snprintf(text, size, "%s not come out of it, though %s %s come to its half, too%s", untold ? "had" : "has",
                 other.text, untold ? "had" : "has",
                 untold ? "" : ": it does not move, which points at the transport between the two");
    return true;
}

/* A host that is in its own code may wait there for its GPU, which others' calls do not show. */
static bool say_not_begun(const struct diagnosis *diagnosis, const struct culprit *culprit, char *text, size_t size) {
    struct not_begun held;
    bool untold = diagnosis->standing.kind == STANDING_UNTOLD;
    bool here = culprit->state == CULPRIT_IN_USER_CODE &&
                diagnosis->wait_for_graph.parties[culprit->party].doing == DOING_USER_CODE;
    if (!here || !not_begun_find(&diagnosis->world, culprit->party, &held))
        return false;
    snprintf(text, size, "its GPU %s not begun %.40s #%" PRIu64, untold ? "had" : "has", held.call->name, held.seq);
    phrase_communicator(text, size, held.communicator);
    phrase(text, size, ", which it has called: what lies before that on the stream %s",
           untold ? "had not ended" : "does not end");
    return true;
}

static const char *reason_of_untold(const struct party *party) {
    return party->unread ? "nothing in its file could be read: what it did is not known"
           : party->outdated
               ? "was at work when its file was written, before the others' were: what it did since is not "
                 "known"
               : "its dump lies on its node still: what it does is not known here";
}

static bool say_met_by(const struct diagnosis *diagnosis, const struct party_state *state, char *text, size_t size) {
    return state->doing == DOING_BLOCKED && !state->stopped &&
           say_met(diagnosis, &diagnosis->wait_for_graph.items[state->first_wait], text, size);
}

static bool waits_for(const struct diagnosis *diagnosis, const struct wait *wait, uint32_t party) {
    const struct and_or_graph *graph = &diagnosis->wait_for_graph.graph;
    for (size_t i = graph->first[wait->node]; i < graph->first[wait->node + 1]; i++)
        if (graph->targets[i] == party)
            return true;
    return false;
}

/* ", having launched CUDA graphs that hold communicator ... 41 times, rank 0 42 times" */
static void append_launches(char *text, size_t size, const struct diagnosis *diagnosis, const struct culprit *culprit) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    for (size_t i = 0; i < waits->count; i++) {
        const struct wait *wait = &waits->items[i];
        const struct membership *member = wait->replayed && waits_for(diagnosis, wait, culprit->party)
                                              ? world_membership(wait->communicator, culprit->party)
                                              : NULL;
        if (!member)
            continue;
        const struct dump *dump = diagnosis->world.parties[culprit->party].dump;
        phrase(text, size, ", having launched CUDA graphs with %.40s", wait->call->name);
        phrase_communicator(text, size, wait->communicator);
        phrase(text, size, " %" PRIu64 " times, %s %" PRIu64 " times",
               captured_progress_read(dump, member->local).launched,
               rank_text(diagnosis->world.parties[wait->party].rank).text, wait->launched);
        return;
    }
}

/* What it has done before, and for how long nothing. */
static void append_history(char *text, size_t size, const struct diagnosis *diagnosis, const struct culprit *culprit) {
    append_launches(text, size, diagnosis, culprit);
    append_absence(text, size, diagnosis, culprit);
}

/* Why others wait for it. */
static void say_awaited(const struct diagnosis *diagnosis, const struct culprit *culprit, char *text, size_t size) {
    const struct party_state *state = &diagnosis->wait_for_graph.parties[culprit->party];
    const struct party *party = &diagnosis->world.parties[culprit->party];
    bool nccl_alone = party_is_nccl_alone(diagnosis, culprit->party);
    const char *reason = "";
    if (say_death(diagnosis, culprit, text, size) || say_met_by(diagnosis, state, text, size))
        return;
    switch (culprit->state) {
    case CULPRIT_NO_DUMP:
        reason = "left no dump: it never started, was not recorded, or its dump was not collected";
        break;
    case CULPRIT_NOT_COLLECTED:
        reason = reason_of_untold(party);
        break;
    case CULPRIT_DEAD:
        reason = state->gone == GONE_ABORTED ? "called MPI_Abort"
                 : state->gone == GONE_EXITED
                     ? nccl_alone ? "exited without ever having had a communicator" : "exited without MPI_Finalize"
                     : "its process is dead: killed, crashed or gone by _exit()";
        break;
    case CULPRIT_FINALISED:
        reason = nccl_alone ? "had finished: it came to its end without it"
                            : "had finished: it came to MPI_Finalize without it";
        break;
    case CULPRIT_BLOCKED:
        reason = reason_of_blocked(diagnosis, state);
        break;
    default:
        reason = state->doing == DOING_POLL   ? "asks for something again and again"
                 : state->doing == DOING_CALL ? "is in another call"
                 : state->doing == DOING_INIT
                     ? nccl_alone ? "has made no communicator yet" : "has not come out of MPI_Init"
                 : party->process == PROCESS_RUNS ? "alive in its own code"
                                                  : "was in its own code when last seen, alive or already dead";
    }
    if (state->stopped || !say_not_begun(diagnosis, culprit, text, size))
        snprintf(text, size, "%s",
                 state->stopped ? "its process is stopped by a signal (kill -CONT lets it go on)" : reason);
    append_history(text, size, diagnosis, culprit);
}

void phrase_signature(char *text, size_t size, const struct signature *signature, const struct signature *other) {
    if (!signature->call) {
        phrase(text, size, "something else (no longer on record)");
        return;
    }
    phrase(text, size, "%.40s", signature->call->name);
    const char *open = "(";
    if (signature->unfit) {
        phrase(text, size, "%s%" PRIu64 " bytes in, %" PRIu64 " bytes out", open, signature->bytes,
               signature->bytes_out);
        open = ", ";
    } else if (signature->bytes != BYTES_UNKNOWN && signature->bytes > 0) {
        phrase(text, size, "%s%" PRIu64 " bytes", open, signature->bytes);
        open = ", ";
    }
    if (signature->root >= 0) {
        phrase(text, size, "%sroot %" PRId32, open, signature->root);
        open = ", ";
    }
    bool both = signature->recorded && other->recorded;
    const char *type = datatype_name(signature->dtype), *reduction = redop_name(signature->redop);
    if (both && type && signature->dtype != other->dtype) {
        phrase(text, size, "%s%s", open, type);
        open = ", ";
    }
    if (both && reduction && signature->redop != other->redop) {
        phrase(text, size, "%s%s", open, reduction);
        open = ", ";
    }
    if (open[0] == ',')
        phrase(text, size, ")");
}

static void say_mismatched(const struct diagnosis *diagnosis, bool other, char *text, size_t size) {
    const struct mismatch *mismatch = &diagnosis->mismatch;
    snprintf(text, size, "called ");
    phrase_signature(text, size, other ? &mismatch->other : &mismatch->expected,
                     other ? &mismatch->expected : &mismatch->other);
    if (mismatch->from_seq == mismatch->to_seq && !(mismatch->message && mismatch->number != SEQ_NONE))
        phrase(text, size, " as #%" PRIu64, mismatch->from_seq);
    phrase_communicator(text, size, mismatch->communicator);
}

static void say_absent(const struct diagnosis *diagnosis, const struct culprit *culprit, char *text, size_t size) {
    const struct stalled *stalled = culprit->absent_from;
    size_t most = stalled->communicator->present_count, count;
    int32_t *ranks = calloc(most + 1, sizeof *ranks);
    char who[LIST] = "others";
    count = ranks ? stalled_waiting(&diagnosis->wait_for_graph, stalled, ranks, most) : 0;
    if (count > 0)
        say_ranks(who, sizeof who, ranks, count);
    free(ranks);
    snprintf(text, size, "never %s ", stalled->started ? "started" : "entered");
    phrase_stalled(text, size, stalled);
    phrase(text, size, ", in which %s wait%s%s", who, count == 1 ? "s" : "",
           culprit->went_on ? ", and has gone on with other calls" : "");
}

static void say_unsent(const struct diagnosis *diagnosis, const struct culprit *culprit, char *text, size_t size) {
    snprintf(text, size, "waits for a message from any source");
    append_tag(text, size, diagnosis->wait_for_graph.items[culprit->wait].tag);
    phrase(text, size, ", that nobody sends");
    if (culprit->received > 0)
        phrase(text, size, "; on record it has received %" PRIu64 " such before", culprit->received);
}

void say_reason(const struct diagnosis *diagnosis, const struct culprit *culprit, char *text, size_t size) {
    text[0] = '\0';
    switch (culprit->blame) {
    case BLAME_AWAITED:
        say_awaited(diagnosis, culprit, text, size);
        break;
    case BLAME_MISMATCH:
        say_mismatched(diagnosis, culprit->other_side, text, size);
        break;
    case BLAME_CYCLE:
        say_wait_of(diagnosis, &diagnosis->wait_for_graph.items[culprit->wait], text, size);
        break;
    case BLAME_UNSENT:
        say_unsent(diagnosis, culprit, text, size);
        break;
    case BLAME_ABSENT:
        say_absent(diagnosis, culprit, text, size);
        break;
    }
}
