/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults on demand. STANDIN_NCCL_FAULTS holds any number of faults separated by ';', each a kind and key=value pairs
 * separated by blanks, as in
 *
 *     STANDIN_NCCL_FAULTS='stream-delay rank=2 op=10 ms=15; link from=0 to=1 rate=50000000 ms=1'
 *
 * A fault strikes rank `rank` of a communicator at its operation `op` and the following, `count` in all. Operations
 * are counted from 0, per communicator and rank; every call of a collective, of Send or of Recv is one.
 *
 *     stream-delay  the stream reaches the operation `ms` late: a straggler's compute. The delay lies in the stream of
 *                   the launch before, behind the event that times that; where there was none (the first operation,
 *                   a graph, a further one of a group) it lies inside the launch
 *     host-delay    the call itself takes `ms` longer: a late host
 *     inside-delay  the operation, begun on all ranks, takes `ms` longer inside
 *     link          chunks from rank `from` to rank `to` take bytes / `rate` (bytes per second), one after the other,
 *                   and `ms` of latency
 *     drop          the operation never begins on the stream, nor anything after it, until an abort
 *     skip          the call returns success and does nothing: this rank goes on to the next operation
 *     mismatch      the operation meets no partner, as with another count elsewhere: a hang until an abort
 *     abort         `ms` after the operation began the communicator ends it without data, as ncclCommAbort would
 *     error         the communicator's async error becomes `code` (6, remote error); the operation hangs
 *
 * Defaults: rank = -1 (every rank), op = 0, ms = 0, comm = -1 (every communicator of the process; else its number in
 * order of creation, from 0), count: 1 for drop, skip, mismatch, abort and error, unbounded for the others.
 * An unknown kind or key ends the process with a message at the first ncclGetUniqueId or communicator: a test's typing
 * error must not pass as a sound run.
 *
 * Lives here: parsing and the question what applies. Must not live here: carrying it out, but for the delay of the
 * host.
 */
#ifndef STANDIN_NCCL_FAULTS_H
#define STANDIN_NCCL_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

struct ncclComm;

/* What befalls one operation on this rank. */
struct fault_plan {
    uint64_t stream_delay_ns, inside_delay_ns, abort_after_ns;
    bool drop, mismatch, abort;
    int error; /* ncclResult_t, 0 = none */
};

void faults_read(void);
/* Sleeps through a host delay and fills *plan. False: skip the operation. */
bool faults_of_operation(const struct ncclComm *comm, uint64_t operation, struct fault_plan *plan);
/* How late the stream is to reach operation number `operation`, in ns. */
uint64_t faults_stream_delay(const struct ncclComm *comm, uint64_t operation);
/* When a chunk of `bytes` pushed now to `to` arrives (CLOCK_MONOTONIC ns); 0 = at once. *free_at: state of the link. */
uint64_t faults_of_link(const struct ncclComm *comm, int to, uint64_t bytes, uint64_t *free_at);

#endif
