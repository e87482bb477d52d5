/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the table of intercepted functions: as shim/CALLS.md, or with --columns as tab separated values for scripts.
 * Lives here: the words for kinds, byte formulas and conventions.
 * Must not live here: facts about single functions; those are columns of shim/calls.def.
 */
#include <stdio.h>
#include <string.h>

#include "shim/call.h"

struct kind_words {
    const char *name;
    const char *what;
    const char *matched;
};

#define BY_SEQUENCE     "by communicator and sequence number"
#define BY_CHANNEL      "by channel: communicator, source, destination, tag, ordinal"
#define BY_OWN_SEQUENCE "by the window's or file's own sequence number"
#define BY_CREATION     "by parent and sequence number"

static const struct kind_words kinds[KIND_COUNT] = {
    [KIND_PLAIN] = {"PLAIN", "counted and timed", "no"},
    [KIND_INIT] = {"INIT", "setup", "no"},
    [KIND_FINALIZE] = {"FINALIZE", "setup", "no"},
    [KIND_SESSION_FINALIZE] = {"SESSION_FINALIZE", "setup", "no"},
    [KIND_ABORT] = {"ABORT", "setup", "no"},
    [KIND_COLLECTIVE] = {"COLLECTIVE", "collective", BY_SEQUENCE},
    [KIND_ICOLLECTIVE] = {"ICOLLECTIVE", "collective, non-blocking", BY_SEQUENCE},
    [KIND_COLLECTIVE_INIT] = {"COLLECTIVE_INIT", "collective, persistent", BY_SEQUENCE},
    [KIND_SEND] = {"SEND", "send", BY_CHANNEL},
    [KIND_RECV] = {"RECV", "receive", BY_CHANNEL},
    [KIND_SENDRECV] = {"SENDRECV", "send and receive", BY_CHANNEL},
    [KIND_ISEND] = {"ISEND", "send, non-blocking", BY_CHANNEL},
    [KIND_IRECV] = {"IRECV", "receive, non-blocking", BY_CHANNEL},
    [KIND_ISENDRECV] = {"ISENDRECV", "send and receive, non-blocking", BY_CHANNEL},
    [KIND_SEND_INIT] = {"SEND_INIT", "send, persistent", BY_CHANNEL},
    [KIND_RECV_INIT] = {"RECV_INIT", "receive, persistent", BY_CHANNEL},
    [KIND_START] = {"START", "starts a persistent operation", "no, what it starts is"},
    [KIND_STARTALL] = {"STARTALL", "starts persistent operations", "no, what it starts is"},
    [KIND_WAIT] = {"WAIT", "wait", "no, what it completes is"},
    [KIND_WAITALL] = {"WAITALL", "wait", "no, what it completes is"},
    [KIND_WAITANY] = {"WAITANY", "wait", "no, what it completes is"},
    [KIND_WAITSOME] = {"WAITSOME", "wait", "no, what it completes is"},
    [KIND_TEST] = {"TEST", "test", "no, what it completes is"},
    [KIND_TESTALL] = {"TESTALL", "test", "no, what it completes is"},
    [KIND_TESTANY] = {"TESTANY", "test", "no, what it completes is"},
    [KIND_TESTSOME] = {"TESTSOME", "test", "no, what it completes is"},
    [KIND_POLL] = {"POLL", "looks at a request", "no"},
    [KIND_REQUEST_FREE] = {"REQUEST_FREE", "gives a request away", "no"},
    [KIND_CANCEL] = {"CANCEL", "cancels", "no"},
    [KIND_PROBE] = {"PROBE", "probe", "no"},
    [KIND_IPROBE] = {"IPROBE", "probe", "no"},
    [KIND_MPROBE] = {"MPROBE", "probe that takes the message", "no, the receive is"},
    [KIND_IMPROBE] = {"IMPROBE", "probe that takes the message", "no, the receive is"},
    [KIND_MRECV] = {"MRECV", "receive", BY_CHANNEL},
    [KIND_IMRECV] = {"IMRECV", "receive, non-blocking", BY_CHANNEL},
    [KIND_COMM_CREATE] = {"COMM_CREATE", "creates a communicator", BY_CREATION},
    [KIND_COMM_CREATE_GROUP] = {"COMM_CREATE_GROUP", "creates a communicator", "by parent, tag and group"},
    [KIND_COMM_FROM_GROUP] = {"COMM_FROM_GROUP", "creates a communicator", "by string tag and group"},
    [KIND_COMM_IDUP] = {"COMM_IDUP", "creates a communicator, non-blocking", BY_CREATION},
    [KIND_INTERCOMM_CREATE] = {"INTERCOMM_CREATE", "creates a communicator", "by tag and both groups"},
    [KIND_INTERCOMM_FROM_GROUPS] = {"INTERCOMM_FROM_GROUPS", "creates a communicator", "by string tag and both groups"},
    [KIND_COMM_FREE] = {"COMM_FREE", "frees a communicator", "no"},
    [KIND_COMM_SET_NAME] = {"COMM_SET_NAME", "names a communicator", "no"},
    [KIND_COMM_GET_PARENT] = {"COMM_GET_PARENT", "communicator to another world", "no"},
    [KIND_TYPE_FREE] = {"TYPE_FREE", "frees a datatype", "no"},
    [KIND_WIN_CREATE] = {"WIN_CREATE", "creates a window", BY_CREATION},
    [KIND_WIN_FREE] = {"WIN_FREE", "frees a window", BY_OWN_SEQUENCE},
    [KIND_RMA] = {"RMA", "one-sided", "no"},
    [KIND_RMA_REQUEST] = {"RMA_REQUEST", "one-sided, with a request", "no"},
    [KIND_RMA_SYNC] = {"RMA_SYNC", "one-sided synchronisation", "no"},
    [KIND_WIN_TEST] = {"WIN_TEST", "asks whether an epoch is over", "no"},
    [KIND_WIN_COLLECTIVE] = {"WIN_COLLECTIVE", "collective of a window", BY_OWN_SEQUENCE},
    [KIND_FILE_OPEN] = {"FILE_OPEN", "opens a file", BY_CREATION},
    [KIND_FILE_CLOSE] = {"FILE_CLOSE", "closes a file", BY_OWN_SEQUENCE},
    [KIND_FILE_COLLECTIVE] = {"FILE_COLLECTIVE", "collective of a file", BY_OWN_SEQUENCE},
    [KIND_FILE_IO] = {"FILE_IO", "file access", "no"},
    [KIND_FILE_IO_REQUEST] = {"FILE_IO_REQUEST", "file access, non-blocking",
                              "only collective ones, by the file's sequence"},
    [KIND_NCCL_PLAIN] = {"NCCL_PLAIN", "counted and timed", "no"},
    [KIND_NCCL_WINDOW] = {"NCCL_WINDOW", "counted and timed", "no"},
    [KIND_NCCL_WINDOW_GONE] = {"NCCL_WINDOW_GONE", "counted and timed", "no"},
    [KIND_NCCL_UNIQUE_ID] = {"NCCL_UNIQUE_ID", "setup", "no"},
    [KIND_NCCL_COLLECTIVE] = {"NCCL_COLLECTIVE", "collective, enqueued on a stream", BY_SEQUENCE},
    [KIND_NCCL_SEND] = {"NCCL_SEND", "send, enqueued on a stream", BY_CHANNEL},
    [KIND_NCCL_RECV] = {"NCCL_RECV", "receive, enqueued on a stream", BY_CHANNEL},
    [KIND_NCCL_RMA] = {"NCCL_RMA", "one-sided, enqueued on a stream", "no"},
    [KIND_NCCL_GROUP_START] = {"NCCL_GROUP_START", "begins a group", "no"},
    [KIND_NCCL_GROUP_END] = {"NCCL_GROUP_END", "launches a group", "no, its operations are"},
    [KIND_NCCL_GROUP_SIMULATE] = {"NCCL_GROUP_SIMULATE", "ends a group that never runs", "no"},
    [KIND_NCCL_INIT_RANK] = {"NCCL_INIT_RANK", "creates a communicator", "by unique id"},
    [KIND_NCCL_INIT_ALL] = {"NCCL_INIT_ALL", "creates communicators", "all members are this process's"},
    [KIND_NCCL_SPLIT] = {"NCCL_SPLIT", "creates a communicator", "by parent, how-manieth child, color"},
    [KIND_NCCL_SHRINK] = {"NCCL_SHRINK", "creates a communicator", "by parent, how-manieth child"},
    [KIND_NCCL_GROW] = {"NCCL_GROW", "creates a communicator", "by unique id where a rank knows it"},
    [KIND_NCCL_DESTROY] = {"NCCL_DESTROY", "frees a communicator", "no"},
    [KIND_NCCL_ABORT] = {"NCCL_ABORT", "aborts a communicator", "no"},
    [KIND_NCCL_REVOKE] = {"NCCL_REVOKE", "revokes a communicator", "no"},
    [KIND_NCCL_ASYNC_ERROR] = {"NCCL_ASYNC_ERROR", "asks for errors", "no"},
};

