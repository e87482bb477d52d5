/* SPDX-License-Identifier: Apache-2.0
 *
 * The on-disk contract between the shim (the only writer) and the analyzer.
 * Lives here: every struct of a dump file, its enumerations and its commit rules. Integers of fixed width only.
 * Must not live here: code that writes or reads a dump, anything about the running job's libraries.
 *
 * A dump is one file per process: a header at offset 0, then sections. Sections start at multiples of
 * SECTION_ALIGN (64 KiB, the largest page of the supported machines), are listed in the header's section
 * table and are never moved; the file only grows. Everything is in the byte order and with the alignment of
 * the machine that wrote it; `byte_order` tells.
 *
 * A reader of version 2.x takes every dump of version 2.y, earlier or later, and those of 1.y: doc/FORMAT.md says what
 * a minor version may change and what needs a new major one.
 *
 * A process can die between any two stores. What a reader may trust is therefore always guarded:
 *   - records: `commit` is 0 while a record is written and its ticket + 1 (released last) afterwards;
 *   - pages of compact records: `used` is released after a record's slots, the definition of a template before the
 * first slot that names it; `number` is 0 while a page is taken anew, and released last;
 *   - aggregate rows, progress rows, clock anchors: `version` is odd while the row is written, 0 when unused;
 *   - definitions: `commit` is released after the payload;
 *   - rows of beats: `dump` is released last, the times are single words;
 *   - rows of captures: `used` is released after what never changes, its messages included; the rest are single words;
 *   - the in-flight slot: `call` is released after the other fields and cleared when the call returns;
 *   - the section table: `kind` is released after the other fields of the entry.
 *
 * Times are raw ticks of the clock named in the header; clock anchors map them to CLOCK_MONOTONIC and
 * CLOCK_REALTIME nanoseconds. Device records (kinds GPU, KERNEL, PROXY, EXPOSED, MEMORY, REPLAY) hold device
 * nanoseconds: CLOCK_MONOTONIC nanoseconds of this host as the device's own clock tells them through its nearest device
 * anchor. Their length is exact to the device's clock, their place is off by up to that anchor's width.
 */
#ifndef COMMTAP_FORMAT_H
#define COMMTAP_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define FORMAT_MAGIC             "COMMTAP\n" /* 8 bytes without the terminator */
#define FORMAT_MAJOR             2u
#define FORMAT_MAJOR_OLDEST      1u /* that readers take */
#define FORMAT_MINOR             14u
#define FORMAT_VERSION           (FORMAT_MAJOR | FORMAT_MINOR << 16)
#define FORMAT_MAJOR_OF(version) ((version)&0xffffu)
#define FORMAT_MINOR_OF(version) ((version) >> 16)
#define FORMAT_IS_READ(version)                                                                                        \
    (FORMAT_MAJOR_OF(version) >= FORMAT_MAJOR_OLDEST && FORMAT_MAJOR_OF(version) <= FORMAT_MAJOR)
#define FORMAT_BYTE_ORDER        0x01020304u
#define FORMAT_FILE_PREFIX       "commtap."
#define FORMAT_FILE_SUFFIX       ".ct"
#define FORMAT_STUB_SUFFIX       ".stub"
#define FORMAT_STAGED_SUFFIX     ".staged" /* a stub whose dump was fetched and still lies on its node */
#define FORMAT_DEATHS_SUFFIX     ".deaths"
#define FORMAT_SYMBOLS_SUFFIX    ".symbols" /* doc/FORMAT.md */
#define FORMAT_UNFINISHED_SUFFIX ".new"     /* after .ct, until the header is written */
#define SECTION_ALIGN            65536u
#define SECTIONS_MAX             160u
#define CPU_MASK_WORDS           16u /* dump_header.cpus: up to 1024 processors */

#define BYTES_UNKNOWN UINT64_MAX
#define COMM_NONE     UINT32_MAX /* `comm` of calls that have no communicator */
#define SEQ_NONE      UINT32_MAX /* `seq` of calls that are not numbered, or whose number is unknown */
#define STACK_NONE    0u
#define PEER_NONE     INT32_MIN       /* `peer` of calls without a partner */
#define PEER_ANY      (INT32_MIN + 1) /* any source, not yet or never resolved */
#define PEER_NULL     (INT32_MIN + 2)
#define PEER_ROOT     (INT32_MIN + 3) /* root argument MPI_ROOT on an intercommunicator */
#define TAG_NONE      INT32_MIN
#define TAG_ANY       (INT32_MIN + 1)
#define RANK_UNKNOWN  (-1)

/* ---- header ---------------------------------------------------------------------------------- */

enum dump_state {                               /* bits of dump_header.state */
                  STATE_ACTIVE = 1u << 0,       /* set at activation */
                  STATE_INITIALISED = 1u << 1,  /* MPI_Init (or the first communicator) returned */
                  STATE_FINALISING = 1u << 2,   /* MPI_Finalize entered */
                  STATE_FINALISED = 1u << 3,    /* MPI_Finalize returned; without MPI: a normal exit with every
                                                                communicator of NCCL destroyed */
                  STATE_EXITED = 1u << 4,       /* the library's destructor ran: a normal exit */
                  STATE_ABORTING = 1u << 5,     /* MPI_Abort entered */
                  STATE_COPIED = 1u << 6,       /* this file is a copy made at exit (memory or staged original) */
                  STATE_SWITCHED_OFF = 1u << 7, /* internal trouble ended recording; `trouble` says which */
                  STATE_THREAD_MULTIPLE = 1u << 8,
};

enum clock_kind { CLOCK_KIND_TSC = 1, CLOCK_KIND_MONOTONIC = 2, CLOCK_KIND_CNTVCT = 3 };

enum rank_source { RANK_FROM_NOWHERE = 0, RANK_FROM_LAUNCHER = 1, RANK_FROM_LIBRARY = 2 };

enum section_kind {
    SECTION_FREE = 0,
    SECTION_CALLS = 1,           /* struct call_name[count]: the file's own call id -> name list */
    SECTION_ANCHORS = 2,         /* struct clock_anchor[count] */
    SECTION_IN_FLIGHT = 3,       /* struct in_flight[count]: one per live thread */
    SECTION_PENDING = 4,         /* struct pending[count]: posted, not complete */
    SECTION_PROGRESS = 5,        /* struct progress[count]: one per live communicator */
    SECTION_DEFINITIONS = 6,     /* append-only; may occur several times, in `index` order */
    SECTION_TRACE_WINDOWS = 7,   /* struct trace_window_block[count]; those with a page_number are struct ring_page */
    SECTION_LANES = 8,           /* struct lane_state[count], at most 64 */
    SECTION_RING = 9,            /* struct record[count], count a power of two; index = lane */
    SECTION_OPERATIONS = 10,     /* struct operation_row[count]; index = lane */
    SECTION_SITES = 11,          /* struct site_row[count]; index = lane */
    SECTION_PEERS = 12,          /* struct peer_row[count]; index = lane */
    SECTION_DEVICES = 13,        /* struct device_state[count]: one per GPU that was timed */
    SECTION_DEVICE_ANCHORS = 14, /* struct device_anchor[count] */
    SECTION_SENSORS = 15,        /* struct sensor_row[count]: what wrappers and NCCL's profiler plugin saw, per call */
    SECTION_TRANSFERS = 16,      /* struct transfer_row[count]: network proxy operations per peer */
    SECTION_RING_PAGES = 17,     /* struct ring_page[count]; index = lane, which then has no SECTION_RING */
    SECTION_BEATS = 18,          /* since 2.9: struct beat_row[count]: who of the node was alive when */
    SECTION_CAPTURES = 19, /* since 2.14: struct capture_row[count]: what graphs hold, and how often it was launched */
    SECTION_CAPTURE_MESSAGES = 20, /* since 2.14: struct capture_message[count]: the messages among that */
};

