/* SPDX-License-Identifier: Apache-2.0
 *
 * Every point-to-point call of MPI 3.1 round a ring, with its ledger of calls and bytes.
 * Lives here: blocking, non-blocking, wildcard and persistent transfers, probes, all of Wait and Test. Must not live
 * here: collectives (MPI_Barrier apart), communicator management.
 *
 * Receives are posted larger than what arrives: the ledger holds the actual size wherever the caller gave a status,
 * or commtap must have substituted one (wildcards), and the posted size where nobody can know better.
 */
#include <mpi.h>

#include "expect.h"

static int me, n, right, left;
static char in[8192], out[8192];

static void checkpoint(void) {
    expect_digest(out, sizeof out);
    memset(out, 0, sizeof out);
}

static void wait_for(MPI_Request *request) {
    MPI_Status status;
    CALLED(MPI_Wait, 0, MPI_Wait(request, &status));
}

/* Each blocking mode of sending into a receive that is already posted. */
static void blocking(void) {
    static char attached[65536];
    MPI_Request request;
    int size;
    void *buffer;
    CALLED(MPI_Buffer_attach, 0, MPI_Buffer_attach(attached, sizeof attached));
    const struct {
        const char *name;
        int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    } modes[] = {{"MPI_Send", MPI_Send}, {"MPI_Bsend", MPI_Bsend}, {"MPI_Ssend", MPI_Ssend}, {"MPI_Rsend", MPI_Rsend}};
    for (int i = 0; i < 4; i++) {
        CALLED(MPI_Irecv, 100 + i, MPI_Irecv(out, 1000, MPI_BYTE, left, i, MPI_COMM_WORLD, &request));
        CALLED(MPI_Barrier, 0, MPI_Barrier(MPI_COMM_WORLD));
        if (modes[i].send(in, 100 + i, MPI_BYTE, right, i, MPI_COMM_WORLD) != MPI_SUCCESS)
            exit(9);
        expect(modes[i].name, 100 + i, 1);
        wait_for(&request);
        checkpoint();
    }
    CALLED(MPI_Buffer_detach, 0, MPI_Buffer_detach(&buffer, &size));
}

