/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of recorder.h: activation, threads that come and go, the end.
 */
#include "shim/record/recorder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shim/record/aggregates.h"
#include "shim/record/delivery.h"
#include "shim/base/fork_page.h"
#include "shim/record/identity.h"
#include "shim/base/linker.h"
#include "shim/nccl/nccl_groups.h"
#include "shim/record/call_cache.h"
#include "shim/stacks/nvtx.h"
#include "shim/stacks/python.h"
#include "shim/stacks/stacks.h"

#define ANCHORS         512u
#define PENDING_ENTRIES 4096u
#define PROGRESS_ROWS   256u
#define RING_MIN        16u
#define RING_MAX        (16u << 20)
#define RING_SMALL      1024u
#define FIXED_SECTIONS  (35u * SECTION_ALIGN) /* all that the first thread needs but ring and windows */

struct recorder recorder;
__thread struct thread *this_thread;

static const volatile uint32_t never_armed;
const volatile uint32_t *recorder_armed = &never_armed;
static os_pthread_key thread_key;
static bool have_thread_key;

/* ---- threads --------------------------------------------------------------------------------- */

static bool lane_open(struct lane *lane, uint32_t index) {
    struct dumpfile *file = &recorder.file;
    uint32_t records = recorder.header->ring_records;
    lane->index = index;
    lane->shared = index == LANES_EXCLUSIVE;
    lane->clock = &recorder.anchors;
    lane->state = &recorder.lane_states[index];
    lane->state->shared = lane->shared;
    lane->window = (struct window_writer){.lane = index, .state = lane->state};
    lane->ring = dumpfile_section(file, SECTION_RING, index, records, sizeof *lane->ring);
    lane->mask = records - 1;
    if (!lane->ring || !aggregates_begin(lane, file))
        return false;
    __atomic_store_n(&lane->ready, 1, __ATOMIC_RELEASE);
    return true;
}