struct section {
    uint32_t kind;  /* enum section_kind, released last */
    uint32_t index; /* lane, or number of the definitions area */
    uint64_t offset;
    uint64_t bytes;      /* as laid out in the file, a multiple of SECTION_ALIGN */
    uint32_t count;      /* items */
    uint32_t item_bytes; /* 1 for definitions */
};

/* What was lost. Every report shows these when they are not zero. Single counters, updated atomically. */
struct losses {
    uint64_t threads_without_slot;    /* threads that found no free in-flight slot */
    uint64_t pending_untracked;       /* operations that found no free pending entry: completion unknown */
    uint64_t communicators_untracked; /* communicators without a definition or progress row */
    uint64_t ordinals_evicted;        /* point-to-point channels whose ordinal was forgotten */
    uint64_t providers_handed_raw;    /* look-ups answered with the raw pointer of a further library copy */
    uint64_t definitions_full;        /* definitions that found no room */
    uint64_t epochs_merged;           /* epochs beyond the last number */
    uint64_t gpu_overlapping;         /* since 2.3: launches that may overlap with the kernel in front of them, which an
                                         event between the two would forbid: not timed */
    uint64_t gpu_no_event;            /* launches that found no free event or queue entry: not timed */
    uint64_t gpu_unfinished;          /* launches still running when the process ended, or aborted */
    uint64_t gpu_failed;              /* launches whose events returned an error: not timed */
    uint64_t replays_untimed;         /* operations of graph replays that were counted but not timed */
    uint64_t stacks_truncated;        /* stacks cut at the depth limit or at a frame that cannot be unwound */
    uint64_t tables_in_memory;        /* sections that the dump's file system had no room for: gone with the process,
                                         but for those that find room at its normal exit */
    uint64_t children_unrecorded; /* processes forked from this one that left no dump: COMMTAP_CHILDREN had done so */
    uint64_t quota_refusals;      /* how often the quota made a ring shorter or had no room left */
};

/* Where the dump lay while its process ran. */
enum dump_place {
    PLACE_NONE = 0,   /* older writers do not say */
    PLACE_OUTPUT = 1, /* mapped in the output directory itself */
    PLACE_STAGED = 2, /* mapped on node-local storage, a stub in the output directory */
    PLACE_MEMORY = 3, /* nowhere to map it: in memory, written at exit */
};

/* Orders to a process that runs (commtap ctl). What an order asks for is put among the wishes, which say what is to be
 * in force and not how to get there: a process that reads late finds the last of them. Zero and empty texts mean "as
 * the process was started". These are the only bytes of a dump that the analyzer writes: the wishes in one piece, and
 * then dump_header.orders_waiting = 1. The process takes that back to 0 at its next call of MPI or NCCL, or as soon as
 * the one that it is in has returned, and answers. */
enum order_recording { ORDERED_NOTHING = 0, ORDERED_PAUSE = 1, ORDERED_RESUME = 2 };

struct order_wishes {
    uint32_t check;       /* order_check (base/order_check.h) of the rest: what it does not fit is being written */
    uint32_t asked;       /* number of the last order, from 1; 0: there was none */
    uint32_t recording;   /* enum order_recording */
    uint32_t snapshots;   /* how many epochs were ordered to begin, in this process or before it in others of the job */
    char verbose[64];     /* as COMMTAP_VERBOSE */
    char stack[16];       /* as COMMTAP_STACK */
    char operations[256]; /* as COMMTAP_OPS */
};

enum order_refusal {                           /* bits of order_answer.refused */
                     ORDER_NO_EPOCH = 1u << 0, /* there are as many epochs as there can be */
                     ORDER_NO_STACK = 1u << 1, /* no memory for stacks */
                     /* the operator's policy fixes another value than was ordered, and that holds: */
                     ORDER_FIXED_VERBOSE = 1u << 2,
                     ORDER_FIXED_OPS = 1u << 3,
                     ORDER_FIXED_STACK = 1u << 4,
};

/* Written by the process alone. */
struct order_answer {
    uint32_t obeyed;  /* number of the order that is in force, released last */
    uint32_t refused; /* enum order_refusal: what could not be done of it */
    uint32_t epoch;   /* then */
    uint32_t pauses;  /* how often orders stopped recording */
    uint64_t obeyed_ticks;
    uint64_t paused_since; /* ticks, 0: recording is not stopped by an order */
    uint64_t paused_ticks; /* in all pauses that are over */
    uint32_t snapshots;    /* epochs that orders began */
    uint32_t filters;      /* how often orders changed which functions are recorded */
    uint64_t reserved[2];
};

/* Work that is left out for COMMTAP_BUDGET's sake, in this order. */
enum shed_step {
    SHED_GPU_TIMING = 0, /* launches are not timed by events */
    SHED_STACKS = 1,     /* calls have no stack */
    SHED_RECORDS = 2,    /* calls have no record: totals alone */
    SHED_STEPS = 3
};

struct shed {
    uint64_t times; /* how often the step was taken */
    uint64_t ticks; /* how long it was in force, all times that ended together */
    uint64_t since; /* when the last one began that did not end; 0: none */
};

/* What commtap itself took in the job's calls: some are measured, each stands for those since the one before. */
struct own_cost {
    uint64_t samples;           /* calls that were measured; 0: nothing is known */
    uint64_t calls;             /* that they stand for */
    uint64_t ticks;             /* what commtap took in these, all threads together */
    uint64_t interrupted;       /* measured calls that stand for none: the kernel had stopped the thread in them */
    uint64_t gpu_shed;          /* launches that were not timed for COMMTAP_BUDGET's sake */
    uint32_t budget_millionths; /* COMMTAP_BUDGET, of the process's wall time; 0: no limit */
    uint32_t reserved;
    struct shed shed[SHED_STEPS];
};

enum keep {
    KEEP_ALL = 0,
    KEEP_SUMMARY = 1, /* no records and no windows: totals, what threads are doing, progress, definitions */
};

struct dump_header {
    char magic[8];
    uint32_t version; /* FORMAT_VERSION of the writer: the major version below, the minor one in the upper 16 bits */
    uint32_t byte_order;
    uint32_t header_bytes; /* of the writer: a later minor version's is longer, and what it adds lies at the end */
    uint32_t section_bytes;
    uint32_t record_bytes;
    uint32_t state; /* enum dump_state bits */

    /* identity: (run_id, world_id, generation, rank) */
    char run_id[64];
    uint64_t world_id;   /* hash of what the launcher calls this job step; equal on all its ranks */
    uint32_t generation; /* elastic restart number, 0 when there is none */
    int32_t rank;        /* world rank or RANK_UNKNOWN */
    int32_t world_size;
    int32_t local_rank;
    int32_t local_size;
    uint32_t rank_source; /* enum rank_source */

    char host[64];
    char boot_id[40]; /* text of /proc/sys/kernel/random/boot_id */
    uint64_t time_namespace;
    int64_t pid;
    int64_t parent_pid;
    uint64_t process_start_realtime_ns;
    uint64_t activated_ticks;
    uint64_t initialised_ticks; /* 0 = never */
    uint64_t finalise_ticks;    /* entry of MPI_Finalize, 0 = never */
    uint64_t finalised_ticks;
    uint64_t exited_ticks;
    char launcher[32];
    char library[192];   /* path of the communication library that provides MPI */
    char writer[32];     /* commtap's version */
    char command[512];   /* arguments separated by blanks, cut to size */
    char trouble[128];   /* why recording was switched off, empty otherwise */
    uint32_t mpi_family; /* 1 Open MPI, 2 MPICH, 3 standard ABI, 0 none */
    uint32_t ring_records;

