/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/render/steps_table.h"

#include <stdlib.h>

#include "analyzer/base/ns.h"

static double mean_seconds(const struct step_row *row, int64_t sum_ns) {
    return (double)sum_ns / 1e9 / (double)row->count;
}

/* Over all steps whose waits are known to be none or some, as the other averages are. */
static struct cell mean_wait(const struct step_row *row) {
    uint64_t steps = row->wait_steps + row->unresolved_wait_steps;
    return row->wait_steps > 0 ? cell_real((double)row->sum.wait_ns / 1e9 / (double)steps) : cell_unknown();
}

#define ROW ((const struct step_row *)row)
#define VALUE(NAME, CELL)                                                                                              \
    static struct cell NAME(const void *row) { return CELL; }
#define MEAN(FIELD) (ROW->sum.FIELD == STEP_UNKNOWN ? cell_unknown() : cell_real(mean_seconds(ROW, ROW->sum.FIELD)))
#define REST(FIELD)                                                                                                    \
    (ROW->selected || ROW->sum.FIELD == STEP_UNKNOWN ? cell_unknown()                                                  \
                                                     : cell_real(mean_seconds(ROW, ROW->sum.end_ns - ROW->sum.FIELD)))
VALUE(rank, ROW->rank >= 0 ? cell_integer(ROW->rank) : cell_unknown())
VALUE(step_gpu, ROW->gpu ? cell_unsigned(ROW->gpu->ordinal) : cell_unknown())
VALUE(host, ROW->host && ROW->host[0] ? cell_text(ROW->host) : cell_unknown())
VALUE(number, ROW->number >= 0 ? cell_integer(ROW->number) : cell_unknown())
VALUE(pipeline_stage, ROW->stage > 0 ? cell_integer(ROW->stage) : cell_unknown())
VALUE(count, cell_unsigned(ROW->count))
VALUE(start, cell_real((double)ROW->start_ns / 1e9))
VALUE(operations, cell_real((double)ROW->sum.operations / (double)ROW->count))
VALUE(length, MEAN(end_ns))
VALUE(longest, cell_real((double)ROW->longest_ns / 1e9))
VALUE(comm, MEAN(comm_ns))
VALUE(wait, mean_wait(ROW))
VALUE(interval, MEAN(first_ns))
VALUE(forward_backward, MEAN(sync_ns))
VALUE(tail, MEAN(tail_ns))
VALUE(receive_alone, MEAN(receive_alone_ns))
VALUE(stage, REST(receive_alone_ns))
VALUE(communication_alone, MEAN(communication_alone_ns))
VALUE(computation, REST(communication_alone_ns))
VALUE(collective_alone, MEAN(collective_alone_ns))
VALUE(idle, MEAN(idle_ns))

