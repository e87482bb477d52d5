/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic dumps for tests: writes one dump file, exactly as shim/format.h says, into memory.
 * Lives here: laying out sections, commit and version words, and nothing the format does not ask for.
 * Must not live here: anything from the loader or the shim; what a job does (test/scenes).
 *
 * A dump is laid out when the builder is made (the plan says how large its parts are) and is sound at every moment
 * afterwards: pointers handed out stay valid until dump_builder_free, and a test may damage what they point to. Lanes
 * say of no thread that it used them: their records need not be in any table.
 * Every function ends the program with a message on stderr when a part is full or memory is short: a test that asks
 * for too much is wrong.
 */
#ifndef COMMTAP_TEST_DUMP_BUILDER_H
#define COMMTAP_TEST_DUMP_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "shim/format.h"

/* Calls of dump_builder_standard_calls. The numbers are the builder's own: a dump names its calls itself. */
enum builder_call {
    BUILDER_INIT = 1,
    BUILDER_FINALIZE = 3,
    BUILDER_BARRIER = 20,
    BUILDER_BCAST = 21,
    BUILDER_REDUCE = 22,
    BUILDER_ALLREDUCE = 30,
    BUILDER_ALLGATHER = 31,
    BUILDER_IALLREDUCE = 130,
    BUILDER_SEND = 200,
    BUILDER_RECV = 201,
    BUILDER_ISEND = 202,
    BUILDER_IRECV = 203,
    BUILDER_WAIT = 230,
    BUILDER_WAITALL = 231,
    BUILDER_WAITANY = 232,
    BUILDER_COMM_DUP = 300,
    BUILDER_FILE_WRITE_ALL = 500,
    BUILDER_NCCL_ALL_REDUCE = 2001,
    BUILDER_NCCL_BROADCAST = 2003,
    BUILDER_NCCL_ALL_GATHER = 2005,
    BUILDER_NCCL_GROUP_END = 2031,
    BUILDER_NCCL_GROUP_SIMULATE_END = 2032,
    BUILDER_NCCL_SEND = 2070,
    BUILDER_NCCL_RECV = 2071,
};

/* Sizes of the parts. 0 means the default in brackets; capacities other than ring_records are rounded up to whole
 * sections. */
struct dump_plan {
    int32_t rank, world_size;
    uint32_t lanes;         /* [1] */
    uint32_t ring_records;  /* per lane, a power of two [1024] */
    uint64_t compact_lanes; /* a bit per lane whose ring is one of compact pages [0: all are of plain records] */
    uint32_t operations;    /* rows per lane [64]; likewise sites and peers */
    uint32_t sites, peers;
    uint32_t in_flight, pending, progress; /* [8], [64], [16] */
    uint32_t windows;                      /* blocks [0: no such section] */
    uint32_t devices;                      /* GPUs, with an anchor each [0: no such section] */
    uint32_t sensors, transfers, beats;    /* rows [0: no such section] */
    uint32_t captures, capture_messages;   /* likewise */
    uint32_t definition_bytes;             /* per area [65536] */
    uint32_t definition_areas;             /* [1] */
    uint32_t calls, anchors;               /* [64], [64] */
};

struct dump_builder;

/* A dump with a valid header and empty sections: run id "testrun", world id 1, generation 0, rank and size from the
 * plan (known from the library), host "host0", a fixed boot id, state ACTIVE | INITIALISED, CLOCK_KIND_MONOTONIC with
 * 1 tick = 1 ns, no anchors, no calls. Freed with dump_builder_free. */
struct dump_builder *dump_builder_new(const struct dump_plan *plan);
void dump_builder_free(struct dump_builder *builder);

/* The header, to be changed at will. */
struct dump_header *dump_builder_header(struct dump_builder *builder);
/* Entry of the section table, NULL when the dump has none of that kind and index. */
struct section *dump_builder_section(struct dump_builder *builder, enum section_kind kind, uint32_t index);
/* First byte of a section's contents. */
void *dump_builder_contents(struct dump_builder *builder, enum section_kind kind, uint32_t index);

/* Sets host and boot id; equal boot ids are one host. */
void dump_builder_host(struct dump_builder *builder, const char *host, const char *boot_id, uint64_t time_namespace);

/* Appends a row to the list of calls; `nonblocking` as in struct call_name. */
void dump_builder_call(struct dump_builder *builder, uint16_t id, enum call_class call_class, enum flow flow,
                       enum busbw busbw, int nonblocking, const char *name);
/* Appends every call of enum builder_call. The api is told from the name. */
void dump_builder_standard_calls(struct dump_builder *builder);

/* Appends an anchor. `width` is in ticks. */
void dump_builder_anchor(struct dump_builder *builder, uint64_t ticks, uint64_t monotonic_ns, uint64_t realtime_ns,
                         uint64_t width);

/* The next GPU, with one anchor: its clock is known to half of `width_ns`. */
void dump_builder_device(struct dump_builder *builder, uint64_t monotonic_ns, uint64_t width_ns);

/* Defines an intracommunicator of kind COMMUNICATOR_INTRA and returns its local index (0, 1, ... in order of the
 * calls). Size is the sum of the runs' counts. A NULL or empty name leaves it unnamed. */
uint32_t dump_builder_communicator(struct dump_builder *builder, uint64_t uid, const char *name, int32_t my_rank,
                                   const struct member_run *runs, uint32_t run_count);