    uint32_t clock_kind;
    uint32_t place;        /* enum dump_place */
    uint64_t tick_hz_hint; /* estimate at activation; anchors are better */

    struct losses losses;
    uint32_t gpu_timing;          /* enum gpu_timing: what is in force */
    uint32_t nccl_version;        /* as ncclGetVersion tells it (23007), 0 = no NCCL */
    char gpu_timing_why[88];      /* why it is that and not what was asked for, empty otherwise */
    char nccl_library[128];       /* path of the library that provides NCCL or RCCL */
    uint64_t quota_bytes;         /* what this dump may take of the quotas; 0: as much as it needs */
    uint64_t children;            /* processes forked from this one, and from those, that were about to leave a dump */
    uint64_t captured_unfollowed; /* since 2.3: launches captured into CUDA graphs that were not seen to be made
                                     executable: how often they ran is not known */

    uint32_t section_limit; /* SECTIONS_MAX of the writer */
    uint32_t keep;          /* enum keep */
    struct section sections[SECTIONS_MAX];

    /* since 1.1; zero or empty: not known */
    char job_id[64];             /* as the batch system, or else the launcher, calls the job */
    char user[32];               /* who runs it, by name */
    char working_directory[512]; /* at activation; cut to size */
    char library_version[128];   /* first line of what MPI_Get_library_version says */
    char operations[256];        /* COMMTAP_OPS where it leaves functions out, cut to size; empty: it leaves none out */
    uint64_t cpus[CPU_MASK_WORDS]; /* processors that the process might run on at activation, bit i = processor i */
    uint64_t unseen_calls;         /* of PMPI_X by others than a Fortran binding, outside of any MPI_X: not recorded */
    uint32_t unseen_call;          /* id of X in the first of them */
    uint32_t pauses;               /* how often MPI_Pcontrol(0) stopped recording: what came until 1 is in no total */

    /* since 2.3 */
    char region[128]; /* COMMTAP_REGION where it is in force, cut to size: what was called outside is in no total */

    /* since 2.5 */
    uint32_t orders_waiting; /* 1: there are wishes that the process has not read; its calls look here */
    uint32_t lived_on_ms; /* imports: how long the process may have lived after its last record, ms + 1; 0: not known */
    struct order_wishes order_wishes;
    struct order_answer order_answer;

    /* since 2.6 */
    struct own_cost own_cost;

    /* since 2.9 */
    uint64_t pid_namespace; /* inode number of the one that `pid` belongs to; 0: not known */

    /* since 2.13 */
    uint32_t batch_starts; /* how often the batch system has started the job, this time included; 0: not known */
    uint32_t starts_reserved;

    /* since 2.14 */
    uint64_t captures_untold; /* launches of graphs of which not all that they hold is in SECTION_CAPTURES */
};

enum gpu_timing {
    GPU_TIMING_OFF = 0,    /* not wanted, or no GPU seen */
    GPU_TIMING_HOST = 1,   /* enqueueing calls only */
    GPU_TIMING_EVENTS = 2, /* an event pair around every launch */
    GPU_TIMING_KERNEL = 3, /* NCCL's profiler plugin: stamps from inside the kernels */
};

/* ---- the file's own list of calls ------------------------------------------------------------ */

enum api { API_MPI = 1, API_NCCL = 2, API_TRACE = 3 /* another tool's words, imported */ };

/* What a call is to the analyzer. Values are part of the format: append only. */
enum call_class {
    CLASS_OTHER = 0,      /* counted and timed, nothing more */
    CLASS_COLLECTIVE = 1, /* numbered per communicator */
    CLASS_SEND = 2,
    CLASS_RECV = 3,
    CLASS_SENDRECV = 4,
    CLASS_WAIT = 5, /* Wait*, completes operations */
    CLASS_TEST = 6, /* Test*, may complete operations; MPI_Win_test, an epoch (since 2.10) */
    CLASS_PROBE = 7,
    CLASS_START = 8,        /* Start, Startall of persistent operations */
    CLASS_COMMUNICATOR = 9, /* creates or frees a communicator; numbered on the parent where collective */
    CLASS_RMA = 10,         /* one-sided, not matched */
    CLASS_RMA_SYNC = 11,
    CLASS_FILE = 12,
    CLASS_SETUP = 13, /* Init, Finalize, Abort, Sessions */
    CLASS_GROUP = 14, /* an NCCL group of several operations */
};

/* Bandwidth convention (nccl-tests, doc/PERFORMANCE.md): busbw = algbw * factor(n). */
enum busbw {
    BUSBW_NONE = 0,      /* no bandwidth */
    BUSBW_ONE = 1,       /* 1 */
    BUSBW_ALLREDUCE = 2, /* 2(n-1)/n */
    BUSBW_SHARE = 3,     /* (n-1)/n */
};

/* Who waits for whom in a collective: decides which wait states are possible. */
enum flow {
    FLOW_NONE = 0,
    FLOW_ALL = 1, /* N to N: nobody leaves before everybody entered */
    FLOW_FROM_ROOT = 2,
    FLOW_TO_ROOT = 3,
    FLOW_PREFIX = 4, /* Scan, Exscan */
    FLOW_NEIGHBOURS = 5,
};

/* What a call does to an epoch of one-sided communication among groups (MPI 4.1, 12.5.2). */
enum epoch_part {
    EPOCH_NONE = 0,
    EPOCH_POST = 1,     /* lets the group in */
    EPOCH_START = 2,    /* may wait until the group has posted */
    EPOCH_COMPLETE = 3, /* ends what Start began; may wait for the same */
    EPOCH_WAIT = 4,     /* ends what Post began: waits until the group has completed, or asks (CLASS_TEST) */
};

struct call_name {
    uint16_t id;
    uint8_t api;
    uint8_t call_class;
    uint8_t busbw;
    uint8_t flow;
    uint8_t nonblocking; /* 1: returns before the operation is complete */
    uint8_t epoch;       /* enum epoch_part; 0 before 2.8 */
    char name[40];       /* "MPI_Allreduce" */
    char torch[24];      /* torch.distributed's name for the operation, empty where there is none */
};

/* Names of what an imported trace's GPU did beside operations with known partners: API_TRACE, CLASS_OTHER. Any other
 * name of such a call is work of the job's own, as GPU_WORK_KERNELS is. */
#define GPU_WORK_KERNELS "GPU kernels"  /* computation */
#define GPU_WORK_COPIES  "GPU copies"   /* copies and fills that no computation covers */
#define GPU_WORK_NCCL    "NCCL kernels" /* communication that does not say with whom */

/* ---- clock ----------------------------------------------------------------------------------- */

/* Not sorted: when the table is full every second anchor is dropped. Readers sort by ticks. */
struct clock_anchor {
    uint64_t version; /* odd = being written, 0 = unused */
    uint64_t ticks;   /* middle of the two readings around the system clocks */
    uint64_t monotonic_ns;
    uint64_t realtime_ns;
    uint64_t width_ticks; /* ticks between those two readings: the anchor's uncertainty */
    uint64_t reserved[3];
};

/* ---- records --------------------------------------------------------------------------------- */

