/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/ring.h"

#define WHOLE_SLOTS (sizeof(struct ring_slots_whole) / sizeof(struct ring_slot))

void ring_begin_nothing(struct lane *lane) {
    lane->ring = NULL;
    lane->pages = (struct page_writer){.used = RING_PAGE_SLOTS};
}

void ring_begin_plain(struct lane *lane, struct record *records, uint32_t count) {
    lane->ring = records;
    lane->mask = count - 1;
    lane->pages = (struct page_writer){.used = RING_PAGE_SLOTS};
}

bool ring_begin_pages(struct lane *lane, struct ring_page *pages, uint32_t count) {
    struct page_writer *p = &lane->pages;
    *p = (struct page_writer){.pages = pages, .count = count, .page = pages, .used = RING_PAGE_SLOTS};
    p->templates = templates_new(&recorder.definitions, lane->index);
    return p->templates != NULL;
}

/* ---- plain records ----------------------------------------------------------------------------- */

/* Of a ring that is hardly used a page, of a busy one few calls of the kernel. */
static uint64_t next_slots(const struct lane *lane, uint64_t slots, uint64_t needed) {
    const uint64_t page = 4096 / sizeof *lane->ring, most = SECTION_ALIGN / sizeof *lane->ring;
    uint64_t step = slots < page ? page : slots < most ? slots : most;
    uint64_t next = slots + step > needed ? slots + step : needed + 1;
    return next <= lane->mask ? next : lane->mask + 1;
}

