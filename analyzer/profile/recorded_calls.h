/* SPDX-License-Identifier: Apache-2.0
 *
 * From records to calls, counted as the shim counts them in its tables.
 * Lives here: which records make one call, its time, the posting time of a non-blocking one.
 * Must not live here: which records lie in the time asked for (scope.h), sums.
 *
 * One call is: a CALL record (the second half of a Sendrecv is what the call before it received); a DONE record, with
 * the posting time of its POST; a POST without one: never seen complete; a POST of NCCL's: the host's share, in a
 * of a group those of gathering; a GPU or KERNEL record: the same operation on the device, with a time of its own; of a
 * group of alike operations, all of them. A Test or a
 * probe that found nothing leaves no record.
 */
#ifndef COMMTAP_PROFILE_RECORDED_CALLS_H
#define COMMTAP_PROFILE_RECORDED_CALLS_H

#include "analyzer/profile/scope.h"

struct recorded_call {
    uint16_t call;
    uint32_t comm, stack; /* as in struct record */
    uint64_t count;       /* alike operations of a group that share `ticks`; 1 otherwise */
    uint64_t bytes;       /* of one */
    enum source source;
    bool timed, failed, posted_size;
    bool share;      /* `ticks` are a share of an interval: record_is_share */
    bool replay;     /* of a captured operation, of which it is no call: a graph ran it */
    bool started;    /* of a persistent request: `call` made the request, and did not start it */
    bool in_flight;  /* `ticks` are from posting to completion */
    bool incomplete; /* posted and never seen complete: beside posting_ticks nothing else is known */
    uint64_t ticks;  /* of the call, in the unit of its source; 0 unless timed */
    bool posting_known;
    uint64_t posting_ticks;  /* of that, inside the posting call. Of several operations that one call started the first
                                has all of it */
    uint64_t received_bytes; /* of a Sendrecv */
};

/* Tells `take` of every call of `dump` (number `d` of the scope's clock) that begins in `scope` (NULL: anywhere), lane
 * by lane; incomplete ones last. Ends early where `take` returns false. Returns false where it did or memory is
 * short. */
bool recorded_calls(const struct scope *scope, const struct dump *dump, size_t d,
                    bool (*take)(void *context, const struct recorded_call *call), void *context);

#endif