static void receives(void) {
    MPI_Status status;
    MPI_Request request;
    for (int kind = 0; kind < 4; kind++) {
        CALLED(MPI_Isend, 200 + kind, MPI_Isend(in, 200 + kind, MPI_BYTE, right, 20, MPI_COMM_WORLD, &request));
        if (kind == 0)
            CALLED(MPI_Recv, 200, MPI_Recv(out, 999, MPI_BYTE, left, 20, MPI_COMM_WORLD, &status));
        if (kind == 1) /* nobody asked what came: the posted size */
            CALLED(MPI_Recv, 999, MPI_Recv(out, 999, MPI_BYTE, left, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (kind == 2)
            CALLED(MPI_Recv, 202, MPI_Recv(out, 999, MPI_BYTE, MPI_ANY_SOURCE, 20, MPI_COMM_WORLD, &status));
        if (kind == 3)
            CALLED(MPI_Recv, 203,
                   MPI_Recv(out, 999, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        wait_for(&request);
        CALLED(MPI_Barrier, 0, MPI_Barrier(MPI_COMM_WORLD));
        checkpoint();
    }
    if (status.MPI_SOURCE != left || status.MPI_TAG != 20)
        exit(8);
    CALLED(MPI_Sendrecv, 300,
           MPI_Sendrecv(in, 300, MPI_BYTE, right, 30, out, 999, MPI_BYTE, left, 30, MPI_COMM_WORLD, &status));
    CALLED(MPI_Sendrecv_replace, 310,
           MPI_Sendrecv_replace(in, 310, MPI_BYTE, right, 31, left, 31, MPI_COMM_WORLD, &status));
    CALLED(MPI_Send, 0, MPI_Send(in, 12, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD));
    CALLED(MPI_Recv, 0, MPI_Recv(out, 12, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status));
    checkpoint();
}

static void nonblocking(void) {
    MPI_Request requests[8];
    MPI_Status status, statuses[8];
    /* Isend, Issend and Ibsend into Irecv, all waited for at once */
    for (int i = 0; i < 4; i++)
        CALLED(MPI_Irecv, 400 + i, MPI_Irecv(out + 512 * i, 512, MPI_BYTE, left, 40 + i, MPI_COMM_WORLD, &requests[i]));
    CALLED(MPI_Barrier, 0, MPI_Barrier(MPI_COMM_WORLD));
    CALLED(MPI_Isend, 400, MPI_Isend(in, 400, MPI_BYTE, right, 40, MPI_COMM_WORLD, &requests[4]));
    CALLED(MPI_Issend, 401, MPI_Issend(in, 401, MPI_BYTE, right, 41, MPI_COMM_WORLD, &requests[5]));
    CALLED(MPI_Irsend, 402, MPI_Irsend(in, 402, MPI_BYTE, right, 42, MPI_COMM_WORLD, &requests[6]));
    CALLED(MPI_Isend, 403, MPI_Isend(in, 403, MPI_BYTE, right, 43, MPI_COMM_WORLD, &requests[7]));
    CALLED(MPI_Waitall, 0, MPI_Waitall(8, requests, statuses));
    if (statuses[2].MPI_TAG != 42)
        exit(8);
    checkpoint();
    /* Waitany and Waitsome until nothing is left */
    for (int i = 0; i < 4; i++) {
        CALLED(MPI_Irecv, 420 + i, MPI_Irecv(out + 512 * i, 512, MPI_BYTE, left, i, MPI_COMM_WORLD, &requests[i]));
        CALLED(MPI_Isend, 420 + i, MPI_Isend(in, 420 + i, MPI_BYTE, right, i, MPI_COMM_WORLD, &requests[4 + i]));
    }
    int index, done, indices[8];
    for (int i = 0; i < 4; i++)
        CALLED(MPI_Waitany, 0, MPI_Waitany(8, requests, &index, &status));
    do {
        CALLED(MPI_Waitsome, 0, MPI_Waitsome(8, requests, &done, indices, statuses));
    } while (done != MPI_UNDEFINED);
    checkpoint();
}

/* The number of Test calls depends on time: counted as they are made. */
static void tests(void) {
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    int flag = 0, index, done, indices[2];
    for (int kind = 0; kind < 4; kind++) {
        CALLED(MPI_Irecv, 500 + kind, MPI_Irecv(out, 600, MPI_BYTE, left, 50, MPI_COMM_WORLD, &requests[0]));
        CALLED(MPI_Isend, 500 + kind, MPI_Isend(in, 500 + kind, MPI_BYTE, right, 50, MPI_COMM_WORLD, &requests[1]));
        for (int left_over = 2; left_over > 0;) {
            if (kind == 0) {
                CALLED(MPI_Test, 0, MPI_Test(&requests[2 - left_over], &flag, &status));
                left_over -= flag;
            } else if (kind == 1) {
                CALLED(MPI_Testall, 0, MPI_Testall(2, requests, &flag, statuses));
                left_over -= 2 * flag;
            } else if (kind == 2) {
                CALLED(MPI_Testany, 0, MPI_Testany(2, requests, &index, &flag, &status));
                left_over -= flag;
            } else {
                CALLED(MPI_Testsome, 0, MPI_Testsome(2, requests, &done, indices, statuses));
                left_over -= done;
            }
        }
        checkpoint();
    }
}

static void probes(void) {
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    int flag = 0;
    CALLED(MPI_Isend, 600, MPI_Isend(in, 600, MPI_BYTE, right, 60, MPI_COMM_WORLD, &request));
    CALLED(MPI_Probe, 0, MPI_Probe(left, 60, MPI_COMM_WORLD, &status));
    CALLED(MPI_Recv, 600, MPI_Recv(out, 700, MPI_BYTE, left, 60, MPI_COMM_WORLD, &status));
    wait_for(&request);
    CALLED(MPI_Isend, 601, MPI_Isend(in, 601, MPI_BYTE, right, 61, MPI_COMM_WORLD, &request));
    CALLED(MPI_Mprobe, 0, MPI_Mprobe(left, 61, MPI_COMM_WORLD, &message, &status));
    CALLED(MPI_Mrecv, 601, MPI_Mrecv(out, 700, MPI_BYTE, &message, &status));
    wait_for(&request);
    CALLED(MPI_Isend, 602, MPI_Isend(in, 602, MPI_BYTE, right, 62, MPI_COMM_WORLD, &request));
    while (!flag)
        CALLED(MPI_Improbe, 0, MPI_Improbe(left, 62, MPI_COMM_WORLD, &flag, &message, &status));
    MPI_Request receive;
    CALLED(MPI_Imrecv, 602, MPI_Imrecv(out, 700, MPI_BYTE, &message, &receive));
    wait_for(&receive);
    wait_for(&request);
    for (flag = 1; flag;) /* nothing is under way: false at once */
        CALLED(MPI_Iprobe, 0, MPI_Iprobe(left, 63, MPI_COMM_WORLD, &flag, &status));
    checkpoint();
}

/* A receive cancelled, and a send whose request is given away. */
static void abandoned(void) {
    MPI_Request request;
    MPI_Status status;
    CALLED(MPI_Irecv, 7, MPI_Irecv(out, 7, MPI_BYTE, left, 99, MPI_COMM_WORLD, &request));
    CALLED(MPI_Cancel, 0, MPI_Cancel(&request));
    wait_for(&request);
    CALLED(MPI_Isend, 70, MPI_Isend(in, 70, MPI_BYTE, right, 70, MPI_COMM_WORLD, &request));
    CALLED(MPI_Request_free, 0, MPI_Request_free(&request));
    CALLED(MPI_Recv, 70, MPI_Recv(out, 70, MPI_BYTE, left, 70, MPI_COMM_WORLD, &status));
    checkpoint();
}

int main(int argc, char **argv) {
    CALLED(MPI_Init, 0, MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    right = (me + 1) % n;
    left = (me + n - 1) % n;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (char)(me + i);
    blocking();
    receives();
    nonblocking();
    tests();
    probes();
    abandoned();
    CALLED(MPI_Barrier, 0, MPI_Barrier(MPI_COMM_WORLD));
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
