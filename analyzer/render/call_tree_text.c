/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree as text, for people and for flame graphs.
 * Lives here: layout.
 * Must not live here: figures, JSON (call_tree_json.c).
 */
#include "analyzer/base/grow.h"
#include "analyzer/render/call_tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/load/code_names.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"
#include "analyzer/render/wrapped_text.h"
#include "analyzer/render/scope_text.h"

enum { LABEL = 512, WIDTH_MAX = 90, RANGES_SHOWN = 6 };

enum line_kind { LINE_NODE, LINE_PASS, LINE_OP, LINE_DETAIL };

/* Every line is worked out twice: once for its width, once to be printed. */
struct page {
    FILE *stream; /* NULL: only widths are noted */
    const struct call_tree_context *context;
    size_t width;
    bool color;
    bool enqueueing; /* times on GPUs are there: those of enqueueing stand beside them */
    bool in_flight;  /* so do those of operations in flight */
};

static void line(struct page *page, enum line_kind kind, size_t indent, const char *label, const struct call_sums *sums,
                 const char *remark) {
    static const char *const looks[] = {
        [LINE_NODE] = "\033[1m", [LINE_PASS] = "\033[36m", [LINE_OP] = "\033[1;33m", [LINE_DETAIL] = "\033[2m"};
    if (!page->stream) {
        size_t width = indent + escape_text(NULL, label);
        if (sums && width > page->width && width <= WIDTH_MAX)
            page->width = width;
        return;
    }
    char time[UNITS_TEXT], bytes[UNITS_TEXT], wait[UNITS_TEXT], enqueueing[UNITS_TEXT], in_flight[UNITS_TEXT],
        replays[UNITS_TEXT];
    fprintf(page->stream, "%*s%s", (int)indent, "", page->color ? looks[kind] : "");
    size_t used = indent + escape_text(page->stream, label);
    fputs(page->color ? "\033[0m" : "", page->stream);
    if (sums) {
        units_time(time, call_time_ns(sums));
        units_size(bytes, sums->bytes);
        units_time(wait, sums->wait_ns);
        fprintf(page->stream, "%*s  %9s  %10s", (int)(used < page->width ? page->width - used : 0), "", time, bytes);
        units_time(enqueueing, sums->enqueue_ns);
        if (page->enqueueing && sums->gpu_count > 0)
            fprintf(page->stream, "  %9s enqueueing", enqueueing);
        units_time(in_flight, sums->in_flight_ns);
        if (page->in_flight && sums->in_flight_ns > 0)
            fprintf(page->stream, "  %9s in flight", in_flight);
        units_time(replays, sums->replay_ns);
        if (sums->replay_count > 0)
            fprintf(page->stream, "  %9s in %" PRIu64 " replays", replays, sums->replay_count);
        if (page->context->waits)
            fprintf(page->stream, "  %9s waiting", wait);
    }
    if (remark)
        fprintf(page->stream, "  %s", remark);
    fputc('\n', page->stream);
}

/* ---- one node -------------------------------------------------------------------------------- */

static void add_text(char *text, size_t size, const char *more) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", more);
}

/* ": 0-3,7" after the number of ranks. */
static void say_entry_ranks(char *text, size_t size, const struct call_entry *entry) {
    char part[48];
    if (entry->comm_size == 0)
        return;
    snprintf(part, sizeof part, " (%" PRIu32 " ranks", entry->comm_size);
    add_text(text, size, part);
    unsigned shown = 0;
    for (uint32_t i = 0, end; entry->ranks && i < entry->rank_count; i = end, shown++) {
        for (end = i + 1; end < entry->rank_count && entry->ranks[end] == entry->ranks[end - 1] + 1; end++)
            ;
        if (shown == RANGES_SHOWN) {
            add_text(text, size, ",...");
            break;
        }
        if (end - i > 1)
            snprintf(part, sizeof part, "%s%" PRId32 "-%" PRId32, i ? "," : ": ", entry->ranks[i],
                     entry->ranks[end - 1]);
        else
            snprintf(part, sizeof part, "%s%" PRId32, i ? "," : ": ", entry->ranks[i]);
        add_text(text, size, part);
    }
    add_text(text, size, ")");
}