enum record_kind {
    RECORD_CALL = 1,   /* a blocking call: t0 enter, t1 leave; or work of a trace (GPU_WORK_KERNELS): t0 begin, t1 end,
                          seq = microseconds from its launch to its begin, SEQ_NONE = launch unknown */
    RECORD_POST = 2,   /* a non-blocking operation was posted: t0 enter, t1 leave of the posting call */
    RECORD_DONE = 3,   /* ... was seen complete: t0 = enter of the posting call, t1 = completion seen; `call` is the
                          posting call's; bytes are the actual ones where known */
    RECORD_GPU = 4,    /* one launch on a stream, by events: t0, t1 device ns, `op` that of its POST or GROUP record,
                          tag = index of the device. Of a group of result + 1 alike operations: the call is theirs,
                          or one that says what they are together; bytes and time are those of all of them */
    RECORD_KERNEL = 5, /* the same by the stamps of NCCL's kernels: first channel's start to last channel's stop */
    RECORD_PROXY = 6,  /* a network proxy operation of `op`: peer, bytes, t0 to t1 (CLOCK_MONOTONIC ns), tag = channel;
                          comm COMM_NONE: for another process of this host */
    RECORD_GROUP = 7,  /* an NCCL group of several operations on one communicator: t0 enter of the outermost GroupEnd,
                          t1 its leave, bytes their sum; the members' POST records carry its `op` in `tag` */
    RECORD_MARK = 8,   /* MPI_Pcontrol: t0 = t1 = when, tag = level */
    RECORD_THREAD = 9, /* a thread took over the ring: op = its tid */
    RECORD_EXPOSED = 10, /* a stream was made to wait for `op`: t0 = that stream had reached the wait, t1 = `op` had
                            ended, device ns; t1 - t0 > 0 was exposed. tag = index of the device */
    RECORD_MEMORY = 11,  /* device memory in use: bytes, t0 = t1 = when (CLOCK_MONOTONIC ns), tag = index of the
                            device, call: a name that says which part of it (imported traces), 0 = all of it */
    RECORD_POLL = 12,    /* since 2.2: polls in a row that found nothing (Test*, Iprobe, Improbe, Request_get_status,
                            since 2.10 Win_test), with no other record of this thread between them: t0 enter of the
                            first, t1 leave of the last so far, seq = ticks of that which passed outside of them in gaps
                            longer than POLL_GAP_NS, as own work; of gaps up to POLL_NAP_NS, behind the first, what the
                            thread ran for. Its other fields are the first one's. Lanes of plain records have none */
    RECORD_REPLAY = 13,  /* since 2.4: the captured launches right behind it on its lane, up to any other record or a
                            ticket that is missing, belong to that replay (seq) of what they were captured in, counted
                            from 1; SEQ_NONE = not known. Equal on all ranks that launch their graphs alike. t0 = when
                            the graph was launched (CLOCK_MONOTONIC ns), t1 where that is not known; t1 = begin of the
                            first of them (device ns), tag = index of the device */
    RECORD_PARTNER =
        14, /* since 2.8: beside the CALL record of MPI_Win_post or MPI_Win_start, one per member of its group:
               peer, seq = ordinal of such calls with that partner, FLAG_SEND (post) or FLAG_RECV (start),
               tag = its place among them (0, 1, ...), op = how many they are. All else as in that record */
    RECORD_AWAITED = 15, /* since 2.10: the same before MPI_Win_start is called, t0 = t1 = its enter: whom it waits for
                            while it has not returned. A call that did return has its PARTNER records */
    RECORD_TOLD = 16, /* since 2.13, imports: what the other tool told beside of an operation that had not ended, right
                         before its POST record and with its op, comm and times: seq = the number that it gave it,
                         SEQ_NONE: none; bytes = size of what it puts out, where that does not fit what it takes in,
                         else BYTES_UNKNOWN; result: TOLD_BEGUN or 0 */
};

/* The loop around two polls takes less; what takes longer is work of the program's own. */
#define POLL_GAP_NS 50000u
/* Between two polls a thread may sleep and wait all the same, so long at most: a quarter more than the longest nap of
 * the loops that are known (mpi4py.futures, MPI4PY_FUTURES_BACKOFF: 1 ms). In longer gaps it waits for something else.
 */
#define POLL_NAP_NS 1250000u

enum record_flag {
    FLAG_BYTES_POSTED = 1u << 0,    /* a receive: bytes are the posted size, the actual one is unknown */
    FLAG_RECEIVE_HALF = 1u << 1,    /* second record of a Sendrecv: what was received; same `op` as the first */
    FLAG_WILDCARD = 1u << 2,        /* posted with any source or any tag; peer and tag from the status if known */
    FLAG_ORDINAL_UNKNOWN = 1u << 3, /* seq is not the channel's ordinal (evicted, or after a wildcard) */
    FLAG_CANCELLED = 1u << 4,
    FLAG_FAILED = 1u << 5,     /* the call returned an error; `result` holds the low byte of the code */
    FLAG_STARTED = 1u << 6,    /* posted by Start/Startall: `call` is the call that created the request */
    FLAG_UNOBSERVED = 1u << 7, /* DONE without a Wait or Test: freed, or its handle was handed out again */
    FLAG_SEND = 1u << 8,       /* direction of point-to-point records */
    FLAG_RECV = 1u << 9,
    FLAG_COLLECTIVE = 1u << 10,  /* seq is a collective number on `comm` */
    FLAG_ROOT = 1u << 11,        /* this process is the root */
    FLAG_SYNCHRONOUS = 1u << 12, /* synchronous send: completion implies that the receiver arrived */
    FLAG_SHARE = 1u << 12,       /* since 2.13, GPU: t0 to t1 is what this launch has of an interval that launches of
                                    other communicators have, too, by their numbers of operations */
    FLAG_PARTITIONED = 1u << 13,
    FLAG_UNMATCHED = 1u << 14, /* one-sided: has no counterpart record */
    FLAG_CAPTURED = 1u << 15,  /* POST: captured into a graph, nothing ran; GPU, KERNEL: a replay of that */
};

/* NCCL: every operation has a POST record (t0, t1: the enqueueing call), and a GPU or KERNEL record once it ran; of a
 * group of several only the GROUP record's operation has one.
 *
 * seq: collective number on the communicator (0, 1, ...), or ordinal within the channel (communicator, source,
 * destination, tag) counted separately for sends and receives; receives posted on a communicator after a wildcard
 * carry FLAG_ORDINAL_UNKNOWN: their order is that of `op`. Started persistent collectives: seq is that of the
 * initialising call, tag the ordinal of the start. Collectives without FLAG_COLLECTIVE took no part: refused calls.
 * op: process-wide number of the operation in posting order, 0 for calls that are no operation and for blocking sends.
 */
struct record {
    uint64_t commit; /* ticket + 1, released last; 0 = unused or being written */
    uint64_t t0;
    uint64_t t1;
    uint64_t bytes;
    uint32_t seq;
    uint32_t op;
    uint32_t comm; /* local index of the communicator, window or file definition */
    int32_t peer;  /* partner or root, a rank of that communicator (of the remote group where it is an inter-) */
    int32_t tag;
    uint32_t stack;
    uint16_t call;
    uint16_t flags;
    uint8_t kind;
    uint8_t dtype;  /* enum datatype_code */
    uint8_t redop;  /* enum redop_code */
    uint8_t result; /* FLAG_FAILED; of a fence that did not fail: FENCE_IS_BARRIER or 0; GPU, KERNEL: see there */
};

/* Of a collective on a window (MPI_Win_fence): nobody leaves it before all have entered. 0: that need not be so. */
#define FENCE_IS_BARRIER 1u

