/* SPDX-License-Identifier: Apache-2.0
 *
 * See faults.h.
 */
#include "test/standin/nccl/faults.h"
#include "test/standin/nccl/communicator.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum kind { STREAM_DELAY, HOST_DELAY, INSIDE_DELAY, LINK, DROP, SKIP, MISMATCH, ABORT, ERROR, KINDS };

static const struct {
    const char *name;
    bool once; /* applies to one operation unless told otherwise */
} kinds[KINDS] = {
    [STREAM_DELAY] = {"stream-delay", false},
    [HOST_DELAY] = {"host-delay", false},
    [INSIDE_DELAY] = {"inside-delay", false},
    [LINK] = {"link", false},
    [DROP] = {"drop", true},
    [SKIP] = {"skip", true},
    [MISMATCH] = {"mismatch", true},
    [ABORT] = {"abort", true},
    [ERROR] = {"error", true},
};

enum key { RANK, OP, COUNT, MS, FROM, TO, RATE, CODE, COMM, KEYS };
static const char *const keys[KEYS] = {"rank", "op", "count", "ms", "from", "to", "rate", "code", "comm"};

struct fault {
    enum kind kind;
    double value[KEYS];
};

#define MAX_FAULTS 32
static struct fault faults[MAX_FAULTS];
static int fault_count;

static void refuse(const char *what) {
    fprintf(stderr, "STANDIN_NCCL_FAULTS: cannot read '%s' (see test/standin/nccl/faults.h)\n", what);
    exit(2);
}

static void read_pair(struct fault *f, char *pair) {
    char *equals = strchr(pair, '='), *end;
    if (!equals)
        refuse(pair);
    *equals = 0;
    for (int key = 0; key < KEYS; key++)
        if (strcmp(pair, keys[key]) == 0) {
            f->value[key] = strtod(equals + 1, &end);
            if (end == equals + 1 || *end)
                refuse(equals + 1);
            return;
        }
    refuse(pair);
}

static void read_fault(char *text) {
    char *rest, *word = strtok_r(text, " \t", &rest);
    if (!word)
        return;
    if (fault_count == MAX_FAULTS)
        refuse("more than 32 faults");
    struct fault *f = &faults[fault_count++];
    int kind = 0;
    while (kind < KINDS && strcmp(word, kinds[kind].name) != 0)
        kind++;
    if (kind == KINDS)
        refuse(word);
    *f = (struct fault){.kind = (enum kind)kind};
    f->value[RANK] = f->value[FROM] = f->value[TO] = f->value[COMM] = -1;
    f->value[CODE] = ncclRemoteError;
    f->value[COUNT] = kinds[kind].once ? 1 : 1e18;
    while ((word = strtok_r(NULL, " \t", &rest)))
        read_pair(f, word);
}

static void read_all(void) {
    const char *environment = getenv("STANDIN_NCCL_FAULTS");
    if (!environment)
        return;
    char *text = strdup(environment), *rest;
    for (char *one = strtok_r(text, ";", &rest); one; one = strtok_r(NULL, ";", &rest))
        read_fault(one);
    free(text);
}

void faults_read(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
}

static bool matches(const struct fault *f, enum key key, int value) {
    return f->value[key] < 0 || (int)f->value[key] == value;
}

static bool applies(const struct fault *f, const struct ncclComm *comm, uint64_t operation) {
    return f->kind != LINK && matches(f, RANK, comm->rank) && matches(f, COMM, comm->ordinal) &&
           (double)operation >= f->value[OP] && (double)operation < f->value[OP] + f->value[COUNT];
}

uint64_t faults_stream_delay(const struct ncclComm *comm, uint64_t operation) {
    uint64_t ns = 0;
    for (const struct fault *f = faults; f < faults + fault_count; f++)
        if (f->kind == STREAM_DELAY && applies(f, comm, operation))
            ns += (uint64_t)(f->value[MS] * 1e6);
    return ns;
}

bool faults_of_operation(const struct ncclComm *comm, uint64_t operation, struct fault_plan *plan) {
    *plan = (struct fault_plan){0};
    if (operation == 0 || comm->delayed_operation != operation)
        plan->stream_delay_ns = faults_stream_delay(comm, operation);
    for (const struct fault *f = faults; f < faults + fault_count; f++) {
        if (!applies(f, comm, operation))
            continue;
        uint64_t ns = (uint64_t)(f->value[MS] * 1e6);
        struct timespec delay = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
        switch (f->kind) {
        case HOST_DELAY:
            nanosleep(&delay, NULL);
            break;
        case INSIDE_DELAY:
            plan->inside_delay_ns += ns;
            break;
        case DROP:
            plan->drop = true;
            break;
        case SKIP:
            return false;
        case MISMATCH:
            plan->mismatch = true;
            break;
        case ABORT:
            plan->abort = true;
            plan->abort_after_ns = ns;
            break;
        case ERROR:
            plan->error = (int)f->value[CODE];
            plan->mismatch = true;
            break;
        case STREAM_DELAY:
        case LINK:
        case KINDS:
            break;
        }
    }
    return true;
}

uint64_t faults_of_link(const struct ncclComm *comm, int to, uint64_t bytes, uint64_t *free_at) {
    uint64_t arrives = 0;
    for (const struct fault *f = faults; f < faults + fault_count; f++) {
        if (f->kind != LINK || !matches(f, FROM, comm->rank) || !matches(f, TO, to) || !matches(f, COMM, comm->ordinal))
            continue;
        uint64_t now = monotonic_ns();
        uint64_t begins = *free_at > now ? *free_at : now;
        *free_at = begins + (f->value[RATE] > 0 ? (uint64_t)((double)bytes / f->value[RATE] * 1e9) : 0);
        arrives = *free_at + (uint64_t)(f->value[MS] * 1e6);
    }
    return arrives;
}
