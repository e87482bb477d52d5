/* SPDX-License-Identifier: Apache-2.0
 *
 * load/: bytes -> rank traces. One struct dump is one dump file, checked and made safe to read.
 * Lives here: reading, checking and walking a dump; what is wrong with it, with file and offset.
 * Must not live here: clocks of several processes, matching, any figure that needs a second dump.
 *
 * Input is hostile. After dump_open succeeded every pointer, count and string handed out here is inside the file's
 * mapping and properly terminated; whatever could not be trusted was left out and said in `problems`.
 *
 * The file may also change while it is read, by its living writer or by somebody's mistake. What is checked once, at
 * opening, is the dump's own copy: header, calls, definitions, anchors. Records and rows are in the mapping and may be
 * something else at every look: readers copy them first (record_cursor_next, rows.h), then judge the copy.
 */
#ifndef COMMTAP_LOAD_DUMP_H
#define COMMTAP_LOAD_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/load/call_table.h"
#include "shim/format.h"

#define DUMP_LANES_MAX 64u

/* One thing wrong with one file. `text` needs no file name or offset: the printer adds them. */
enum { PROBLEM_TEXT = 160 };
enum { STEP_MARK_LEVEL = 100 }; /* MPI_Pcontrol from here on marks steps (README) */
struct problem {
    bool fatal; /* the file cannot be used at all */
    uint64_t offset;
    char text[PROBLEM_TEXT];
};

struct problems {
    struct problem *items;
    size_t count;
    size_t dropped; /* beyond a fixed maximum */
};

/* A communicator, window or file as the dump defines it. */
struct dump_communicator {
    const struct communicator_definition *definition;
    const struct member_run *runs;                /* definition->run_count entries (checked) */
    const struct remote_group_definition *remote; /* intercommunicators: the other side (checked); NULL = not told */
    const struct member_run *remote_runs;         /* remote->run_count entries (checked), NULL = not told */
    const char *name;                             /* owned by the dump, terminated, "" when unnamed */
    bool freed;
    uint64_t freed_ticks;
    uint32_t lives;                  /* that ended when it was freed, see format.h; 0 = not known */
    uint64_t freed_enqueued;         /* collectives on it until then */
    uint64_t freed_completed;        /* of these: known then to have ended */
    uint64_t freed_hash;             /* prefix hash of all of them */
    const struct progress *progress; /* NULL when it has none (freed, or table full) */
};

/* From whom the process takes in neighbourhood collectives on a communicator, from collective `first` on. */
struct dump_neighbours {
    uint32_t index, first;
    uint32_t order; /* of equal ones the last counts */
    uint32_t run_count;
    const struct member_run *runs; /* ranks in the communicator (checked); NULL: nobody knows */
};

/* A call stack as the dump defines it. What an entry is: shim/format.h, struct stack_definition. */
struct dump_stack {
    uint32_t id, depth;
    uint64_t order; /* place among the dump's definitions: which modules were loaded then */
    const uint64_t *entries;
};

/* A Python code object. */
struct dump_code {
    uint32_t id, first_line;
    const char *name, *file; /* owned by the dump, terminated, "" when unknown */
};

struct dump_string {
    uint32_t id;
    const char *text; /* owned by the dump, terminated */
};

/* A loaded file that addresses of stacks lie in. */
struct dump_module {
    uint64_t start, end;  /* lowest and one past the highest address */
    uint64_t base;        /* address - base is the address in the file's symbol table */
    uint64_t from, until; /* places among the definitions between which it was there; until is UINT64_MAX at the end */
    const uint8_t *build_id;
    uint32_t build_id_bytes; /* 0 = it has none */
    const char *path;        /* owned by the dump, terminated */
};

