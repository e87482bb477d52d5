/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/activate.h"

#include <errno.h>
#include <string.h>

#include "shim/base/fork_page.h"
#include "shim/base/linker.h"
#include "shim/intercept/heartbeat.h"
#include "shim/intercept/orders.h"
#include "shim/intercept/own_cost.h"
#include "shim/intercept/stack_sources.h"
#include "shim/intercept/threads.h"
#include "shim/record/aggregates.h"
#include "shim/record/bounds.h"
#include "shim/record/delivery.h"
#include "shim/record/identity.h"
#include "shim/record/output_directory.h"
#include "shim/intercept/region.h"
#include "shim/record/recorder.h"
#include "shim/record/ring.h"
#include "shim/stacks/stacks.h"

#define ANCHORS         512u
#define PENDING_ENTRIES 4096u
#define PROGRESS_ROWS   256u
#define RING_SMALL      1024u
#define FIXED_SECTIONS  ((uint64_t)36 * SECTION_ALIGN) /* all that the first thread needs but ring and windows */

/* ---- the dump -------------------------------------------------------------------------------- */

static uint32_t ring_records(void) {
    recorder.marks_steps = recorder.knobs.step[0] != '\0';
    return (uint32_t)knob_ring(recorder.knobs.ring);
}

static uint64_t bytes_of_records(uint32_t records);

/* A ring that, with its windows, leaves half of the quota to all else. */
static uint32_t records_within(uint64_t quota, uint32_t records) {
    while (quota && records > KNOBS_RING_MIN && bytes_of_records(records) > quota / 2)
        records /= 2;
    return records;
}

static uint32_t trace_window_blocks(uint32_t records) {
    uint32_t blocks = records / 64; /* as many bytes as the records would take in plain form */
    return blocks < 4 ? 4 : blocks;
}

static uint64_t bytes_of_records(uint32_t records) {
    return section_bytes(ring_pages_for(records), sizeof(struct ring_page)) +
           section_bytes(trace_window_blocks(records), sizeof(struct trace_window_block));
}

static uint64_t bytes_wanted(uint32_t records) {
    return bytes_of_records(records) + FIXED_SECTIONS;
}

static bool list_calls(void) {
    unsigned count = commtap_call_count + PATTERN_COUNT;
    struct call_name *names = dumpfile_full_section(&recorder.file, SECTION_CALLS, 0, count, sizeof *names);
    for (unsigned i = 0; names && i < count; i++) {
        const struct call *call =
            i < commtap_call_count ? &commtap_calls[i] : &commtap_patterns[i - commtap_call_count];
        names[i].id = call->id;
        names[i].api = call->api;
        names[i].call_class = (uint8_t)commtap_call_class(call);
        names[i].busbw = call->busbw;
        names[i].flow = call->flow;
        names[i].epoch = call->epoch;
        names[i].nonblocking = (uint8_t)commtap_call_nonblocking(call);
        copy_text(names[i].name, sizeof names[i].name, call->name);
        copy_text(names[i].torch, sizeof names[i].torch, call->torch);
    }
    return names != NULL;
}

static void fill_header(void) {
    struct dump_header *h = recorder.header;
    h->version = FORMAT_VERSION;
    h->byte_order = FORMAT_BYTE_ORDER;
    h->header_bytes = sizeof *h;
    h->section_bytes = sizeof(struct section);
    h->record_bytes = sizeof(struct record);
    h->section_limit = SECTIONS_MAX;
    h->clock_kind = clock_choose();
    for (unsigned i = 0; i < commtap_call_count; i++)
        if (recorder.left_out[i])
            copy_text(h->operations, sizeof h->operations, recorder.knobs.ops);
    copy_text(h->writer, sizeof h->writer, COMMTAP_VERSION);
}

static bool open_sections(void) {
    struct dumpfile *file = &recorder.file;
    uint32_t blocks = trace_window_blocks(recorder.header->ring_records);
    struct clock_anchor *anchors = dumpfile_section(file, SECTION_ANCHORS, 0, ANCHORS, sizeof *anchors);
    recorder.lane_states = dumpfile_full_section(file, SECTION_LANES, 0, LANE_STATES, sizeof *recorder.lane_states);
    recorder.slots = dumpfile_section(file, SECTION_IN_FLIGHT, 0, THREAD_SLOTS, sizeof *recorder.slots);
    recorder.threads = os_memory(THREAD_SLOTS * sizeof *recorder.threads);
    recorder.pending = dumpfile_section(file, SECTION_PENDING, 0, PENDING_ENTRIES, sizeof *recorder.pending);
    recorder.pending_count = PENDING_ENTRIES;
    recorder.progress = dumpfile_section(file, SECTION_PROGRESS, 0, PROGRESS_ROWS, sizeof *recorder.progress);
    recorder.progress_count = PROGRESS_ROWS;
    if (!anchors || !recorder.lane_states || !recorder.slots || !recorder.threads || !recorder.pending ||
        !recorder.progress || !list_calls() || !dumpfile_make_room(file, anchors, sizeof *anchors))
        return false;
    anchors_begin(&recorder.anchors, file, anchors, ANCHORS);
    recorder.header->tick_hz_hint = recorder.anchors.tick_hz;
    recorder.poll_gap = recorder.anchors.tick_hz / (1000000000u / POLL_GAP_NS);
    recorder.poll_nap = recorder.anchors.tick_hz / (1000000000u / POLL_NAP_NS);
    definitions_begin(&recorder.definitions, file, &recorder.header->losses);
    if (recorder.header->keep == KEEP_SUMMARY)
        return recorder.definitions.area_count > 0;
    recorder.trace_windows.blocks =
        dumpfile_section(file, SECTION_TRACE_WINDOWS, 0, blocks, sizeof(struct trace_window_block));
    recorder.trace_windows.count = recorder.trace_windows.blocks ? blocks : 0;
    recorder.trace_windows.file = file;
    return recorder.definitions.area_count > 0;
}

