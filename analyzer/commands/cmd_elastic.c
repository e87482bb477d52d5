/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap elastic: batch size and GPU counts of an elastic DeepSpeed job, and whether a slow host is worth its place.
 * Lives here: options, opening the configuration, which host of a job is judged, the text.
 * Must not live here: the computation (elastic/), who is slow (stragglers/).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/regular_file.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/session.h"
#include "analyzer/documents/elastic_document.h"
#include "analyzer/elastic/config.h"
#include "analyzer/findings/eviction_text.h"
#include "analyzer/render/escape.h"

/* ---- the configuration ----------------------------------------------------------------------- */

static int refuse(const char *path, const char *reason) {
    fputs("commtap elastic: ", stderr);
    escape_text(stderr, path);
    fputs(": ", stderr);
    escape_text(stderr, reason);
    fputc('\n', stderr);
    return EXIT_UNUSABLE;
}

static int read_config(const char *path, struct elastic_config *config) {
    json_error_t trouble;
    char error[ELASTIC_ERROR];
    int file = regular_file_open(AT_FDCWD, path, 0);
    if (file < 0)
        return refuse(path, regular_file_error(errno));
    json_t *root = json_loadfd(file, JSON_REJECT_DUPLICATES, &trouble);
    close(file);
    if (!root) {
        snprintf(error, sizeof error, "byte %d (line %d): %s", trouble.position, trouble.line, trouble.text);
        return refuse(path, error);
    }
    bool sound = elastic_config_read(root, config, error);
    json_decref(root);
    return sound ? EXIT_FINE : refuse(path, error);
}

/* ---- the host -------------------------------------------------------------------------------- */

static const char *name_of_host(const struct session *session, uint32_t host) {
    for (size_t d = 0; d < session->clock.dump_count; d++)
        if (session->clock.host_of[d] == host)
            return session->job.dumps[d]->host;
    return "";
}

static size_t ranks_on(const struct session *session, uint32_t host) {
    size_t ranks = 0;
    for (size_t d = 0; d < session->clock.dump_count; d++)
        ranks += session->clock.host_of[d] == host;
    return ranks;
}

/* A slow rank, or a slow host: what the host takes with it when it goes. */
static bool is_of_host(const struct straggler *straggler, const struct session *session, uint32_t host) {
    return (straggler->kind == STRAGGLER_RANK || straggler->kind == STRAGGLER_HOST) && straggler->dump_count > 0 &&
           session->clock.host_of[straggler->dumps[0]] == host;
}

static double speedup_without(const struct session *session, uint32_t host) {
    double speedup = 1;
    for (size_t i = 0; i < session->analysis.straggler_count; i++) {
        const struct straggler *straggler = &session->analysis.stragglers[i];
        if (is_of_host(straggler, session, host) && straggler->what_if_speedup > speedup)
            speedup = straggler->what_if_speedup;
    }
    return speedup;
}

/* The one that --drop-host names, else that of the costliest straggler; host_count where there is none. */
static uint32_t find_host(const struct session *session, const char *wanted) {
    uint32_t hosts = (uint32_t)session->clock.host_count;
    for (size_t d = 0; wanted && d < session->clock.dump_count; d++) /* containers of a host have names of their own */
        if (strcmp(session->clock.dumps[d]->host, wanted) == 0)
            return session->clock.host_of[d];
    for (size_t i = 0; !wanted && i < session->analysis.straggler_count; i++)
        for (uint32_t host = 0; host < hosts; host++)
            if (is_of_host(&session->analysis.stragglers[i], session, host))
                return host;
    return hosts;
}

/* Where all hosts have as many ranks; else 0. */
static int64_t ranks_of_each_host(const struct session *session) {
    size_t each = session->clock.host_count > 0 ? ranks_on(session, 0) : 0;
    for (uint32_t host = 1; host < session->clock.host_count; host++)
        if (ranks_on(session, host) != each)
            return 0;
    return (int64_t)each;
}

/* One for each rank. */
static int64_t gpus_of_job(const struct session *session) {
    return session->job.ranks_expected > 0 ? session->job.ranks_expected : (int64_t)session->job.count;
}