struct dump_lane {
    const struct lane_state *state; /* NULL in a lane that nobody used, or whose section is missing or damaged */
    const struct record *ring;      /* of plain records; NULL when the lane has none: read by record_reader_at */
    uint32_t ring_records;          /* that the ring has room for; of plain records a power of two */
    const struct operation_row *operations;
    uint32_t operation_count;
    const struct site_row *sites;
    uint32_t site_count;
    const struct peer_row *peers;
    uint32_t peer_count;
    /* found by looking through the ring, not believed from `head` */
    uint64_t first_ticket; /* oldest and one past the newest committed ticket in the ring */
    uint64_t end_ticket;
    uint64_t torn; /* tickets in that range without a valid record */
};

struct dump {
    char *path;
    const uint8_t *base;
    size_t bytes;
    const struct dump_header *header;
    const char *run_id, *host, *boot_id, *command, *library, *launcher, *trouble, *writer; /* never NULL */
    const char *job_id, *user, *working_directory, *library_version, *operations, *nccl_library, *region;

    /* behind the header's section table, which is cut off with what follows once the dump is open */
    uint64_t cpus[CPU_MASK_WORDS], unseen_calls;
    uint32_t unseen_call, pauses;
    const char *ordered_stack, *ordered_operations; /* by commtap ctl (struct order_wishes); never NULL */
    uint32_t lived_on_ms;                           /* format.h */
    struct order_answer order_answer;
    struct own_cost own_cost;
    uint64_t pid_namespace; /* of the process; 0: not known */
    uint32_t batch_starts;  /* format.h */
    uint64_t captures_untold;

    const struct call_name *calls; /* by file order; dumps with equal lists share one */
    uint32_t call_count;
    const struct call_table *call_table; /* the same, to look up ids; NULL: the dump has none */

    struct dump_communicator *communicators; /* by local index; definition NULL = never defined */
    uint32_t communicator_count;
    struct dump_neighbours *neighbours; /* sorted by index, first and order; owned */
    size_t neighbour_count;

    struct clock_anchor *anchors; /* sorted by ticks, sane ones only; owned */
    size_t anchor_count;

    const struct in_flight *in_flight;
    uint32_t in_flight_count;
    const struct pending *pending;
    uint32_t pending_count;
    const struct progress *progress; /* all rows, used or not; of one communicator: communicators[].progress */
    uint32_t progress_count;
    const struct trace_window_block *windows;
    uint32_t window_count;
    const struct device_state *devices;
    uint32_t device_count;
    const struct device_anchor *device_anchors;
    uint32_t device_anchor_count;
    const struct sensor_row *sensors;
    uint32_t sensor_count;
    const struct transfer_row *transfers;
    uint32_t transfer_count;
    const struct beat_row *beats; /* who of its node lived when; NULL: it did not look */
    uint32_t beat_count;
    const struct capture_row *captures; /* what graphs hold of each communicator, and how far that came */
    uint32_t capture_count;
    const struct capture_message *capture_messages;
    uint32_t capture_message_count;
    const struct epoch_definition **epochs; /* sorted by epoch; owned */
    size_t epoch_count;

    struct dump_stack *stacks; /* these three sorted by id, each id once; owned */
    size_t stack_count;
    struct dump_code *codes;
    size_t code_count;
    struct dump_string *strings;
    size_t string_count;
    struct dump_module *modules; /* in the order of their definitions; owned */
    size_t module_count;

    struct dump_lane *lanes; /* lane_count of them; owned */
    uint32_t lane_count;

    /* the header's; in a set, see starts.h */
    uint64_t world_id;
    uint32_t generation;
    /* in a set, see lifetime.h */
    uint32_t launch;   /* of several with the same run, world and generation */
    bool is_duplicate; /* of another dump of the same launch and rank */

    bool is_gone; /* its process has ended, as another process that reads the set knows, on its host (process.h) */

    const struct gpu_view *view; /* of one GPU of the process alone (gpu_view.h); NULL: this is the whole dump */

    uint64_t look; /* dump_look since before its definitions were read; no look at all where they changed meanwhile */

    struct problems problems;
};