struct formula_words {
    const char *name;
    const char *words;
};

static const struct formula_words formulas[BYTES_FORMULAS] = {
    [BYTES_ZERO] = {"ZERO", "0"},
    [BYTES_COUNT] = {"COUNT", "count * size of the type"},
    [BYTES_ELEMENT] = {"ELEMENT", "size of the type"},
    [BYTES_COUNT_N] = {"COUNT_N", "count * size of the type * n"},
    [BYTES_SUM] = {"SUM", "sum of all counts * size of the type"},
    [BYTES_GATHER] = {"GATHER", "count * size of the type * n"},
    [BYTES_SCATTER] = {"SCATTER", "count * size of the type * n"},
    [BYTES_GATHERV] = {"GATHERV", "root: sum of all counts * size of the type; others: their share"},
    [BYTES_SCATTERV] = {"SCATTERV", "root: sum of all counts * size of the type; others: their share"},
    [BYTES_ALLTOALLV] = {"ALLTOALLV", "what this rank sends: sum of its counts * size of the type"},
    [BYTES_ALLTOALLW] = {"ALLTOALLW", "what this rank sends: sum of its counts * sizes of their types"},
    [BYTES_NEIGHBOR] = {"NEIGHBOR", "what this rank sends: count * size of the type * outgoing neighbours"},
    [BYTES_NEIGHBOR_V] = {"NEIGHBOR_V", "what this rank sends: sum of its counts * size of the type"},
    [BYTES_NEIGHBOR_W] = {"NEIGHBOR_W", "what this rank sends: sum of its counts * sizes of their types"},
    [BYTES_PARTITIONED] = {"PARTITIONED", "partitions * count * size of the type"},
};