/* Of a TOLD record: the operation was seen to begin. Where others are TOLD, what has none did not end either, but was
 * not seen to begin. */
#define TOLD_BEGUN 1u

/* What repeats from record to record, in a record's words and order (DEFINITION_TEMPLATE). */
struct record_template {
    uint64_t bytes;
    uint32_t comm;
    int32_t peer;
    int32_t tag;
    uint32_t stack;
    uint16_t call;
    uint16_t flags;
    uint8_t kind; /* 0: not defined */
    uint8_t dtype;
    uint8_t redop;
    uint8_t result;
};

/* Compact records: slots of 16 bytes in pages. Tickets count on from the page's first one, whatever a record takes:
 *   1 slot    struct ring_slot
 *   + 1       before it, where a time is too far from the base or a length too long: struct ring_slot_time
 *   + 1       after it, where `template_number` has SLOT_EXPLICIT: struct ring_slot_explicit, instead of the template's
 *   4 slots   struct ring_slots_whole, where nothing else fits
 * The last two bytes of a record's first slot tell which it is; 0 is none of them. */
#define RING_PAGE_SLOTS 252u
#define SLOT_EXPLICIT   0x8000u /* added to the number of a template */
#define SLOT_WHOLE      0xfffeu
#define SLOT_TIME       0xffffu
#define TEMPLATES_MAX   4096u /* numbers are from 1 and below this */

struct ring_slot {
    uint32_t since;  /* t1 - the base in force: the last ring_slot_time's of this page, else the page's */
    uint32_t length; /* t1 - t0, the low half */
    uint32_t seq;
    uint16_t op; /* op - the page's base_op; 0 = op is 0 */
    uint16_t template_number;
};

struct ring_slot_time {
    uint64_t base_ticks;
    uint32_t length_high; /* of the record that follows */
    uint16_t reserved;
    uint16_t form; /* SLOT_TIME */
};

struct ring_slot_explicit {
    uint64_t bytes;
    int32_t peer;
    int32_t tag;
};

struct ring_slots_whole {
    uint64_t t0;
    uint32_t op;
    uint16_t reserved;
    uint16_t form; /* SLOT_WHOLE */
    uint64_t t1;
    struct record_template facts;
    uint32_t seq;
    uint32_t reserved1;
};

struct ring_page {
    uint64_t window; /* as in struct trace_window_block where it is one; 0 in a ring */
    uint32_t lane;
    uint32_t used;   /* slots, released after each record */
    uint64_t number; /* the lane's first page is 1; 0 = unused, or being taken; released last */
    uint64_t first_ticket;
    uint64_t base_ticks;
    uint32_t base_op;
    uint32_t reserved0;
    uint64_t reserved[2];
    struct ring_slot slots[RING_PAGE_SLOTS];
};

enum datatype_code {
    DATATYPE_OTHER = 0,
    DATATYPE_BYTE,
    DATATYPE_CHAR,
    DATATYPE_INT,
    DATATYPE_UNSIGNED,
    DATATYPE_LONG,
    DATATYPE_UNSIGNED_LONG,
    DATATYPE_FLOAT,
    DATATYPE_DOUBLE,
    DATATYPE_INT8,
    DATATYPE_UINT8,
    DATATYPE_INT16,
    DATATYPE_UINT16,
    DATATYPE_INT32,
    DATATYPE_UINT32,
    DATATYPE_INT64,
    DATATYPE_UINT64,
    DATATYPE_HALF,
    DATATYPE_BFLOAT16,
    DATATYPE_FP8_E4M3,
    DATATYPE_FP8_E5M2,
    DATATYPE_CODES
};

enum redop_code {
    REDOP_NONE = 0, /* no reduction, or a user's operation */
    REDOP_MAX,
    REDOP_MIN,
    REDOP_SUM,
    REDOP_PROD,
    REDOP_LAND,
    REDOP_BAND,
    REDOP_LOR,
    REDOP_BOR,
    REDOP_LXOR,
    REDOP_BXOR,
    REDOP_MINLOC,
    REDOP_MAXLOC,
    REDOP_REPLACE,
    REDOP_NO_OP,
    REDOP_AVG,
    REDOP_CODES
};

/* ---- state outside the rings ----------------------------------------------------------------- */

/* What one thread is doing right now. While `call` is 0 the thread is in user code since `last_leave`.
 * MPI_Wait: `op` is that of the operation it waits for. Waitall, Waitany, Waitsome (and their tests): `tag` is the
 * number of requests in the list that are not null, `op` and `seq` the operations of its first and its last; 0 = not
 * tracked. Sendrecv: peer, tag and seq are the send's; FLAG_RECV says that `op` is the source (a rank, PEER_ANY,
 * PEER_NULL). */
struct in_flight {
    uint32_t call; /* call id, released last; cleared first at return */
    uint32_t comm;
    uint64_t enter;
    uint64_t bytes;
    uint32_t seq;
    int32_t peer;
    int32_t tag;
    uint32_t stack;
    uint32_t op;
    uint32_t tid;        /* kernel thread id, 0 = slot free */
    uint64_t last_leave; /* ticks, 0 = never */
    uint32_t lane;
    uint32_t flags; /* enum record_flag bits known at entry */
};

/* A posted operation that nobody has seen complete. */
struct pending {
    uint64_t request; /* handle, released last; 0 = free. Only meaningful inside the process. */
    uint64_t t0;      /* enter of the posting call */
    uint64_t bytes;
    uint32_t seq;
    uint32_t op;
    uint32_t comm;
    int32_t peer;
    int32_t tag;
    uint32_t stack;
    uint16_t call;
    uint16_t flags;
    uint32_t tid;
    uint32_t posting_ticks;
    uint8_t dtype;
    uint8_t redop;
    uint8_t persistent; /* 1: an inactive or active persistent request; `active` tells */
    uint8_t active;
};

#define PROGRESS_RECENT 64u /* h_k of the last 64 collectives: recent[k % 64]; 0 here and below: unknown */
#define PROGRESS_EVERY  64u /* h_k at k = 64, 128, ...: every[(k / 64) % 64] */
#define PROGRESS_POWERS 32u /* h_k at k = 1, 2, 4, ...: powers[log2(k)] */

/* How far this process came on one communicator. A call that returned an error takes no number: the next collective has
 * it. But a call of MPI that did communicate before it failed (a truncated message) keeps its number, since the other
 * ranks have counted it too; that is told by the class of its error. h_0 = uid, h_k combines h_{k-1} with the signature
 * of collective k - 1; equal h_k means equal history. A collective is hashed when its call returned (only then may its
 * datatype be asked for its size); the one a process is stuck in stands in its in-flight slot. */
struct progress {
    uint64_t version; /* odd = being written, 0 = unused */
    uint32_t comm;    /* local index */
    uint32_t last_call;
    uint64_t enqueued;    /* collectives entered or posted */
    uint64_t started;     /* of these, known to run (NCCL); MPI: = enqueued */
    uint64_t completed;   /* returned, or seen complete */
    uint64_t last_enter;  /* ticks */
    uint64_t prefix_hash; /* h_hashed */
    uint64_t hashed;      /* collectives that the hash covers: seq 0 .. hashed - 1 */
    uint64_t recent[PROGRESS_RECENT];
    uint64_t every[PROGRESS_EVERY];
    uint64_t powers[PROGRESS_POWERS];
    /* Since 2.12, NCCL: what the host launched on a GPU and what that came to, each by the `op` of a launch's POST or
     * GROUP record; 0: none, or not known. Of one communicator launches begin and end in the order in which they are
     * made, and `op` grows with it. Replays of graphs move none of these. */
    uint32_t launched_op;   /* the newest that was launched */
    uint32_t begun_op;      /* the newest known to have begun */
    uint32_t ended_op;      /* the newest known to have ended */
    uint32_t unfollowed_op; /* the newest whose begin and end nobody looks at: it is not timed, or was lost */
    uint64_t begun_ns;      /* when begun_op was seen to have begun, CLOCK_MONOTONIC */
};