/* Opens and checks one dump file read-only. Returns a dump that the caller frees with dump_close, or NULL when memory
 * is short. A file that cannot be used yields a dump whose problems hold a fatal one and whose header is NULL. */
struct dump *dump_open(const char *path);
/* The same, with its bytes read into memory: a process can map only so many files (mapping.h). */
struct dump *dump_open_copied(const char *path);

/* The same of a dump that lies at `path` on another host and came from there as the only member of an archive, which is
 * open as `archive` and closed here. It is unpacked into `room` (shared_room.h); NULL: into memory of its own. */
struct shared_room;
struct dump *dump_open_sent(const char *path, int archive, struct shared_room *room);
/* Packs where a dump lies in such a room, or why it cannot be used; unpacking, *dump becomes the same in another
 * process that has opened the room. NULL where memory is short or the parcel failed. */
struct parcel;
void dump_parcel_sent(struct dump **dump, const char *path, struct shared_room *room, struct parcel *parcel);
/* A dump that cannot be used, for that reason, as dump_open makes it. */
struct dump *dump_unusable(const char *path, const char *reason);

/* The same over a buffer that outlives the dump and is aligned to 64 bytes (unit tests, fuzzing). `name` is copied. */
struct dump *dump_open_buffer(const char *name, const void *data, size_t bytes);

void dump_close(struct dump *dump);

/* Takes what the header of a dump that is written to says now: its state, times, losses and orders. */
void dump_refresh(struct dump *dump);

/* The same of what changes at every call alone: the header, what threads do, what is pending, how far communicators
 * came, and the tables of operations; records are left as they were. False where it takes opening the dump anew to see
 * all of that, since there are sections, rows or communicators that were not there before. */
bool dump_refresh_counters(struct dump *dump);

/* A number that changes whenever the process does anything but ask in vain (Test, Iprobe). Where it is `look` still,
 * definitions and rows belong together; where it is not, a row may speak of what was defined since. */
uint64_t dump_look(const struct dump *dump);

enum dump_change { DUMP_UNCHANGED, DUMP_OVERWRITTEN, DUMP_TRUNCATED };

/* Looks whether files of open dumps were changed since they were opened, other than by their living writers, and calls
 * `tell` for each, in no particular order. Returns how many. What was read of those may not fit together. */
size_t dump_changes(void (*tell)(void *context, const char *path, enum dump_change change), void *context);

/* From now on files of that path are unusable, for that reason: they change again and again. False: memory is short. */
bool dump_refuse(const char *path, const char *reason);

/* Name row of a call id, NULL when the file does not list it. */
const struct call_name *dump_call(const struct dump *dump, uint16_t id);

/* What an imported trace says that a rank did beside operations with known partners. */
enum trace_work {
    TRACE_WORK_NONE, /* the call is no such thing */
    TRACE_WORK_OWN,  /* work that a time line names */
    TRACE_WORK_KERNELS,
    TRACE_WORK_COPIES,
    TRACE_WORK_NCCL,
};
enum trace_work trace_work_of(const struct call_name *call);
/* Profilers' traces give a beginning and a length, in older versions each rounded to a microsecond: two kernels that
 * overlap by one and a half of them may not. */
#define TRACE_ROUNDED_NS 1500
/* True for work of the rank's own: computation. */
bool call_is_own_work(const struct call_name *call);

/* The communicator with that local index, NULL for COMM_NONE, out of range or undefined. */
const struct dump_communicator *dump_communicator(const struct dump *dump, uint32_t index);

/* Processes in a communicator: of both groups where it is an intercommunicator. */
static inline uint32_t dump_communicator_size(const struct dump_communicator *communicator) {
    const struct communicator_definition *definition = communicator->definition;
    return definition->size + (definition->kind == COMMUNICATOR_INTER ? definition->remote_size : 0);
}

/* Expands members to world ranks: writes up to `capacity` of them in rank order and returns how many there are
 * (definition->size, or 0 when they are not in this dump). */
