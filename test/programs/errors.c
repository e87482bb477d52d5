/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors as a job sees them: return codes and classes, an error handler that longjmps, errno.
 * Lives here: failing calls; prints everything that a tool might change. Must not live here: expectations on counts.
 *
 * The test compares the output with and without commtap.
 */
#include <errno.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

static jmp_buf back;

/* MPICH's codes hold a number that differs from run to run: only their class is comparable. */
static void show(const char *what, int code) {
    int class = -1;
    MPI_Error_class(code, &class);
#ifdef OPEN_MPI
    printf("%s: code %d\n", what, code);
#endif
    printf("%s: class %d\n", what, class);
}

static void returned(void) {
    int value = 1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    show("count", MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    show("rank", MPI_Send(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD));
    show("tag", MPI_Send(&value, 1, MPI_INT, 0, -55, MPI_COMM_WORLD));
    show("type", MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD));
    show("root", MPI_Bcast(&value, 1, MPI_INT, 999, MPI_COMM_WORLD));
    show("op", MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD));
    show("comm", MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL));
    show("irecv", MPI_Irecv(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
    show("wait on null", MPI_Wait(&request, &status));
}

/* 8 integers into room for 1: the receive fails, its status says who sent. */
static void truncated(void) {
    int in[8] = {0}, out;
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Isend(in, 8, MPI_INT, 0, 3, MPI_COMM_SELF, &request);
    show("truncated", MPI_Recv(&out, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &status));
    printf("source %d tag %d\n", status.MPI_SOURCE, status.MPI_TAG);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The same for wildcard receives whose statuses are ignored: commtap then looks at statuses of its own, and the code
 * must not become that of a call that was given some. */
static void truncated_wildcards(void) {
    int in[8] = {0}, out[8], index;
    MPI_Request requests[3];
    MPI_Status *volatile ignored = MPI_STATUSES_IGNORE; /* MPICH's is an address that gcc warns of */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Irecv(out, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(out, 8, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_SELF, &requests[1]);
    MPI_Isend(in, 8, MPI_INT, 0, 4, MPI_COMM_SELF, &requests[2]);
    MPI_Send(in, 8, MPI_INT, 0, 5, MPI_COMM_SELF);
    show("waitall", MPI_Waitall(3, requests, ignored));
    MPI_Irecv(out, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_SELF, &requests[0]);
    MPI_Send(in, 8, MPI_INT, 0, 6, MPI_COMM_SELF);
    show("wait", MPI_Wait(requests, MPI_STATUS_IGNORE));
    MPI_Irecv(out, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &requests[0]);
    MPI_Send(in, 8, MPI_INT, 0, 7, MPI_COMM_SELF);
    show("waitany", MPI_Waitany(1, requests, &index, MPI_STATUS_IGNORE));
}

/* Pointers that lead nowhere are for the library to refuse, not for a tool to follow. */
static void without_requests(void) {
    MPI_Request *volatile none = NULL;
    MPI_Status statuses[2];
    show("wait for NULL", MPI_Wait(none, statuses));
    show("waitall for NULL", MPI_Waitall(2, none, statuses));
    show("start NULL", MPI_Start(none));
    show("free NULL", MPI_Request_free(none));
}

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    longjmp(back, 1);
}

/* The call never returns: it is left by longjmp, a thousand times, and calls after it must be seen as before. */
static void jumped_out_of(void) {
    MPI_Errhandler jumping;
    volatile int jumps = 0;
    int value = 1, sum = 0;
    MPI_Comm_create_errhandler(handler, &jumping);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, jumping);
    for (volatile int i = 0; i < 1000; i++) {
        if (setjmp(back) == 0)
            MPI_Send(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD);
        else
            jumps++;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    for (int i = 0; i < 77; i++)
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("jumps %d, sum %d\n", jumps, sum);
}

/* A call that lies deeper than those that were left. What is stored on the way is what any caller stores. */
static __attribute__((noinline)) int deeper(int levels) {
    volatile char stored[256];
    int value = 1, sum = 0;
    memset((char *)stored, levels, sizeof stored);
    if (levels == 0)
        MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    else
        sum = deeper(levels - 1);
    return sum + stored[levels] - stored[levels + 1];
}

static void deeper_after_jumps(void) {
    MPI_Errhandler jumping;
    int value = 1;
    volatile int sum = 0;
    MPI_Comm_create_errhandler(handler, &jumping);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, jumping);
    for (volatile int i = 0; i < 55; i++)
        if (setjmp(back) == 0)
            MPI_Send(&value, 1, MPI_INT, 999, 0, MPI_COMM_WORLD);
        else
            sum += deeper(10);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    printf("deeper: %d\n", sum);
}

static void errno_kept(void) {
    double in = 1, out;
    int flag;
    MPI_Request request;
    MPI_Status status;
    errno = 4242;
    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
    printf("errno %d\n", errno);
    MPI_Irecv(&out, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_SELF, &request);
    printf("errno %d\n", errno);
    MPI_Send(&in, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF);
    printf("errno %d\n", errno);
    MPI_Test(&request, &flag, &status);
    printf("errno %d flag %d\n", errno, flag);
}

int main(int argc, char **argv) {
    int me;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 0) {
        returned();
        truncated();
        truncated_wildcards();
        without_requests();
        errno_kept();
    }
    jumped_out_of();
    deeper_after_jumps();
    MPI_Finalize();
    return 0;
}