/* One sampled stretch of one ring: records that were about to be overwritten and whose t0 lies in a kept window; of a
 * ring of pages whole pages, those that hold records of a kept window. */
#define TRACE_WINDOW_SECONDS 10u /* windows are numbered floor(REALTIME seconds / 10) */
#define TRACE_WINDOW_RECORDS 63u

struct trace_window_block {
    uint64_t window; /* number + 1, released after the block was taken; 0 = free, all ones = being taken */
    uint32_t lane;
    uint32_t used;        /* records copied so far; each still has its own commit word */
    uint64_t page_number; /* not 0: this is a struct ring_page */
    uint64_t reserved[5];
    struct record records[TRACE_WINDOW_RECORDS];
};

/* A lane is what one thread writes at a time: a ring and three tables. Lanes are reused when a thread ends; the last
 * one may be shared by several threads. */
struct lane_state {
    uint64_t head; /* tickets handed out; a reader recovers from commit words, not from this. Of pages of records it
                      is that of the newest page's beginning, or later */
    uint32_t owner_tid; /* 0 = free */
    uint32_t threads;   /* threads that have used it so far */
    uint32_t shared;    /* 1: several writers; its rows are updated by atomic additions, versions do not move */
    uint32_t reserved0;
    uint64_t operations_lost;       /* calls that found no row in the operations table */
    uint64_t operations_lost_ticks; /* ... and their time */
    uint64_t operations_lost_bytes;
    uint64_t sites_lost;
    uint64_t peers_lost;
    uint64_t windows_lost;       /* records of kept windows that found no room */
    uint64_t trace_window_level; /* windows divisible by 2^level are kept */
    uint64_t device;             /* 1: written by the GPU harvester */
    uint64_t extends;        /* lane + 1 whose full tables go on here; such a lane has no ring. 0: a lane of its own */
    uint64_t stacks_shed;    /* since 2.6: calls that have no stack, and */
    uint64_t records_shed;   /* records that were not written, for COMMTAP_BUDGET's sake, */
    uint64_t stretches_shed; /* and in how many stretches: one of each has a ticket */
    uint64_t reserved[1];
};

/* ---- aggregates: all calls, exact ------------------------------------------------------------ */

enum source { SOURCE_HOST = 1, SOURCE_GPU_EVENT = 2, SOURCE_IN_KERNEL = 3, SOURCE_INFERRED = 4 };

enum peer_class {
    PEER_CLASS_NONE = 0,
    PEER_CLASS_RANK = 1,
    PEER_CLASS_SELF = 2,
    PEER_CLASS_NULL = 3,
    PEER_CLASS_ROOT = 4
};

#define EXACT_SIZES 64u /* exact byte sizes per (call, communicator); further sizes share a class */
#define EPOCHS_MAX  256u

/* Histogram over ticks (device ns for GPU sources): 4 buckets per octave.
 * bucket(t) = 0 for t < 2^HISTOGRAM_FIRST, else 4*(floor(log2 t) - HISTOGRAM_FIRST) + the next two bits of t,
 * clamped to the last. Counters saturate at UINT32_MAX. */
#define HISTOGRAM_FIRST   5u
#define HISTOGRAM_BUCKETS 160u

/* `sized`: rows of a size class (bytes = the class's lower bound, a power of two) have it 0, exact rows 1. */
struct operation_row {
    uint64_t version;
    uint16_t call;
    uint8_t source; /* enum source, low 4 bits; bit 7: a size class, not an exact size */
    uint8_t peer_class;
    uint32_t comm_epoch; /* communicator index in the low 24 bits (0xffffff = none), epoch in the high 8 */
    uint64_t bytes;      /* BYTES_UNKNOWN is a value like any other */
    uint64_t count;
    uint64_t bytes_total; /* sum of known bytes */
    uint64_t time_total;  /* blocking: leave - enter; non-blocking: posting to observed completion */
    uint64_t time_min;    /* UINT64_MAX before the first */
    uint64_t time_max;
    uint64_t untimed;        /* of count: calls without a time (completion unobserved) */
    uint64_t posting_total;  /* ticks spent inside the posting calls */
    uint64_t received_bytes; /* Sendrecv: what came back */
    uint64_t failed;         /* of count: calls that returned an error */
    uint64_t posted_size;    /* of count: receives whose actual size is unknown (the posted one is used) */
    uint64_t shares;         /* since 2.13, of count: GPU operations whose time is a share (FLAG_SHARE), */
    uint64_t shares_total;   /* and these times */
    uint64_t reserved[1];
    uint32_t histogram[HISTOGRAM_BUCKETS];
};
#define SOURCE_SIZE_CLASS 0x80u
#define ROW_COMM_NONE     0xffffffu

struct site_row {
    uint64_t version;
    uint32_t stack;
    uint32_t comm_epoch;
    uint16_t call;
    uint16_t reserved0;
    uint32_t reserved1;
    uint64_t count;
    uint64_t bytes_total;
    uint64_t time_total; /* as in struct operation_row */
    uint64_t time_max;
    uint64_t posting_total; /* likewise, of MPI's operations alone; since 2.1, before it 0 */
};

struct peer_row {
    uint64_t version;
    uint32_t comm_epoch;
    int32_t peer;
    uint16_t call;
    uint16_t direction; /* FLAG_SEND or FLAG_RECV */
    uint32_t reserved0;
    uint64_t count;
    uint64_t bytes_total;
    uint64_t time_total;
    uint64_t time_max;
    uint64_t wait_total; /* ticks inside Wait and Test calls that ended with this operation's completion */
};

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* One GPU of this process. Single writer: the harvester. */
struct device_state {
    uint64_t version;     /* odd = being written, 0 = unused */
    uint32_t ordinal;     /* as the driver counts them in this process */
    uint32_t backend;     /* 1 CUDA, 2 HIP */
    char bus[24];         /* "0000:3b:00.0" */
    char name[64];        /* empty: an imported trace that does not tell which GPU */
    uint64_t capacity;    /* bytes of device memory */
    uint64_t memory_used; /* of the whole device, at the last sample; BYTES_UNKNOWN = never sampled */
    uint64_t memory_peak; /* largest sample */
    uint64_t memory_samples;
    uint64_t last_anchor_ns;
    uint64_t exposed_ns;    /* sum over all streams made to wait for communication */
    uint64_t exposed_waits; /* of how many waits */
    uint64_t busy_ns;       /* union of timed communication on this device */
    uint64_t reserved[4];
};

/* Where the device's clock was at a moment of the host's. */
struct device_anchor {
    uint64_t version;      /* odd = being written, 0 = unused */
    uint32_t device;       /* index in SECTION_DEVICES */
    uint32_t source;       /* enum source: events, or globaltimer stamps */
    uint64_t monotonic_ns; /* middle of the bracket */
    uint64_t width_ns;     /* length of the bracket */
    uint64_t device_ns;    /* raw reading of the device's clock where it has one, else 0 */
    uint64_t reserved[3];
};

/* How often a function was seen by each sensor. A difference is calls that one of them cannot see. */
struct sensor_row {
    uint32_t call; /* id, 0 = unused */
    uint32_t reserved;
    uint64_t wrapped;  /* by the wrapper; calls that NCCL's plugin is never told of (one-rank communicators) left out */
    uint64_t plugged;  /* by the profiler plugin */
    uint64_t captured; /* of `wrapped`: under graph capture */
};