size_t dump_communicator_members(const struct dump_communicator *communicator, int32_t *ranks, size_t capacity);
/* The same of an intercommunicator's other group (definition->remote_size of them). */
size_t dump_communicator_remote_members(const struct dump_communicator *communicator, int32_t *ranks, size_t capacity);

/* True when all of its dump_communicator_size members are listed in this dump. */
static inline bool dump_communicator_knows_members(const struct dump_communicator *communicator) {
    return communicator->runs && (communicator->definition->kind != COMMUNICATOR_INTER || communicator->remote_runs);
}

/* World rank of a peer or root as a record names it (on an intercommunicator: of the remote group). RANK_UNKNOWN where
 * that is no rank or the members are not in this dump; `communicator` may be NULL. */
int32_t dump_peer_rank(const struct dump_communicator *communicator, int32_t peer);

/* Writes from which ranks of the communicator the process takes in its neighbourhood collective `seq`, in ascending
 * order, each once, its own among them where it does; returns how many. SIZE_MAX: nobody knows. */
size_t dump_neighbours_at(const struct dump *dump, uint32_t local, uint32_t seq, uint32_t ranks[NEIGHBOURS_MOST]);

/* ---- call stacks ---------------------------------------------------------------------------------------- */

/* What has that id, NULL when the dump does not define it. */
const struct dump_stack *dump_stack(const struct dump *dump, uint32_t id);
const struct dump_code *dump_code(const struct dump *dump, uint32_t id);
const char *dump_string(const struct dump *dump, uint32_t id);

/* The module that held `address` when `stack` was taken, NULL when no module did. A shim defines a module it sees for
 * the first time beside the first stack through it, before or after: where none was loaded before, the next one is. */
const struct dump_module *dump_module_at(const struct dump *dump, const struct dump_stack *stack, uint64_t address);

/* A number for the way through the program that a stack stands for: equal in dumps of the same program, wherever its
 * libraries were loaded. Ranges (NVTX) are left out: their texts may count steps. 0 where the stack is not defined. */
uint64_t dump_stack_way(const struct dump *dump, uint32_t stack);

/* True for what is said of a call in records of their own, beside its record. */
static inline bool record_is_of_a_call(const struct record *record) {
    return record->kind == RECORD_PARTNER || record->kind == RECORD_AWAITED || record->kind == RECORD_TOLD;
}

/* True when a record's t0 and t1 are CLOCK_MONOTONIC nanoseconds, as a device's clock gave them, instead of ticks. */
static inline bool record_is_device(const struct record *record) {
    return record->kind == RECORD_GPU || record->kind == RECORD_KERNEL || record->kind == RECORD_EXPOSED ||
           record->kind == RECORD_PROXY || record->kind == RECORD_MEMORY || record->kind == RECORD_REPLAY;
}

/* Its times are what it has of an interval that launches of other communicators have, too. */
static inline bool record_is_share(const struct record *record) {
    return record->kind == RECORD_GPU && (record->flags & FLAG_SHARE) != 0;
}

/* Alike operations of a group that a launch's record stands for; 1 for all other records. */
static inline uint32_t record_parts(const struct record *record) {
    return record->kind == RECORD_GPU || record->kind == RECORD_KERNEL ? record->result + 1u : 1u;
}

/* Of the record of a call that returned: nobody left it before all had entered, though the call need not always be so.
 */
static inline bool record_is_barrier(const struct record *record, const struct call_name *call) {
    return call->call_class == CLASS_RMA_SYNC && record->kind == RECORD_CALL &&
           (record->flags & (FLAG_COLLECTIVE | FLAG_FAILED)) == FLAG_COLLECTIVE && record->result == FENCE_IS_BARRIER;
}

/* A function of MPI that makes communicators, or frees them; where it is a collective, it is one of the communicator
 * that they are made of. NCCL's are made of nothing. */
static inline bool call_makes_communicator(const struct call_name *call) {
    return call->call_class == CLASS_COMMUNICATOR && call->api == API_MPI;
}