/* An exclusive lane that nobody writes to, the first such; a lane whose sections could not be made stays taken. */
static struct lane *take_exclusive_lane(uint32_t tid) {
    for (uint32_t i = 0; i < LANES_EXCLUSIVE; i++) {
        uint32_t nobody = 0;
        if (!__atomic_compare_exchange_n(&recorder.lane_states[i].owner_tid, &nobody, tid, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        if (recorder.lanes[i].ready || lane_open(&recorder.lanes[i], i))
            return &recorder.lanes[i];
    }
    return NULL;
}

void recorder_expect_threads(void) {
    uint32_t nobody = 0;
    if (__atomic_compare_exchange_n(&recorder.lane_states[LANES_EXCLUSIVE].owner_tid, &nobody, (uint32_t)os_thread_id(),
                                    false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        lane_open(&recorder.lanes[LANES_EXCLUSIVE], LANES_EXCLUSIVE);
}

struct lane *recorder_open_device_lane(const struct anchors *clock) {
    struct lane *lane = &recorder.lanes[LANE_DEVICE];
    recorder.lane_states[LANE_DEVICE].device = 1;
    recorder.lane_states[LANE_DEVICE].owner_tid = (uint32_t)os_thread_id();
    if (!lane_open(lane, LANE_DEVICE))
        return NULL;
    lane->clock = clock;
    return lane;
}

static struct lane *shared_lane(void) {
    struct lane *lane = &recorder.lanes[LANES_EXCLUSIVE];
    recorder_expect_threads();
    return __atomic_load_n(&lane->ready, __ATOMIC_ACQUIRE) ? lane : NULL;
}

static struct thread *take_thread(uint32_t tid) {
    for (uint32_t i = 0; i < THREAD_SLOTS; i++) {
        uint32_t nobody = 0;
        if (__atomic_compare_exchange_n(&recorder.slots[i].tid, &nobody, tid, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            struct thread *thread = &recorder.threads[i];
            thread->slot = &recorder.slots[i];
            thread->pooled = true;
            return thread;
        }
    }
    count_loss(&recorder.header->losses.threads_without_slot);
    struct thread *thread = os_memory(sizeof *thread);
    if (thread)
        thread->slot = &thread->spare_slot;
    return thread;
}

static void release_thread(struct thread *thread) {
    struct in_flight *slot = thread->slot;
    if (thread->lane && !thread->lane->shared)
        __atomic_store_n(&thread->lane->state->owner_tid, 0, __ATOMIC_RELEASE);
    thread->lane = NULL;
    thread->generation = 0;
    if (thread->group)
        os_unmap(thread->group, sizeof *thread->group);
    thread->group = NULL;
    if (thread->pooled) {
        slot->call = 0;
        slot->last_leave = 0;
        __atomic_store_n(&slot->tid, 0, __ATOMIC_RELEASE);
        return;
    }
    if (thread->scratch)
        os_unmap(thread->scratch, thread->scratch_bytes);
    stacks_release(thread);
    shapes_release(thread);
    os_unmap(thread, sizeof *thread);
}

/* Runs in the ending thread. Destructors of other keys may still communicate: they attach anew. */
static void thread_ends(void *thread) {
    this_thread = NULL;
    if (*recorder_armed && ((struct thread *)thread)->generation == *recorder_armed)
        release_thread(thread);
}

static void record_thread(struct thread *self) {
    uint64_t ticket, now = ticks();
    struct record *r = ring_begin(self->lane, &ticket);
    if (!r)
        return;
    r->t0 = r->t1 = now;
    r->bytes = 0;
    r->seq = SEQ_NONE;
    r->op = self->tid;
    r->comm = COMM_NONE;
    r->peer = PEER_NONE;
    r->tag = TAG_NONE;
    r->stack = STACK_NONE;
    r->call = 0;
    r->flags = 0;
    r->kind = RECORD_THREAD;
    r->dtype = r->redop = r->result = 0;
    ring_end(self->lane, r, ticket);
}

struct thread *recorder_attach(void) {
    int saved = errno;
    uint32_t tid = (uint32_t)os_thread_id();
    struct thread *self = take_thread(tid);
    this_thread = NULL;
    if (self) {
        self->tid = tid;
        self->outer = 0;
        self->wait_ticks = 0;
        self->lane = take_exclusive_lane(tid);
        if (!self->lane)
            self->lane = shared_lane();
    }
    if (self && self->lane) {
        self->slot->lane = self->lane->index;
        __atomic_fetch_add(&self->lane->state->threads, 1, __ATOMIC_RELAXED);
        self->generation = *recorder_armed;
        stacks_attach(self);
        shapes_attach(self);
        this_thread = self;
        if (have_thread_key)
            os_pthread_setspecific(thread_key, self);
        record_thread(self);
    } else if (self) {
        release_thread(self);
        self = NULL;
    }
    errno = saved;
    return self;
}

void *thread_scratch_more(struct thread *self, size_t bytes) {
    size_t wanted = bytes < 65536 ? 65536 : bytes * 2;
    void *memory = os_memory(wanted);
    if (!memory)
        return NULL;
    if (self->scratch)
        os_unmap(self->scratch, self->scratch_bytes);
    self->scratch = memory;
    self->scratch_bytes = wanted;
    return memory;
}

void recorder_mark(int32_t level) {
    struct thread *self = recorder_thread();
    uint64_t ticket, now = ticks();
    struct record *record = self ? ring_begin(self->lane, &ticket) : NULL;
    if (!record)
        return;
    *record = (struct record){
        .t0 = now, .t1 = now, .seq = SEQ_NONE, .comm = COMM_NONE, .peer = PEER_NONE, .tag = level, .kind = RECORD_MARK};
    ring_end(self->lane, record, ticket);
}

struct record *ring_claim_shared(struct lane *lane, uint64_t *ticket) {
    uint64_t mine = __atomic_fetch_add(&lane->state->head, 1, __ATOMIC_RELAXED);
    struct record *record = &lane->ring[mine & lane->mask];
    uint64_t commit = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE);
    bool free = mine <= lane->mask ? commit == 0 : commit == mine - lane->mask;
    if (free && commit && record->t0 >= lane->keep_from &&
        !__atomic_exchange_n(&lane->window.busy, 1, __ATOMIC_ACQUIRE)) {
        windows_keep(&recorder.windows, &lane->window, lane->clock, record, &lane->keep_from);
        __atomic_store_n(&lane->window.busy, 0, __ATOMIC_RELEASE);
    }
    /* The slot's last writer may be slower than a whole round: its record stays, this one is lost and shows as a gap.
     */
    if (!free || (commit &&
                  !__atomic_compare_exchange_n(&record->commit, &commit, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
        return NULL;
    *ticket = mine;
    return record;
}

/* ---- activation ------------------------------------------------------------------------------ */

static uint32_t ring_records(void) {
    uint64_t wanted = recorder.knobs.ring, records = RING_MIN;
    recorder.marks_steps = recorder.knobs.step[0] != '\0';
    while (records < wanted && records < RING_MAX)
        records *= 2;
    return (uint32_t)records;
}

static uint32_t window_blocks(uint32_t records) {
    uint32_t blocks = records / 32; /* twice the ring */
    return blocks < 4 ? 4 : blocks;
}

static uint64_t bytes_wanted(uint32_t records) {
    return section_bytes(records, sizeof(struct record)) +
           section_bytes(window_blocks(records), sizeof(struct window_block)) + FIXED_SECTIONS;
}

static bool list_calls(void) {
    struct call_name *names =
        dumpfile_section(&recorder.file, SECTION_CALLS, 0, commtap_call_count, sizeof(struct call_name));
    for (unsigned i = 0; names && i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        names[i].id = call->id;
        names[i].api = call->api;
        names[i].call_class = (uint8_t)commtap_call_class(call);
        names[i].busbw = call->busbw;
        names[i].flow = call->flow;
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
    copy_text(h->writer, sizeof h->writer, COMMTAP_VERSION);
}

static bool open_sections(void) {
    struct dumpfile *file = &recorder.file;
    uint32_t blocks = window_blocks(recorder.header->ring_records);
    struct clock_anchor *anchors = dumpfile_section(file, SECTION_ANCHORS, 0, ANCHORS, sizeof *anchors);
    recorder.lane_states = dumpfile_section(file, SECTION_LANES, 0, LANE_STATES, sizeof *recorder.lane_states);
    recorder.slots = dumpfile_section(file, SECTION_IN_FLIGHT, 0, THREAD_SLOTS, sizeof *recorder.slots);
    recorder.threads = os_memory(THREAD_SLOTS * sizeof *recorder.threads);
    recorder.pending = dumpfile_section(file, SECTION_PENDING, 0, PENDING_ENTRIES, sizeof *recorder.pending);
    recorder.pending_count = PENDING_ENTRIES;
    recorder.progress = dumpfile_section(file, SECTION_PROGRESS, 0, PROGRESS_ROWS, sizeof *recorder.progress);
    recorder.progress_count = PROGRESS_ROWS;
    if (!anchors || !recorder.lane_states || !recorder.slots || !recorder.threads || !recorder.pending ||
        !recorder.progress || !list_calls())
        return false;
    anchors_begin(&recorder.anchors, anchors, ANCHORS);
    recorder.header->tick_hz_hint = recorder.anchors.tick_hz;
    definitions_begin(&recorder.definitions, file, &recorder.header->losses);
    recorder.windows.blocks = dumpfile_section(file, SECTION_WINDOWS, 0, blocks, sizeof(struct window_block));
    recorder.windows.count = recorder.windows.blocks ? blocks : 0;
    return recorder.definitions.area_count > 0;
}

static void choose_directory(char *to, size_t size, const char *run_id) {
    struct text t;
    text_begin(&t, to, size);
    text_add(&t, recorder.knobs.dir);
    if (!*recorder.knobs.dir) {
        text_add(&t, "commtap-");
        text_add(&t, run_id);
    }
}

/* For messages at the beginning and at the end, one at a time: threads may have small stacks. */
static char line[MESSAGE_BYTES];

/* Messages come from one process of the job: rank 0 as far as the launcher says, or a process of no launcher. */
static void say(const struct dump_header *identity, const char *text) {
    if (identity->rank <= 0)
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

static bool open_dump(void) {
    static struct dump_header identity; /* before there is a file to hold it */
    char directory[1100];
    const char *note, *trouble;
    uint32_t records = ring_records();
    memset(&identity, 0, sizeof identity);
    identity_fill(&identity, recorder.knobs.run_id);
    if (identity.rank <= 0)
        knobs_complain();
    choose_directory(directory, sizeof directory, identity.run_id);
    trouble = dumpfile_create(&recorder.file, directory, identity.run_id, bytes_wanted(records), &note);
    if (!trouble && recorder.file.place == PLACE_MEMORY && records > RING_SMALL) { /* a short ring may still fit */
        dumpfile_discard(&recorder.file);
        records = RING_SMALL;
        trouble = dumpfile_create(&recorder.file, directory, identity.run_id, bytes_wanted(records), &note);
    }
    if (trouble) {
        say_about(&identity, trouble, directory);
        return false;
    }
    if (note)
        say(&identity, note);
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
    return true;
}

static void choose_calls(void) {
    for (unsigned i = 0; i < commtap_call_count; i++)
        recorder.enabled[i] = knobs_match(recorder.knobs.ops, commtap_calls[i].name);
}

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
    if (!have_thread_key && os_pthread_key_create && os_pthread_setspecific)
        have_thread_key = os_pthread_key_create(&thread_key, thread_ends) == 0;
    struct fork_page *page = fork_page();
    recorder_armed = &page->armed;
    page->armed = recorder.generation;
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

/* What stands behind the native frames of a stack. Asked once there is a dump to define things in. */
static void add_stack_sources(void) {
    if (stacks_mode == STACK_PYTHON || stacks_mode == STACK_FULL)
        stacks_add_source(0, &python_source);
    if (stacks_mode == STACK_FULL)
        stacks_add_source(1, &label_source);
}

AT_START bool recorder_read_environment(void) {
    enum { NOT_READ = 1, NONE_GIVEN, GIVEN };
    static uint32_t environment = NOT_READ; /* not 0: then it lies in a page that is touched anyway */
    if (environment == NOT_READ) {
        environment = knobs_read(&recorder.knobs) ? GIVEN : NONE_GIVEN;
        if (environment == GIVEN && !knobs_enabled(&recorder.knobs))
            recorder.gave_up = true;
    }
    return environment == GIVEN;
}

bool recorder_activate(void) {
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
        choose_calls();
        if (open_dump()) {
            if (complaint)
                say(recorder.header, complaint);
            add_stack_sources();
            arm();
            armed = true;
        }
    }
    recorder.gave_up = !armed;
    fork_lock_release(FORK_LOCK_ACTIVATION);
    errno = saved;
    return armed;
}

void recorder_switch_off(const char *why) {
    if (!*recorder_armed)
        return;
    fork_page()->armed = 0;
    recorder.gave_up = true;
    copy_text(recorder.header->trouble, sizeof recorder.header->trouble, why);
    __atomic_fetch_or(&recorder.header->state, STATE_SWITCHED_OFF, __ATOMIC_RELEASE);
    if (recorder.header->rank <= 0)
        message(why);
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

void recorder_exit(void) {
    struct text why;
    if (!*recorder_armed)
        return;
    int saved = errno;
    text_begin(&why, line, sizeof line);
    recorder.header->exited_ticks = ticks();
    anchors_take(&recorder.anchors);
    __atomic_fetch_or(&recorder.header->state, STATE_EXITED, __ATOMIC_RELEASE);
    if (!delivery_at_exit(&recorder.file, &why)) {
        count_kept();
        if (why.length > 0)
            say(recorder.header, line);
    }
    errno = saved;
}
