/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/waits/launches.h"

#include <stdlib.h>

static bool note_call(struct rank_launches *launches, const struct match_record *item) {
    if (!launches->calls)
        launches->calls = calloc(LAUNCHES_AHEAD, sizeof *launches->calls);
    if (!launches->ends)
        launches->ends = calloc(LAUNCHES_COMMS, sizeof *launches->ends);
    if (!launches->calls || !launches->ends)
        return false;
    launches->calls[item->record->op % LAUNCHES_AHEAD] = (struct launch_call){item->record->op, item->t1};
    return true;
}

static void note_launch(struct rank_launches *launches, const struct match_record *item) {
    launches->launches++;
    launches->replayed += (item->record->flags & FLAG_CAPTURED) != 0;
    if (!launches->calls || !launches->ends)
        return;
    struct launch_end *end = &launches->ends[item->record->comm % LAUNCHES_COMMS];
    int64_t before = end->comm == item->record->comm ? end->ended_ns : INT64_MIN;
    *end = (struct launch_end){item->record->comm, item->t1};
    if (item->record->flags & FLAG_CAPTURED) /* a replay has no call of its own */
        return;
    const struct launch_call *call = &launches->calls[item->record->op % LAUNCHES_AHEAD];
    if (call->op != item->record->op)
        return;
    launches->joined++;
    if (item->begin < call->left_ns)
        launches->host_bound++;
    else if (item->begin > before)
        launches->held_up_ns =
            add_ns(launches->held_up_ns, item->begin - (before > call->left_ns ? before : call->left_ns));
}

bool rank_launches_add(struct rank_launches *launches, const struct match_record *item) {
    switch ((enum record_kind)item->record->kind) {
    case RECORD_POST:
    case RECORD_GROUP:
        return item->record->op == 0 || note_call(launches, item);
    case RECORD_GPU:
    case RECORD_KERNEL:
        note_launch(launches, item);
        return true;
    case RECORD_EXPOSED:
        launches->waits++;
        if (item->t1 > item->t0)
            launches->exposed_ns = add_ns(launches->exposed_ns, item->t1 - item->t0);
        return true;
    default:
        return true;
    }
}

void rank_launches_parcel(struct rank_launches *launches, struct parcel *parcel) {
    parcel_field(parcel, &launches->launches);
    parcel_field(parcel, &launches->replayed);
    parcel_field(parcel, &launches->joined);
    parcel_field(parcel, &launches->host_bound);
    parcel_field(parcel, &launches->held_up_ns);
    parcel_field(parcel, &launches->waits);
    parcel_field(parcel, &launches->exposed_ns);
}

void rank_launches_free(struct rank_launches *launches) {
    free(launches->calls);
    free(launches->ends);
    launches->calls = NULL;
    launches->ends = NULL;
}
