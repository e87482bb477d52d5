/* SPDX-License-Identifier: Apache-2.0
 *
 * What fills a step: step trace and overlap figures (steps.h).
 * Lives here: the last gradient synchronisation, unions of communication and what they leave of a step.
 * Must not live here: where steps begin (steps_build.c), reading records (steps_records.c).
 */
#include "analyzer/steps/steps_build.h"

#include <stdlib.h>

/* The reduction that moves most bytes in all. */
uint64_t step_walk_gradient(const struct step_walk *w) {
    uint64_t best = 0, best_bytes = 0;
    enum { TRACKED = 64 };
    struct {
        uint64_t symbol, bytes;
    } sums[TRACKED];
    size_t count = 0;
    for (size_t i = 0; i < w->operation_count; i++) {
        const struct step_operation *o = &w->operations[i];
        size_t k = 0;
        if (!o->reduction || !o->counted)
            continue;
        while (k < count && sums[k].symbol != o->symbol)
            k++;
        if (k == TRACKED)
            continue;
        if (k == count) {
            sums[k].symbol = o->symbol;
            sums[k].bytes = 0;
            count++;
        }
        sums[k].bytes += o->bytes;
        if (sums[k].bytes > best_bytes) {
            best_bytes = sums[k].bytes;
            best = o->symbol;
        }
    }
    return best;
}

/* What the time of a step is compared with. */
enum cover_kind {
    COVER_COMMUNICATION,
    COVER_NOT_RECEIVING, /* of that, all but receives */
    COVER_EXPOSED,
    COVER_EXPOSED_COLLECTIVE,    /* of that, all but receives */
    COVER_EXPOSED_RECEIVE_OTHER, /* what streams waited for receives, and all other communication */
    COVER_BUSY,                  /* communication, and work that has a name */
    COVER_WORK,                  /* that work */
    COVER_WORK_NOT_RECEIVING,    /* it, and all communication but receives */
    COVER_ANYTHING,              /* those, and copies */
    COVERS,
};

/* The union of some parts, as disjoint stretches in their order. */
struct cover {
    struct covered_span {
        int64_t from, to;
    } * items;
    size_t count, at; /* stretches before `at` end before any step that is still asked for */
    unsigned kinds;   /* of the parts: a bit for each that is there */
    unsigned like;    /* the first cover of the same, which then has the items of both */
};

static bool is_covered(enum cover_kind cover, enum part_kind part) {
    bool exposed = part == PART_EXPOSED || part == PART_EXPOSED_RECEIVE;
    bool communication = !exposed && part != PART_WORK && part != PART_COPY;
    switch (cover) {
    case COVER_COMMUNICATION:
        return communication;
    case COVER_NOT_RECEIVING:
        return communication && part != PART_RECEIVE;
    case COVER_EXPOSED:
        return exposed;
    case COVER_EXPOSED_COLLECTIVE:
        return part == PART_EXPOSED;
    case COVER_EXPOSED_RECEIVE_OTHER:
        return part == PART_EXPOSED_RECEIVE || (communication && part != PART_RECEIVE);
    case COVER_WORK:
        return part == PART_WORK;
    case COVER_WORK_NOT_RECEIVING:
        return part == PART_WORK || (communication && part != PART_RECEIVE);
    case COVER_BUSY:
        return communication || part == PART_WORK;
    default:
        return !exposed;
    }
}

/* Of those kinds. */
static bool make_cover(struct cover *cover, const struct step_walk *w, unsigned kinds) {
    *cover = (struct cover){
        .items = malloc((w->part_count + 1) * sizeof *cover->items), .kinds = kinds, .like = cover->like};
    for (size_t i = 0; cover->items && i < w->part_count; i++) {
        const struct step_part *part = &w->parts[i];
        struct covered_span *last = cover->count > 0 ? &cover->items[cover->count - 1] : NULL;
        if ((kinds >> part->kind & 1) == 0)
            continue;
        if (!last || part->from > last->to)
            cover->items[cover->count++] = (struct covered_span){part->from, part->to};
        else if (part->to > last->to)
            last->to = part->to;
    }
    return cover->items != NULL;
}