static void say_entry_communicator(char *text, size_t size, const struct call_entry *entry) {
    if (!entry->has_comm)
        snprintf(text, size, "no communicator");
    else if (entry->comm_name[0])
        snprintf(text, size, "%.64s", entry->comm_name);
    else
        snprintf(text, size, "communicator %016" PRIx64, entry->comm);
    if (entry->has_comm)
        say_entry_ranks(text, size, entry);
}

static void print_sizes(struct page *page, size_t indent, const struct call_entry *entry) {
    for (size_t i = 0; i < entry->size_count; i++) {
        const struct call_size *size = &entry->sizes[i];
        char text[LABEL], bytes[UNITS_TEXT] = "size unknown";
        if (size->bytes != BYTES_UNKNOWN)
            units_size(bytes, size->bytes);
        const char *type = size->dtype == DATATYPE_OTHER ? NULL : datatype_name(size->dtype);
        snprintf(text, sizeof text, "%" PRIu64 " x %s%s%s", size->count, bytes, type ? " of " : "", type ? type : "");
        line(page, LINE_DETAIL, indent, text, NULL, NULL);
    }
}

static void print_records(struct page *page, size_t indent, const struct call_node *node, size_t entry) {
    for (size_t i = 0; i < node->record_count; i++) {
        const struct call_record *record = &node->records[i];
        if (record->entry != entry)
            continue;
        char text[LABEL], when[32], length[UNITS_TEXT], bytes[UNITS_TEXT] = "size unknown", number[24] = "";
        time_t seconds = (time_t)(record->realtime_ns / 1000000000);
        struct tm parts;
        gmtime_r(&seconds, &parts);
        strftime(when, sizeof when, "%H:%M:%S", &parts);
        units_time(length, record->ns);
        if (record->bytes != BYTES_UNKNOWN)
            units_size(bytes, record->bytes);
        if (record->seq != SEQ_NONE)
            snprintf(number, sizeof number, " #%" PRIu32, record->seq);
        snprintf(text, sizeof text, "%s.%06d rank %" PRId32 "%s %s: %s, %s", when,
                 (int)(record->realtime_ns % 1000000000 / 1000), record->rank, number,
                 record->kind == RECORD_POST   ? "posted"
                 : record->kind == RECORD_DONE ? "done"
                                               : "called",
                 length, bytes);
        line(page, LINE_DETAIL, indent, text, NULL, NULL);
    }
}

/* ": 12"; ": 12 launches" of what several calls are together: the calls are counted under their own names. */
static void add_times(char *text, size_t size, const struct call_sums *sums) {
    char times[48];
    bool launches = sums->count == 0 && call_times(sums) > 0;
    snprintf(times, sizeof times, ": %" PRIu64 "%s", call_times(sums),
             !launches               ? ""
             : call_times(sums) == 1 ? " launch"
                                     : " launches");
    add_text(text, size, times);
}

/* What the node itself did in a pass: communicators, sizes, records. */
static void print_details(struct page *page, size_t indent, const struct call_node *node, const struct call_op *op) {
    for (size_t i = 0; i < node->entry_count; i++) {
        const struct call_entry *entry = &node->entries[i];
        char text[LABEL];
        if (entry->pass != op->pass || strcmp(entry->op, op->op) != 0)
            continue;
        say_entry_communicator(text, sizeof text, entry);
        add_times(text, sizeof text, &entry->sums);
        line(page, LINE_DETAIL, indent, text, NULL, entry->inferred ? "paired with the forward pass: inferred" : NULL);
        print_sizes(page, indent + 2, entry);
        if (page->context->noise >= 3)
            print_records(page, indent + 2, node, i);
    }
}

