/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of phrases.h.
 * Lives here: how single things are said. Must not live here: whole sentences, judging.
 */
#include "analyzer/diagnose/phrases.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/findings/findings.h"
#include "analyzer/load/code_names.h"

enum { LIST = 160 };

void phrase(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

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
        phrase(text, size, ")");
    }
    phrase_communicator(text, size, wait->communicator);
    if (wait->device)
        phrase(text, size, ", on its GPU");
}

static void append_since(const struct diagnosis *diagnosis, uint32_t party, char *text, size_t size) {
    const struct dump *dump = diagnosis->world.parties[party].dump;
    uint64_t since = diagnosis->wait_for_graph.parties[party].since;
    if (dump && since > dump->header->activated_ticks && dump->header->activated_ticks > 0)
        phrase(text, size, " since %.1f s after its start",
               (double)dump_duration_ns(dump, since - dump->header->activated_ticks) / 1e9);
}

/* " at train_step (train.py:42)" where the call site is on record. */
static void append_site(char *text, size_t size, const struct diagnosis *diagnosis, uint32_t party, uint32_t stack) {
    if (diagnosis->labels && stack != STACK_NONE && party < diagnosis->world.dump_count)
        phrase(text, size, " at %.120s", site_label(diagnosis->labels, party, stack));
}

void say_sites(struct diagnosis *diagnosis) {
    const struct mismatch *m = &diagnosis->mismatch;
    append_site(diagnosis->expected_site, sizeof diagnosis->expected_site, diagnosis, m->expected_party,
                m->expected.call ? m->expected.stack : STACK_NONE);
    append_site(diagnosis->other_site, sizeof diagnosis->other_site, diagnosis, m->other_party,
                m->other.call ? m->other.stack : STACK_NONE);
}

/* The newest call on record; NULL when there is none. */
static const struct record *last_call(const struct dump *dump) {
    const struct record *last = NULL;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        for (uint64_t t = l->end_ticket; l->ring && !l->state->device && t > l->first_ticket; t--) {
            const struct record *r = &l->ring[(t - 1) & (l->ring_records - 1)];
            if (r->commit != t || (r->kind != RECORD_CALL && r->kind != RECORD_POST))
                continue;
            if (!last || r->t1 > last->t1)
                last = r;
            break;
        }
    }
    return last;
}

/* ", after MPI_Allreduce at train_step (train.py:42)" */
static void append_last_call(char *text, size_t size, const struct diagnosis *diagnosis, uint32_t party) {
    const struct dump *dump = diagnosis->world.parties[party].dump;
    const struct record *last = dump ? last_call(dump) : NULL;
    const struct call_name *call = last ? dump_call(dump, last->call) : NULL;
    if (!call)
        return;
    phrase(text, size, ", after %.40s", call->name);
    append_site(text, size, diagnosis, party, last->stack);
}

/* The call site of a wait; work on a GPU was called from where its collective was. */
static uint32_t stack_of(const struct diagnosis *diagnosis, const struct wait *wait) {
    const struct membership *member = wait->device ? world_membership(wait->communicator, wait->party) : NULL;
    return member ? signature_of(&diagnosis->world, member, wait->seq).stack : wait->stack;
}

void say_where(const struct diagnosis *diagnosis, uint32_t party, char *text, size_t size) {
    const struct party_state *state = &diagnosis->wait_for_graph.parties[party];
    const struct wait *wait =
        state->doing == DOING_BLOCKED ? &diagnosis->wait_for_graph.items[state->first_wait] : NULL;
    text[0] = '\0';
    switch (state->doing) {
    case DOING_BLOCKED:
        phrase_wait(diagnosis, wait, text, size);
        append_site(text, size, diagnosis, party, stack_of(diagnosis, wait));
        break;
    case DOING_CALL:
        snprintf(text, size, "%.40s", state->call->name);
        append_site(text, size, diagnosis, party, state->stack);
        break;
    case DOING_POLL:
        snprintf(text, size, "user code, asking with %.40s", state->call->name);
        append_site(text, size, diagnosis, party, state->stack);
        break;
    case DOING_INIT:
        snprintf(text, size, "MPI_Init");
        break;
    case DOING_FINALIZE:
        snprintf(text, size, "MPI_Finalize");
        break;
    case DOING_FINISHED:
        snprintf(text, size, "after MPI_Finalize");
        break;
    case DOING_USER_CODE:
        snprintf(text, size, "user code");
        append_since(diagnosis, party, text, size);
        append_last_call(text, size, diagnosis, party);
        break;
    case DOING_GONE:
    case DOING_UNKNOWN:
        break;
    }
}

