/* SPDX-License-Identifier: Apache-2.0
 *
 * Written with pwrite, not through a mapping: the file may be cut off by then, which is an error here and no signal.
 * The process has the same pages mapped, and sees what is written at once.
 */
#include "analyzer/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/dumps/process.h"
#include "shim/base/order_check.h"

enum {
    LOCK_TRIES = 100,
    LOCK_REST_NS = 10000000,
    ORDERS_SINCE = 5 /* minor version of the format */
};

#define AT(FIELD) ((off_t)offsetof(struct dump_header, FIELD))

static bool read_all(int file, void *to, size_t bytes, off_t at) {
    return pread(file, to, bytes, at) == (ssize_t)bytes;
}

static bool write_all(int file, const void *from, size_t bytes, off_t at) {
    return pwrite(file, from, bytes, at) == (ssize_t)bytes;
}

static const char *const state_names[] = {[ORDER_OBEYED] = "acknowledged",
                                          [ORDER_AWAITED] = "awaited",
                                          [ORDER_OVER] = "over",
                                          [ORDER_NOT_GIVEN] = "not_given"};

const char *order_state_name(enum order_state state) {
    return state_names[state];
}

int order_state_named(const char *name) {
    for (size_t i = 0; i < sizeof state_names / sizeof *state_names; i++)
        if (strcmp(state_names[i], name) == 0)
            return (int)i;
    return -1;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool refuse(struct controlled *process, enum order_state state, const char *why) {
    process->state = state;
    snprintf(process->trouble, sizeof process->trouble, "%s", why);
    return false;
}

static bool is_same(const struct dump_header *header, const struct dump_header *known) {
    return memcmp(header->magic, known->magic, sizeof header->magic) == 0 && header->version == known->version &&
           header->byte_order == known->byte_order && header->pid == known->pid &&
           header->process_start_realtime_ns == known->process_start_realtime_ns &&
           memcmp(header->run_id, known->run_id, sizeof header->run_id) == 0 &&
           memcmp(header->boot_id, known->boot_id, sizeof header->boot_id) == 0;
}

static bool knows_orders(const struct dump_header *header) {
    return FORMAT_MAJOR_OF(header->version) == FORMAT_MAJOR && FORMAT_MINOR_OF(header->version) >= ORDERS_SINCE &&
           header->header_bytes >= offsetof(struct dump_header, order_answer) + sizeof header->order_answer;
}

static bool may_be_asked(struct controlled *process, const struct dump *dump, enum process_state state) {
    const struct dump_header *header = dump->header;
    if (state == PROCESS_GONE || header->state & (STATE_EXITED | STATE_COPIED))
        return refuse(process, ORDER_OVER, "has ended");
    if (state == PROCESS_ELSEWHERE)
        return refuse(process, ORDER_NOT_GIVEN,
                      "runs on another host, or in a container that is not seen from here: orders are given there");
    if (header->state & STATE_FINALISED)
        return refuse(process, ORDER_OVER, "has called MPI_Finalize");
    if (header->state & STATE_SWITCHED_OFF)
        return refuse(process, ORDER_NOT_GIVEN, "recording was switched off there");
    if (!knows_orders(header)) {
        process->state = ORDER_NOT_GIVEN;
        snprintf(process->trouble, sizeof process->trouble, "its library, commtap %s, takes no orders", dump->writer);
        return false;
    }
    return true;
}

static bool open_file(struct controlled *process, const struct dump *dump) {
    struct dump_header header;
    struct stat status;
    process->file = regular_file_open(AT_FDCWD, dump->path, O_RDWR | O_NOFOLLOW);
    if (process->file < 0)
        return refuse(process, ORDER_NOT_GIVEN, regular_file_error(errno));
    if (fstat(process->file, &status) != 0 || status.st_uid != geteuid())
        return refuse(process, ORDER_NOT_GIVEN, "belongs to another user, who alone gives it orders");
    if (!read_all(process->file, &header, sizeof header, 0) || !is_same(&header, dump->header))
        return refuse(process, ORDER_NOT_GIVEN, "its dump has become another file");
    return true;
}

void control_open(struct controlled *process, const struct dump *dump, enum process_state state) {
    const struct dump_header *header = dump->header;
    *process = (struct controlled){
        .file = -1, .rank = header->rank, .pid = header->pid, .start_realtime_ns = header->process_start_realtime_ns};
    snprintf(process->host, sizeof process->host, "%s", dump->host);
    if (!may_be_asked(process, dump, state))
        return;
    process->here = process_here(dump);
    if (open_file(process, dump))
        control_read(process);
    else
        control_close(process);
}

void control_open_stub(struct controlled *process, const struct dump_stub *stub) {
    *process = (struct controlled){.file = -1, .state = ORDER_NOT_GIVEN, .rank = stub->rank, .pid = stub->pid};
    snprintf(process->host, sizeof process->host, "%s", stub->host);
    if (stub->damage)
        snprintf(process->trouble, sizeof process->trouble, "its stub cannot be believed: it %s", stub->damage);
    else
        snprintf(process->trouble, sizeof process->trouble,
                 "its dump lies on %s: orders are given there, or from here with --ssh ssh", stub->host);
}

void control_close(struct controlled *process) {
    if (process->file >= 0)
        close(process->file);
    process->file = -1;
}

/* ---- giving ---------------------------------------------------------------------------------- */

static bool lock(const struct controlled *process) {
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(process->file, LOCK_EX | LOCK_NB) == 0)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_REST_NS}, NULL);
    }
    return false;
}