bool ring_make_room(struct lane *lane, uint64_t ticket) {
    uint64_t slot = ticket & lane->mask, slots = __atomic_load_n(&lane->slots, __ATOMIC_ACQUIRE);
    if (slot < slots)
        return true;
    uint64_t next = next_slots(lane, slots, slot);
    if (!dumpfile_make_room(&recorder.file, &lane->ring[slots], (next - slots) * sizeof *lane->ring))
        return false;
    while (slots < next &&
           !__atomic_compare_exchange_n(&lane->slots, &slots, next, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    __atomic_store_n(&lane->room, next > lane->mask ? UINT64_MAX : next, __ATOMIC_RELAXED);
    return true;
}

struct record *ring_claim_shared(struct lane *lane, uint64_t *ticket) {
    uint64_t mine = __atomic_fetch_add(&lane->state->head, 1, __ATOMIC_RELAXED);
    if (mine >= __atomic_load_n(&lane->room, __ATOMIC_RELAXED) && !ring_make_room(lane, mine))
        return NULL;
    struct record *record = &lane->ring[mine & lane->mask];
    uint64_t commit = __atomic_load_n(&record->commit, __ATOMIC_ACQUIRE);
    bool free = mine <= lane->mask ? commit == 0 : commit == mine - lane->mask;
    if (free && commit && record->t0 >= __atomic_load_n(&lane->keep_from, __ATOMIC_RELAXED) &&
        !__atomic_exchange_n(&lane->trace_window.busy, 1, __ATOMIC_ACQUIRE)) {
        trace_windows_keep(&recorder.trace_windows, &lane->trace_window, lane->clock, record, &lane->keep_from);
        __atomic_store_n(&lane->trace_window.busy, 0, __ATOMIC_RELEASE);
    }
    /* The slot's last writer may be slower than a whole round: its record stays, this one is lost and shows as a gap.
     */
    if (!free || (commit &&
                  !__atomic_compare_exchange_n(&record->commit, &commit, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
        return NULL;
    *ticket = mine;
    return record;
}

/* Returns its ticket, UINT64_MAX where it found no place. */
static uint64_t write_plain(struct lane *lane, const struct facts *facts, const struct record_moment *moment) {
    uint64_t ticket;
    struct record_template row;
    struct record *r = lane->ring ? ring_begin(lane, &ticket) : NULL; /* records may not be wanted */
    if (!r)
        return UINT64_MAX;
    memcpy(&row, facts, sizeof row);
    r->t0 = moment->t0;
    r->t1 = moment->t1;
    r->bytes = row.bytes;
    r->seq = moment->seq;
    r->op = moment->op;
    memcpy(&r->comm, &row.comm, sizeof *r - offsetof(struct record, comm));
    ring_end(lane, r, ticket);
    return ticket;
}
_Static_assert(sizeof(struct record) - offsetof(struct record, comm) ==
                   sizeof(struct record_template) - offsetof(struct record_template, comm),
               "a template's fields are a record's, in the same order");

/* ---- pages ----------------------------------------------------------------------------------- */

static uint64_t base_for(uint64_t t1) {
    return t1 > RING_BASE_MARGIN ? t1 - RING_BASE_MARGIN : 0;
}

/* About when its first record ended. */
static uint64_t page_begin(const struct ring_page *page) {
    return page->base_ticks + RING_BASE_MARGIN;
}

/* Offers a page that is about to be overwritten at `now` to the windows; the one behind it begins where it ends. */
static void keep_page(struct lane *lane, const struct ring_page *page, uint64_t now) {
    const struct page_writer *p = &lane->pages;
    const struct ring_page *after = &p->pages[p->next + 1 < p->roomy ? p->next + 1 : 0];
    bool alone = after == page;
    struct page_span span = {.begin = page_begin(page),
                             .end = alone ? now : page_begin(after),
                             .records = (alone ? lane->head : after->first_ticket) - page->first_ticket};
    if (span.end >= lane->keep_from)
        trace_windows_keep_page(&recorder.trace_windows, &lane->trace_window, lane->clock, page, &span,
                                &lane->keep_from);
}

/* The page to be taken next: one more, while there is room for it, then those that there are in turn. */
static struct ring_page *next_page(struct page_writer *p) {
    enum { STEP_MOST = 16 }; /* of a busy ring few calls of the kernel */
    if (p->next == p->roomy && p->roomy < p->count) {
        uint32_t step = p->roomy < 1 ? 1 : p->roomy < STEP_MOST ? p->roomy : STEP_MOST;
        if (step > p->count - p->roomy)
            step = p->count - p->roomy;
        if (dumpfile_make_room(&recorder.file, &p->pages[p->roomy], step * sizeof *p->pages))
            p->roomy += step;
    }
    if (p->next == p->roomy)
        p->next = 0;
    return p->roomy > 0 ? &p->pages[p->next] : NULL;
}

/* Begins the next page, with a record that ends at `t1`. False: there is no room for any. */
static bool take_page(struct lane *lane, uint64_t t1) {
    struct page_writer *p = &lane->pages;
    struct ring_page *page = next_page(p);
    if (!page)
        return false;
    if (page->number)
        keep_page(lane, page, t1);
    __atomic_store_n(&page->number, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    page->used = 0;
    page->lane = lane->index;
    page->first_ticket = lane->head;
    page->base_ticks = p->base = base_for(t1);
    page->base_op = p->base_op = recorder.next_op - (UINT16_MAX + 1u) / 2;
    p->page = page;
    p->used = 0;
    p->next++;
    ring_count(lane, lane->head);
    __atomic_store_n(&page->number, ++p->number, __ATOMIC_RELEASE);
    return true;
}

/* How a record is written at the writer's place. */
struct form {
    uint32_t template;
    bool whole; /* in all its words */
    bool timed; /* behind a base of its own */
    uint32_t slots;
};

static struct form choose_form(const struct page_writer *p, uint32_t template, const struct record_moment *moment) {
    uint64_t length = moment->t1 - moment->t0;
    uint32_t distance = moment->op - p->base_op;
    struct form form = {.template = template};
    form.whole = !template || moment->t1 < moment->t0 || (moment->op && distance - 1 >= UINT16_MAX);
    form.timed = !form.whole && ((moment->t1 - p->base) | length) >> 32; /* an earlier time is far beyond, too */
    form.slots = form.whole ? (uint32_t)WHOLE_SLOTS : 1u + form.timed + ((template & SLOT_EXPLICIT) != 0);
    return form;
}

static void write_whole(struct ring_slots_whole *slots, const struct facts *facts, const struct record_moment *moment) {
    *slots = (struct ring_slots_whole){
        .t0 = moment->t0, .op = moment->op, .form = SLOT_WHOLE, .t1 = moment->t1, .seq = moment->seq};
    memcpy(&slots->facts, facts, sizeof slots->facts);
}

/* Writes the slots of a form other than the whole one. */
static void write_slots(struct page_writer *p, const struct form *form, const struct facts *facts,
                        const struct record_moment *moment) {
    struct ring_slot *slot = &p->page->slots[p->used];
    uint64_t length = moment->t1 - moment->t0;
    struct record_template row;
    memcpy(&row, facts, sizeof row);
    if (form->timed) {
        p->base = base_for(moment->t1);
        *(struct ring_slot_time *)slot++ =
            (struct ring_slot_time){.base_ticks = p->base, .length_high = (uint32_t)(length >> 32), .form = SLOT_TIME};
    }
    *slot++ = (struct ring_slot){.since = (uint32_t)(moment->t1 - p->base),
                                 .length = (uint32_t)length,
                                 .seq = moment->seq,
                                 .op = (uint16_t)(moment->op ? moment->op - p->base_op : 0),
                                 .template_number = (uint16_t)form->template};
    if (form->template & SLOT_EXPLICIT)
        *(struct ring_slot_explicit *)slot = (struct ring_slot_explicit){row.bytes, row.peer, row.tag};
}

/* Writes a record into a page, `template` 0 in all its words. Returns its first slot, NULL where it is lost. */
static struct ring_slot *write_compact(struct lane *lane, uint32_t template, const struct facts *facts,
                                       const struct record_moment *moment) {
    struct page_writer *p = &lane->pages;
    struct form form = choose_form(p, template, moment);
    if (p->used + form.slots > RING_PAGE_SLOTS) {
        if (!take_page(lane, moment->t1)) {
            ring_count(lane, lane->head + 1);
            return NULL;
        }
        form = choose_form(p, template, moment);
    }
    struct ring_slot *slot = &p->page->slots[p->used];
    if (form.whole)
        write_whole((struct ring_slots_whole *)slot, facts, moment);
    else
        write_slots(p, &form, facts, moment);
    p->used += form.slots;
    __atomic_store_n(&p->page->used, p->used, __ATOMIC_RELEASE);
    lane->head++;
    return slot;
}

/* ---- any lane -------------------------------------------------------------------------------- */

/* For COMMTAP_BUDGET's sake; not where threads share a ring: a slot that one left out would look as if it were still
 * writing. */
static bool is_shed(const struct lane *lane) {
    return unlikely(recorder.records_shed) && !lane->shared;
}

/* Of those in a row one has a ticket, which is missing as if it had been overwritten. Tickets of a page count on
 * without a gap: the next record begins another one. */
static void leave_out(struct lane *lane) {
    if (ring_leaves_out(lane, 1))
        return;
    lane->state->records_shed++;
    lane->state->stretches_shed++;
    lane->pages.used = RING_PAGE_SLOTS;
    ring_count(lane, lane->head + 1);
    lane->shed_to = lane->head + 1;
}

static uint32_t write_any(struct lane *lane, const struct facts *facts, const struct record_moment *moment) {
    if (!lane->pages.page) {
        write_plain(lane, facts, moment);
        return 0;
    }
    uint32_t template = template_find(lane->pages.templates, facts);
    write_compact(lane, template, facts, moment);
    return template & SLOT_EXPLICIT ? 0 : template;
}

uint32_t ring_write_rare(struct lane *lane, const struct facts *facts, const struct record_moment *moment,
                         bool remembered) {
    if (!is_shed(lane))
        return write_any(lane, facts, moment);
    leave_out(lane);
    if (!remembered || !lane->pages.page)
        return 0;
    uint32_t template = template_find(lane->pages.templates, facts);
    return template & SLOT_EXPLICIT ? 0 : template;
}

/* Where a record that alone has its template stands; NULL: it has another form, and cannot grow. */
static struct ring_slot *write_growing(struct lane *lane, const struct facts *facts,
                                       const struct record_moment *moment) {
    uint32_t template = lane->pages.page ? template_find(lane->pages.templates, facts) : 0;
    if (!template)
        return NULL;
    struct ring_slot *slot = write_compact(lane, template, facts, moment);
    return slot && slot->template_number == SLOT_TIME ? slot + 1 : slot;
}

static void begin_series(struct lane *lane, struct poll_series *series, const struct facts *facts, uint64_t t0,
                         uint64_t t1) {
    struct ring_slot *slot = write_growing(lane, facts, &(struct record_moment){.t0 = t0, .t1 = t1});
    series->slot = slot ? slot : &series->nowhere;
    series->base = slot ? lane->pages.base : t0;
    series->next = lane->head + 1;
    series->t0 = t0;
    series->left = t1;
    series->worked = 0;
    series->ran_ns = 0;
}

/* What of a gap between two polls was work: who naps in it waits. The clock of the thread is asked in gaps alone, so
 * that nothing is known of the first. */
static uint32_t work_in_gap(struct poll_series *series, uint64_t gap) {
    uint64_t before = series->ran_ns, ran = os_thread_ran_ns() - before;
    series->ran_ns += ran;
    if (before == 0 || gap > recorder.poll_nap || ran > POLL_NAP_NS)
        return (uint32_t)gap;
    uint64_t worked = ran * recorder.poll_nap / POLL_NAP_NS;
    return (uint32_t)(worked < gap ? worked : gap);
}

/* A clock that goes back between two polls, on another processor, has no gap to tell of. */
void ring_add_poll_rare(struct lane *lane, struct poll_series *series, const struct facts *facts, uint64_t t0,
                        uint64_t t1) {
    uint64_t gap = t0 > series->left ? t0 - series->left : 0;
    if (is_shed(lane)) /* most make no record, and none is missed */
        return;
    if (series->next != lane->head + 1 || ((t1 - series->base) | (t1 - series->t0)) >> 32) {
        begin_series(lane, series, facts, t0, t1);
        return;
    }
    if (gap > recorder.poll_gap)
        series->worked += work_in_gap(series, gap);
    series->slot->seq = series->worked;
    series->slot->since = (uint32_t)(t1 - series->base);
    series->slot->length = (uint32_t)(t1 - series->t0);
    series->left = t1;
}

struct record_place ring_write_amendable(struct lane *lane, const struct facts *facts,
                                         const struct record_moment *moment) {
    if (is_shed(lane)) {
        leave_out(lane);
        return (struct record_place){.ticket = UINT64_MAX};
    }
    if (!lane->pages.page)
        return (struct record_place){.ticket = write_plain(lane, facts, moment)};
    struct ring_slot *slot = write_compact(lane, 0, facts, moment);
    return (struct record_place){.ticket = slot ? lane->head - 1 : UINT64_MAX,
                                 .page = lane->pages.page,
                                 .number = lane->pages.number,
                                 .slots = (struct ring_slots_whole *)slot};
}

/* A reader sees it uncommitted meanwhile. */
static void amend_plain(struct record *r, uint64_t ticket, const int32_t *tag, uint16_t flags) {
    uint64_t commit = ticket + 1;
    if (!__atomic_compare_exchange_n(&r->commit, &commit, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    if (tag)
        r->tag = *tag;
    r->flags |= flags;
    __atomic_store_n(&r->commit, ticket + 1, __ATOMIC_RELEASE);
}

void ring_amend(struct lane *lane, const struct record_place *place, const int32_t *tag, uint16_t flags) {
    if (place->ticket == UINT64_MAX)
        return;
    if (!place->page) {
        amend_plain(&lane->ring[place->ticket & lane->mask], place->ticket, tag, flags);
        return;
    }
    if (place->page->number != place->number)
        return;
    struct record_template *facts = &place->slots->facts;
    if (tag)
        __atomic_store_n(&facts->tag, *tag, __ATOMIC_RELAXED);
    __atomic_store_n(&facts->flags, (uint16_t)(facts->flags | flags), __ATOMIC_RELAXED);
}

void ring_add(struct lane *lane, const struct record *content) {
    struct facts facts;
    struct record_template row;
    memcpy(&row.comm, &content->comm, sizeof row - offsetof(struct record_template, comm));
    row.bytes = content->bytes;
    memcpy(&facts, &row, sizeof facts);
    write_any(lane, &facts, &(struct record_moment){content->t0, content->t1, content->seq, content->op});
    if (is_shed(lane)) /* behind it no other one finds a place by itself */
        lane->pages.used = RING_PAGE_SLOTS;
}

void record_mark(struct thread *self, int32_t level) {
    uint64_t now = ticks();
    if (__atomic_load_n(&recorder.paused, __ATOMIC_RELAXED) & QUIET_OUTSIDE)
        return;
    ring_add(self->lane, &(struct record){.t0 = now,
                                          .t1 = now,
                                          .seq = SEQ_NONE,
                                          .comm = COMM_NONE,
                                          .peer = PEER_NONE,
                                          .tag = level,
                                          .kind = RECORD_MARK});
}
