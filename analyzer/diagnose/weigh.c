/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/diagnose/weigh.h"

/* Whether all that speaks against the job is that it was somewhere when it ended: ranks waited for others that were
 * elsewhere, or had not begun. */
static bool may_have_worked(const struct diagnosis *diagnosis) {
    bool nobody_dead = diagnosis->verdict == VERDICT_DEAD_RANK && diagnosis->wait_for_graph.count == 0;
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        nobody_dead &=
            diagnosis->culprits[i].state == CULPRIT_NO_DUMP || diagnosis->culprits[i].state == CULPRIT_NOT_COLLECTED;
    return diagnosis->verdict == VERDICT_HANG || diagnosis->partner_untold || nobody_dead || circle_has_gpus(diagnosis);
}

/* Whether somebody had not come to the end of its work, in a job that is over. */
static bool ended_at_work(const struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    for (uint32_t p = 0; !waits->any_alive && p < diagnosis->world.dump_count; p++) {
        const struct dump_header *header = diagnosis->world.parties[p].dump->header;
        if (header->pid != 0 && !(header->state & STATE_SWITCHED_OFF) && is_at_work(&waits->parties[p]))
            return true;
    }
    return false;
}

/* A process that is killed, or leaves by _exit(), notes nothing in its dump, and where its launcher then ends the
 * others in the middle of their work nobody waits for it. That is fine only where all are known to have been ended
 * together. */
static void weigh_end(struct diagnosis *diagnosis) {
    bool together = diagnosis->end.monotonic_ns > 0 && !diagnosis->end.dead_known;
    if (diagnosis->verdict == VERDICT_OK && !together && ended_at_work(diagnosis))
        diagnosis->verdict = VERDICT_UNKNOWN;
}

/* Whether nobody is missing of those who are waited for, and somebody went on from there: the others were about to as
 * well. Where a transport fails, those that went on wait in the next call. */
static bool others_went_on(const struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    bool went_on = false;
    for (uint32_t p = 0; p < diagnosis->world.dump_count; p++) {
        bool recorded = !(diagnosis->world.parties[p].dump->header->state & STATE_SWITCHED_OFF);
        went_on |= recorded && (is_at_work(&waits->parties[p]) || waits->parties[p].doing == DOING_GONE);
    }
    return went_on && diagnosis->culprit_count == 0 && diagnosis->cycle_count == 0;
}

/* Whether they are of one moment that is over, as a recorder of another tool wrote it: that they do not change tells
 * nothing. */
static bool is_imported(const struct world *world) {
    bool imported = world->dump_count > 0;
    for (uint32_t p = 0; p < world->dump_count; p++)
        imported &= world->parties[p].unread || world->parties[p].dump->lived_on_ms > 0;
    return imported;
}

/* Waits that were young when it was written are those of a job at work. */
static bool weigh_imported(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    if (!standing_find(&diagnosis->standing, &diagnosis->wait_for_graph, request->end))
        return false;
    if (diagnosis->standing.kind == STANDING_BRIEF) {
        diagnosis->verdict = VERDICT_OK;
        diagnosis->culprit_count = diagnosis->cycle_count = 0;
    } else {
        diagnosis->standing = (struct standing){.party = NOBODY};
    }
    return true;
}

/* A job that nobody saw stand: does it look as if it had? */
bool weigh(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    weigh_end(diagnosis);
    if (is_imported(&diagnosis->world) && may_have_worked(diagnosis))
        return weigh_imported(diagnosis, request);
    bool stays = diagnosis->verdict == VERDICT_DEADLOCK && !circle_has_gpus(diagnosis);
    if (request->settled || request->moving_count > 0 || diagnosis->wait_for_graph.any_alive ||
        (!stays && !may_have_worked(diagnosis)))
        return true;
    if (!standing_find(&diagnosis->standing, &diagnosis->wait_for_graph, request->end))
        return false;
    if (stays) /* a circle never opens: for how long it stood is told, and decides nothing */
        return true;
    if (diagnosis->standing.kind == STANDING_BRIEF) {
        bool first_known = request->end && request->end->dead_known; /* of a sure one the verdict is another */
        diagnosis->verdict = first_known ? VERDICT_UNKNOWN : VERDICT_OK;
        diagnosis->culprit_count = diagnosis->cycle_count = 0;
    } else if (diagnosis->standing.kind == STANDING_UNTOLD && diagnosis->verdict == VERDICT_DEADLOCK) {
        diagnosis->verdict = VERDICT_HANG;
    } else if (diagnosis->standing.kind == STANDING_UNTOLD && others_went_on(diagnosis)) {
        diagnosis->verdict = VERDICT_UNKNOWN;
    }
    return true;
}

static struct absence absence_of(const struct diagnosis *diagnosis, const struct culprit *culprit,
                                 const struct moment *until) {
    const struct dump *dump = diagnosis->world.parties[culprit->party].dump;
    if (culprit->state == CULPRIT_BLOCKED) /* it was called, and a GPU has not begun it */
        return culprit->absence;
    return dump && dump->header->pid == 0 ? absence_of_import(&diagnosis->wait_for_graph, culprit->party)
                                          : absence_find(&diagnosis->wait_for_graph, culprit->party, until);
}

/* Until when absences are counted: while a job stands until it was seen to, of one that is over until its end. NULL:
 * that is not known, or nothing is to be weighed. */
static const struct moment *absent_until(const struct diagnosis *diagnosis, const struct diagnose_request *request) {
    enum standing_kind kind = diagnosis->standing.kind;
    if (diagnosis->verdict != VERDICT_HANG || diagnosis->culprit_count == 0 || diagnosis->cycle_count > 0)
        return NULL;
    if (kind == STANDING_LONG || kind == STANDING_UNTOLD)
        return &diagnosis->standing.until;
    if (is_imported(&diagnosis->world)) /* until its files were written */
        return &diagnosis->standing.until;
    return kind == STANDING_NONE && request->settled ? request->now : NULL;
}

/* Whether those that others wait for were away, all of them, for no longer than what may be work: then a job that
 * stands, or was killed meanwhile, need not hang. */
void weigh_absences(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    const struct moment *until = absent_until(diagnosis, request);
    bool asked = until != NULL;
    int64_t away = 0, longest = -1;
    diagnosis->may_come_back = asked;
    for (size_t i = 0; asked && i < diagnosis->culprit_count; i++) {
        struct culprit *culprit = &diagnosis->culprits[i];
        const struct dump *dump = diagnosis->world.parties[culprit->party].dump;
        if (culprit->state == CULPRIT_NO_DUMP) /* beside others, whose absences are known */
            continue;
        culprit->absence = absence_of(diagnosis, culprit, until);
        if (dump && dump->header->pid == 0) /* how long it lasted is known only where the file's time is */
            diagnosis->may_come_back &= dump->lived_on_ms > 0;
        diagnosis->may_come_back &= culprit->absence.away_ns >= 0;
        away = culprit->absence.away_ns > away ? culprit->absence.away_ns : away;
        longest = culprit->absence.longest_ns > longest ? culprit->absence.longest_ns : longest;
    }
    if (!diagnosis->may_come_back || away <= ABSENCE_GIVEN_NS)
        return;
    int64_t of_peers = absence_longest(&diagnosis->world);
    longest = of_peers > longest ? of_peers : longest;
    diagnosis->may_come_back = away / ABSENCE_FEW <= longest;
}