static uint32_t file_mode(void) {
    return knob_mode(recorder.knobs.mode) == KNOBS_MODE_GROUP ? 0640 : 0600;
}

/* For messages at the beginning and at the end, one at a time: threads may have small stacks. */
static char line[MESSAGE_BYTES];

/* Messages come from one process of the job: rank 0 as far as the launcher says, or a process of no launcher. */
static void say(const struct dump_header *identity, const char *text) {
    if (identity->rank <= 0)
        message(text);
}

/* Of what only this host may know of: one process of each host. */
static void say_of_host(const struct dump_header *identity, const char *text) {
    if (identity->rank <= 0 || identity->local_rank == 0)
        message(text);
}

static void say_about(const struct dump_header *identity, const char *text, const char *directory) {
    struct text t;
    text_begin(&t, line, sizeof line);
    text_add(&t, text);
    text_add(&t, " (");
    text_add(&t, directory);
    text_add(&t, "); nothing is recorded");
    say(identity, line);
}

/* Creates the file, with `records` in its ring or, where only a short one finds room, fewer. */
static bool create_file(const struct dump_header *identity, char *directory, size_t size, uint32_t *records) {
    const char *note = NULL, *trouble = "the output directory's name is too long";
    if (output_directory(directory, size, recorder.knobs.dir, identity))
        trouble =
            dumpfile_create(&recorder.file, directory, identity->run_id, file_mode(), bytes_wanted(*records), &note);
    if (!trouble && recorder.file.place == PLACE_MEMORY && *records > RING_SMALL) {
        dumpfile_discard(&recorder.file);
        *records = RING_SMALL;
        trouble =
            dumpfile_create(&recorder.file, directory, identity->run_id, file_mode(), bytes_wanted(*records), &note);
    }
    if (trouble)
        say_about(identity, trouble, directory);
    else if (note)
        say(identity, note);
    return !trouble;
}

/* What each rank needs in any case, it has taken by now. */
void activation_share_quota(void) {
    uint64_t quota = bounds_quota(recorder.header, &recorder.knobs);
    if (!quota)
        return;
    recorder.header->quota_bytes = quota;
    dumpfile_set_quota(&recorder.file, quota);
}

/* The first process of this family that was recorded: its header is shared with all that were forked from it. */
static struct dump_header *first_of_family;

/* A forked process is of its parent's job, also where that is known by who started the parent: this one may have been
 * left by it since. One that was made another rank meanwhile knows better. */
static void inherit_job(struct dump_header *identity) {
    const struct dump_header *first = first_of_family;
    if (!first || (identity->rank != RANK_UNKNOWN && identity->rank != first->rank))
        return;
    identity->world_id = first->world_id;
    memcpy(identity->run_id, first->run_id, sizeof identity->run_id);
}

static bool open_dump(void) {
    static struct dump_header identity; /* before there is a file to hold it */
    char directory[1100] = "";
    uint32_t records;
    memset(&identity, 0, sizeof identity);
    identity_fill(&identity, recorder.knobs.run_id, recorder.knobs.argv);
    inherit_job(&identity);
    if (!bounds_choose_job(&identity, recorder.knobs.share))
        return false;
    if (identity.rank <= 0)
        knobs_complain();
    identity.keep = strcmp(recorder.knobs.keep, "summary") == 0 ? KEEP_SUMMARY : KEEP_ALL;
    records = records_within(bounds_quota(&identity, &recorder.knobs), ring_records());
    if (!create_file(&identity, directory, sizeof directory, &records))
        return false;
    recorder.header = recorder.file.header;
    *recorder.header = identity;
    recorder.header->ring_records = records;
    recorder.header->place = recorder.file.place;
    fill_header();
    if (!open_sections()) {
        dumpfile_discard(&recorder.file);
        say_about(&identity, "no room for the dump", directory);
        return false;
    }
    recorder.header->losses.quota_refusals = records < ring_records();
    activation_share_quota();
    return true;
}

/* ---- the process ----------------------------------------------------------------------------- */

static void point_to_staged(void) {
    struct text why;
    text_begin(&why, line, sizeof line);
    if (recorder.file.place == PLACE_STAGED && !delivery_write_stub(&recorder.file, &why))
        say(recorder.header, line);
}