/* " (16 float32, 8 bfloat16)": as far as records tell, and the function has types at all. */
static void say_types(char *text, size_t size, const struct call_op *op) {
    bool said = false;
    for (size_t i = 0; i < op->type_count; i++) {
        char part[64];
        if (op->types[i].dtype == DATATYPE_OTHER || !datatype_name(op->types[i].dtype))
            continue;
        snprintf(part, sizeof part, "%s%" PRIu64 " %s", said ? ", " : " (", op->types[i].count,
                 datatype_name(op->types[i].dtype));
        add_text(text, size, part);
        said = true;
    }
    if (said)
        add_text(text, size, ")");
}

static void print_pass(struct page *page, size_t indent, const struct call_node *node, enum pass pass) {
    static const char *const headings[PASSES] = {NULL, "FORWARD PASS", "BACKWARD PASS", "ACTIVATION CHECKPOINTING"};
    bool said = false;
    for (size_t i = 0; i < node->op_count; i++) {
        const struct call_op *op = &node->ops[i];
        char text[LABEL];
        if (op->pass != pass)
            continue;
        if (!said && headings[pass])
            line(page, LINE_PASS, indent + 2, headings[pass], NULL, NULL);
        said = true;
        snprintf(text, sizeof text, "*%s", op->op);
        add_times(text, sizeof text, &op->sums);
        say_types(text, sizeof text, op);
        line(page, LINE_OP, indent + 4, text, &op->sums, op->inferred ? "inferred" : NULL);
        if (page->context->noise >= 1)
            print_details(page, indent + 6, node, op);
    }
}

/* The frames below `node` from `first` on, in one line. */
static void print_rest(struct page *page, const struct call_node *node, size_t first, size_t depth) {
    char label[LABEL];
    struct call_sums sums = {0};
    for (size_t i = first; i < node->child_count; i++)
        call_sums_add(&sums, &node->children[i]->sums);
    snprintf(label, sizeof label, "... and %zu more: %" PRIu64 " calls", node->child_count - first, sums.count);
    line(page, LINE_OP, 4 * depth, label, &sums, NULL);
}

static void print_node(struct page *page, const struct call_node *node, size_t depth) {
    char label[LABEL];
    frame_label(&node->frame, label, sizeof label);
    line(page, LINE_NODE, 4 * depth, label, &node->sums, node->frame.kind == FRAME_NVTX ? "NVTX range" : NULL);
    for (int pass = PASS_NONE; pass < PASSES; pass++)
        print_pass(page, 4 * depth, node, (enum pass)pass);
    size_t shown =
        page->context->top > 0 && page->context->top < node->child_count ? page->context->top : node->child_count;
    for (size_t i = 0; i < shown; i++)
        print_node(page, node->children[i], depth + 1);
    if (shown < node->child_count)
        print_rest(page, node, shown, depth + 1);
}

/* What the times of NCCL's calls are: they return before anything has moved. */
static void print_clock_note(FILE *stream, const struct call_tree *tree) {
    const struct call_sums *sums = &tree->root->sums;
    char text[LABEL];
    snprintf(text, sizeof text,
             "operations of NCCL: their time on the GPU (%" PRIu64 " launches%s), and the host's for enqueueing them",
             sums->gpu_count, tree->gpu_partial ? "; the records of others are gone" : "");
    if (sums->gpu_count > 0)
        print_wrapped(stream, text, 0, 0);
    else if (tree->enqueued)
        print_wrapped(
            stream,
            "times of NCCL's calls are the host's, for enqueueing: how long they ran on the GPU is not on record", 0,
            0);
}

static const char legend[] =
    "*: functions called there or below, and how often; times and bytes are sums over all ranks; a receive "
    "without a status counts with the size of its buffer";

