/* SPDX-License-Identifier: Apache-2.0
 *
 * The floor of any timing wrapper: two bare reads of the time stamp counter around the call, and their sum.
 * Preloaded into percall and messages in place of commtap.
 * Must not live here: anything a real tool would do besides.
 */
#include <mpi.h>
#include <stdint.h>

static volatile uint64_t total;

static inline uint64_t ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#endif
}

#define TIMED(CALL)                                                                                                    \
    do {                                                                                                               \
        uint64_t enter = ticks();                                                                                      \
        int result = CALL;                                                                                             \
        total += ticks() - enter;                                                                                      \
        return result;                                                                                                 \
    } while (0)

int MPI_Allreduce(const void *sent, void *received, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    TIMED(PMPI_Allreduce(sent, received, count, type, op, comm));
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request) {
    TIMED(PMPI_Isend(buffer, count, type, peer, tag, comm, request));
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request) {
    TIMED(PMPI_Irecv(buffer, count, type, peer, tag, comm, request));
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
    TIMED(PMPI_Waitall(count, requests, statuses));
}

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
    TIMED(PMPI_Send(buffer, count, type, peer, tag, comm));
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status *status) {
    TIMED(PMPI_Recv(buffer, count, type, peer, tag, comm, status));
}