static void terminate(struct order_wishes *wishes) {
    wishes->verbose[sizeof wishes->verbose - 1] = '\0';
    wishes->stack[sizeof wishes->stack - 1] = '\0';
    wishes->operations[sizeof wishes->operations - 1] = '\0';
}

static bool read_wishes(const struct controlled *process, struct order_wishes *wishes) {
    return read_all(process->file, wishes, sizeof *wishes, AT(order_wishes)) &&
           (wishes->asked == 0 || order_check(wishes) == wishes->check);
}

static void add_wish(struct order_wishes *wishes, const struct order *order) {
    switch (order->kind) {
    case ORDER_PAUSE:
        wishes->recording = ORDERED_PAUSE;
        break;
    case ORDER_RESUME:
        wishes->recording = ORDERED_RESUME;
        break;
    case ORDER_SNAPSHOT:
        wishes->snapshots = 1 + (order->snapshots > wishes->snapshots ? order->snapshots : wishes->snapshots);
        break;
    case ORDER_VERBOSE:
        snprintf(wishes->verbose, sizeof wishes->verbose, "%s", order->text);
        break;
    case ORDER_OPS:
        snprintf(wishes->operations, sizeof wishes->operations, "%s", order->text);
        break;
    case ORDER_STACK:
        snprintf(wishes->stack, sizeof wishes->stack, "%s", order->text);
        break;
    case ORDER_NONE:
        break;
    }
}

size_t order_text_bytes(enum order_kind kind) {
    const struct order_wishes *wishes;
    return kind == ORDER_VERBOSE ? sizeof wishes->verbose
           : kind == ORDER_OPS   ? sizeof wishes->operations
           : kind == ORDER_STACK ? sizeof wishes->stack
                                 : 0;
}

/* Where somebody died writing, what is in force is as the last answer says, and all wishes begin anew. */
static bool write_wishes(struct controlled *process, const struct order *order) {
    struct order_wishes wishes;
    const uint32_t waiting = 1;
    if (!read_wishes(process, &wishes))
        wishes = (struct order_wishes){.asked = process->answer.obeyed, .snapshots = process->answer.snapshots};
    terminate(&wishes);
    add_wish(&wishes, order);
    wishes.asked += wishes.asked == UINT32_MAX ? 2 : 1;
    wishes.check = order_check(&wishes);
    return write_all(process->file, &wishes, sizeof wishes, AT(order_wishes)) &&
           write_all(process->file, &waiting, sizeof waiting, AT(orders_waiting));
}

bool control_give(struct controlled *process, const struct order *order) {
    if (process->file < 0)
        return false;
    if (!lock(process))
        return refuse(process, ORDER_NOT_GIVEN, "somebody else is giving it orders, and does not come to an end");
    bool done = write_wishes(process, order);
    if (!done)
        refuse(process, ORDER_NOT_GIVEN, strerror(errno));
    flock(process->file, LOCK_UN);
    control_read(process);
    return done;
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool is_over(const struct controlled *process, uint32_t state) {
    return state & (STATE_EXITED | STATE_FINALISED) || !process_is_that(process->here, process->start_realtime_ns);
}

static bool read_answer(struct controlled *process, uint32_t *state) {
    process->answers = read_all(process->file, &process->answer, sizeof process->answer, AT(order_answer)) &&
                       read_all(process->file, state, sizeof *state, AT(state));
    process->state = process->answer.obeyed == process->wishes.asked ? ORDER_OBEYED : ORDER_AWAITED;
    return process->answers;
}

void control_read(struct controlled *process) {
    struct order_wishes wishes;
    uint32_t state;
    if (process->file < 0 || process->trouble[0])
        return;
    if (read_wishes(process, &wishes))
        process->wishes = wishes;
    terminate(&process->wishes);
    bool read = read_answer(process, &state);
    if (read && process->state == ORDER_AWAITED && is_over(process, state)) {
        read = read_answer(process, &state); /* it may have answered last of all */
        if (process->state == ORDER_AWAITED)
            refuse(process, ORDER_OVER, "ended before it made another call");
    }
    if (!read)
        refuse(process, ORDER_NOT_GIVEN, "its dump was cut off");
}