/* Defines an intercommunicator of two groups, seen from the one that `own` lists, and names its remote group. */
uint32_t dump_builder_intercommunicator(struct dump_builder *builder, uint64_t uid, int32_t my_rank,
                                        const struct member_run *own, const struct member_run *remote);
/* Says that the process takes from these ranks in neighbourhood collectives on a communicator, from number `first` on;
 * NULL: that nobody knows. */
void dump_builder_neighbours(struct dump_builder *builder, uint32_t index, uint32_t first, const int32_t *sources,
                             uint32_t count);
/* The world: local index 0 when called first, uid 0x1111111111111111, name "MPI_COMM_WORLD", ranks 0 .. size - 1. */
uint32_t dump_builder_world(struct dump_builder *builder);
#define BUILDER_WORLD_UID UINT64_C(0x1111111111111111)
/* The definition made for a local index, to be changed at will. */
struct communicator_definition *dump_builder_definition(struct dump_builder *builder, uint32_t index);
void dump_builder_name(struct dump_builder *builder, uint32_t index, const char *name);
struct communicator_freed_definition *dump_builder_freed(struct dump_builder *builder, uint32_t index, uint64_t ticks,
                                                         uint64_t completed);
void dump_builder_epoch(struct dump_builder *builder, uint32_t epoch, uint64_t ticks);
/* Room for a definition of `bytes` (rounded up to 16), committed as `kind`; the rest is zero and the caller's. */
void *dump_builder_define(struct dump_builder *builder, enum definition_kind kind, size_t bytes);

/* What call stacks are made of, in the order of the calls; entries are written as they are (shim/format.h). */
void dump_builder_stack(struct dump_builder *builder, uint32_t id, const uint64_t *entries, uint32_t depth);
void dump_builder_code(struct dump_builder *builder, uint32_t id, const char *name, const char *file);
void dump_builder_string(struct dump_builder *builder, uint32_t id, const char *text);
void dump_builder_module(struct dump_builder *builder, const char *path, const void *build_id, uint32_t build_id_bytes,
                         uint64_t base, uint64_t bytes);
void dump_builder_module_gone(struct dump_builder *builder, uint64_t base);

/* Appends a record to a lane's ring with the next ticket, as the shim would: the oldest is overwritten when the ring
 * is full. `commit` of the argument is ignored. Returns the record in place; NULL where the lane's ring is compact. */
struct record *dump_builder_record(struct dump_builder *builder, uint32_t lane, const struct record *record);

/* The common records, on top of dump_builder_record: peer, tag, redop and stack are "none", op is the next number of
 * the process where the record has one. */
/* A blocking collective that took part as number `seq` of communicator `comm`. */
struct record *dump_builder_collective(struct dump_builder *builder, uint32_t lane, uint16_t call, uint32_t comm,
                                       uint32_t seq, uint64_t bytes, uint64_t enter, uint64_t leave);
/* A non-blocking collective: POST [post, posted], DONE [post, done] where done is not 0. Returns its op. */
uint32_t dump_builder_icollective(struct dump_builder *builder, uint32_t lane, uint16_t call, uint32_t comm,
                                  uint32_t seq, uint64_t bytes, uint64_t post, uint64_t posted, uint64_t done);
/* A blocking send or receive (`flag` FLAG_SEND or FLAG_RECV) with ordinal `seq`. */
struct record *dump_builder_p2p(struct dump_builder *builder, uint32_t lane, uint16_t call, uint32_t comm,
                                uint16_t flag, int32_t peer, int32_t tag, uint32_t seq, uint64_t bytes, uint64_t enter,
                                uint64_t leave);
/* Any other blocking call without communicator, number or bytes (Wait, Init, ...). */
struct record *dump_builder_plain(struct dump_builder *builder, uint32_t lane, uint16_t call, uint64_t enter,
                                  uint64_t leave);

/* Next unused row of a table, committed (version 2 where it has one) and otherwise zero; time_min of an operation row
 * is UINT64_MAX. Other fields are the caller's. */
struct operation_row *dump_builder_operation(struct dump_builder *builder, uint32_t lane);
struct site_row *dump_builder_site(struct dump_builder *builder, uint32_t lane);
struct peer_row *dump_builder_peer(struct dump_builder *builder, uint32_t lane);
struct progress *dump_builder_progress(struct dump_builder *builder, uint32_t comm);
struct in_flight *dump_builder_in_flight(struct dump_builder *builder); /* tid is set, call is not */
struct pending *dump_builder_pending(struct dump_builder *builder);     /* request is set */
struct trace_window_block *dump_builder_window(struct dump_builder *builder, uint32_t lane, uint64_t window);
struct lane_state *dump_builder_lane(struct dump_builder *builder, uint32_t lane);

/* Adds one call of `ticks` to an operation row's counters and histogram (bucket by format.h's rule). */
void dump_builder_count(struct operation_row *row, uint64_t bytes, uint64_t ticks);

/* The whole file. Aligned to 4096 bytes, owned by the builder. */
const void *dump_builder_data(const struct dump_builder *builder, size_t *bytes);
/* Writes the first `bytes` of it (0: all) to `path`. Returns 0, or -1 with errno set. */
int dump_builder_write(const struct dump_builder *builder, const char *path, size_t bytes);

#endif