/* Network transfers with one peer of one communicator (COMM_NONE: for other processes of this host), from the proxy's
 * steps. Times in ns. */
struct transfer_row {
    uint64_t version; /* odd = being written, 0 = unused */
    uint32_t comm;
    int32_t peer;
    uint32_t sends; /* 1: this process sends, 0: receives */
    uint32_t channels;
    uint64_t operations;
    uint64_t steps;
    uint64_t bytes;
    uint64_t wait_gpu;  /* SendGPUWait, RecvGPUWait: the local GPU has not produced or consumed */
    uint64_t wait_peer; /* SendPeerWait: the receiver has no room */
    uint64_t wait_wire; /* SendWait, RecvWait: on the network */
    uint64_t wait_flush;
    uint64_t reserved[6];
};

/* What a CUDA graph holds of one communicator. Graphs that hold the same share a row; one that holds several
 * communicators counts in several. Launches are numbered from 1 in the order in which the process makes them, over all
 * rows, and those of one communicator end in that order. What was captured into graphs that nobody saw being made
 * executable (captured_unfollowed) is in none. */
struct capture_row {
    uint32_t used; /* 1, released after what describes the row; that never changes */
    uint32_t comm;
    uint32_t collectives; /* that one launch runs */
    uint32_t first_message, message_count;
    uint32_t call; /* these two of the first operation */
    uint32_t stack;
    uint32_t reserved0;
    uint64_t launched;              /* how often */
    uint64_t launched_ns;           /* the last time, CLOCK_MONOTONIC */
    uint64_t newest;                /* number of that launch */
    uint64_t ended;                 /* the newest known to have ended */
    uint64_t unfollowed;            /* the newest whose end nobody looks at */
    uint64_t longest_ns, second_ns; /* from launch to end: the longest, and the second longest; 0: there was none */
    uint64_t reserved;
};

/* How many messages with one partner a row's launch runs. */
struct capture_message {
    int32_t peer;
    uint32_t count;
    uint32_t stack; /* of the first, as `call` */
    uint16_t call;
    uint16_t flags; /* FLAG_SEND or FLAG_RECV */
};

/* ---- definitions: append-only ---------------------------------------------------------------- */

enum definition_kind {
    DEFINITION_COMMUNICATOR = 1,
    DEFINITION_COMMUNICATOR_NAME = 2,
    DEFINITION_COMMUNICATOR_FREED = 3,
    DEFINITION_STACK = 4,
    DEFINITION_MODULE = 5,
    DEFINITION_STRING = 6,
    DEFINITION_EPOCH = 7,
    DEFINITION_CODE = 8,
    DEFINITION_MODULE_GONE = 9,   /* struct module_gone_definition */
    DEFINITION_REMOTE_GROUP = 10, /* struct remote_group_definition */
    DEFINITION_TEMPLATE = 11,     /* struct template_definition */
    DEFINITION_NEIGHBOURS = 12,   /* since 2.11: struct neighbours_definition */
};
#define DEFINITION_MAGIC 0x43540000u /* high half of a committed definition's `commit` */

/* Definitions follow each other at multiples of 16 bytes. `bytes` (this header included) is stored first, `commit`
 * last. commit == 0 with bytes != 0 is a definition whose writer died: skip it. Both 0: skip 16 bytes and look again,
 * up to the end of the area. */
struct definition {
    uint32_t commit; /* DEFINITION_MAGIC | enum definition_kind */
    uint32_t bytes;  /* a multiple of 16 */
};

enum communicator_kind {
    COMMUNICATOR_INTRA = 1,
    COMMUNICATOR_INTER = 2,
    COMMUNICATOR_WINDOW = 3, /* a window's or file's own collective sequence; parent_uid is the communicator */
    COMMUNICATOR_FILE = 4,
};

enum communicator_flag {
    COMMUNICATOR_FOREIGN = 1u << 0,           /* holds ranks of another world: uid is not comparable */
    COMMUNICATOR_MEMBERS_ELSEWHERE = 1u << 1, /* irregular and long: members are in the dumps of ranks 0-3 */
    COMMUNICATOR_UID_UNSURE = 1u << 2,        /* created unseen or after a lost ordinal: uid may differ between ranks */
};

struct member_run {
    int32_t start; /* world rank */
    uint32_t count;
    int32_t stride;
};

struct communicator_definition {
    struct definition head;
    uint64_t uid; /* H(parent uid, creation ordinal, member world ranks): equal on all members */
    uint64_t parent_uid;
    uint64_t members_hash;
    uint64_t created_ticks;
    uint32_t index; /* local; what records call `comm` */
    uint32_t kind;  /* enum communicator_kind */
    uint32_t flags; /* enum communicator_flag */
    uint32_t size;
    int32_t my_rank;
    uint32_t remote_size; /* intercommunicators */
    uint32_t created_by;  /* call id, 0 = predefined or unseen */
    uint32_t run_count;   /* member_run[] follows, the local group in rank order */
};
/* run_count 0 where neither COMMUNICATOR_FOREIGN nor COMMUNICATOR_MEMBERS_ELSEWHERE is set: a communicator of NCCL,
 * which tells nobody the other ranks' processes. Its members are found by uid: each is a definition with that uid and
 * its my_rank, in the dump of the process that holds it. A process may hold several members of one communicator: each
 * has a definition, and an index, of its own. uids are equal on all members but for those made by ncclCommGrow
 * (COMMUNICATOR_UID_UNSURE). Where the communicator is the world in its order the one run says so. */

/* The other side of an intercommunicator, written behind its communicator_definition; older versions lack it, and it is
 * missing where COMMUNICATOR_FOREIGN stands there. uids are equal on both sides. A peer or a root that is a rank names
 * a member of this group; who collects or distributes has PEER_ROOT, who stands by on its side PEER_NULL. */
struct remote_group_definition {
    struct definition head;
    uint32_t index;     /* of the communicator */
    uint32_t run_count; /* member_run[] follows, in rank order; 0 with COMMUNICATOR_MEMBERS_ELSEWHERE */
    uint64_t members_hash;
    uint32_t size;
    uint32_t reserved;
};

/* From whom this member of a communicator with a topology takes in neighbourhood collectives: from their number `first`
 * on, up to that of the next such definition for the index, under which a communicator with other neighbours may live
 * again. A rank can be named more than once. */
#define NEIGHBOURS_MOST    1024u
#define NEIGHBOURS_UNKNOWN UINT32_MAX /* `count`: there are more, or the library does not say; run_count is 0 then */
struct neighbours_definition {
    struct definition head;
    uint32_t index;     /* of the communicator */
    uint32_t first;     /* number of a collective on it */
    uint32_t count;     /* members named by the runs */
    uint32_t run_count; /* member_run[] follows: ranks in the communicator, as the library lists them */
};

/* `commit` is 0 while another name takes its place, here or, where it is longer, in a definition of its own. */
struct communicator_name_definition {
    struct definition head;
    uint32_t index;
    uint32_t length;
    char name[]; /* not terminated */
};

/* Jobs may make and free communicators for ever. One that is made like a freed one (by the same function from the same
 * communicator, of the same members) goes on under its index, without a definition of its own: as one communicator that
 * lives again, whose numbers, history and sums go on. All members decide alike, since they make and free communicators
 * in one order. While it lives again its end is taken back: `commit` of this definition is 0. */