static int judge_host(struct elastic_answer *answer, const struct session *session, const struct options *options) {
    const char *wanted = option_text(options, "drop-host");
    uint32_t host = find_host(session, wanted);
    if (host == session->clock.host_count) {
        if (!wanted)
            return EXIT_FINE;
        fputs("commtap elastic: no rank of the job ran on '", stderr);
        escape_text(stderr, wanted);
        fputs("'\n", stderr);
        return EXIT_USAGE;
    }
    int64_t gpus = gpus_of_job(session);
    answer->host = name_of_host(session, host);
    enum elastic_result result =
        eviction_judge(&answer->config, gpus, (int64_t)ranks_on(session, host), answer->gpus_per_node,
                       speedup_without(session, host), &answer->eviction);
    return result == ELASTIC_OK ? EXIT_FINE : input_no_memory();
}

/* ---- the rows -------------------------------------------------------------------------------- */

#define VALUE(NAME, EXPRESSION)                                                                                        \
    static struct cell NAME(const void *item) {                                                                        \
        const struct elastic_row *row = item;                                                                          \
        return EXPRESSION;                                                                                             \
    }
VALUE(gpus, cell_integer(row->gpus))
VALUE(nodes, row->nodes > 0 ? cell_integer(row->nodes) : cell_unknown())
VALUE(micro_batch, row->micro_batch > 0 ? cell_integer(row->micro_batch) : cell_unknown())
VALUE(accumulation, row->accumulation > 0 ? cell_integer(row->accumulation) : cell_unknown())
VALUE(samples_per_gpu, row->samples_per_gpu > 0 ? cell_real(row->samples_per_gpu) : cell_unknown())
VALUE(is_world_size, cell_switch(row->is_asked_for))

static const struct column columns[] = {
    {"gpus", "GPUs", .value = gpus, .doc = "a valid number of GPUs"},
    {"nodes", "nodes", .value = nodes, .optional = true, .doc = "whole nodes that they are; null: part of one, too"},
    {"micro_batch_size", "micro-batch", .value = micro_batch,
     .doc = "the largest one that divides a GPU's share; null: none does"},
    {"gradient_accumulation_steps", "accumulation", .value = accumulation,
     .doc = "micro-batches that each GPU takes one after the other for one batch",
     .legend = "gradient accumulation steps"},
    {"samples_per_gpu", "samples/GPU", LOOK_RATIO, .value = samples_per_gpu, .doc = "of one batch"},
    {"is_world_size", "asked for", LOOK_MARK, .value = is_world_size, .doc = "it is the world size that was asked for"},
    {NULL, NULL, .value = NULL},
};

/* ---- the answer ------------------------------------------------------------------------------ */

static void print_batch(FILE *stream, const struct elastic_batch *batch) {
    fprintf(stream, "final_batch_size .... %" PRId64 "\nvalid_gpus .......... [", batch->batch_size);
    for (size_t i = 0; i < batch->count; i++)
        fprintf(stream, "%s%" PRId64, i > 0 ? ", " : "", batch->counts[i]);
    fputs("]\n", stream);
}

static void print_refusal(FILE *stream, const struct elastic_answer *answer) {
    if (answer->world_size > 0)
        fprintf(stream, "world size %" PRId64 " is not valid\n", answer->world_size);
    else
        fprintf(stream, "%" PRId64 " GPUs are no whole number of models that are split over %" PRId64 "\n",
                answer->gpus, answer->config.model_parallel_size);
    if (elastic_answer_sizes(answer) != &answer->goes_on)
        return;
    fputs(answer->goes_on.count > 0 ? "\nDeepSpeed does not start the job so. It does with:\n"
                                    : "\nDeepSpeed starts the job with no number of whole nodes:\n",
          stream);
    print_batch(stream, &answer->goes_on);
}

/* As ds_elastic prints it, and a row for every count. */
static bool print_text(const struct output *output, const struct elastic_answer *answer, const struct table *sizes) {
    FILE *stream = output->stream;
    const struct elastic_batch *batch = &answer->batch;
    print_batch(stream, batch);
    if (batch->micro_batch > 0)
        fprintf(stream, "micro_batch_size .... %" PRId64 "\ngradient_accumulation_steps %" PRId64 "\n",
                batch->micro_batch, elastic_accumulation(batch->batch_size, batch->micro_batch, answer->world_size));
    if (!answer->starts)
        print_refusal(stream, answer);
    fputc('\n', stream);
    if (!table_print_text(stream, sizes, output->color))
        return false;
    table_print_legend(stream, sizes);
    if (answer->advice) {
        fputc('\n', stream);
        escape_text(stream, answer->advice);
        fputc('\n', stream);
    }
    return true;
}