static const char *const conventions[] = {
    [BUSBW_NONE] = "none", [BUSBW_ONE] = "1", [BUSBW_ALLREDUCE] = "2(n-1)/n", [BUSBW_SHARE] = "(n-1)/n"};

static const char preamble[] =
    "# The functions commtap intercepts\n"
    "\n"
    "Generated from `shim/calls.def` by `make calls-doc`; a test fails when it is stale.\n"
    "\n"
    "- **id**: the call's number in every dump, never reused. **_c**: the id of MPI 4's large count twin.\n"
    "- **bytes**: the message size that is counted, in the sense of nccl-tests; n is the size of the\n"
    "  communicator, of the remote group where it is an intercommunicator. A receive counts what arrived\n"
    "  where that is known, else what was posted. Sendrecv counts what is sent, and what came back beside\n"
    "  it. Making a persistent operation counts 0: starting it is the operation and has that size.\n"
    "- **busbw**: the factor from algorithm to bus bandwidth; \"none\" where nccl-tests has no convention.\n"
    "- **matched**: how the analyzer finds the counterparts on other ranks.\n"
    "- **torch**: the name of the same operation in torch.distributed.\n"
    "\n"
    "| function | id | _c | what it is | bytes | busbw | matched | torch |\n"
    "|---|---|---|---|---|---|---|---|\n";

static const struct call *find(const char *name, size_t length, const char *suffix) {
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        if (strncmp(call->name, name, length) == 0 && strcmp(call->name + length, suffix) == 0)
            return call;
    }
    return NULL;
}

static int is_twin(const struct call *call) {
    size_t length = strlen(call->name);
    return (call->bits & CALL_LARGE) && length > 2 && find(call->name, length - 2, "") != NULL;
}

static void print_row(const struct call *call) {
    const struct call *twin = find(call->name, strlen(call->name), "_c");
    char twin_id[8] = "";
    if (twin)
        snprintf(twin_id, sizeof twin_id, "%u", twin->id);
    printf("| %s | %u | %s | %s%s | %s | %s | %s | %s |\n", call->name, call->id, twin_id, kinds[call->kind].what,
           call->bits & CALL_SYNCHRONOUS ? ", synchronous" : "", formulas[call->bytes].words, conventions[call->busbw],
           kinds[call->kind].matched, call->torch);
}

static void print_document(void) {
    fputs(preamble, stdout);
    for (unsigned i = 0; i < commtap_call_count; i++)
        if (!is_twin(&commtap_calls[i]))
            print_row(&commtap_calls[i]);
    printf("\n%u functions.\n", commtap_call_count);
}

/* The columns that hold argument positions, by the names calls.def gives them. */
/* clang-format off */
#define POSITIONS(X)                                                                                                  \
    X(comm) X(win) X(file) X(count) X(type) X(count2) X(type2) X(inplace) X(root) X(peer) X(tag)                      \
    X(peer2) X(tag2) X(redop) X(request) X(n) X(status) X(flag) X(index) X(outcount) X(message)                       \
    X(group) X(group2) X(text) X(output) X(stream) X(rank) X(unique_id) X(config) X(color)                            \
    X(devices) X(assertion)
/* clang-format on */

static void print_columns(void) {
    fputs("name\tid\tarity\tkind\tbytes\tlarge", stdout);
#define TITLE(column) fputs("\t" #column, stdout);
    POSITIONS(TITLE)
    putchar('\n');
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        printf("%s\t%u\t%u\t%s\t%s\t%u", call->name, call->id, call->arity, kinds[call->kind].name,
               formulas[call->bytes].name, call->bits & CALL_LARGE ? 1u : 0u);
#define VALUE(column) printf("\t%u", call->column);
        POSITIONS(VALUE)
        putchar('\n');
    }
}

int main(int argc, char **argv) {
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (!kinds[kind].name) {
            fprintf(stderr, "calls_doc: kind %d has no words\n", kind);
            return 1;
        }
    for (int formula = 0; formula < BYTES_FORMULAS; formula++)
        if (!formulas[formula].name) {
            fprintf(stderr, "calls_doc: byte formula %d has no words\n", formula);
            return 1;
        }
    if (argc > 1 && strcmp(argv[1], "--columns") == 0)
        print_columns();
    else
        print_document();
    return 0;
}