static void print_notes(const struct page *page, const struct call_tree *tree) {
    FILE *stream = page->stream;
    fputc('\n', stream);
    if (tree->root->sums.count == 0)
        fprintf(stream, "no operation %s\n", page->context->filtered ? "on record passes the filters" : "is on record");
    else
        print_wrapped(stream, legend, 0, 0);
    scope_print(stream, page->context->scope);
    print_clock_note(stream, tree);
    if (page->in_flight)
        print_wrapped(stream,
                      "times are those inside the calls; in flight: from posting until an operation was seen complete, "
                      "whatever the process did meanwhile",
                      0, 0);
    if (tree->posting_unknown)
        print_wrapped(stream, "how long some non-blocking calls took is not on record: their times are missing here", 0,
                      0);
    if (tree->passes)
        print_wrapped(stream,
                      "passes are inferred from the stacks; backward calls marked as inferred stand where the forward "
                      "calls of their size were made",
                      0, 0);
    if (tree->without_stack > 0)
        fprintf(stream, "the call stacks of %" PRIu64 " calls are not known\n", tree->without_stack);
    if (tree->sites_lost > 0)
        fprintf(stream, "%" PRIu64 " calls found no room in a full table and are missing here\n", tree->sites_lost);
    if (tree->records_left_out > 0)
        fprintf(stream, "%" PRIu64 " further records are not shown\n", tree->records_left_out);
    if (tree->ranks_left_out)
        fputs("the members of some communicators are not listed: too many in all\n", stream);
    if (page->context->waits)
        fputs("waits are those of collectives whose records are still there\n", stream);
    for (size_t i = 0; i < page->context->note_count; i++)
        print_wrapped(stream, page->context->notes[i], 0, 0);
}

void call_tree_print_text(FILE *stream, const struct call_tree *tree, const struct call_tree_context *context,
                          bool color) {
    struct page page = {.context = context,
                        .color = color,
                        .enqueueing = tree->root->sums.gpu_count > 0,
                        .in_flight = tree->root->sums.in_flight_ns > 0};
    if (tree->root->sums.count > 0) {
        print_node(&page, tree->root, 0);
        page.stream = stream;
        print_node(&page, tree->root, 0);
    }
    page.stream = stream;
    print_notes(&page, tree);
}

/* ---- folded ---------------------------------------------------------------------------------- */

/* A path of frames as text that can become longer; "" at the root. */
struct path {
    char *text;
    size_t length, room;
    bool no_memory;
};

/* A semicolon would end the frame, a line break the stack. */
static void add_frame(struct path *path, const char *name) {
    size_t bytes = strlen(name) + 1;
    if (!grow_to(path->text, path->room, path->length + bytes + 1)) {
        path->no_memory = true;
        return;
    }
    if (path->length > 0)
        path->text[path->length++] = ';';
    for (const char *p = name; *p; p++)
        path->text[path->length++] = (char)(*p == ';' ? ':' : *p);
    path->text[path->length] = '\0';
}

static uint64_t weight_of(const struct call_sums *sums, enum call_weight weight) {
    const uint64_t weights[] = {[WEIGHT_TIME] = call_time_ns(sums),
                                [WEIGHT_IN_FLIGHT] = sums->in_flight_ns,
                                [WEIGHT_WAIT] = sums->wait_ns,
                                [WEIGHT_BYTES] = sums->bytes,
                                [WEIGHT_COUNT] = sums->count};
    return weights[weight];
}

static void fold(FILE *stream, struct path *path, const struct call_node *node, enum call_weight weight) {
    size_t length = path->length;
    char label[LABEL];
    if (node->parent) {
        frame_label(&node->frame, label, sizeof label);
        add_frame(path, label);
    }
    for (size_t i = 0; i < node->entry_count && !path->no_memory;) {
        uint64_t sum = 0;
        const char *op = node->entries[i].op;
        for (; i < node->entry_count && strcmp(node->entries[i].op, op) == 0; i++)
            sum += weight_of(&node->entries[i].sums, weight);
        if (sum == 0)
            continue;
        size_t own = path->length;
        add_frame(path, op);
        if (!path->no_memory) {
            escape_text(stream, path->text);
            fprintf(stream, " %" PRIu64 "\n", sum);
        }
        path->length = own;
    }
    for (size_t i = 0; i < node->child_count && !path->no_memory; i++)
        fold(stream, path, node->children[i], weight);
    path->length = length;
    if (path->text)
        path->text[length] = '\0';
}

bool call_tree_print_folded(FILE *stream, const struct call_tree *tree, enum call_weight weight) {
    struct path path = {0};
    fold(stream, &path, tree->root, weight);
    free(path.text);
    return !path.no_memory;
}