struct communicator_freed_definition {
    struct definition head;
    uint32_t index;
    uint32_t lives; /* how many communicators have ended under this index; 0: one */
    uint64_t freed_ticks;
    uint64_t enqueued; /* these three: of all lives together */
    uint64_t completed;
    uint64_t prefix_hash;
};

/* A call stack, written before the first record that names it; a race may define one stack twice. Native frames come
 * first, innermost first, by their return addresses; then the thread's Python frames, innermost first; then the NVTX
 * ranges open on the thread, innermost first. With COMMTAP_STACK=site it is the one address in the caller of the
 * intercepted function. What an entry is stands in its top two bits (addresses of user space have neither). */
struct stack_definition {
    struct definition head;
    uint32_t id;    /* from 1 */
    uint32_t depth; /* entries */
    uint64_t entries[];
};

#define STACK_ENTRY_KIND   0xc000000000000000u
#define STACK_ENTRY_NATIVE 0u
#define STACK_ENTRY_PYTHON                                                                                             \
    0x8000000000000000u /* bit 61: first frame of its interpreter loop (the native eval frame                          \
                           ends here); bits 32-60: code id; bits 0-31: line being executed */
#define STACK_PYTHON_ENTRY 0x2000000000000000u
#define STACK_ENTRY_LABEL                                                                                              \
    0x4000000000000000u                     /* bits 0-31: string id of the range's text; bits 32-61: string id of      \
                                               its domain, 0 = the default domain */
#define STACK_ENTRY_CUT 0xffffffffffffffffu /* frames are missing here: depth limit, or cannot be unwound */

/* A Python code object. Names are UTF-8. Imported traces also name functions of other languages: they stand among
 * Python's frames as if they were such, and have CODE_NOT_PYTHON in the place of their first line. */
#define CODE_NOT_PYTHON UINT32_MAX
struct code_definition {
    struct definition head;
    uint32_t id; /* from 1 */
    uint32_t first_line;
    uint32_t name_bytes; /* qualified name where the interpreter has one (3.11), else the name */
    uint32_t file_bytes;
    char text[]; /* name, file; neither terminated */
};

struct string_definition {
    struct definition head;
    uint32_t id; /* from 1 */
    uint32_t length;
    char text[]; /* not terminated */
};

/* Where an address of a stack comes from: file offset = address - base + what the program headers say. */
struct module_definition {
    struct definition head;
    uint64_t start, end; /* lowest and one past the highest mapped address */
    uint64_t base;       /* load bias: address - base is the address in the file's symbol table */
    uint64_t seen_ticks;
    uint32_t build_id_bytes; /* 0 = has none */
    uint32_t path_bytes;     /* not terminated */
    uint8_t data[];          /* build id, then path */
};

/* The module last defined at `base` was unloaded: later addresses there belong to another. */
struct module_gone_definition {
    struct definition head;
    uint64_t base;
    uint64_t seen_ticks;
};

/* What a lane's compact records with this number share. */
struct template_definition {
    struct definition head;
    uint32_t lane;
    uint32_t number; /* from 1, below TEMPLATES_MAX; each of a lane is defined once */
    struct record_template facts;
};

struct epoch_definition {
    struct definition head;
    uint32_t epoch;
    uint32_t reserved;
    uint64_t ticks;
};

/* ---- who is alive ---------------------------------------------------------------------------- */

/* A process of this job step that the writer has looked at: itself in the first row, then those that it found on its
 * node. Every BEAT_NS or, where there are many, every few times that, it looks whether they live. */
#define BEAT_NS UINT64_C(2000000000)

struct beat_row {
    uint64_t dump;    /* the 16 hex in the name of the process's dump, released last; 0: the row is not used */
    uint64_t seen_ns; /* CLOCK_MONOTONIC: it lived then; the newest such moment */
    uint64_t gone_ns; /* since then, at the latest, it does not; 0: it was there at the last look */
    int64_t pid;
};

/* ---- the stub that stands in the output directory for a dump staged elsewhere ---------------- */

/* A text file commtap.<run id>.<16 hex>.stub of lines `key=value`: host, boot_id, path, pid, rank (-1: the process did
 * not know its rank yet), each once. The path is one of the directories below, and the dump's own name commtap.<run
 * id>.<16 hex>.ct in it: readers refuse any other, since what a stub points to is copied and may be removed. Other keys
 * may follow. */
#define FORMAT_STAGING_DIRECTORIES "/dev/shm", "/tmp", "/var/tmp"

/* A text file commtap.<run id>.deaths, written by `commtap run` around a launcher when a process of its host that wrote
 * a dump ends without the dump saying so. Of these lines, the first two exclude each other and come first:
 *     died=<16 hex of its dump> pid=<pid> realtime_ns=<when> [signal=<n> | status=<n>]
 *     first=<16 hex of its dump> pid=<pid> realtime_ns=<when> [signal=<n> | status=<n>]
 *     ended realtime_ns=<when> monotonic_ns=<when> boot_id=<of this host>
 * died: before all others, of itself, and nobody had asked for it. first: before all others, which went the same way
 * at the same moment: it may be why, or all were killed together. Without signal and status nobody saw how it ended.
 * ended: when the first of them was seen to have ended. */

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct record) == 64, "a record is one cache line");
_Static_assert(sizeof(struct in_flight) == 64, "an in-flight slot is one cache line");
_Static_assert(sizeof(struct pending) == 64, "pending");
_Static_assert(sizeof(struct section) == 32, "section");
_Static_assert(sizeof(struct call_name) == 72, "call_name");
_Static_assert(sizeof(struct progress) == 1368, "progress");
_Static_assert(sizeof(struct clock_anchor) == 64, "clock_anchor");
_Static_assert(sizeof(struct trace_window_block) == 4096, "a window block is one page");
_Static_assert(sizeof(struct record_template) == 32, "record_template");
_Static_assert(sizeof(struct ring_slot) == 16 && sizeof(struct ring_slot_time) == 16 &&
                   sizeof(struct ring_slot_explicit) == 16 && sizeof(struct ring_slots_whole) == 64,
               "slots");
_Static_assert(offsetof(struct ring_slot_time, form) == offsetof(struct ring_slot, template_number) &&
                   offsetof(struct ring_slots_whole, form) == offsetof(struct ring_slot, template_number),
               "what form a record has stands at one place");
_Static_assert(sizeof(struct ring_page) == 4096 && offsetof(struct ring_page, slots) == 64, "ring_page");
_Static_assert(offsetof(struct ring_page, number) == offsetof(struct trace_window_block, page_number) &&
                   offsetof(struct ring_page, used) == offsetof(struct trace_window_block, used),
               "a page can be a window's block");
_Static_assert(sizeof(struct lane_state) % 8 == 0, "lane_state");
_Static_assert(sizeof(struct operation_row) == 128 + 4 * HISTOGRAM_BUCKETS, "operation_row");
_Static_assert(sizeof(struct site_row) == 64, "site_row");
_Static_assert(sizeof(struct peer_row) == 64, "peer_row");
_Static_assert(sizeof(struct device_state) == 200, "device_state");
_Static_assert(sizeof(struct device_anchor) == 64, "device_anchor");
_Static_assert(sizeof(struct sensor_row) == 32, "sensor_row");
_Static_assert(sizeof(struct transfer_row) == 128, "transfer_row");
_Static_assert(sizeof(struct beat_row) == 32, "beat_row");
_Static_assert(sizeof(struct capture_row) == 96, "capture_row");
_Static_assert(sizeof(struct capture_message) == 16, "capture_message");
_Static_assert(sizeof(struct dump_header) <= SECTION_ALIGN, "the header fits the first section");
#endif

#endif
