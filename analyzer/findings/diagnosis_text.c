/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/diagnosis_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/findings/diagnosis_phrases.h"
#include "analyzer/findings/words.h"
#include "analyzer/wait_for_graph/ranks.h"

enum {
    LIST = 160,
    SENTENCE = 1024,
    STALLED_SAID = 4,
    WAITS_SAID = 6,
    UNMATCHED_SAID = 4,
    CULPRITS_SAID = 8,
    FINDING = 1000
};

enum severity diagnosis_severity(const struct diagnosis *diagnosis) {
    if (diagnosis->verdict == VERDICT_OK)
        return SEVERITY_INFO;
    bool circle = diagnosis->verdict == VERDICT_DEADLOCK; /* never opens, however young it was */
    bool doubtful = diagnosis->verdict == VERDICT_UNKNOWN || (diagnosis->standing.kind == STANDING_UNTOLD && !circle) ||
                    diagnosis->may_come_back;
    return doubtful ? SEVERITY_WARNING : SEVERITY_ERROR;
}

__attribute__((format(printf, 2, 3))) static void say(struct diagnosis_text *told, const char *format, ...) {
    char text[SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *copy = strdup(text);
    if (!copy || !grow_list(told->sentences, told->sentence_count)) {
        free(copy);
        told->no_memory = true;
        return;
    }
    told->sentences[told->sentence_count++] = copy;
}

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

static void say_refused(char *text, size_t size, const struct signature *signature) {
    if (signature->refused)
        phrase(text, size, " (after %s, which returned an error and so does not count)", signature->refused->name);
}

/* All called the same, which cannot end with these sizes. Parts of an all-to-all may differ, but not their sum. */
static void say_unfit(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    const struct mismatch *m = &diagnosis->mismatch;
    bool sum = strncmp(m->other.call->torch, "all_to_all", strlen("all_to_all")) == 0;
    char who[LIST], text[SENTENCE] = "";
    say_parties(diagnosis, who, sizeof who, m->parties + m->expected_count, m->other_count);
    phrase(text, sizeof text, "the sizes of %.40s #%" PRIu64, m->other.call->name, m->from_seq);
    phrase_communicator(text, sizeof text, m->communicator);
    phrase(text, sizeof text, " do not fit: ");
    if (sum)
        phrase(text, sizeof text,
               "all ranks together put %" PRIu64 " bytes into it and take %" PRIu64
               " out%s. Which of them is wrong is not on record",
               m->total_in, m->total_out, told->other_site);
    else
        phrase(text, sizeof text, "%s called it with an input of %" PRIu64 " bytes and an output of %" PRIu64 "%s", who,
               m->other.bytes, m->other.bytes_out, told->other_site);
    if (!sum && m->expected_count > 0) {
        say_parties(diagnosis, who, sizeof who, m->parties, m->expected_count);
        phrase(text, sizeof text, ", %s with %" PRIu64 " bytes of each", who, m->expected.bytes);
    }
    say(told, "desync: %s.", text);
}

/* "the ranks disagree about collective #6 on default_pg: ranks 0, 1, 3 called ..., rank 2 called ..." */
static void phrase_mismatch(char *text, size_t size, const struct diagnosis *diagnosis, const struct mismatch *m,
                            const char *expected_site, const char *other_site) {
    char ours[LIST], theirs[LIST];
    say_parties(diagnosis, ours, sizeof ours, m->parties, m->expected_count);
    say_parties(diagnosis, theirs, sizeof theirs, m->parties + m->expected_count, m->other_count);
    if (m->message && m->number != SEQ_NONE)
        phrase(text, size, "the ranks disagree about the message with p2p_seq_id %" PRIu32 " of %s", m->number,
               rank_text(diagnosis->world.parties[m->number_party].rank).text);
    else
        phrase(text, size, "the ranks disagree about %s #%" PRIu64, m->message ? "message" : "collective", m->from_seq);
    if (m->to_seq > m->from_seq)
        phrase(text, size, " or one up to #%" PRIu64 " (the records of it are overwritten)", m->to_seq);
    phrase_communicator(text, size, m->communicator);
    phrase(text, size, ": %s called ", ours);
    phrase_signature(text, size, &m->expected, &m->other);
    phrase(text, size, "%s", expected_site);
    say_refused(text, size, &m->expected);
    phrase(text, size, ", %s called ", theirs);
    phrase_signature(text, size, &m->other, &m->expected);
    phrase(text, size, "%s", other_site);
    say_refused(text, size, &m->other);
}

static void say_mismatch(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    const struct mismatch *m = &diagnosis->mismatch;
    char text[SENTENCE] = "";
    phrase_mismatch(text, sizeof text, diagnosis, m, told->expected_site, told->other_site);
    say(told, "desync: %s.%s", text, m->tie ? " As many did the one as the other: either may be wrong." : "");
}

static void say_overcome(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    char text[SENTENCE] = "";
    if (!diagnosis->overcome.communicator)
        return;
    phrase_mismatch(text, sizeof text, diagnosis, &diagnosis->overcome, "", "");
    say(told,
        "Beside that, %s. That, and more after it, ended on all of them, so it is not what they wait for now; what it "
        "computed may be wrong.",
        text);
}

static void say_cycle(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    char text[SENTENCE] = "";
    for (size_t i = 0; i < diagnosis->cycle_count; i++) {
        const struct wait *wait = &diagnosis->wait_for_graph.items[diagnosis->cycle[i]];
        char what[LIST], reason[LIST];
        if (i == WAITS_SAID) {
            phrase(text, sizeof text, "; and %zu more", diagnosis->cycle_count - i);
            break;
        }
        phrase_wait(diagnosis, wait, what, sizeof what);
        say_wait_of(diagnosis, wait, reason, sizeof reason);
        /* its culprit's words end in the line of code */
        bool told_where =
            i < diagnosis->culprit_count && told->culprits[i].where[0] && diagnosis->culprits[i].party == wait->party;
        phrase(text, sizeof text, "%s%s in %s %s", i ? "; " : "",
               rank_text(diagnosis->world.parties[wait->party].rank).text, told_where ? told->culprits[i].where : what,
               reason);
    }
    if (diagnosis->verdict == VERDICT_DEADLOCK)
        say(told, "deadlock: %zu rank%s in a circle, none of which can go on: %s.", diagnosis->cycle_count,
            diagnosis->cycle_count > 1 ? "s wait" : " waits", text);
    else
        say(told, "hang, unless it was killed at work: %zu ranks wait for each other, with their GPUs: %s.",
            diagnosis->cycle_count, text);
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

/* Of an imported collective that all have called: whether any GPU was seen to begin it. Where no beginning is ever on
 * record that tells nothing. NULL: one was, or it is not imported. */
static const char *why_not_begun(const struct diagnosis *diagnosis, const struct stalled *stalled) {
    bool noted = true;
    for (uint32_t i = 0; i < stalled->communicator->present_count; i++) {
        const struct membership *member = &stalled->communicator->present[i];
        struct signature signature = signature_of(&diagnosis->world, member, stalled->seq);
        if (!signature.told || signature.begun)
            return NULL;
        noted &= diagnosis->world.parties[member->party].dump->header->gpu_timing_why[0] == '\0';
    }
    return noted ? "; no GPU is on record as having begun it: what lies before it on the streams may not have ended"
                 : "; whether their GPUs began it is not on record (TORCH_NCCL_ENABLE_TIMING=1 has that noted)";
}

/* All have come, and it does not end: why that may be. */
static void say_why_it_stays(struct diagnosis_text *told, const struct diagnosis *diagnosis,
                             const struct stalled *stalled, const char *waiting) {
    const char *not_begun = why_not_begun(diagnosis, stalled);
    if (not_begun) {
        say(told, "%s though all members have called it%s.", waiting, not_begun);
        return;
    }
    const char *why =
        diagnosis->standing.kind == STANDING_UNTOLD ? "" : ": it does not move, which points at the transport";
    for (uint32_t i = 0; i < stalled->communicator->present_count; i++)
        if (diagnosis->wait_for_graph.parties[stalled->communicator->present[i].party].stopped)
            why = ", and who of them is stopped takes no part in it";
    say(told, "%s though all %s have come%s.", waiting, stalled->needed ? "neighbours" : "members", why);
}

/* Of an import a file that is missing tells nothing of its rank. */
static bool is_untold(const struct world *world, uint32_t party) {
    return party_is_untold(&world->parties[party]) || (!world->parties[party].dump && world_is_imported(world));
}

/* Moves those of whom nothing is on record to the end. Returns how many are on record. */
static size_t move_untold_back(const struct diagnosis *diagnosis, int32_t *ranks, size_t count, int32_t *untold) {
    size_t known = 0, unknown = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t party = diagnosis->world.party_of_rank[ranks[i]];
        if (party != NOBODY && is_untold(&diagnosis->world, party))
            untold[unknown++] = ranks[i];
        else
            ranks[known++] = ranks[i];
    }
    memcpy(ranks + known, untold, unknown * sizeof *ranks);
    return known;
}

static const char *why_untold(const struct party *party) {
    return party->unread     ? ": nothing in the file could be read"
           : party->outdated ? ": by files older than the others'"
                             : "";
}

/* "ranks 0, 3 wait; rank 2 never began it; whether rank 1 did is not known" */
static void say_missing(struct diagnosis_text *told, const struct diagnosis *diagnosis, const struct stalled *stalled,
                        const char *waiting, int32_t *ranks, size_t count) {
    const struct world *world = &diagnosis->world;
    char who[LIST], text[SENTENCE] = "";
    int32_t *untold = malloc((count + 1) * sizeof *untold);
    if (!untold) {
        told->no_memory = true;
        return;
    }
    size_t known = move_untold_back(diagnosis, ranks, count, untold);
    if (known > 0) {
        say_ranks(who, sizeof who, ranks, known);
        phrase(text, sizeof text, "; %s never %s it", who,
               stalled->replayed  ? "launched"
               : stalled->device  ? "began"
               : stalled->started ? "started"
                                  : "entered");
    }
    if (known < count) {
        say_ranks(who, sizeof who, ranks + known, count - known);
        phrase(text, sizeof text, "; whether %s %s is not known%s", who,
               known > 0           ? "did"
               : stalled->replayed ? "launched it"
               : stalled->device   ? "began it"
                                   : "came to it",
               why_untold(&world->parties[world->party_of_rank[ranks[known]]]));
    }
    say(told, "%s%s.", waiting, text);
    free(untold);
}

/* Who waits in it, and who is missing and how far those came. */
static void say_stalled(struct diagnosis_text *told, struct diagnosis *diagnosis, const struct stalled *stalled) {
    size_t most = (size_t)stalled->communicator->side_size[0] + stalled->communicator->side_size[1] +
                  stalled->communicator->present_count + 1;
    int32_t *ranks = calloc(most, sizeof *ranks);
    char what[SENTENCE], who[LIST], missing[LIST];
    if (!ranks) {
        told->no_memory = true;
        return;
    }
    size_t count = stalled_waiting(&diagnosis->wait_for_graph, stalled, ranks, most);
    say_ranks(who, sizeof who, ranks, count);
    bool one = count == 1;
    what[0] = '\0';
    phrase_stalled(what, sizeof what, stalled);
    phrase(what, sizeof what, ": %s %s", who, one ? "waits" : "wait");
    count = stalled_ranks(&diagnosis->wait_for_graph, stalled, true, ranks, most);
    if (count > 0) {
        say_missing(told, diagnosis, stalled, what, ranks, count);
    } else if (stalled->missing > 0) {
        say(told, "%s; %" PRIu32 " members that left no dump are missing.", what, stalled->missing);
    } else {
        say_why_it_stays(told, diagnosis, stalled, what);
        if (say_who_is_through(diagnosis, stalled, ranks, missing, sizeof missing))
            say(told, "Through it on the GPU: %s.", missing);
    }
    free(ranks);
}

static void say_collectives(struct diagnosis_text *told, struct diagnosis *diagnosis) {
    size_t said = 0;
    for (int open = 1; open >= 0; open--) /* those that miss somebody first */
        for (size_t i = 0; i < diagnosis->wait_for_graph.stalled_count; i++) {
            if (stalled_is_open(&diagnosis->wait_for_graph.stalled[i]) != (open == 1))
                continue;
            if (said++ < STALLED_SAID)
                say_stalled(told, diagnosis, &diagnosis->wait_for_graph.stalled[i]);
        }
    if (said > STALLED_SAID)
        say(told, "%zu more collectives are waited in.", said - STALLED_SAID);
}

/* Whether those missing in it have nothing to do with those who disagree, nor wait for somebody themselves. */
static bool is_a_wait_apart(const struct diagnosis *diagnosis, const struct stalled *stalled, const bool *disagree) {
    for (uint32_t i = 0; i < stalled->communicator->present_count; i++) {
        const struct membership *member = &stalled->communicator->present[i];
        bool bound = disagree[member->party] || diagnosis->wait_for_graph.parties[member->party].doing == DOING_BLOCKED;
        if (bound && stalled_misses(&diagnosis->world, stalled, member))
            return false;
    }
    return stalled_is_open(stalled);
}

/* Whether it is what they disagree about. */
static bool is_mismatched(const struct mismatch *m, const struct stalled *stalled) {
    return !m->message && !stalled->replayed && stalled->communicator == m->communicator &&
           stalled->seq >= m->from_seq && stalled->seq <= m->to_seq;
}

/* Beside ranks that disagree, others may wait for somebody else. */
static void say_waits_apart(struct diagnosis_text *told, struct diagnosis *diagnosis) {
    const struct mismatch *m = &diagnosis->mismatch;
    size_t said = 0, apart = 0;
    bool *disagree = calloc((size_t)diagnosis->world.party_count + 1, sizeof *disagree);
    for (size_t i = 0; disagree && i < m->expected_count + m->other_count; i++)
        disagree[m->parties[i]] = true;
    for (size_t i = 0; disagree && i < diagnosis->wait_for_graph.stalled_count; i++) {
        const struct stalled *stalled = &diagnosis->wait_for_graph.stalled[i];
        if (said == STALLED_SAID || !is_a_wait_apart(diagnosis, stalled, disagree))
            continue;
        if (is_mismatched(m, stalled))
            say(told, "Besides, not all of its members are known to have come to it:");
        else if (apart++ == 0)
            say(told, "That does not explain another wait:");
        said++;
        say_stalled(told, diagnosis, stalled);
    }
    told->no_memory |= !disagree;
    free(disagree);
}

static bool is_culprit(const struct diagnosis *diagnosis, uint32_t party) {
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        if (diagnosis->culprits[i].party == party)
            return true;
    return false;
}

/* Where nobody is blocked in a call that tells for whom, those in MPI_Finalize wait for all others. */
static void say_finalize(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    uint32_t *parties = malloc((diagnosis->world.party_count + 1u) * sizeof *parties);
    size_t count = 0;
    char who[LIST];
    for (uint32_t p = 0; parties && waits->count == 0 && p < diagnosis->world.party_count; p++)
        if (waits->parties[p].doing == DOING_FINALIZE)
            parties[count++] = p;
    if (count > 0) {
        say_parties(diagnosis, who, sizeof who, parties, count);
        say(told, "MPI_Finalize: %s %s.", who, count > 1 ? "wait" : "waits");
    }
    told->no_memory |= !parties;
    free(parties);
}

/* What was sent and not received beside what is waited for. */
static void say_unmatched(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    static const char *const differ[] = {[DIFFERENT_TAG] = "the tags differ",
                                         [DIFFERENT_COMMUNICATOR] = "the communicators differ",
                                         [DIFFERENT_SOURCE] = "it waits for another rank's"};
    const struct world *world = &diagnosis->world;
    size_t count = diagnosis->unmatched.count;
    for (size_t i = 0; i < count && i < UNMATCHED_SAID; i++) {
        const struct unmatched_message *message = &diagnosis->unmatched.items[i];
        char wanted[LIST] = "", sent[LIST] = "";
        phrase_message_call(wanted, sizeof wanted, diagnosis, &message->wanted, false);
        phrase_message_call(sent, sizeof sent, diagnosis, &message->sent, true);
        say(told, "not received: %s called %s%s; %s waits in %s%s: %s.",
            rank_text(world->parties[message->sent.party].rank).text, sent, told->unmatched[i].sent_site,
            rank_text(world->parties[message->wanted.party].rank).text, wanted, told->unmatched[i].wanted_site,
            differ[message->difference]);
    }
    if (count > UNMATCHED_SAID)
        say(told, "%zu more messages like that.", count - UNMATCHED_SAID);
}

/* Waits that are no collectives' and not yet said: the links between the collectives and the culprits. */
static void say_other_waits(struct diagnosis_text *told, const struct diagnosis *diagnosis,
                            struct site_labels *labels) {
    size_t said = 0, more = 0;
    for (size_t i = 0; i < diagnosis->wait_for_graph.count; i++) {
        const struct wait *wait = &diagnosis->wait_for_graph.items[i];
        char what[LIST], reason[SENTENCE], site[LIST] = "";
        if (wait->collective || is_culprit(diagnosis, wait->party))
            continue;
        if (said == WAITS_SAID) {
            more++;
            continue;
        }
        said++;
        phrase_wait(diagnosis, wait, what, sizeof what);
        if (wait->call->api == API_NCCL) /* the host is elsewhere by now */
            say_wait_site(diagnosis, labels, wait, site, sizeof site);
        bool met = say_met(diagnosis, wait, reason, sizeof reason);
        if (!met)
            say_wait_of(diagnosis, wait, reason, sizeof reason);
        say(told, "%s in %s%s%s %s.", rank_text(diagnosis->world.parties[wait->party].rank).text, what, site,
            met ? ":" : "", reason);
    }
    if (more > 0)
        say(told, "%zu more ranks wait for messages.", more);
}

static const char *host_of(const struct diagnosis *diagnosis, uint32_t party) {
    const struct dump *dump = diagnosis->world.parties[party].dump;
    return dump && !diagnosis->world.parties[party].unread ? dump->host : "";
}

static void say_culprits(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    for (size_t i = 0; i < diagnosis->culprit_count; i++) {
        const struct culprit *culprit = &diagnosis->culprits[i];
        const struct culprit_text *words = &told->culprits[i];
        const char *host = host_of(diagnosis, culprit->party);
        if (i == CULPRITS_SAID) {
            say(told, "%zu more ranks like these.", diagnosis->culprit_count - i);
            return;
        }
        say(told, "%s%s%s%s%s: %s.", rank_text(diagnosis->world.parties[culprit->party].rank).text,
            host[0] ? " on " : "", host, words->where[0] ? ", in " : "", words->where, words->reason);
    }
}

/* Where those are now that called something else. */
static void say_mismatch_places(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    size_t said = 0;
    for (size_t i = 0; i < diagnosis->culprit_count && said < CULPRITS_SAID; i++) {
        uint32_t party = diagnosis->culprits[i].party;
        if (!told->culprits[i].where[0] || diagnosis->wait_for_graph.parties[party].doing == DOING_FINISHED)
            continue;
        const char *host = host_of(diagnosis, party);
        said++;
        say(told, "%s%s%s is in %s.", rank_text(diagnosis->world.parties[party].rank).text, host[0] ? " on " : "", host,
            told->culprits[i].where);
    }
}

/* Those who wait for nobody, and whom others wait for, are in what all have come to. */
static bool are_where_nobody_is_missing(const struct diagnosis *diagnosis) {
    for (size_t i = 0; i < diagnosis->culprit_count; i++) {
        const struct party_state *state = &diagnosis->wait_for_graph.parties[diagnosis->culprits[i].party];
        if (diagnosis->culprits[i].state != CULPRIT_BLOCKED || state->doing != DOING_BLOCKED || state->stopped)
            return false;
    }
    return diagnosis->culprit_count > 0;
}

/* Why others wait for those who are to blame for a hang. */
static const char *whereabouts(const struct diagnosis *diagnosis) {
    size_t stopped = 0;
    if (are_where_nobody_is_missing(diagnosis))
        return "in what all have come to and what does not end";
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        stopped += diagnosis->wait_for_graph.parties[diagnosis->culprits[i].party].stopped;
    return stopped == 0                          ? "elsewhere"
           : stopped == diagnosis->culprit_count ? "stopped by a signal"
                                                 : "elsewhere or stopped";
}

/* Culprits that left no dump, or the others. Returns how many. */
static size_t say_who(const struct diagnosis *diagnosis, bool without_dump, char *who, size_t size) {
    uint32_t *parties = malloc((diagnosis->culprit_count + 1) * sizeof *parties);
    size_t count = 0;
    who[0] = '\0';
    for (size_t i = 0; parties && i < diagnosis->culprit_count; i++)
        if ((diagnosis->culprits[i].state == CULPRIT_NO_DUMP) == without_dump)
            parties[count++] = diagnosis->culprits[i].party;
    if (count > 0)
        say_parties(diagnosis, who, size, parties, count);
    free(parties);
    return count;
}

/* Of waits that were no longer than usual, how much longer they may have been when the job ended. */
static void phrase_last_look(char *text, size_t size, const struct standing *standing) {
    char seconds[32];
    if (!standing->end_known || standing->slack_ns <= 0)
        return;
    say_seconds(seconds, sizeof seconds, standing->slack_ns);
    phrase(text, size, " No wait was longer than is usual when they were last seen, at most %s before the end.",
           seconds);
}

/* Who is known not to have come, then those of whom that is not known. */
static void say_awaited_ranks(struct diagnosis_text *told, const struct diagnosis *diagnosis, const char *hang) {
    char who[LIST], missing[LIST], text[SENTENCE] = "";
    size_t without = say_who(diagnosis, true, missing, sizeof missing);
    size_t count = say_who(diagnosis, false, who, sizeof who);
    if (without > 0)
        phrase(text, sizeof text, " Of %s nothing is known: no file of %s is here.", missing,
               without > 1 ? "them" : "it");
    bool untold = diagnosis->standing.kind == STANDING_UNTOLD;
    if (untold)
        phrase_last_look(text, sizeof text, &diagnosis->standing);
    say(told, "%s: the others %s for %s, which %s %s.%s", hang, untold ? "waited" : "wait", who,
        untold      ? count > 1 ? "were" : "was"
        : count > 1 ? "are"
                    : "is",
        whereabouts(diagnosis), text);
}

static void say_headline(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    char who[LIST] = "";
    const char *hang = diagnosis->standing.kind == STANDING_UNTOLD ? "hang, unless it was killed at work"
                       : diagnosis->may_come_back                  ? "hang, or a long pause"
                                                                   : "hang";
    if (diagnosis->culprit_count == 0) {
        say(told, "%s: ranks are blocked, but nobody they wait for is missing.", hang);
    } else if (diagnosis->verdict == VERDICT_DEAD_RANK) {
        uint32_t *parties = malloc((diagnosis->culprit_count + 1) * sizeof *parties);
        for (size_t i = 0; parties && i < diagnosis->culprit_count; i++)
            parties[i] = diagnosis->culprits[i].party;
        if (parties)
            say_parties(diagnosis, who, sizeof who, parties, diagnosis->culprit_count);
        free(parties);
        say(told, "dead rank: the job cannot go on without %s, which %s dead or left no dump.", who,
            diagnosis->culprit_count > 1 ? "are" : "is");
    } else {
        say_awaited_ranks(told, diagnosis, hang);
    }
    if (diagnosis->may_come_back && diagnosis->standing.kind == STANDING_NONE)
        say(told,
            "Nothing tells that who is waited for does not come: ranks that compute for long, or read or write files, "
            "are away like that.%s",
            world_is_imported(&diagnosis->world) ? "" : " Look again later.");
}

static void phrase_seconds(char *text, size_t size, int64_t ns) {
    char seconds[32];
    say_seconds(seconds, sizeof seconds, ns);
    phrase(text, size, "%s", seconds);
}

/* "the oldest wait, MPI_Allreduce on rank 3, was 3.1 ms old; such calls used to take up to 20.0 ms" */
static void append_oldest(char *text, size_t size, const struct diagnosis *diagnosis) {
    const struct standing *standing = &diagnosis->standing;
    enum doing doing = diagnosis->wait_for_graph.parties[standing->party].doing;
    bool ends = doing == DOING_FINALIZE || doing == DOING_FINISHED;
    phrase(text, size, "the oldest wait, %.48s on %s, was ",
           standing->call ? standing->call->name
           : ends         ? name_of_end(diagnosis, standing->party)
                          : name_of_start(diagnosis, standing->party),
           rank_text(diagnosis->world.parties[standing->party].rank).text);
    if (standing->age_ns > 0) {
        phrase_seconds(text, size, standing->age_ns);
        phrase(text, size, " old");
    } else {
        phrase(text, size, "about to begin");
    }
    phrase(text, size, "%s; ", standing->end_known ? "" : " at the last sign of life");
    if (standing->usual_ns < 0) {
        phrase(text, size, "%s",
               standing->untimed ? "how long those before it took is not on record"
                                 : "there were none before to compare it with");
        return;
    }
    phrase(text, size, "%s calls used to take up to ", standing->unlike ? "other" : "such");
    phrase_seconds(text, size, standing->usual_ns);
}

/* What follows from that for those who are blamed. Where somebody is known to have gone first, that is said. */
static const char *doubt_of_end(const struct diagnosis *diagnosis) {
    bool first_known = diagnosis->end.dead_known || diagnosis->first_death.missed || diagnosis->stood_before_death;
    if (diagnosis->standing.kind == STANDING_LONG)
        return diagnosis->may_come_back ? " Nothing tells that who was waited for would not have come: ranks that read "
                                          "or write files are away like that."
                                        : "";
    return first_known ? "" : " If the job was making progress when it ended, nobody is to blame.";
}

/* Of those on other hosts that is all that is known. */
static const char *name_of_end_of_all(const struct diagnosis *diagnosis) {
    for (uint32_t p = 0; p < diagnosis->world.dump_count; p++)
        if (diagnosis->world.parties[p].process == PROCESS_ELSEWHERE)
            return "None of the processes is seen to live";
    return "The processes are gone";
}

/* What is known of the end of a job whose processes are gone. */
static void say_end(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    const struct standing *standing = &diagnosis->standing;
    const char *doubt = doubt_of_end(diagnosis), *gone = name_of_end_of_all(diagnosis);
    char oldest[SENTENCE] = "";
    if (standing->kind == STANDING_NONE) {
        say(told, "%s: this is where they were when they ended.%s", gone, doubt);
        return;
    }
    append_oldest(oldest, sizeof oldest, diagnosis);
    if (diagnosis->stood_before_death)
        say(told, "%s: when the first of them ended, %s.%s", gone, oldest, doubt);
    else if (standing->kind == STANDING_UNTOLD && !standing->end_known)
        say(told, "%s, and nothing tells how long they went on after that: %s.%s", gone, oldest, doubt);
    else
        say(told, "%s: when they ended, %s.%s", gone, oldest, doubt);
}

/* How the first process ended that is known to have, as far as that was noted or is in its dump. */
static void phrase_first_end(char *text, size_t size, const struct diagnosis *diagnosis) {
    const struct job_end *end = &diagnosis->end;
    uint32_t party = diagnosis->first_death.party;
    if (end->dead_known && end->dead == party)
        phrase_death(text, size, end);
    else if (diagnosis->world.parties[party].dump->header->state & STATE_ABORTING)
        phrase(text, size, ", by MPI_Abort");
    else if (!diagnosis->first_death.missed)
        phrase(text, size, ", by exit()");
}

/* A process that may be the reason why the launcher ended the others, or just the first in a row. */
static void say_first_gone(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    const struct job_end *end = &diagnosis->end;
    char how[LIST] = "";
    if (diagnosis->stood_before_death) {
        phrase_first_end(how, sizeof how, diagnosis);
        say(told, "The first process to end was that of %s%s: the job stood already, so that is not the cause%s.",
            rank_text(diagnosis->world.parties[diagnosis->first_death.party].rank).text, how,
            diagnosis->may_come_back ? ", if it was a hang" : "");
        return;
    }
    if (!end->dead_known || end->sure)
        return;
    phrase_death(how, sizeof how, end);
    say(told,
        "The first process to end was that of %s%s, the others followed at once: either it is why they "
        "were ended, or all were killed together.",
        rank_text(diagnosis->world.parties[end->dead].rank).text, how);
}

/* Of ranks on several hosts the first is named. */
static void say_uncollected(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    char who[LIST] = "";
    uint32_t *parties = calloc(diagnosis->culprit_count + 1, sizeof *parties);
    const char *host = diagnosis->world.parties[diagnosis->culprits[0].party].elsewhere;
    bool many = diagnosis->culprit_count > 1, other_hosts = false, unread = false, outdated = false;
    for (size_t i = 0; parties && i < diagnosis->culprit_count; i++) {
        const struct party *party = &diagnosis->world.parties[parties[i] = diagnosis->culprits[i].party];
        unread |= party->unread;
        outdated |= party->outdated;
        other_hosts |= host && party->elsewhere && strcmp(party->elsewhere, host) != 0;
    }
    if (parties)
        say_parties(diagnosis, who, sizeof who, parties, diagnosis->culprit_count);
    free(parties);
    if (outdated) {
        say(told,
            "unknown: the others wait for %s, whose file%s written before theirs, at work: the others have ended "
            "collectives with %s that are not in there. What %s did since is not known. Files of one moment would "
            "tell.",
            who, many ? "s were" : " was", many ? "them" : "it", many ? "they" : "it");
        return;
    }
    if (unread) {
        say(told, "unknown: the others wait for %s, of which nothing is known: nothing in %s could be read.", who,
            many ? "their files" : "its file");
        return;
    }
    say(told,
        "unknown: the others wait for %s, whose dump%s %s on %s%s and %s not been collected: commtap-collect fetches "
        "%s.",
        who, many ? "s" : "", many ? "lie" : "lies", host, other_hosts ? " and other hosts" : "", many ? "have" : "has",
        many ? "them" : "it");
}

static void say_starting(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    char who[LIST] = "";
    uint32_t *parties = calloc(diagnosis->culprit_count + 1, sizeof *parties);
    for (size_t i = 0; parties && i < diagnosis->culprit_count; i++)
        parties[i] = diagnosis->culprits[i].party;
    if (parties)
        say_parties(diagnosis, who, sizeof who, parties, diagnosis->culprit_count);
    free(parties);
    say(told,
        "unknown: the job is starting: no rank on record has come out of %s, and %s %s left no dump so far: not begun "
        "yet, ended before that, or not recorded. Look again later.",
        name_of_start(diagnosis, 0), who, diagnosis->culprit_count == 1 ? "has" : "have");
}

/* Who replays graphs is not blocked in any call while its GPU waits. */
static void say_silence(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    const struct standing *standing = &diagnosis->silence.standing;
    bool alive = diagnosis->wait_for_graph.any_alive;
    char last[LIST] = "", usual[LIST] = "";
    if (diagnosis->silence.replay > 0)
        phrase(last, sizeof last, ", behind replay %" PRIu32, diagnosis->silence.replay);
    if (standing->usual_ns >= 0) {
        phrase(usual, sizeof usual, "; before that its operations ended at most ");
        phrase_seconds(usual, sizeof usual, standing->usual_ns);
        phrase(usual, sizeof usual, " apart");
    }
    char age[LIST] = "";
    phrase_seconds(age, sizeof age, standing->age_ns);
    say(told,
        "unknown: no rank %s blocked in a call, but nothing of %s's communication is on record for the last %s%s%s%s. "
        "It launches CUDA graphs that hold communication, whose replays are on record only when they have ended: "
        "whether ranks %s there for each other, and for whom, nothing tells.",
        alive ? "is" : "was", rank_text(diagnosis->world.parties[standing->party].rank).text, age,
        standing->end_known ? "" : " that are known of", last, usual, alive ? "wait" : "waited");
}

static void say_unknown(struct diagnosis_text *told, const struct diagnosis *diagnosis) {
    if (diagnosis->in_graphs) {
        say_silence(told, diagnosis);
    } else if (diagnosis->starting) {
        say_starting(told, diagnosis);
    } else if (diagnosis->uncollected) {
        say_uncollected(told, diagnosis);
    } else if (diagnosis->left_by_exit) {
        say(told, "unknown: all processes exited, not all of them by way of MPI_Finalize, and none waited for another. "
                  "Whether they had done their work their exit status tells, which no dump holds.");
    } else if (diagnosis->standing.kind == STANDING_UNTOLD) {
        say(told,
            "unknown: ranks were blocked when last seen, but nobody they wait for is missing, and others had gone "
            "on. They were ended at work, or left by exit() or _exit().");
    } else if (diagnosis->partner_untold) {
        say(told, "unknown: ranks wait, at the end for messages of which nothing on record tells who lacks the other "
                  "half: what could tell is overwritten, or was left out.");
    } else {
        say(told, "unknown: no rank was blocked when last seen, yet not all of them came to the end of their work.");
        say(told, "%s",
            diagnosis->end.dead_known
                ? "They were ended at work, or left by _exit()."
                : "They were killed or left by _exit(), and no dump tells who went first: `commtap run` "
                  "notes that of the jobs that it starts.");
    }
}

static void say_fine(struct diagnosis_text *told, const struct diagnosis *diagnosis,
                     const struct diagnose_request *request) {
    uint32_t finished = 0, dumps = diagnosis->world.dump_count;
    bool imported = false;
    for (uint32_t p = 0; p < dumps; p++) {
        finished += diagnosis->wait_for_graph.parties[p].doing == DOING_FINISHED;
        imported |= diagnosis->world.parties[p].dump && diagnosis->world.parties[p].dump->header->pid == 0;
    }
    if (request->moving_count > 0) {
        char who[LIST];
        say_ranks(who, sizeof who, request->moving, request->moving_count);
        say(told, "ok: no hang: %s came on between two looks.", who);
    } else if (diagnosis->suspended) {
        say(told, "ok: the job is suspended: all its processes are stopped by a signal, as scontrol suspend and ^Z do. "
                  "SIGCONT lets it go on.");
    } else if (diagnosis->standing.kind == STANDING_BRIEF) {
        char oldest[SENTENCE] = "";
        append_oldest(oldest, sizeof oldest, diagnosis);
        say(told, "%s: the job ended at work: %s.", verdict_name(diagnosis->verdict), oldest);
    } else if (diagnosis->verdict == VERDICT_UNKNOWN) {
        say_unknown(told, diagnosis);
    } else if (finished == dumps && imported) {
        say(told, "ok: nothing hangs on record: all operations of the traces have ended. How the job ended they do not "
                  "tell.");
    } else if (finished == dumps) {
        say(told, "ok: every rank on record has finalised.");
    } else {
        say(told, "ok: no rank is blocked waiting for another.");
    }
}

static void say_moving(struct diagnosis_text *told, const struct diagnose_request *request) {
    char who[LIST];
    if (request->moving_count == 0)
        return;
    say_ranks(who, sizeof who, request->moving, request->moving_count);
    say(told, "Meanwhile %s came on.", who);
}

static void say_deadlock(struct diagnosis_text *told, struct diagnosis *diagnosis,
                         const struct diagnose_request *request, struct site_labels *labels) {
    say_cycle(told, diagnosis);
    if (diagnosis->culprit_count > 0 && diagnosis->culprits[0].blame != BLAME_CYCLE)
        say_culprits(told, diagnosis);
    say_moving(told, request);
    say_unmatched(told, diagnosis);
    say_collectives(told, diagnosis);
    say_other_waits(told, diagnosis, labels);
}

static void say_desync(struct diagnosis_text *told, struct diagnosis *diagnosis) {
    if (diagnosis->mismatch.unfit)
        say_unfit(told, diagnosis);
    else
        say_mismatch(told, diagnosis);
    say_mismatch_places(told, diagnosis);
    say_waits_apart(told, diagnosis);
}

static void say_all(struct diagnosis_text *told, struct diagnosis *diagnosis, const struct diagnose_request *request,
                    struct site_labels *labels) {
    switch (diagnosis->verdict) {
    case VERDICT_OK:
    case VERDICT_UNKNOWN:
        say_fine(told, diagnosis, request);
        if (diagnosis->partner_untold)
            say_other_waits(told, diagnosis, labels);
        if (diagnosis->standing.kind == STANDING_UNTOLD || diagnosis->uncollected) {
            say_collectives(told, diagnosis);
            if (!request->settled)
                say_end(told, diagnosis);
        }
        say_first_gone(told, diagnosis);
        say_overcome(told, diagnosis);
        return;
    case VERDICT_DESYNC:
        say_desync(told, diagnosis);
        break;
    case VERDICT_DEADLOCK:
        say_deadlock(told, diagnosis, request, labels);
        break;
    case VERDICT_HANG:
    case VERDICT_DEAD_RANK:
        if (diagnosis->cycle_count > 0)
            say_cycle(told, diagnosis);
        else
            say_headline(told, diagnosis);
        say_unmatched(told, diagnosis);
        say_collectives(told, diagnosis);
        say_finalize(told, diagnosis);
        say_other_waits(told, diagnosis, labels);
        say_culprits(told, diagnosis);
        break;
    }
    if (!request->settled && !diagnosis->wait_for_graph.any_alive && diagnosis->verdict != VERDICT_DESYNC)
        say_end(told, diagnosis);
    say_first_gone(told, diagnosis);
    say_overcome(told, diagnosis);
}

bool diagnosis_text_make(struct diagnosis_text *text, struct diagnosis *diagnosis,
                         const struct diagnose_request *request, struct site_labels *labels) {
    *text = (struct diagnosis_text){.culprits = calloc(diagnosis->culprit_count + 1, sizeof *text->culprits)};
    text->unmatched = calloc(diagnosis->unmatched.count + 1, sizeof *text->unmatched);
    if (!text->culprits || !text->unmatched)
        return false;
    for (size_t i = 0; i < diagnosis->culprit_count; i++) {
        const struct culprit *culprit = &diagnosis->culprits[i];
        struct culprit_text *words = &text->culprits[i];
        say_where(diagnosis, labels, culprit, words->where, sizeof words->where);
        say_reason(diagnosis, culprit, words->reason, sizeof words->reason);
    }
    for (size_t i = 0; i < diagnosis->unmatched.count; i++) {
        const struct unmatched_message *message = &diagnosis->unmatched.items[i];
        struct unmatched_text *sites = &text->unmatched[i];
        say_message_site(diagnosis, labels, &message->wanted, sites->wanted_site, sizeof sites->wanted_site);
        say_message_site(diagnosis, labels, &message->sent, sites->sent_site, sizeof sites->sent_site);
    }
    if (diagnosis->mismatch.communicator) {
        say_mismatch_site(diagnosis, labels, false, text->expected_site, sizeof text->expected_site);
        say_mismatch_site(diagnosis, labels, true, text->other_site, sizeof text->other_site);
    }
    say_all(text, diagnosis, request, labels);
    return !text->no_memory;
}

void findings_put_diagnosis(struct findings *findings, const struct diagnosis *diagnosis,
                            const struct diagnosis_text *told) {
    static const enum finding_code codes[] = {[VERDICT_HANG] = FINDING_HANG,
                                              [VERDICT_DESYNC] = FINDING_DESYNC,
                                              [VERDICT_DEADLOCK] = FINDING_DEADLOCK,
                                              [VERDICT_DEAD_RANK] = FINDING_DEAD_RANK};
    char text[FINDING] = "";
    bool brief = diagnosis->verdict == VERDICT_OK && diagnosis->standing.kind == STANDING_BRIEF;
    if ((brief || diagnosis->in_graphs) && told->sentence_count > 0) {
        phrase(text, sizeof text, "What commtap diagnose says of it is %s", told->sentences[0]);
        findings_extend(findings, FINDING_KILLED, text);
    }
    if (diagnosis->verdict == VERDICT_OK || diagnosis->verdict == VERDICT_UNKNOWN)
        return;
    for (size_t i = 0; i < told->sentence_count; i++) {
        if (strlen(text) + strlen(told->sentences[i]) + 2 > sizeof text)
            break; /* `commtap diagnose` has the rest */
        phrase(text, sizeof text, "%s%s", i ? " " : "", told->sentences[i]);
    }
    bool doubtful = diagnosis_severity(diagnosis) == SEVERITY_WARNING;
    findings_put_first(findings, doubtful ? FINDING_MAYBE_HANG : codes[diagnosis->verdict], text);
}

void diagnosis_text_free(struct diagnosis_text *text) {
    for (size_t i = 0; i < text->sentence_count; i++)
        free(text->sentences[i]);
    free(text->sentences);
    free(text->culprits);
    free(text->unmatched);
    *text = (struct diagnosis_text){0};
}