/* clang-format off */
const struct column step_columns[] = {
    {"rank", "rank", .optional = true, .value = rank, .doc = "world rank; over all of them where empty"},
    {"gpu", "GPU", .optional = true, .value = step_gpu, .doc = "its GPU, as its process counts them, where it has several"},
    {"host", "host", .left = true, .optional = true, .value = host},
    {"stage", "stage", .optional = true, .value = pipeline_stage, .doc = "stage of the pipeline, from 1, where ranks have the same place in communicators that messages are sent on"},
    {"step", "step", .optional = true, .value = number, .doc = "number of the step, the same on all ranks; empty where steps of the ranks were not found alike, and of a mean over steps"},
    {"steps", "steps", .value = count, .doc = "steps that the row is the mean of"},
    {"start_seconds", NULL, LOOK_SECONDS, .value = start, .doc = "of the first of them, since the job's start"},
    {"operations", "ops", LOOK_RATIO, .value = operations, .doc = "operations per step", .legend = "operations in a step"},
    {"step_seconds", "step time", LOOK_SECONDS, .value = length, .doc = "length of a step"},
    {"longest_seconds", "longest", LOOK_SECONDS, .value = longest},
    {"comm_seconds", "comm", LOOK_SECONDS, .value = comm, .doc = "of it, in communication"},
    {"wait_seconds", "waited", LOOK_SECONDS, .optional = true, .value = wait, .doc = "of that, waiting for others; mean over the steps whose operations all found their counterparts", .legend = "of comm, for later ranks"},
    {"interval_seconds", "interval", LOOK_SECONDS, .value = interval, .doc = "start to the first operation (data loading)", .legend = "start to the first operation"},
    {"forward_backward_seconds", "fwd+bwd", LOOK_SECONDS, .optional = true, .value = forward_backward, .doc = "first operation to the last gradient synchronisation", .legend = "from there to the last gradient synchronisation"},
    {"tail_seconds", "tail", LOOK_SECONDS, .optional = true, .value = tail, .doc = "last gradient synchronisation to the next step", .legend = "from there to the next step"},
    {"receive_alone_seconds", "recv exposed", LOOK_SECONDS, .value = receive_alone, .doc = "exposed receiving: no other communication overlaps it", .legend = "receiving that no other communication overlaps"},
    {"stage_seconds", NULL, LOOK_SECONDS, .value = stage, .doc = "step without exposed receiving"},
    {"communication_alone_seconds", "exposed", LOOK_SECONDS, .value = communication_alone, .doc = "exposed communication: no computation hides it", .legend = "communication that no computation hides"},
    {"computation_seconds", "compute", LOOK_SECONDS, .value = computation, .doc = "step without exposed communication", .legend = "the step less exposed"},
    {"collective_alone_seconds", NULL, LOOK_SECONDS, .value = collective_alone, .doc = "exposed communication without receiving"},
    {"idle_seconds", "idle", LOOK_SECONDS, .optional = true, .value = idle, .doc = "neither work nor communication nor copying; known where work is on record, in imported traces", .legend = "neither work nor communication"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

static void add_known(int64_t *sum, int64_t value) {
    *sum = *sum == STEP_UNKNOWN || value == STEP_UNKNOWN ? STEP_UNKNOWN : add_ns(*sum, value);
}

static void add_step(struct step_row *row, const struct step *step, int64_t job_start_ns) {
    int64_t length = step->end_ns - step->start_ns, start = step->start_ns - job_start_ns;
    if (row->count == 0 || start < row->start_ns)
        row->start_ns = start;
    row->count++;
    row->sum.operations += step->operations;
    add_known(&row->sum.end_ns, length);
    add_known(&row->sum.comm_ns, step->comm_ns);
    add_known(&row->sum.first_ns, step->first_ns);
    add_known(&row->sum.sync_ns, step->sync_ns);
    add_known(&row->sum.tail_ns, step->tail_ns);
    add_known(&row->sum.receive_alone_ns, step->receive_alone_ns);
    add_known(&row->sum.communication_alone_ns, step->communication_alone_ns);
    add_known(&row->sum.collective_alone_ns, step->collective_alone_ns);
    add_known(&row->sum.idle_ns, step->idle_ns);
    if (step->wait_ns != STEP_UNKNOWN) {
        add_known(&row->sum.wait_ns, step->wait_ns);
        row->wait_steps++;
    }
    row->unresolved_wait_steps += step->waits_unresolved;
    if (length > row->longest_ns)
        row->longest_ns = length;
}

static size_t place_of(const struct steps *steps, enum step_grouping grouping, size_t rank, const struct step *step,
                       const size_t *first_of) {
    if (grouping == STEPS_BY_RANK)
        return rank;
    if (grouping == STEPS_BY_STEP)
        return step->number == NO_STEP ? steps->count : step->number;
    return first_of[rank] + (size_t)(step - steps->ranks[rank].steps);
}

static bool is_wanted(const struct filter *filter, const struct step *step, int64_t job_start_ns) {
    int64_t start = step->start_ns - job_start_ns;
    if ((filter->has_from && start < filter->from_ns) || (filter->has_to && start >= filter->to_ns))
        return false;
    return !filter->has_steps ||
           (step->number != NO_STEP && step->number >= filter->first_step && step->number <= filter->last_step);
}

struct step_row *step_rows(const struct steps *steps, const struct job *job, const uint32_t *stage_of,
                           const struct filter *filter, enum step_grouping grouping, int64_t job_start_ns,
                           size_t *count) {
    size_t all = 0, room;
    size_t *first_of = calloc(steps->rank_count + 1, sizeof *first_of);
    for (size_t r = 0; first_of && r < steps->rank_count; r++) {
        first_of[r] = all;
        all += steps->ranks[r].count;
    }
    room = grouping == STEPS_BY_RANK ? steps->rank_count : grouping == STEPS_BY_STEP ? steps->count + 1u : all;
    struct step_row *rows = first_of ? calloc(room + 1, sizeof *rows) : NULL;
    for (size_t r = 0; rows && r < steps->rank_count; r++) {
        const struct rank_steps *rank = &steps->ranks[r];
        int32_t number = job->dumps[rank->dump]->header->rank;
        for (size_t i = 0; filter_rank(filter, number) && i < rank->count; i++) {
            const struct step *step = &rank->steps[i];
            if (!is_wanted(filter, step, job_start_ns))
                continue;
            struct step_row *row = &rows[place_of(steps, grouping, r, step, first_of)];
            row->rank = grouping == STEPS_BY_STEP ? RANK_UNKNOWN : number;
            row->gpu = grouping == STEPS_BY_STEP ? NULL : dump_gpu(job->dumps[rank->dump]);
            row->host = grouping == STEPS_BY_STEP ? NULL : job->dumps[rank->dump]->host;
            row->stage = grouping == STEPS_BY_STEP ? 0 : stage_of[rank->dump];
            row->number = grouping == STEPS_BY_RANK || step->number == NO_STEP ? -1 : (int64_t)step->number;
            row->selected = filter_chooses_calls(filter);
            add_step(row, step, job_start_ns);
        }
    }
    free(first_of);
    *count = 0;
    for (size_t i = 0; rows && i < room; i++)
        if (rows[i].count > 0)
            rows[(*count)++] = rows[i];
    return rows;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

#undef ROW
#define ROW ((const struct gpu_row *)row)
#undef MEAN
#define MEAN(NS) cell_real((double)(NS) / 1e9 / (double)ROW->ranks)
VALUE(gpu_rank, ROW->rank >= 0 ? cell_integer(ROW->rank) : cell_unknown())
VALUE(gpu_of_row, ROW->gpu ? cell_unsigned(ROW->gpu->ordinal) : cell_unknown())
VALUE(gpu_model, ROW->gpu ? cell_text(ROW->gpu->name) : cell_unknown())
VALUE(gpu_number, ROW->number >= 0 ? cell_integer(ROW->number) : cell_unknown())
VALUE(gpu_steps_of, cell_unsigned(ROW->steps))
VALUE(gpu_span, MEAN(ROW->times.span_ns))
VALUE(gpu_busy, MEAN(ROW->times.busy_ns))
VALUE(gpu_idle, MEAN(ROW->times.span_ns - ROW->times.busy_ns))
VALUE(gpu_compute, MEAN(ROW->times.compute_ns))
VALUE(gpu_communication, MEAN(ROW->times.communication_ns))
VALUE(gpu_copies, MEAN(ROW->times.copy_ns))
VALUE(gpu_overlap, MEAN(ROW->times.overlap_ns))
VALUE(gpu_exposed, MEAN(ROW->times.communication_ns - ROW->times.overlap_ns))
VALUE(gpu_overlap_share, ROW->times.communication_ns > 0
                             ? cell_real((double)ROW->times.overlap_ns / (double)ROW->times.communication_ns)
                             : cell_unknown())

/* clang-format off */
const struct column gpu_columns[] = {
    {"rank", "rank", .optional = true, .value = gpu_rank, .doc = "world rank; mean over all of them where empty"},
    {"step", "step", .optional = true, .value = gpu_number, .doc = "number of the step; all steps together where empty"},
    {"gpu", "GPU", .optional = true, .value = gpu_of_row, .doc = "number of the rank's GPU, as its process counts them"},
    {"gpu_name", "model", .left = true, .optional = true, .value = gpu_model, .doc = "its model"},
    {"steps", NULL, .value = gpu_steps_of, .doc = "how many steps, 0 where the trace has none and all that ran counts"},
    {"kernel_seconds", "kernels", LOOK_SECONDS, .value = gpu_span, .doc = "from the first kernel's beginning to the last one's end (HTA: kernel time), of each cycle of the profiler by itself", .legend = "first kernel's beginning to the last one's end, of those launched in the steps"},
    {"busy_seconds", "busy", LOOK_SECONDS, .value = gpu_busy, .doc = "of it, while anything ran: kernels, copies, fills"},
    {"idle_seconds", "idle", LOOK_SECONDS, .value = gpu_idle, .doc = "of it, while nothing ran (HTA: idle time)", .legend = "of that, nothing ran"},
    {"compute_seconds", "compute", LOOK_SECONDS, .value = gpu_compute, .doc = "while a kernel ran that does not communicate (HTA: compute time)"},
    {"communication_seconds", "comm", LOOK_SECONDS, .value = gpu_communication, .doc = "while a kernel of NCCL or RCCL ran"},
    {"overlap_seconds", NULL, LOOK_SECONDS, .value = gpu_overlap, .doc = "of communication, while computation hid it"},
    {"overlap_share", "overlap", LOOK_PERCENT, .value = gpu_overlap_share, .doc = "the same as a share of communication (HTA: communication computation overlap)", .legend = "share of comm that compute hides"},
    {"exposed_seconds", "exposed", LOOK_SECONDS, .value = gpu_exposed, .doc = "of communication, the rest: exposed communication", .legend = "the rest of it"},
    {"copy_seconds", "copies", LOOK_SECONDS, .value = gpu_copies, .doc = "while memory was copied or filled"},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

struct cell gpu_cell(const struct dump *dump) {
    int64_t number = dump_gpu_number(dump);
    return number >= 0 ? cell_integer(number) : cell_unknown();
}

const struct device_state *gpu_of(const struct dump *dump) {
    if (dump->view)
        return dump_gpu(dump);
    bool one = dump->device_count == 1 && dump->devices[0].version % 2 == 0 && dump->devices[0].version > 0;
    return one && dump->devices[0].name[0] ? &dump->devices[0] : NULL;
}

static void add_times(struct gpu_row *row, const struct gpu_times *times) {
    row->ranks++;
    row->times.span_ns = add_ns(row->times.span_ns, times->span_ns);
    row->times.busy_ns = add_ns(row->times.busy_ns, times->busy_ns);
    row->times.compute_ns = add_ns(row->times.compute_ns, times->compute_ns);
    row->times.copy_ns = add_ns(row->times.copy_ns, times->copy_ns);
    row->times.communication_ns = add_ns(row->times.communication_ns, times->communication_ns);
    row->times.overlap_ns = add_ns(row->times.overlap_ns, times->overlap_ns);
}

/* All steps that are wanted together. A rank without any has everything, unless a part was asked for. Returns false
 * when memory is short. */
static bool sum_rank(struct gpu_row *row, const struct rank_steps *rank, const struct filter *filter,
                     int64_t job_start_ns) {
    bool *wanted = calloc(rank->count + 1, sizeof *wanted),
         part = filter->has_steps || filter->has_from || filter->has_to;
    struct gpu_times times;
    for (size_t i = 0; wanted && i < rank->count; i++)
        row->steps += wanted[i] = is_wanted(filter, &rank->steps[i], job_start_ns);
    if (wanted && (rank->count > 0 || !part) &&
        gpu_times_sum(&times, rank->gpu_spans, rank->gpu_span_count, rank->count > 0 ? wanted : NULL))
        add_times(row, &times);
    free(wanted);
    return wanted != NULL;
}

struct gpu_row *gpu_rows(const struct steps *steps, const struct job *job, const struct filter *filter,
                         enum step_grouping grouping, int64_t job_start_ns, size_t *count) {
    size_t room = 0;
    for (size_t r = 0; r < steps->rank_count; r++)
        room += steps->ranks[r].count + 1;
    struct gpu_row *rows = calloc(room + steps->count + 1, sizeof *rows);
    bool done = rows != NULL;
    size_t next = 0;
    for (size_t r = 0; done && r < steps->rank_count; r++) {
        const struct rank_steps *rank = &steps->ranks[r];
        const struct dump *dump = job->dumps[rank->dump];
        struct gpu_row own = {.rank = dump->header->rank, .number = -1, .gpu = gpu_of(dump)};
        if (!filter_rank(filter, dump->header->rank) || rank->gpu_span_count == 0)
            continue;
        if (grouping == STEPS_BY_RANK) {
            done = sum_rank(&own, rank, filter, job_start_ns);
            rows[next++] = own;
        }
        for (size_t i = 0; grouping != STEPS_BY_RANK && i < rank->count; i++) {
            const struct step *step = &rank->steps[i];
            if (!step->gpu_known || step->number == NO_STEP || !is_wanted(filter, step, job_start_ns))
                continue;
            struct gpu_row *row = &rows[grouping == STEPS_BY_STEP ? step->number : next++];
            row->rank = grouping == STEPS_BY_STEP ? RANK_UNKNOWN : own.rank;
            row->gpu = grouping == STEPS_BY_STEP ? NULL : own.gpu;
            row->number = step->number;
            row->steps = 1;
            add_times(row, &step->gpu);
        }
    }
    if (!done)
        free(rows);
    *count = 0;
    for (size_t i = 0; done && i < room + steps->count; i++)
        if (rows[i].ranks > 0)
            rows[(*count)++] = rows[i];
    return done ? rows : NULL;
}