void say_wait_of(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size) {
    int32_t ranks[16];
    char who[LIST];
    size_t count = wait_targets(diagnosis, wait, ranks, sizeof ranks / sizeof *ranks);
    if (count == 0) {
        snprintf(text, size, "waits");
        return;
    }
    say_ranks(who, sizeof who, ranks, count);
    snprintf(text, size, "waits for %s%s", who, count == sizeof ranks / sizeof *ranks ? " ..." : "");
}

void phrase_death(char *text, size_t size, const struct job_end *end) {
    if (end->signal > 0)
        phrase(text, size, ", of signal %d", end->signal);
    else if (end->status >= 0)
        phrase(text, size, ", with exit status %d", end->status);
}

static bool say_death(const struct diagnosis *diagnosis, struct culprit *culprit) {
    const struct job_end *end = diagnosis->end;
    if (!end || !end->dead_known || !end->sure || end->dead != culprit->party || culprit->state != CULPRIT_DEAD)
        return false;
    snprintf(culprit->reason, sizeof culprit->reason, "was the first to die");
    phrase_death(culprit->reason, sizeof culprit->reason, end);
    return true;
}

void say_sink(struct diagnosis *diagnosis, struct culprit *culprit) {
    const struct party_state *state = &diagnosis->wait_for_graph.parties[culprit->party];
    const struct party *party = &diagnosis->world.parties[culprit->party];
    const char *reason = "";
    if (say_death(diagnosis, culprit))
        return;
    switch (culprit->state) {
    case CULPRIT_NO_DUMP:
        reason = "left no dump: it never started, was not recorded, or its dump was not collected";
        break;
    case CULPRIT_DEAD:
        reason = state->gone == GONE_ABORTED  ? "called MPI_Abort"
                 : state->gone == GONE_EXITED ? "exited without MPI_Finalize"
                                              : "its process is dead: killed or crashed";
        break;
    case CULPRIT_FINALISED:
        reason = "had finished: it came to MPI_Finalize without it";
        break;
    case CULPRIT_BLOCKED:
        reason = state->doing == DOING_CALL        ? "called it too, but has not come out of the call"
                 : state->doing == DOING_USER_CODE ? "called it too, but its GPU has not begun it: what lies before it "
                                                     "on the stream does not end"
                                                   : "has not come out of it, though all have come to it: stopped, or "
                                                     "its messages do not get through";
        break;
    default:
        reason = state->doing == DOING_POLL       ? "asks for something again and again"
                 : state->doing == DOING_CALL     ? "is in another call"
                 : state->doing == DOING_INIT     ? "has not come out of MPI_Init"
                 : party->process == PROCESS_RUNS ? "alive in its own code"
                                                  : "was in its own code when last seen, alive or already dead";
    }
    snprintf(culprit->reason, sizeof culprit->reason, "%s",
             state->stopped ? "its process is stopped by a signal (kill -CONT lets it go on)" : reason);
}

void phrase_signature(char *text, size_t size, const struct signature *signature, const struct signature *other) {
    if (!signature->call) {
        phrase(text, size, "something else (no longer on record)");
        return;
    }
    phrase(text, size, "%.40s", signature->call->name);
    const char *open = "(";
    if (signature->bytes != BYTES_UNKNOWN && signature->bytes > 0) {
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

void say_mismatch_of(const struct diagnosis *diagnosis, struct culprit *culprit, bool other) {
    const struct mismatch *mismatch = &diagnosis->mismatch;
    snprintf(culprit->reason, sizeof culprit->reason, "called ");
    phrase_signature(culprit->reason, sizeof culprit->reason, other ? &mismatch->other : &mismatch->expected,
                     other ? &mismatch->expected : &mismatch->other);
    if (mismatch->from_seq == mismatch->to_seq)
        phrase(culprit->reason, sizeof culprit->reason, " as #%" PRIu64, mismatch->from_seq);
    phrase_communicator(culprit->reason, sizeof culprit->reason, mismatch->communicator);
}

void phrase_duration(char *text, size_t size, int64_t ns) {
    if (ns < 1000000)
        phrase(text, size, "%.0f us", (double)ns / 1e3);
    else if (ns < 1000000000)
        phrase(text, size, "%.1f ms", (double)ns / 1e6);
    else
        phrase(text, size, "%.1f s", (double)ns / 1e9);
}