static void arm(void) {
    struct dump_header *h = recorder.header;
    h->activated_ticks = ticks();
    h->state = STATE_ACTIVE;
    memcpy(h->magic, FORMAT_MAGIC, sizeof h->magic);
    dumpfile_publish(&recorder.file); /* where that fails it is tried again at exit */
    point_to_staged();
    bounds_watch_exit(&recorder.knobs);
    threads_begin();
    if (!first_of_family && h->place != PLACE_MEMORY)
        first_of_family = h;
    struct fork_page *page = fork_page();
    recorder_armed = &page->armed;
    page->armed = recorder.generation;
    heartbeat_begin();
}

/* Children that are forked for ever, and communicate, must not fill the disk. */
static bool is_a_child_too_many(void) {
    if (!first_of_family)
        return false;
    uint64_t before = __atomic_fetch_add(&first_of_family->children, 1, __ATOMIC_RELAXED);
    if (before < recorder.knobs.children)
        return false;
    struct text t;
    text_begin(&t, line, sizeof line);
    text_add(&t, "processes forked from process ");
    text_add_signed(&t, first_of_family->pid);
    text_add(&t, " have left ");
    text_add_unsigned(&t, before);
    text_add(&t, " dumps, as many as COMMTAP_CHILDREN allows: further ones leave none");
    if (before == recorder.knobs.children)
        message(line);
    count_loss(&first_of_family->losses.children_unrecorded);
    return true;
}

/* A forked child starts with its parent's state: only the knobs and the count of activations stay. */
static void start_over(void) {
    static struct knobs kept; /* large, and threads may have small stacks */
    uint32_t generation = recorder.generation + 1;
    kept = recorder.knobs;
    memset(&recorder, 0, sizeof recorder);
    recorder.knobs = kept;
    recorder.generation = generation;
}

bool activate_process(void) {
    linker_bind_to_libc();
    recorder_read_environment();
    if (recorder.gave_up)
        return false;
    if (!fork_lock_try(FORK_LOCK_ACTIVATION)) {
        if (!fork_page())
            recorder.gave_up = true;
        return false;
    }
    int saved = errno;
    bool armed = *recorder_armed != 0;
    if (!armed) {
        start_over();
        knobs_default(&recorder.knobs);
        const char *complaint = stacks_begin(recorder.knobs.stack, recorder.knobs.stack_depth);
        recorder.tells_sites = stacks_mode != STACK_OFF;
        recorder_choose_calls();
        if (!is_a_child_too_many() && open_dump()) {
            if (complaint)
                say(recorder.header, complaint);
            stack_sources_add();
            region_begin();
            orders_begin();
            own_cost_begin();
            arm();
            armed = true;
        }
    }
    recorder.gave_up = !armed;
    fork_lock_release(FORK_LOCK_ACTIVATION);
    errno = saved;
    return armed;
}

/* Tables that reached no file: the calls in them are in no total. */
static void count_kept(void) {
    const struct dumpfile *file = &recorder.file;
    for (uint32_t i = 0; i < SECTIONS_MAX; i++) {
        const struct section *entry = &recorder.header->sections[i];
        if (file->kept[i] == SECTION_OPERATIONS)
            operations_count_lost(&recorder.lane_states[entry->index], file->contents[i], entry->count);
    }
}

/* Every figure of the report lacks them: worth a line where the user looks. */
static void say_lost_calls(void) {
    struct text t;
    uint64_t lost = 0;
    for (uint32_t i = 0; i < LANE_STATES; i++)
        lost += recorder.lane_states[i].operations_lost;
    if (lost == 0)
        return;
    text_begin(&t, line, sizeof line);
    text_add_unsigned(&t, lost);
    text_add(&t, " calls are in no total, and other ranks may lack some, too: ");
    text_add(&t, recorder.header->losses.quota_refusals > 0
                     ? "COMMTAP_QUOTA or COMMTAP_NODE_QUOTA left no room for their tables"
                     : "their tables found no room, or were full");
    say(recorder.header, line);
}

/* A forked process is part of its parent's job. */
static bool leaves_nothing(void) {
    const struct dump_header *first = first_of_family ? first_of_family : recorder.header;
    return bounds_leave_nothing(recorder.header, &recorder.knobs, first->process_start_realtime_ns);
}

void activation_end(void) {
    struct text why;
    if (!*recorder_armed)
        return;
    int saved = errno;
    text_begin(&why, line, sizeof line);
    recorder.header->exited_ticks = ticks();
    anchors_take(&recorder.anchors);
    __atomic_fetch_or(&recorder.header->state, STATE_EXITED, __ATOMIC_RELEASE);
    if (leaves_nothing()) {
        delivery_withdraw(&recorder.file, output_directory_is_own(recorder.knobs.dir));
    } else if (!delivery_at_exit(&recorder.file, &why)) {
        count_kept();
        if (why.length > 0)
            say_of_host(recorder.header, line);
    } else {
        say_lost_calls();
    }
    errno = saved;
}