/* On most ranks there are few kinds of parts, and few different covers. */
static bool make_covers(struct cover covers[COVERS], const struct step_walk *w) {
    unsigned there = 0;
    bool done = true;
    for (size_t i = 0; i < w->part_count; i++)
        there |= 1u << w->parts[i].kind;
    for (unsigned c = 0; done && c < COVERS; c++) {
        struct cover *cover = &covers[c];
        for (unsigned kind = 0; kind < PARTS; kind++)
            if (there >> kind & 1 && is_covered((enum cover_kind)c, (enum part_kind)kind))
                cover->kinds |= 1u << kind;
        while (covers[cover->like].kinds != cover->kinds)
            cover->like++;
        done = cover->like < c || make_cover(cover, w, cover->kinds);
    }
    return done;
}

/* How much of [from, to) is covered. Asked for one step after the other. */
static int64_t covered(struct cover *cover, int64_t from, int64_t to) {
    int64_t length = 0;
    while (cover->at < cover->count && cover->items[cover->at].to <= from)
        cover->at++;
    for (size_t i = cover->at; i < cover->count && cover->items[i].from < to; i++) {
        const struct covered_span *item = &cover->items[i];
        length += (item->to < to ? item->to : to) - (item->from > from ? item->from : from);
    }
    return length;
}

/* What is alone on a GPU is what streams waited for: unknown where no waits are on record, and where only some
 * functions count, by which waits are not told apart. What other communication covers was received by the way in any
 * case. */
static void fill_alone_on_device(const struct step_walk *w, struct step *step, const int64_t parts[COVERS]) {
    bool known = w->stream_waits && !w->counted;
    int64_t receiving = parts[COVER_COMMUNICATION] - parts[COVER_NOT_RECEIVING];
    step->communication_alone_ns = known ? parts[COVER_EXPOSED] : STEP_UNKNOWN;
    step->collective_alone_ns = known ? parts[COVER_EXPOSED_COLLECTIVE] : STEP_UNKNOWN;
    step->receive_alone_ns = known            ? parts[COVER_EXPOSED_RECEIVE_OTHER] - parts[COVER_NOT_RECEIVING]
                             : receiving == 0 ? 0
                                              : STEP_UNKNOWN;
}

/* Where work is on record, it hides the communication that it overlaps. */
static void fill_alone_beside_work(struct step *step, const int64_t parts[COVERS]) {
    step->communication_alone_ns = parts[COVER_BUSY] - parts[COVER_WORK];
    step->collective_alone_ns = parts[COVER_WORK_NOT_RECEIVING] - parts[COVER_WORK];
    step->receive_alone_ns = parts[COVER_BUSY] - parts[COVER_WORK_NOT_RECEIVING];
}

static void fill_alone(const struct step_walk *w, struct step *step, struct cover *covers) {
    int64_t parts[COVERS];
    for (size_t i = 0; i < COVERS; i++)
        parts[i] = covers[i].like < i ? parts[covers[i].like] : covered(&covers[i], step->start_ns, step->end_ns);
    step->comm_ns = parts[COVER_COMMUNICATION];
    step->communication_alone_ns = parts[COVER_COMMUNICATION];
    step->collective_alone_ns = parts[COVER_NOT_RECEIVING];
    step->receive_alone_ns = parts[COVER_COMMUNICATION] - parts[COVER_NOT_RECEIVING];
    if (w->own_work)
        fill_alone_beside_work(step, parts);
    else if (w->device)
        fill_alone_on_device(w, step, parts);
    bool idle_known = w->own_work && !w->counted;
    step->idle_ns = idle_known ? step->end_ns - step->start_ns - parts[COVER_ANYTHING] : STEP_UNKNOWN;
}

/* How much of the time from the step's start to an operation's beginning it spent in its stream. */
static int64_t queued_of(const struct step_operation *o, int64_t start_ns) {
    if (o->enqueued == STEP_UNKNOWN)
        return STEP_UNKNOWN;
    int64_t since = o->enqueued > start_ns ? o->enqueued : start_ns;
    return o->enter > since ? o->enter - since : 0;
}

