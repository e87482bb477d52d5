/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim's recording parts without any communication library: a process activates itself, records, and the
 * analyzer's loader reads back what lies in the file.
 * Must not live here: what a particular MPI call does (end-to-end tests).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/dumps/set.h"
#include "analyzer/load/dump.h"
#include "shim/comm/ordinals.h"
#include "shim/intercept/activate.h"
#include "shim/intercept/threads.h"
#include "shim/record/aggregates.h"
#include "shim/record/identity.h"
#include "shim/record/lanes.h"
#include "shim/record/recorder.h"
#include "shim/record/ring.h"
#include "shim/stacks/stacks.h"

static char directory[] = "/tmp/commtap-unit-XXXXXX";

/* ---- a process that records ------------------------------------------------------------------ */

static int activate(void **state) {
    (void)state;
    assert_non_null(mkdtemp(directory));
    setenv("COMMTAP_DIR", directory, 1);
    setenv("COMMTAP_RUN_ID", "unit/../run id", 1);
    setenv("COMMTAP_RING", "64", 1);
    setenv("COMMTAP_STACK", "site", 1);
    knobs_read(&recorder.knobs);
    return activate_process() ? 0 : -1;
}

static int remove_files(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static struct dump *load(void) {
    struct dump_set set;
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    assert_int_equal(set.count, 1);
    struct dump *dump = dump_open(set.dumps[0]->path);
    dump_set_close(&set);
    assert_non_null(dump->header);
    return dump;
}

static void write_record(struct lane *lane, uint64_t t0, uint32_t tag) {
    ring_add(lane, &(struct record){.t0 = t0, .t1 = t0 + 1, .tag = (int32_t)tag, .call = 20, .kind = RECORD_CALL});
}

static void test_run_ids_become_file_names(void **state) {
    (void)state;
    struct dump *dump = load();
    assert_string_equal(dump->run_id, "unit_.._run_id");
    assert_non_null(strstr(dump->path, "/commtap.unit_.._run_id."));
    struct stat status;
    assert_int_equal(stat(dump->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(dump->header->pid, getpid());
    dump_close(dump);
}

/* The ring holds its last records, the windows what fell out of it, and the cursor gives each once, in order. */
static void test_ring_and_windows_read_back(void **state) {
    (void)state;
    enum { RECORDS = 2 * RING_PAGE_SLOTS + 150 }; /* of which the first page of the ring of two was taken anew */
    struct lane *lane = current_thread()->lane;
    uint64_t first = lane->head, now = ticks();
    for (uint32_t i = 0; i < RECORDS; i++)
        write_record(lane, now + i, i % 50);
    struct dump *dump = load();
    struct record_cursor cursor;
    assert_true(record_cursor_begin(&cursor, dump, lane->index));
    uint64_t expected = 0;
    for (const struct record *r; (r = record_cursor_next(&cursor));) {
        if (r->commit <= first)
            continue;
        assert_int_equal(r->commit, first + expected + 1);
        assert_int_equal(r->tag, expected++ % 50);
    }
    assert_int_equal(expected, RECORDS);
    assert_true(dump->lanes[lane->index].first_ticket > first);
    assert_int_equal(dump_lane_lost(dump, lane->index), 0);
    record_cursor_end(&cursor);
    dump_close(dump);
}

/* 64 exact sizes per call and communicator, then powers of two; nothing lost, whatever the table's first size was. */
static void test_aggregates_grow_and_stay_exact(void **state) {
    (void)state;
    struct lane *lane = current_thread()->lane;
    struct operation_sample sample = {.call = 30, .time = 100};
    uint64_t bytes_sum = 0, calls = 0, bytes_read = 0, calls_read = 0, exact = 0;
    for (sample.comm = 0; sample.comm < 40; sample.comm++)
        for (uint32_t i = 0; i < 200; i++, calls++) {
            sample.bytes = 1000 + i;
            bytes_sum += sample.bytes;
            operations_add(lane, &sample);
        }
    struct dump *dump = load();
    for (uint32_t l = 0; l < dump->lane_count; l++)
        for (uint32_t i = 0; i < dump->lanes[l].operation_count; i++) {
            const struct operation_row *row = &dump->lanes[l].operations[i];
            if (!row->version || row->call != 30)
                continue;
            calls_read += row->count;
            bytes_read += row->bytes_total;
            exact += !(row->source & SOURCE_SIZE_CLASS) && (row->comm_epoch & ROW_COMM_NONE) == 7;
            if (row->source & SOURCE_SIZE_CLASS)
                assert_true(row->bytes == 512 || row->bytes == 1024);
        }
    assert_int_equal(calls_read, calls);
    assert_int_equal(bytes_read, bytes_sum);
    assert_int_equal(exact, EXACT_SIZES);
    assert_int_equal(lane->state->operations_lost, 0);
    dump_close(dump);
}

/* Walks the committed definitions of one kind. */
static const void *next_definition(const struct dump *dump, enum definition_kind kind, const void *after) {
    for (uint32_t i = 0; i < SECTIONS_MAX; i++) {
        const struct section *section = &((const struct dump_header *)dump->base)->sections[i];
        if (section->kind != SECTION_DEFINITIONS)
            continue;
        for (uint64_t at = 0; at < section->bytes;) {
            const struct definition *d = (const void *)(dump->base + section->offset + at);
            if (d->commit == (DEFINITION_MAGIC | (uint32_t)kind) && (const void *)d > after)
                return d;
            at += d->bytes ? d->bytes : 16;
        }
    }
    return NULL;
}

/* An address is one stack, and lies in a module that names this program. What sites add up to is what was added. */
static void test_call_sites_are_interned_and_counted(void **state) {
    (void)state;
    struct lane *lane = current_thread()->lane;
    const char *here = (const char *)(uintptr_t)test_call_sites_are_interned_and_counted;
    uint32_t ids[2000];
    for (uint32_t i = 0; i < 2000; i++) {
        ids[i] = stack_take(current_thread(), (uintptr_t)here + i, 0, 0);
        assert_int_not_equal(ids[i], STACK_NONE);
        sites_add(lane, ids[i], 0, 30, 8, i, 0);
        sites_add(lane, ids[i], 1, 30, 8, i, 0);
    }
    assert_int_equal(stack_take(current_thread(), (uintptr_t)here, 0, 0), ids[0]);
    assert_int_not_equal(ids[1], ids[0]);
    struct dump *dump = load();
    uint64_t count = 0, bytes = 0, time = 0;
    for (uint32_t l = 0; l < dump->lane_count; l++)
        for (uint32_t i = 0; i < dump->lanes[l].site_count; i++) {
            count += dump->lanes[l].sites[i].count;
            bytes += dump->lanes[l].sites[i].bytes_total;
            time += dump->lanes[l].sites[i].time_total;
        }
    assert_int_equal(count, 4000);
    assert_int_equal(bytes, 4000 * 8);
    assert_int_equal(time, 1999 * 2000);
    const struct module_definition *module = next_definition(dump, DEFINITION_MODULE, NULL);
    assert_non_null(module);
    assert_in_range((uintptr_t)here, module->start, module->end - 1);
    assert_non_null(memmem(module->data + module->build_id_bytes, module->path_bytes, "test_recorder", 13));
    assert_null(next_definition(dump, DEFINITION_MODULE, module));
    const struct stack_definition *stack = next_definition(dump, DEFINITION_STACK, NULL);
    assert_int_equal(stack->depth, 1);
    assert_int_equal(stack->entries[0], (uintptr_t)here);
    assert_int_equal(stack->id, ids[0]);
    dump_close(dump);
}

/* A slot whose last writer is still at it after a whole round is left alone: no record is a mixture of two. */
static void test_shared_ring_never_mixes(void **state) {
    (void)state;
    lanes_expect_threads();
    struct lane *lane = &recorder.lanes[LANES_EXCLUSIVE];
    uint64_t slow_ticket, ticket;
    struct record *slow = ring_begin(lane, &slow_ticket);
    for (uint32_t i = 0; i < lane->mask; i++)
        write_record(lane, ticks(), i);
    assert_null(ring_begin(lane, &ticket));
    write_record(lane, ticks(), 1);
    slow->tag = 77;
    ring_end(lane, slow, slow_ticket);
    assert_int_equal(lane->ring[slow_ticket & lane->mask].commit, slow_ticket + 1);
    assert_int_equal(lane->ring[slow_ticket & lane->mask].tag, 77);
}

/* A forked child must not write into its parent's dump, nor find itself recording. */
static void test_child_does_not_record(void **state) {
    (void)state;
    uint64_t head = current_thread()->lane->head;
    pid_t child = fork();
    if (child == 0)
        _exit(current_thread() == NULL && *recorder_armed == 0 ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(current_thread()->lane->head, head);
}

/* ---- ordinals -------------------------------------------------------------------------------- */

static void test_ordinals_count_per_channel(void **state) {
    (void)state;
    assert_true(ordinals_begin());
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(ordinal_next(1, 2, 3, true), i);
    assert_int_equal(ordinal_next(1, 2, 3, false), 0); /* received from, not sent to */
    assert_int_equal(ordinal_next(2, 2, 3, true), 0);
    assert_int_equal(ordinal_next(1, 3, 3, true), 0);
    assert_int_equal(ordinal_next(1, 2, 4, true), 0);
    assert_int_equal(ordinal_next(1, 2, 3, true), 5);
}

/* Unique tags push channels out. None of them may then come back with a number that it had before. */
static void test_forgotten_channels_have_no_ordinal(void **state) {
    (void)state;
    assert_true(ordinals_begin());
    const int32_t channels = 20000;
    for (int32_t tag = 0; tag < channels; tag++) {
        uint32_t ordinal = ordinal_next(0, 1, tag, true);
        assert_true(ordinal == 0 || ordinal == SEQ_NONE);
    }
    uint32_t unknown = 0, second = 0;
    for (int32_t tag = 0; tag < channels; tag++) {
        uint32_t ordinal = ordinal_next(0, 1, tag, true);
        assert_true(ordinal == 1 || ordinal == SEQ_NONE);
        unknown += ordinal == SEQ_NONE;
        second += ordinal == 1;
    }
    assert_true(unknown > 0 && second < (uint32_t)channels);
    assert_true(recorder.header->losses.ordinals_evicted > 0);
}

/* ---- sampled windows, with a clock of their own ---------------------------------------------- */

#define AREA_BLOCKS 32u
#define DAY_SECONDS 86400u

struct kept {
    struct trace_window_block blocks[AREA_BLOCKS];
    struct lane_state lane;
    struct trace_windows windows;
};

/* One rank's day: `hz` records per second, offered in order as a ring would when they are about to be overwritten. */
static void live_a_day(struct kept *kept, uint64_t started_ns, unsigned hz) {
    static const uint64_t second = 1000000000u;
    struct anchors clock = {.tick_hz = second, .last_ticks = 1000, .last_realtime = started_ns};
    struct trace_window_writer writer = {.state = &kept->lane};
    uint64_t keep_from = 0;
    memset(kept, 0, sizeof *kept);
    kept->windows = (struct trace_windows){.blocks = kept->blocks, .count = AREA_BLOCKS};
    for (uint64_t i = 0; i < (uint64_t)DAY_SECONDS * hz; i++) {
        struct record r = {.commit = i + 1, .t0 = 1000 + i * (second / hz)};
        if (r.t0 >= keep_from)
            trace_windows_keep(&kept->windows, &writer, &clock, &r, &keep_from);
    }
}

/* The same where they lie in pages. */
static void live_a_day_in_pages(struct kept *kept, uint64_t started_ns, unsigned hz) {
    static const uint64_t second = 1000000000u;
    struct anchors clock = {.tick_hz = second, .last_ticks = 1000, .last_realtime = started_ns};
    struct trace_window_writer writer = {.state = &kept->lane};
    uint64_t keep_from = 0;
    memset(kept, 0, sizeof *kept);
    kept->windows = (struct trace_windows){.blocks = kept->blocks, .count = AREA_BLOCKS};
    for (uint64_t i = 0; i < (uint64_t)DAY_SECONDS * hz; i += RING_PAGE_SLOTS) {
        struct ring_page page = {.number = i / RING_PAGE_SLOTS + 1, .first_ticket = i, .used = RING_PAGE_SLOTS};
        struct page_span span = {1000 + i * (second / hz), 1000 + (i + RING_PAGE_SLOTS) * (second / hz),
                                 RING_PAGE_SLOTS};
        page.base_ticks = span.begin;
        if (span.end >= keep_from)
            trace_windows_keep_page(&kept->windows, &writer, &clock, &page, &span, &keep_from);
    }
}

static bool has_window(const struct kept *kept, uint64_t window) {
    for (uint32_t i = 0; i < AREA_BLOCKS; i++)
        if (kept->blocks[i].window == window + 1)
            return true;
    return false;
}

static void test_windows_of_a_day(void **state) {
    (void)state;
    static struct kept fast, slow;
    const uint64_t start = 1700000003ull * 1000000000u;
    live_a_day(&fast, start, 50);
    live_a_day(&slow, start + 2000000000u, 3);
    unsigned fast_windows = 0, common = 0;
    uint64_t earliest = UINT64_MAX, first_window = start / 1000000000u / TRACE_WINDOW_SECONDS;
    for (uint32_t i = 0; i < AREA_BLOCKS; i++) {
        const struct trace_window_block *block = &fast.blocks[i];
        if (!block->window)
            continue;
        uint64_t window = block->window - 1;
        assert_int_equal(window & ((1u << fast.windows.level) - 1), 0);
        for (uint32_t k = 0; k < block->used; k++) {
            uint64_t seconds = (start + block->records[k].t0 - 1000) / 1000000000u;
            assert_int_equal(seconds / TRACE_WINDOW_SECONDS, window);
            assert_true(k == 0 || block->records[k].commit > block->records[k - 1].commit);
        }
        earliest = window < earliest ? window : earliest;
        fast_windows++;
        common += has_window(&slow, window);
    }
    /* the area is well used, reaches back to the beginning, and ranks of different speed kept the same windows */
    assert_true(fast_windows >= AREA_BLOCKS / 4);
    assert_true(earliest < first_window + (1u << (fast.windows.level + 1)));
    assert_true(common >= fast_windows / 2);
}

/* Whether a rank that started then and wrote `hz` records a second has all of a window in its pages. */
static bool covers(const struct kept *kept, uint64_t started_ns, unsigned hz, uint64_t window) {
    static const uint64_t second = 1000000000u;
    uint64_t at = window * TRACE_WINDOW_SECONDS * second, end = at + TRACE_WINDOW_SECONDS * second;
    for (bool found = true; found && at < end;) {
        found = false;
        for (uint32_t i = 0; i < AREA_BLOCKS && !found; i++) {
            const struct ring_page *page = (const struct ring_page *)&kept->blocks[i];
            uint64_t from = started_ns + page->base_ticks - 1000, to = from + RING_PAGE_SLOTS * (second / hz);
            found = page->window && page->number && from <= at && at < to;
            at = found ? to : at;
        }
    }
    return at >= end;
}

/* As with single records, and a window that is kept is there in full: ranks that are slower have longer pages. */
static void test_pages_of_a_day(void **state) {
    (void)state;
    static struct kept fast, slow;
    const uint64_t start = 1700000003ull * 1000000000u, later = start + 2000000000u;
    live_a_day_in_pages(&fast, start, 50);
    live_a_day_in_pages(&slow, later, 3);
    unsigned windows = 0, whole = 0, common = 0;
    uint64_t earliest = UINT64_MAX, first_window = start / 1000000000u / TRACE_WINDOW_SECONDS;
    for (uint64_t window = first_window; window < first_window + DAY_SECONDS / TRACE_WINDOW_SECONDS; window++) {
        if (!has_window(&fast, window))
            continue;
        assert_int_equal(window & ((1u << fast.windows.level) - 1), 0);
        earliest = window < earliest ? window : earliest;
        windows++;
        whole += covers(&fast, start, 50, window);
        common += covers(&slow, later, 3, window);
    }
    assert_true(windows >= AREA_BLOCKS / 8);
    assert_true(earliest < first_window + (1u << (fast.windows.level + 1)));
    assert_true(whole >= windows - 1 && common >= windows / 2);
}

/* ---- clock anchors --------------------------------------------------------------------------- */

static void test_anchors_thin_out(void **state) {
    (void)state;
    struct clock_anchor table[8] = {{0}};
    struct anchors anchors;
    anchors_begin(&anchors, NULL, table, 8);
    uint64_t first = table[0].ticks, interval = anchors.interval_ticks;
    for (int i = 0; i < 100; i++)
        anchors_take(&anchors);
    assert_int_equal(table[0].ticks, first);
    assert_true(anchors.used >= 4 && anchors.used <= 8);
    for (uint32_t i = 0; i < anchors.used; i++) {
        assert_int_equal(table[i].version & 1, 0);
        assert_true(table[i].version > 0 && (i == 0 || table[i].ticks > table[i - 1].ticks));
    }
    assert_true(anchors.interval_ticks >= interval * 16);
    uint64_t at = anchors_ticks(&anchors, anchors.last_realtime + 5000000000u);
    uint64_t back = anchors_realtime_ns(&anchors, at);
    assert_in_range(back, anchors.last_realtime + 4999999000u, anchors.last_realtime + 5000001000u);
}

/* ---- knobs ----------------------------------------------------------------------------------- */

static void test_globs_of_operations(void **state) {
    (void)state;
    static const struct {
        const char *patterns, *name;
        bool match;
    } cases[] = {
        {"*", "MPI_Send", true},
        {"", "MPI_Send", true},
        {"MPI_Send", "MPI_Send", true},
        {"send", "MPI_Send", true},
        {"send", "MPI_Ssend", false},
        {"*send", "MPI_Ssend", true},
        {"allreduce,bcast", "MPI_Bcast", true},
        {"allreduce,bcast", "MPI_Barrier", false},
        {"ALLREDUCE", "ncclAllReduce", true},
        {"!*send*", "MPI_Isend", false},
        {"!*send*", "MPI_Recv", true},
        {"i*,!irecv", "MPI_Irecv", false},
        {"i*,!irecv", "MPI_Isend", true},
        {"i?end", "MPI_Isend", true},
        {"mpi_*", "ncclSend", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (knobs_match(cases[i].patterns, cases[i].name) != cases[i].match)
            fail_msg("\"%s\" and %s", cases[i].patterns, cases[i].name);
}

/* ---- identity -------------------------------------------------------------------------------- */

static void test_launchers_name_ranks_and_worlds(void **state) {
    (void)state;
    static struct dump_header a, b, c;
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    setenv("PMIX_NAMESPACE", "one", 1);
    identity_fill(&a, "", true);
    setenv("OMPI_COMM_WORLD_RANK", "4", 1);
    identity_fill(&b, "", true);
    setenv("PMIX_NAMESPACE", "two", 1);
    identity_fill(&c, "", true);
    assert_int_equal(a.rank, 3);
    assert_int_equal(a.world_size, 8);
    assert_int_equal(b.rank, 4);
    assert_int_equal(a.world_id, b.world_id);
    assert_string_equal(a.run_id, b.run_id);
    assert_int_not_equal(a.world_id, c.world_id);
    /* torchrun below mpirun: the inner launcher's ranks count */
    setenv("TORCHELASTIC_RUN_ID", "t", 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
    setenv("RANK", "17", 1);
    identity_fill(&c, "", true);
    assert_int_equal(c.rank, 17);
    assert_int_equal(c.generation, 2);
    assert_string_equal(c.launcher, "torchrun");
}

/* Each of these variables of a launcher that starts a job anew, or none, to what it is then. */
static void identify(struct dump_header *header, const char *const (*variables)[2], size_t count) {
    for (size_t i = 0; i < count; i++)
        setenv(variables[i][0], variables[i][1], 1);
    identity_fill(header, "", true);
    for (size_t i = 0; i < count; i++)
        unsetenv(variables[i][0]);
}

/* The run is the job's, however often and where it is started; each start is a world of its own. */
static void test_starts_of_a_job_are_one_run(void **state) {
    (void)state;
    static const struct {
        const char *variables[2][5][2]; /* of two starts */
        bool same_run;
        uint32_t generation; /* of the second one */
    } cases[] = {
        {{{{"RANK", "0"},
           {"TORCHELASTIC_RUN_ID", "a"},
           {"MASTER_ADDR", "h"},
           {"MASTER_PORT", "1"},
           {"LOCAL_RANK", "0"}},
          {{"RANK", "0"},
           {"TORCHELASTIC_RUN_ID", "a"},
           {"MASTER_ADDR", "h"},
           {"MASTER_PORT", "2"},
           {"LOCAL_RANK", "0"}}},
         true,
         0},
        {{{{"RANK", "0"},
           {"TORCHELASTIC_RUN_ID", "a"},
           {"MASTER_ADDR", "h"},
           {"MASTER_PORT", "1"},
           {"LOCAL_RANK", "0"}},
          {{"RANK", "0"},
           {"TORCHELASTIC_RUN_ID", "b"},
           {"MASTER_ADDR", "h"},
           {"MASTER_PORT", "1"},
           {"LOCAL_RANK", "0"}}},
         false,
         0},
        {{{{"RANK", "0"},
           {"TORCHELASTIC_RUN_ID", "none"},
           {"MASTER_ADDR", "h"},
           {"MASTER_PORT", "1"},
           {"LOCAL_RANK", "0"}},
          {{"RANK", "0"},
           {"TORCHELASTIC_RUN_ID", "none"},
           {"MASTER_ADDR", "h"},
           {"MASTER_PORT", "2"},
           {"LOCAL_RANK", "0"}}},
         false,
         0},
        {{{{"SLURM_PROCID", "0"},
           {"SLURM_NTASKS", "2"},
           {"SLURM_JOB_ID", "5"},
           {"SLURM_STEP_ID", "0"},
           {"SLURM_LOCALID", "0"}},
          {{"SLURM_PROCID", "0"},
           {"SLURM_RESTART_COUNT", "3"},
           {"SLURM_JOB_ID", "5"},
           {"SLURM_STEP_ID", "0"},
           {"SLURM_LOCALID", "0"}}},
         true,
         3},
    };
    static const char *const set_before[] = {"OMPI_COMM_WORLD_RANK", "RANK", "TORCHELASTIC_RUN_ID",
                                             "TORCHELASTIC_RESTART_COUNT"};
    for (size_t i = 0; i < sizeof set_before / sizeof *set_before; i++)
        unsetenv(set_before[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct dump_header first, second;
        identify(&first, cases[i].variables[0], 5);
        identify(&second, cases[i].variables[1], 5);
        assert_int_equal(strcmp(first.run_id, second.run_id) == 0, cases[i].same_run);
        assert_int_not_equal(first.world_id, second.world_id);
        assert_int_equal(first.generation, 0);
        assert_int_equal(second.generation, cases[i].generation);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_ids_become_file_names),
        cmocka_unit_test(test_ring_and_windows_read_back),
        cmocka_unit_test(test_aggregates_grow_and_stay_exact),
        cmocka_unit_test(test_call_sites_are_interned_and_counted),
        cmocka_unit_test(test_shared_ring_never_mixes),
        cmocka_unit_test(test_child_does_not_record),
        cmocka_unit_test(test_ordinals_count_per_channel),
        cmocka_unit_test(test_forgotten_channels_have_no_ordinal),
        cmocka_unit_test(test_windows_of_a_day),
        cmocka_unit_test(test_pages_of_a_day),
        cmocka_unit_test(test_anchors_thin_out),
        cmocka_unit_test(test_globs_of_operations),
        cmocka_unit_test(test_launchers_name_ranks_and_worlds),
        cmocka_unit_test(test_starts_of_a_job_are_one_run),
    };
    return cmocka_run_group_tests(tests, activate, remove_files);
}
