/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/polling.h"

/* Whether the call gets what the polls before it asked for. */
static bool goes_on(const struct polling *polling, const struct polling_call *call) {
    if (!polling->any || call->gap || call->stretch != polling->stretch)
        return false;
    if (polling->found)
        return call->call_class == CLASS_RECV && call->record->kind == RECORD_CALL &&
               call->record->comm == polling->comm;
    return call->call_class == CLASS_WAIT || call->call_class == CLASS_TEST || call->call_class == CLASS_PROBE;
}

int64_t polling_pass(struct polling *polling, const struct polling_call *call) {
    int64_t since = call->t0, own = call->t0 - polling->to;
    if (goes_on(polling, call))
        since = own > POLL_GAP_NS ? polling->from + own : polling->from;
    since = since < call->t0 ? since : call->t0;
    bool found =
        call->record->kind == RECORD_CALL && call->call_class == CLASS_PROBE && !(call->record->flags & FLAG_FAILED);
    *polling = (struct polling){.any = found || call->record->kind == RECORD_POLL,
                                .found = found,
                                .comm = call->record->comm,
                                .stretch = call->stretch,
                                .from = since,
                                .to = call->t1};
    return since;
}