static uint8_t begins_with(const struct step_operation *o) {
    return !o                   ? STEP_BEGINS_WITH_NOTHING
           : o->receive         ? STEP_BEGINS_WITH_RECEIVE
           : o->seq != SEQ_NONE ? STEP_BEGINS_WITH_COLLECTIVE
                                : STEP_BEGINS_WITH_SEND;
}

/* What divides a step: the first of its operations, the one after it, the last gradient synchronisation. */
struct step_acts {
    const struct step_operation *first, *second, *sync;
};

static struct step_acts find_acts(const struct step_walk *w, struct step *step, size_t *operation, uint64_t gradient) {
    struct step_acts acts = {0};
    while (*operation < w->operation_count && w->operations[*operation].enter < step->start_ns)
        ++*operation;
    for (; *operation < w->operation_count && w->operations[*operation].enter < step->end_ns; ++*operation) {
        const struct step_operation *o = &w->operations[*operation];
        if (!o->counted)
            continue;
        step->operations++;
        step->sends += o->seq == SEQ_NONE && !o->receive;
        if (acts.first && !acts.second)
            acts.second = o;
        if (!acts.first)
            acts.first = o;
        if (gradient && o->symbol == gradient)
            acts.sync = o;
    }
    return acts;
}

/* The step begins with its one gradient synchronisation, as where that was named as the anchor: what comes before the
 * next operation begins an iteration, and is no end of this one. */
static void divide_after_sync(struct step *step, const struct step_acts *acts) {
    int64_t left = acts->first->leave < step->end_ns ? acts->first->leave : step->end_ns;
    int64_t next = acts->second ? acts->second->enter : step->end_ns;
    next = next > left ? next : left;
    step->tail_ns = left - step->start_ns;
    step->first_ns = next - left;
    step->sync_ns = step->end_ns - next;
    step->begins = begins_with(acts->second);
    step->queued_ns = acts->second ? queued_of(acts->second, left) : STEP_UNKNOWN;
}

static void fill_step(const struct step_walk *w, struct step *step, struct cover *covers, size_t *operation,
                      uint64_t gradient) {
    fill_alone(w, step, covers);
    struct step_acts acts = find_acts(w, step, operation, gradient);
    if (acts.first && acts.sync == acts.first && acts.first->enter == step->start_ns) {
        divide_after_sync(step, &acts);
        return;
    }
    step->begins = begins_with(acts.first);
    step->first_ns = acts.first   ? acts.first->enter - step->start_ns
                     : w->counted ? STEP_UNKNOWN
                                  : step->end_ns - step->start_ns;
    step->queued_ns = acts.first ? queued_of(acts.first, step->start_ns) : STEP_UNKNOWN;
    step->sync_ns = acts.first && acts.sync ? acts.sync->enter - acts.first->enter : STEP_UNKNOWN;
    step->tail_ns = acts.sync ? step->end_ns - acts.sync->enter : STEP_UNKNOWN;
}

static bool is_on_record(const struct step_walk *w, int64_t from, int64_t to) {
    uint32_t stretch = covered_time_at(w->covered, from, to);
    return stretch != COVERED_NOWHERE && covered_time_holds(w->covered, stretch, from, to);
}

bool step_walk_make_steps(const struct step_walk *w, struct rank_steps *rank) {
    if (w->start_count < 2)
        return true;
    struct cover covers[COVERS] = {0};
    rank->steps = calloc(w->start_count - 1, sizeof *rank->steps);
    bool done = rank->steps && make_covers(covers, w);
    uint64_t gradient = step_walk_gradient(w);
    size_t operation = 0;
    for (size_t i = 0; done && i + 1 < w->start_count; i++) {
        if (w->starts[i + 1].at <= w->starts[i].at || !is_on_record(w, w->starts[i].at, w->starts[i + 1].at))
            continue;
        struct step *step = &rank->steps[rank->count++];
        *step = (struct step){.number = NO_STEP,
                              .start_ns = w->starts[i].at,
                              .end_ns = w->starts[i + 1].at,
                              .comm = w->starts[i].comm,
                              .seq = w->starts[i].seq,
                              .wait_ns = STEP_UNKNOWN};
        fill_step(w, step, covers, &operation, gradient);
    }
    for (size_t i = 0; i < COVERS; i++)
        free(covers[i].items);
    return done;
}