static int print(const struct options *options, const struct elastic_answer *answer) {
    struct output output;
    const struct table sizes = {columns, answer->rows, sizeof *answer->rows, elastic_answer_sizes(answer)->count};
    int code = output_open(&output, options);
    if (code != EXIT_FINE)
        return code;
    bool done = true;
    if (output.format == OUTPUT_JSON)
        done = json_print(output.stream, elastic_document(answer, &sizes));
    else if (output.format == OUTPUT_CSV)
        table_print_csv(output.stream, &sizes);
    else
        done = print_text(&output, answer, &sizes);
    code = answer->starts ? EXIT_FINE : EXIT_FINDINGS;
    return output_close(&output, done ? code : input_no_memory());
}

/* A scheduler's number of GPUs and a job's of ranks are two questions to DeepSpeed, which may say yes to the one and no
 * to the other; the job's counts. */
static enum elastic_result find_answer(struct elastic_answer *answer) {
    struct elastic_batch job;
    enum elastic_result result = elastic_batch_find(&answer->config, answer->world_size, &job);
    if (result != ELASTIC_OK)
        return result;
    answer->starts =
        !elastic_answer_was_asked(answer) || (answer->world_size > 0 && elastic_batch_has(&job, answer->world_size));
    if (answer->gpus > 0) {
        result = elastic_batch_list(&answer->config, answer->gpus, &answer->batch);
        answer->batch.micro_batch = job.micro_batch;
        elastic_batch_free(&job);
    } else {
        answer->batch = job;
    }
    if (result == ELASTIC_OK && elastic_answer_sizes(answer) == &answer->goes_on)
        result = elastic_batch_startable(&answer->config, &answer->goes_on);
    return result;
}

static int answer_and_print(struct elastic_answer *answer, const struct session *session,
                            const struct options *options) {
    char advice[EVICTION_TEXT];
    enum elastic_result result = find_answer(answer);
    if (result == ELASTIC_NO_MEMORY)
        return input_no_memory();
    if (result != ELASTIC_OK)
        return refuse(option_text(options, "config"), elastic_result_text(result));
    answer->rows =
        elastic_rows(&answer->config, elastic_answer_sizes(answer), answer->gpus_per_node, answer->world_size);
    int code = answer->rows ? EXIT_FINE : input_no_memory();
    if (code == EXIT_FINE && session)
        code = judge_host(answer, session, options);
    if (answer->host) {
        eviction_say(advice, &answer->eviction, answer->host);
        answer->advice = advice;
    }
    if (code == EXIT_FINE)
        code = print(options, answer);
    free(answer->rows);
    elastic_batch_free(&answer->batch);
    elastic_batch_free(&answer->goes_on);
    return code;
}

/* ---- options --------------------------------------------------------------------------------- */

/* An option's number from 1 up; 0 where it is not given. */
static int read_number(const struct options *options, const char *name, int64_t *number) {
    const char *text = option_text(options, name);
    char *end = "";
    errno = 0;
    *number = text ? strtoll(text, &end, 10) : 0;
    if (!text || (*text && !*end && errno == 0 && *number >= 1 && *number <= ELASTIC_NUMBER_MOST))
        return EXIT_FINE;
    fprintf(stderr, "commtap elastic: --%s takes a number from 1 to 2147483647, not '%.64s'\n", name, text);
    return EXIT_USAGE;
}

static int complain(const char *what) {
    fprintf(stderr, "commtap elastic: %s (see commtap elastic --help)\n", what);
    return EXIT_USAGE;
}

/* DeepSpeed, too, takes the GPUs of version 0.2 from there: launchers count all ranks, model-parallel ones included. */
static int64_t gpus_of_environment(void) {
    const char *text = getenv("WORLD_SIZE");
    char *end = "";
    int64_t size = text ? strtoll(text, &end, 10) : 0;
    return text && *text && !*end && size > 0 && size <= ELASTIC_NUMBER_MOST ? size : 0;
}

