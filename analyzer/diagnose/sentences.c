/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis in words.
 * Lives here: how it is said.
 * Must not live here: judging; layout.
 */
#include "analyzer/diagnose/sentences.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analyse/findings.h"
#include "analyzer/load/code_names.h"

enum { LIST = 160, SENTENCE = 1024, STALLED_SAID = 4, WAITS_SAID = 6, CULPRITS_SAID = 8 };

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 2, 3))) static void say(struct diagnosis *diagnosis, const char *format, ...) {
    char text[SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char **items = realloc(diagnosis->sentences, (diagnosis->sentence_count + 1) * sizeof *items);
    char *copy = strdup(text);
    if (items)
        diagnosis->sentences = items;
    if (!items || !copy) {
        free(copy);
        diagnosis->no_memory = true;
        return;
    }
    diagnosis->sentences[diagnosis->sentence_count++] = copy;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void append_communicator(char *text, size_t size, const struct shared_communicator *communicator) {
    if (!communicator)
        return;
    if (communicator->name[0])
        append(text, size, " on %.64s", communicator->name);
    else
        append(text, size, " on communicator %016" PRIx64, communicator->uid);
}

/* A partner by its world rank where it is known, else by its rank in the communicator. */
static void append_partner(char *text, size_t size, const struct diagnosis *diagnosis, const char *role, int32_t peer,
                           uint32_t party) {
    if (peer == PEER_ANY)
        append(text, size, "%s any", role);
    else if (peer == PEER_NULL)
        append(text, size, "%s none", role);
    else if (party != NOBODY && diagnosis->world.parties[party].rank >= 0)
        append(text, size, "%s %" PRId32, role, diagnosis->world.parties[party].rank);
    else
        append(text, size, "%s %" PRId32 " of the communicator", role, peer);
}

static void append_tag(char *text, size_t size, int32_t tag) {
    if (tag == TAG_ANY)
        append(text, size, ", any tag");
    else if (tag != TAG_NONE)
        append(text, size, ", tag %" PRId32, tag);
}

/* "MPI_Recv(source 5, tag 7) on MPI_COMM_WORLD" */
static void describe_wait(const struct diagnosis *diagnosis, const struct wait *wait, char *text, size_t size) {
    snprintf(text, size, "%.40s", wait->call->name);
    if (wait->collective && wait->seq != SEQ_NONE) {
        append(text, size, " #%" PRIu32, wait->seq);
    } else if (wait->call->call_class == CLASS_WAIT && wait->requests != 1) {
        if (wait->requests > 0)
            append(text, size, " of %" PRIu32 " requests", wait->requests);
    } else if (wait->peer != PEER_NONE) {
        bool receives = wait->call->call_class == CLASS_RECV || wait->call->call_class == CLASS_PROBE;
        append(text, size, "(");
        append_partner(text, size, diagnosis,
                       receives                               ? "source"
                       : wait->call->call_class == CLASS_WAIT ? "partner"
                                                              : "destination",
                       wait->peer, wait->peer_party);
        append_tag(text, size, wait->tag);
        append(text, size, ")");
    }
    append_communicator(text, size, wait->communicator);
    if (wait->device)
        append(text, size, ", on its GPU");
}

static void append_since(const struct diagnosis *diagnosis, uint32_t party, char *text, size_t size) {
    const struct dump *dump = diagnosis->world.parties[party].dump;
    uint64_t since = diagnosis->blockage.parties[party].since;
    if (dump && since > dump->header->activated_ticks && dump->header->activated_ticks > 0)
        append(text, size, " since %.1f s after its start",
               (double)dump_duration_ns(dump, since - dump->header->activated_ticks) / 1e9);
}

/* " at train_step (train.py:42)" where the call site is on record. */
static void append_site(char *text, size_t size, const struct diagnosis *diagnosis, uint32_t party, uint32_t stack) {
    if (diagnosis->labels && stack != STACK_NONE && party < diagnosis->world.dump_count)
        append(text, size, " at %.120s", site_label(diagnosis->labels, party, stack));
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
    append(text, size, ", after %.40s", call->name);
    append_site(text, size, diagnosis, party, last->stack);
}

/* The call site of a wait; work on a GPU was called from where its collective was. */
static uint32_t stack_of(const struct diagnosis *diagnosis, const struct wait *wait) {
    const struct membership *member = wait->device ? world_membership(wait->communicator, wait->party) : NULL;
    return member ? signature_of(&diagnosis->world, member, wait->seq).stack : wait->stack;
}

void say_where(const struct diagnosis *diagnosis, uint32_t party, char *text, size_t size) {
    const struct party_state *state = &diagnosis->blockage.parties[party];
    const struct wait *wait = state->doing == DOING_BLOCKED ? &diagnosis->blockage.items[state->first_wait] : NULL;
    text[0] = '\0';
    switch (state->doing) {
    case DOING_BLOCKED:
        describe_wait(diagnosis, wait, text, size);
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

static void append_death(char *text, size_t size, const struct job_end *end) {
    if (end->signal > 0)
        append(text, size, ", of signal %d", end->signal);
    else if (end->status >= 0)
        append(text, size, ", with exit status %d", end->status);
}

static bool say_death(const struct diagnosis *diagnosis, struct culprit *culprit) {
    const struct job_end *end = diagnosis->end;
    if (!end || !end->dead_known || !end->sure || end->dead != culprit->party || culprit->state != CULPRIT_DEAD)
        return false;
    snprintf(culprit->reason, sizeof culprit->reason, "was the first to die");
    append_death(culprit->reason, sizeof culprit->reason, end);
    return true;
}

void say_sink(struct diagnosis *diagnosis, struct culprit *culprit) {
    const struct party_state *state = &diagnosis->blockage.parties[culprit->party];
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
                                                   : "is blocked";
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

/* `other`: of the other side; types and reductions are said where they differ. */
static void append_signature(char *text, size_t size, const struct signature *signature,
                             const struct signature *other) {
    if (!signature->call) {
        append(text, size, "something else (no longer on record)");
        return;
    }
    append(text, size, "%.40s", signature->call->name);
    const char *open = "(";
    if (signature->bytes != BYTES_UNKNOWN && signature->bytes > 0) {
        append(text, size, "%s%" PRIu64 " bytes", open, signature->bytes);
        open = ", ";
    }
    if (signature->root >= 0) {
        append(text, size, "%sroot %" PRId32, open, signature->root);
        open = ", ";
    }
    bool both = signature->recorded && other->recorded;
    const char *type = datatype_name(signature->dtype), *reduction = redop_name(signature->redop);
    if (both && type && signature->dtype != other->dtype) {
        append(text, size, "%s%s", open, type);
        open = ", ";
    }
    if (both && reduction && signature->redop != other->redop) {
        append(text, size, "%s%s", open, reduction);
        open = ", ";
    }
    if (open[0] == ',')
        append(text, size, ")");
}

void say_mismatch_of(const struct diagnosis *diagnosis, struct culprit *culprit, bool other) {
    const struct mismatch *mismatch = &diagnosis->mismatch;
    snprintf(culprit->reason, sizeof culprit->reason, "called ");
    append_signature(culprit->reason, sizeof culprit->reason, other ? &mismatch->other : &mismatch->expected,
                     other ? &mismatch->expected : &mismatch->other);
    if (mismatch->from_seq == mismatch->to_seq)
        append(culprit->reason, sizeof culprit->reason, " as #%" PRIu64, mismatch->from_seq);
    append_communicator(culprit->reason, sizeof culprit->reason, mismatch->communicator);
}

/* ---- the paragraph --------------------------------------------------------------------------- */

static void say_parties(const struct diagnosis *diagnosis, char *text, size_t size, const uint32_t *parties,
                        size_t count) {
    int32_t *ranks = malloc((count + 1) * sizeof *ranks);
    for (size_t i = 0; ranks && i < count; i++)
        ranks[i] = diagnosis->world.parties[parties[i]].rank;
    if (ranks)
        say_ranks(text, size, ranks, count);
    else
        snprintf(text, size, "%zu ranks", count);
    free(ranks);
}

static void say_mismatch(struct diagnosis *diagnosis) {
    const struct mismatch *m = &diagnosis->mismatch;
    char ours[LIST], theirs[LIST], text[SENTENCE] = "";
    say_parties(diagnosis, ours, sizeof ours, m->parties, m->expected_count);
    say_parties(diagnosis, theirs, sizeof theirs, m->parties + m->expected_count, m->other_count);
    append(text, sizeof text, "the ranks disagree about collective #%" PRIu64, m->from_seq);
    if (m->to_seq > m->from_seq)
        append(text, sizeof text, " or one up to #%" PRIu64 " (the records of it are overwritten)", m->to_seq);
    append_communicator(text, sizeof text, m->communicator);
    append(text, sizeof text, ": %s called ", ours);
    append_signature(text, sizeof text, &m->expected, &m->other);
    append(text, sizeof text, "%s, %s called ", diagnosis->expected_site, theirs);
    append_signature(text, sizeof text, &m->other, &m->expected);
    append(text, sizeof text, "%s", diagnosis->other_site);
    say(diagnosis, "desync: %s.%s", text, m->tie ? " As many did the one as the other: either may be wrong." : "");
}

static void say_cycle(struct diagnosis *diagnosis) {
    char text[SENTENCE] = "";
    for (size_t i = 0; i < diagnosis->cycle_count; i++) {
        const struct wait *wait = &diagnosis->blockage.items[diagnosis->cycle[i]];
        char what[LIST], reason[LIST];
        if (i == WAITS_SAID) {
            append(text, sizeof text, "; and %zu more", diagnosis->cycle_count - i);
            break;
        }
        describe_wait(diagnosis, wait, what, sizeof what);
        say_wait_of(diagnosis, wait, reason, sizeof reason);
        append(text, sizeof text, "%srank %" PRId32 " in %s %s", i ? "; " : "",
               diagnosis->world.parties[wait->party].rank, what, reason);
    }
    say(diagnosis, "deadlock: %zu rank%s in a circle, none of which can go on: %s.", diagnosis->cycle_count,
        diagnosis->cycle_count > 1 ? "s wait" : " waits", text);
}

static bool waits_in(const struct wait *wait, const struct stalled *stalled) {
    return wait->collective && wait->communicator == stalled->communicator && wait->seq == stalled->seq;
}

/* Members whose GPU has ended what the others' GPUs are in. `ranks` is scratch. */
static bool say_who_is_through(const struct diagnosis *diagnosis, const struct stalled *stalled, int32_t *ranks,
                               char *text, size_t size) {
    size_t count = 0;
    struct progress progress;
    for (uint32_t i = 0; stalled->device && i < stalled->communicator->present_count; i++) {
        const struct membership *member = &stalled->communicator->present[i];
        if (membership_progress(&diagnosis->world, member, &progress) && progress.completed > stalled->seq)
            ranks[count++] = diagnosis->world.parties[member->party].rank;
    }
    if (count > 0)
        say_ranks(text, size, ranks, count);
    return count > 0;
}

/* Who waits in it, and who is missing and how far those came. */
static void say_stalled(struct diagnosis *diagnosis, const struct stalled *stalled) {
    size_t most = (size_t)stalled->communicator->side_size[0] + stalled->communicator->side_size[1] + 1, count = 0;
    size_t room = diagnosis->blockage.count > most ? diagnosis->blockage.count : most;
    int32_t *ranks = malloc(room * sizeof *ranks);
    char what[LIST], who[LIST], missing[LIST];
    if (!ranks) {
        diagnosis->no_memory = true;
        return;
    }
    for (size_t i = 0; i < diagnosis->blockage.count; i++)
        if (waits_in(&diagnosis->blockage.items[i], stalled) &&
            (count == 0 || ranks[count - 1] != diagnosis->world.parties[diagnosis->blockage.items[i].party].rank))
            ranks[count++] = diagnosis->world.parties[diagnosis->blockage.items[i].party].rank;
    say_ranks(who, sizeof who, ranks, count);
    bool one = count == 1;
    snprintf(what, sizeof what, "%.40s #%" PRIu32, stalled->call->name, stalled->seq);
    append_communicator(what, sizeof what, stalled->communicator);
    count = stalled_ranks(diagnosis, stalled, true, ranks, most);
    if (count > 0) {
        say_ranks(missing, sizeof missing, ranks, count);
        say(diagnosis, "%s: %s %s; %s never %s it.", what, who, one ? "waits" : "wait", missing,
            stalled->device ? "began" : "entered");
    } else if (stalled->missing > 0) {
        say(diagnosis, "%s: %s %s; %" PRIu32 " members that left no dump are missing.", what, who,
            one ? "waits" : "wait", stalled->missing);
    } else {
        say(diagnosis, "%s: %s %s though all members have come%s.", what, who, one ? "waits" : "wait",
            diagnosis->standing.kind == STANDING_UNTOLD ? "" : ": it does not move, which points at the transport");
        if (say_who_is_through(diagnosis, stalled, ranks, missing, sizeof missing))
            say(diagnosis, "Through it on the GPU: %s.", missing);
    }
    free(ranks);
}

static void say_collectives(struct diagnosis *diagnosis) {
    size_t said = 0;
    for (int open = 1; open >= 0; open--) /* those that miss somebody first */
        for (size_t i = 0; i < diagnosis->blockage.stalled_count; i++) {
            if (stalled_is_open(&diagnosis->blockage.stalled[i]) != (open == 1))
                continue;
            if (said++ < STALLED_SAID)
                say_stalled(diagnosis, &diagnosis->blockage.stalled[i]);
        }
    if (said > STALLED_SAID)
        say(diagnosis, "%zu more collectives are waited in.", said - STALLED_SAID);
}

static bool is_culprit(const struct diagnosis *diagnosis, uint32_t party) {
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        if (diagnosis->culprits[i].party == party)
            return true;
    return false;
}

/* Waits that are no collectives' and not yet said: the links between the collectives and the culprits. */
static void say_other_waits(struct diagnosis *diagnosis) {
    size_t said = 0, more = 0;
    for (size_t i = 0; i < diagnosis->blockage.count; i++) {
        const struct wait *wait = &diagnosis->blockage.items[i];
        char what[LIST], reason[LIST];
        if (wait->collective || is_culprit(diagnosis, wait->party))
            continue;
        if (said == WAITS_SAID) {
            more++;
            continue;
        }
        said++;
        describe_wait(diagnosis, wait, what, sizeof what);
        say_wait_of(diagnosis, wait, reason, sizeof reason);
        say(diagnosis, "rank %" PRId32 " in %s %s.", diagnosis->world.parties[wait->party].rank, what, reason);
    }
    if (more > 0)
        say(diagnosis, "%zu more ranks wait for messages.", more);
}

static const char *host_of(const struct diagnosis *diagnosis, uint32_t party) {
    const struct dump *dump = diagnosis->world.parties[party].dump;
    return dump ? dump->host : "";
}

static void say_culprits(struct diagnosis *diagnosis) {
    for (size_t i = 0; i < diagnosis->culprit_count; i++) {
        const struct culprit *culprit = &diagnosis->culprits[i];
        const char *host = host_of(diagnosis, culprit->party);
        if (i == CULPRITS_SAID) {
            say(diagnosis, "%zu more ranks like these.", diagnosis->culprit_count - i);
            return;
        }
        say(diagnosis, "rank %" PRId32 "%s%s%s%s: %s.", diagnosis->world.parties[culprit->party].rank,
            host[0] ? " on " : "", host, culprit->where[0] ? ", in " : "", culprit->where, culprit->reason);
    }
}

static void say_headline(struct diagnosis *diagnosis) {
    char who[LIST] = "";
    uint32_t *parties = malloc((diagnosis->culprit_count + 1) * sizeof *parties);
    for (size_t i = 0; parties && i < diagnosis->culprit_count; i++)
        parties[i] = diagnosis->culprits[i].party;
    if (parties)
        say_parties(diagnosis, who, sizeof who, parties, diagnosis->culprit_count);
    bool many = diagnosis->culprit_count > 1;
    const char *hang = diagnosis->standing.kind == STANDING_UNTOLD ? "hang, unless it was killed at work" : "hang";
    if (diagnosis->culprit_count == 0)
        say(diagnosis, "%s: ranks are blocked, but nobody they wait for is missing.", hang);
    else if (diagnosis->verdict == VERDICT_DEAD_RANK)
        say(diagnosis, "dead rank: the job cannot go on without %s, which %s dead or left no dump.", who,
            many ? "are" : "is");
    else
        say(diagnosis, "%s: the others wait for %s, which %s elsewhere.", hang, who, many ? "are" : "is");
    free(parties);
}

static void append_duration(char *text, size_t size, int64_t ns) {
    if (ns < 1000000)
        append(text, size, "%.0f us", (double)ns / 1e3);
    else if (ns < 1000000000)
        append(text, size, "%.1f ms", (double)ns / 1e6);
    else
        append(text, size, "%.1f s", (double)ns / 1e9);
}

/* "the oldest wait, MPI_Allreduce on rank 3, was 3.1 ms old; such calls used to take up to 20.0 ms" */
static void append_oldest(char *text, size_t size, const struct diagnosis *diagnosis) {
    const struct standing *standing = &diagnosis->standing;
    append(text, size, "the oldest wait, %.40s on rank %" PRId32 ", was ",
           standing->call ? standing->call->name : "MPI_Init", diagnosis->world.parties[standing->party].rank);
    append_duration(text, size, standing->age_ns);
    append(text, size, " old%s; ", standing->end_known ? "" : " at the last sign of life");
    if (standing->usual_ns < 0) {
        append(text, size, "there were none before to compare it with");
        return;
    }
    append(text, size, "such calls used to take up to ");
    append_duration(text, size, standing->usual_ns);
}

/* What is known of the end of a job whose processes are gone. */
static void say_end(struct diagnosis *diagnosis) {
    char oldest[SENTENCE] = "";
    if (diagnosis->standing.kind != STANDING_NONE)
        append_oldest(oldest, sizeof oldest, diagnosis);
    switch (diagnosis->standing.kind) {
    case STANDING_LONG:
        say(diagnosis, "The processes are gone: when they ended, %s.", oldest);
        break;
    case STANDING_UNTOLD:
        say(diagnosis,
            "The processes are gone, and nothing tells how long they went on after that: %s. If the job was making "
            "progress when it ended, nobody is to blame.",
            oldest);
        break;
    case STANDING_NONE:
        say(diagnosis,
            "The processes are gone: this is where they were when they ended. If the job was making progress "
            "then, nobody is to blame.");
        break;
    case STANDING_BRIEF:
        break;
    }
}

/* A process that may be the reason why the launcher ended the others, or just the first in a row. */
static void say_first_gone(struct diagnosis *diagnosis) {
    const struct job_end *end = diagnosis->end;
    char how[LIST] = "";
    if (!end || !end->dead_known || end->sure)
        return;
    append_death(how, sizeof how, end);
    say(diagnosis,
        "The first process to end was that of rank %" PRId32 "%s, the others followed at once: either it is why they "
        "were ended, or all were killed together.",
        diagnosis->world.parties[end->dead].rank, how);
}

static void say_fine(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    uint32_t finished = 0, dumps = diagnosis->world.dump_count;
    for (uint32_t p = 0; p < dumps; p++)
        finished += diagnosis->blockage.parties[p].doing == DOING_FINISHED;
    if (request->moving_count > 0) {
        char who[LIST];
        say_ranks(who, sizeof who, request->moving, request->moving_count);
        say(diagnosis, "ok: no hang: %s came on between two looks.", who);
    } else if (diagnosis->standing.kind == STANDING_BRIEF) {
        char oldest[SENTENCE] = "";
        append_oldest(oldest, sizeof oldest, diagnosis);
        say(diagnosis, "%s: the job ended at work: %s.", verdict_name(diagnosis->verdict), oldest);
    } else if (finished == dumps) {
        say(diagnosis, "ok: every rank on record has finalised.");
    } else {
        say(diagnosis, "ok: no rank is blocked waiting for another.");
    }
}

static void say_moving(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    char who[LIST];
    if (request->moving_count == 0)
        return;
    say_ranks(who, sizeof who, request->moving, request->moving_count);
    say(diagnosis, "Meanwhile %s came on.", who);
}

void say_all(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    switch (diagnosis->verdict) {
    case VERDICT_OK:
    case VERDICT_UNKNOWN:
        say_fine(diagnosis, request);
        say_first_gone(diagnosis);
        return;
    case VERDICT_DESYNC:
        say_mismatch(diagnosis);
        return;
    case VERDICT_DEADLOCK:
        say_cycle(diagnosis);
        say_moving(diagnosis, request);
        say_collectives(diagnosis);
        break;
    case VERDICT_HANG:
    case VERDICT_DEAD_RANK:
        say_headline(diagnosis);
        say_collectives(diagnosis);
        say_other_waits(diagnosis);
        say_culprits(diagnosis);
        break;
    }
    if (!request->settled && !diagnosis->blockage.any_alive)
        say_end(diagnosis);
    say_first_gone(diagnosis);
}