static inline bool record_makes_communicator(const struct record *record, const struct call_name *call) {
    return call_makes_communicator(call) && (record->flags & FLAG_COLLECTIVE) != 0;
}

/* How data flows in the collective that a record is of. */
static inline enum flow record_flow(const struct record *record, const struct call_name *call) {
    return record_is_barrier(record, call) ? FLOW_ALL : (enum flow)call->flow;
}

/* Ticks at which a series of polls would have begun had its own work come before the first of them: from there on it
 * only polls. t0 of all other records. */
static inline uint64_t record_polls_since(const struct record *record) {
    if (record->kind != RECORD_POLL || record->t1 < record->t0)
        return record->t0;
    return record->t1 - record->t0 < record->seq ? record->t1 : record->t0 + record->seq;
}

/* True when the lane is that of a GPU's operations, its times those of record_is_device. */
static inline bool dump_lane_is_device(const struct dump_lane *lane) {
    return lane->state && lane->state->device == 1;
}

/* True when the process's GPU operations have times of their own: its enqueueing calls are then not where they ran. */
static inline bool dump_has_device_times(const struct dump *dump) {
    return dump->header->gpu_timing == GPU_TIMING_EVENTS || dump->header->gpu_timing == GPU_TIMING_KERNEL;
}

/* ---- walking records ------------------------------------------------------------------------------------ */

/* Walks one lane's records in ticket order: first those kept in sampled windows, then the ring; each ticket once.
 * Memory does not depend on the number of records. */
struct record_cursor {
    const struct dump *dump;
    uint32_t lane;
    uint64_t next_ticket;
    /* private */
    uint32_t *blocks; /* this lane's window blocks in ticket order */
    size_t block_count, block, in_block;
};

/* Starts a walk over `lane`. Returns false when memory is short. record_cursor_end frees. */
bool record_cursor_begin(struct record_cursor *cursor, const struct dump *dump, uint32_t lane);
/* The next committed record, copied and checked against its commit word, or NULL at the end. The pointer is valid
 * until the next call for this cursor. */
const struct record *record_cursor_next(struct record_cursor *cursor);
void record_cursor_end(struct record_cursor *cursor);

/* Reads single records of a lane's ring, in any order; neighbours are cheap. Large: 16 KB. */
struct record_reader {
    const struct dump *dump;
    uint32_t lane;
    /* private: records that lie in one page, by their tickets */
    uint32_t count;
    uint64_t first;
    struct record records[RING_PAGE_SLOTS];
};

void record_reader_begin(struct record_reader *reader, const struct dump *dump, uint32_t lane);
/* The record with that ticket, copied and checked, NULL where the ring has none. Valid until the next call. */
const struct record *record_reader_at(struct record_reader *reader, uint64_t ticket);

/* Number of records of a lane that the ring overwrote and no window kept, and whether none are missing. */
uint64_t dump_lane_lost(const struct dump *dump, uint32_t lane);
/* True when every record ever written by this process is still there: percentiles and trimmed means are exact. */
bool dump_records_complete(const struct dump *dump);

/* ---- one process's clock ----------------------------------------------------------------------------------- */

/* Ticks -> CLOCK_MONOTONIC nanoseconds, by linear interpolation between the nearest anchors (extrapolated outside).
 * Monotone in `ticks`. */
int64_t dump_monotonic_ns(const struct dump *dump, uint64_t ticks);
/* Ticks -> CLOCK_REALTIME nanoseconds. */
int64_t dump_realtime_ns(const struct dump *dump, uint64_t ticks);
/* CLOCK_MONOTONIC nanoseconds -> ticks, the inverse: where a device's record stands among the host's. */
uint64_t dump_ticks_at(const struct dump *dump, uint64_t monotonic_ns);
/* A length in ticks -> nanoseconds with the whole run's mean rate, rounded to nearest. */
int64_t dump_duration_ns(const struct dump *dump, uint64_t ticks);

/* ---- a directory of dumps ----------------------------------------------------------------------------------- */

#endif