static int run_with(struct elastic_answer *answer, struct session *session, const struct options *options) {
    const struct elastic_config *config = &answer->config;
    if (answer->world_size == 0) {
        if (session)
            answer->gpus = gpus_of_job(session);
        else if (config->by_node)
            answer->gpus = gpus_of_environment();
        if (answer->gpus % config->model_parallel_size == 0)
            answer->world_size = answer->gpus / config->model_parallel_size;
    }
    if (answer->gpus_per_node == 0)
        answer->gpus_per_node =
            config->gpus_per_node > 1 || !session ? config->gpus_per_node : ranks_of_each_host(session);
    if (answer->gpus_per_node == 0)
        answer->gpus_per_node = 1;
    return answer_and_print(answer, session, options);
}

static int run(const struct options *options) {
    struct elastic_answer answer = {0};
    struct session session;
    bool has_job = options->argument_count > 0;
    const char *path = option_text(options, "config");
    if (!path)
        return complain("needs a configuration: --config FILE");
    if (option_given(options, "drop-host") && !has_job)
        return complain("--drop-host is about a recorded job: its directory is missing");
    int code = read_number(options, "world-size", &answer.world_size);
    if (code == EXIT_FINE)
        code = read_number(options, "gpus-per-node", &answer.gpus_per_node);
    if (code == EXIT_FINE)
        code = read_config(path, &answer.config);
    if (code == EXIT_FINE && has_job)
        code = session_open(&session, options);
    if (code != EXIT_FINE)
        return code;
    code = run_with(&answer, has_job ? &session : NULL, options);
    if (has_job)
        session_close(&session);
    return code;
}

static const struct option option_rows[] = {
    {.name = "config",
     .letter = 'c',
     .argument = "FILE",
     .doc = "DeepSpeed's configuration, with a section elasticity"},
    {.name = "world-size",
     .letter = 'w',
     .argument = "N",
     .doc = "data-parallel ranks, present or intended; default: those of the job in DIR, else for version 0.2 "
            "WORLD_SIZE of the environment; both are GPUs, divided by model_parallel_size"},
    {.name = "gpus-per-node",
     .argument = "N",
     .doc = "for whole-node counts; default: num_gpus_per_node where it is above 1, else the ranks of each host of the "
            "job"},
    {.name = "drop-host",
     .argument = "HOST",
     .doc = "judge whether the job is better off without this host; default: that of the costliest straggler"},
    OPTION_FORMAT("text|json|csv"),
    OPTION_OUTPUT,
    OPTION_COLOR,
    OPTION_RUN,
    OPTION_THREADS,
    OPTION_END,
};

static const struct example examples[] = {
    {"commtap elastic -c ds_config.json -w 64", "batch size, valid GPU counts, micro-batch on 64 GPUs"},
    {"commtap elastic -c ds_config.json DIR", "and whether to evict the slow host of a recorded job"},
    {NULL, NULL},
};

const struct command command_elastic = {
    .name = "elastic",
    .summary = "on how many GPUs an elastic DeepSpeed job can go on, and whether its slow host is worth its place",
    .arguments = "[DIR...]",
    .details =
        "Batch size and counts are those that DeepSpeed (versions 0.1 and 0.2 of its elasticity) works out from the\n"
        "same section; releases before 0.19.6 may exceed max_train_batch_size by the least common multiple of the\n"
        "micro-batches. Where a model is split (model_parallel_size), DeepSpeed divides by that once more when the "
        "job\n"
        "starts, and so ends jobs of sizes that it lists: 'not valid' is said of these, too, and sizes that it starts\n"
        "are shown. A recorded job is taken to have one GPU per rank. A smaller job is taken to need longer in\n"
        "proportion to the samples of each GPU, which is an upper bound: communication does not grow with them. So\n"
        "'evict' is said only where the slow host costs more than that.\n",
    .exits =
        "Exits with 0, 1 where the world size is not valid, 2 on wrong usage, 3 where the configuration or the dumps\n"
        "cannot be used, 4 where the result could not be written.\n",
    .min_arguments = 0,
    .max_arguments = ARGUMENTS_MOST,
    .options = option_rows,
    .columns = columns,
    .examples = examples,
    .run = run,
};
