/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: traces of other tools, imported, and a command over the dumps that come of it.
 * Lives here: documents of each format from a list of steps, also as pickles, what is wrong with their text, gzip and
 * tar around them. Must not live here: expectations; a crash, a hang or a sanitizer's report is the finding.
 *
 * Input: one step for the format, the number of documents and their packing, LINE_BYTES for the command afterwards,
 * then an event per step, or damage to a document's text.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

#include "test/fuzz/line.h"
#include "test/fuzz/memory.h"
#include "test/fuzz/step.h"

enum { DOCUMENTS_MAX = 4, TEXT_MAX = 1 << 18, TAR_BLOCK = 512 };

struct document {
    char *text;
    size_t length;
    char name[64];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* A number as JSON may hold it: mostly small, sometimes anything, sometimes no number at all. */
static void put_number(FILE *stream, unsigned form, uint64_t value) {
    switch (form % 16) {
    case 9:
        fprintf(stream, "%" PRId64, (int64_t)value);
        break;
    case 10:
        fprintf(stream, "%" PRIu64 "e%d", value & 0xffff, (int)(value >> 16 & 0x3ff) - 500);
        break;
    case 11:
        fprintf(stream, "-%" PRIu64 ".5", value & 0xffffff);
        break;
    case 12:
        fputs("null", stream);
        break;
    case 13:
        fprintf(stream, "\"%" PRIu64 "\"", value & 0xff);
        break;
    case 14:
        fprintf(stream, "[%" PRIu64 "]", value & 0xff);
        break;
    default:
        fprintf(stream, "%" PRIu64 "%s", value & 0xffff, form & 1 ? ".25" : "");
    }
}

static void put_ranks(FILE *stream, unsigned form, uint64_t value) {
    static const char *const lists[] = {"\"[0, 1, 2, 3]\"", "[0, 1, 2, 3]", "\"0-3\"",    "\"[0, 1, ...]\"",
                                        "\"0-16383\"",      "[3, 2, 1, 0]", "[0, 0, 0]",  "[-1, 99999999]",
                                        "\"5-1\"",          "\"[0, 1]\"",   "[]",         "\"9999999999999999999999\"",
                                        "\"0-65535\"",      "[65535, 0]",   "\"0-3,2-7\""};
    unsigned count = sizeof lists / sizeof *lists;
    if (form % (count + 1) < count)
        fputs(lists[form % (count + 1)], stream);
    else
        fprintf(stream, "[%" PRIu64 ", %" PRIu64 "]", value & 0xf, value >> 4 & 0xffff);
}

static const char *word_of(const char *const *words, size_t count, unsigned number) {
    return words[number % count];
}
#define WORD(NUMBER, ...)                                                                                              \
    word_of((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), NUMBER)

static const char *operation(unsigned number) {
    return WORD(number, "all_reduce", "allreduce", "_allgather_base", "reduce_scatter", "broadcast", "send 0->1",
                "recv 1<-0", "alltoall", "barrier", "sendrecv", "send 3->99999", "nothing", "gather", "");
}

static const char *type(unsigned number) {
    return WORD(number, "Float", "BFloat16", "long int", "float8_e4m3fn", "bool", "nonsense", "");
}

/* ---- formats ----------------------------------------------------------------------------------------------------- */

static void timeline_event(FILE *stream, const struct fuzz_step *step) {
    unsigned process = step->who & 3, thread = step->where & 15;
    if ((step->op & 7) == 0) {
        fprintf(stream,
                "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"PP rank %u, TP rank "
                "%u, %s\"}}",
                process, thread, step->x & 0x1000 ? step->x : step->x & 3u, step->y & 0x1000 ? step->y : step->y & 1u,
                WORD(step->what, "dp-comm", "compute", "pp-comm", "misc", "tp-comm"));
        return;
    }
    fprintf(stream, "{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":",
            WORD(step->what, "forward-compute", "forward-send", "forward-recv", "backward-send", "backward-recv",
                 "backward-compute", "params-all-gather", "grads-reduce-scatter", "embedding-grads-all-reduce",
                 "optimizer", "optimizer-clip-main-grad", "layernorm-grads-all-reduce", "anything"),
            process, thread);
    put_number(stream, step->where >> 4, step->value);
    fputs(",\"dur\":", stream);
    put_number(stream, step->who >> 4, step->value >> 16);
    fputs(",\"args\":{\"step\":", stream);
    put_number(stream, step->x >> 12, step->value >> 32 & ~UINT64_C(0xfff8));
    fputs(",\"seq_id\":", stream);
    put_number(stream, step->y >> 12, step->y & 0xff);
    fputs("}}", stream);
}

static void kineto_event(FILE *stream, const struct fuzz_step *step) {
    const char *category = WORD(step->op, "kernel", "kernel", "cuda_runtime", "user_annotation", "cuda_driver",
                                "cpu_op", "python_function");
    bool is_memory = strcmp(category, "cpu_op") == 0 && (step->what & 0xf0) == 0xf0;
    const char *name =
        *category == 'k'   ? WORD(step->what, "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", "ncclKernel_SendRecv",
                                  "ncclDevKernel_AllGather_RING_LL", "gemm", "ncclDevKernel_ReduceScatter")
        : *category == 'u' ? WORD(step->what >> 4, "nccl:", "nccl:", "forward", "ProfilerStep#")
        : *category == 'p' ? WORD(step->what, "nn.Module: Net_0", "net.py(7): step", "(1): x", "<b(2): y")
        : is_memory        ? "[memory]"
                           : "cudaLaunchKernel";
    fprintf(stream, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s%s\",\"pid\":0,\"tid\":%u,\"ts\":", category, name,
            *category == 'u' ? operation(step->what) : "", step->where & 3u);
    put_number(stream, step->where >> 4, step->value);
    fputs(",\"dur\":", stream);
    put_number(stream, step->who >> 4, step->value >> 16);
    fputs(",\"args\":{\"correlation\":", stream);
    put_number(stream, step->x >> 12, step->x & 0xff);
    if (is_memory) {
        fprintf(stream, ",\"Device Type\":%u,\"Device Id\":", step->y & 7u);
        put_number(stream, step->y >> 12, step->y >> 8 & 1);
        fputs(",\"Total Allocated\":", stream);
        put_number(stream, step->what & 15, step->value >> 8);
        fputs(",\"Total Reserved\":", stream);
        put_number(stream, step->where >> 4, step->value >> 32);
    }
    if (step->where & 4)
        fprintf(stream, ",\"Collective name\":\"%s\"", operation(step->what >> 2));
    if (step->where & 8) {
        fputs(",\"Group size\":", stream);
        put_number(stream, step->y >> 12, step->y & 7);
    }
    fprintf(stream, ",\"Process Group Name\":\"%u\",\"dtype\":\"%s\"", step->y >> 8 & 3u, type(step->y >> 4));
    if (step->y & 0x800) {
        fputs(",\"Process Group Ranks\":", stream);
        put_ranks(stream, step->x >> 4, step->value);
    }
    fputs(",\"In msg nelems\":", stream);
    put_number(stream, step->y >> 5, step->value >> 32);
    fprintf(stream, ",\"Input Dims\":[[%u,%" PRId64 "],[]],\"Input type\":[\"%s\"]}}", step->x, (int64_t)step->value,
            type(step->y));
}

static void flight_event(FILE *stream, const struct fuzz_step *step) {
    bool message = step->what & 0x40;
    fprintf(stream, "{\"profiling_name\":\"nccl:%s\",\"process_group\":[\"%u\",\"default_pg\"],\"is_p2p\":%s,\"%s\":",
            operation(step->what & 0xf), step->y >> 14, message ? "true" : "false",
            message ? "p2p_seq_id" : "collective_seq_id");
    put_number(stream, step->where >> 4, step->x & 0xfff);
    fputs(",\"time_created_ns\":", stream);
    put_number(stream, step->where, step->value);
    fputs(",\"time_discovered_completed_ns\":", stream);
    put_number(stream, step->who >> 4, step->value >> 8);
    fputs(",\"duration_ms\":", stream);
    put_number(stream, step->op >> 4, step->value >> 32);
    fprintf(stream,
            ",\"state\":\"%s\",\"input_sizes\":[[%u,%" PRId64 "]],\"input_dtypes\":[\"%s\"],\"output_sizes\":[[%u]],"
            "\"output_dtypes\":[\"%s\"]}",
            WORD(step->what >> 4, "completed", "scheduled", "started", "?"), step->y, (int64_t)(step->value >> 40),
            type(step->y >> 4), step->y, type(step->y));
}

/* What stands before the events of document `number`. */
static void put_begin(FILE *stream, unsigned format, unsigned number, const struct fuzz_step *first) {
    if (format == 0) {
        fputs(first->x & 1 ? "{\"traceEvents\":[" : "[", stream);
        for (unsigned thread = 0; thread < 8 && !(first->x & 4); thread++)
            fprintf(stream,
                    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"PP rank %u, TP "
                    "rank 0, %s\"}},",
                    thread >> 2, thread, thread >> 1 & 1, thread & 1 ? "dp-comm" : "compute");
    } else if (format == 1) {
        fputs("{\"deviceProperties\":[{\"id\":0},{\"id\":1}],\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":",
              stream);
        put_number(stream, first->x >> 12, first->x & 16 ? first->value : number);
        fputs(",\"world_size\":", stream);
        put_number(stream, first->x >> 8, first->x & 32 ? first->value >> 32 : DOCUMENTS_MAX);
        fputs("},\"traceEvents\":[", stream);
    } else {
        fputs("{\"version\":\"2.4\",\"pg_config\":{\"0\":{\"desc\":\"default_pg\",\"ranks\":", stream);
        put_ranks(stream, first->x & 0xff, first->value);
        fputs("},\"1\":{\"ranks\":", stream);
        put_ranks(stream, first->x >> 8, first->value >> 8);
        fputs("}},\"entries\":[", stream);
    }
}

static void make_document(struct document *document, unsigned format, unsigned number, unsigned documents,
                          const uint8_t *data, size_t size) {
    static void (*const events[])(FILE *, const struct fuzz_step *) = {timeline_event, kineto_event, flight_event};
    struct fuzz_step first = step_at(data, size, 0);
    FILE *stream = open_memstream(&document->text, &document->length);
    if (!stream)
        abort();
    put_begin(stream, format, number, &first);
    const char *between = "";
    for (size_t i = 2; i < step_count(size); i++) {
        struct fuzz_step step = step_at(data, size, i);
        for (unsigned repeat = 0; step.op < 0xe0 && repeat < 1u + (step.op >> 5 & 1) * 8; repeat++) {
            if (!(step.who & 8) && i % documents != number) /* else it is in all documents */
                continue;
            fputs(between, stream);
            events[format](stream, &step);
            between = ",";
            step.value += 0x100;
            step.x++;
        }
    }
    fputs(format == 0 && !(first.x & 1) ? "]" : "]}", stream);
    fclose(stream);
    snprintf(document->name, sizeof document->name, format == 2 ? "nccl_trace_rank_%u" : "worker%u.json", number);
}

/* ---- pickles ----------------------------------------------------------------------------------------------------- */

static void put_little(FILE *stream, char opcode, uint64_t number, unsigned bytes) {
    fputc(opcode, stream);
    for (unsigned i = 0; i < bytes; i++)
        fputc((int)(number >> 8 * i & 0xff), stream);
}

/* As Python and PyTorch write such values; `remembered` counts what a number was given to. */
static void put_pickled(FILE *stream, const json_t *value, unsigned *remembered) {
    size_t i;
    json_t *element;
    const char *key;
    if (json_is_array(value)) {
        put_little(stream, ']', 0, 0);
        put_little(stream, 'r', (*remembered)++, 4);
        put_little(stream, '(', 0, 0);
        json_array_foreach(value, i, element) put_pickled(stream, element, remembered);
        put_little(stream, 'e', 0, 0);
    } else if (json_is_object(value)) {
        put_little(stream, '}', 0, 0);
        put_little(stream, '(', 0, 0);
        json_object_foreach((json_t *)(uintptr_t)value, key, element) {
            put_little(stream, 'X', strlen(key), 4);
            fputs(key, stream);
            put_pickled(stream, element, remembered);
        }
        put_little(stream, 'u', 0, 0);
    } else if (json_is_string(value)) {
        put_little(stream, 'X', json_string_length(value), 4);
        fwrite(json_string_value(value), 1, json_string_length(value), stream);
        put_little(stream, '\x94', 0, 0);
        (*remembered)++;
    } else if (json_is_integer(value)) {
        put_little(stream, '\x8a', sizeof(json_int_t), 1);
        put_little(stream, (char)json_integer_value(value), (uint64_t)json_integer_value(value) >> 8, 7);
    } else if (json_is_real(value)) {
        double real = json_real_value(value);
        uint64_t bits;
        memcpy(&bits, &real, sizeof bits);
        bits = __builtin_bswap64(bits);
        put_little(stream, 'G', bits, 8);
    } else {
        put_little(stream, json_is_true(value) ? '\x88' : json_is_false(value) ? '\x89' : 'N', 0, 0);
    }
}

/* The same document as a pickle, where it is sound. */
static void pickle_document(struct document *document) {
    json_t *whole = json_loadb(document->text, document->length, 0, NULL);
    unsigned remembered = 0;
    if (!whole)
        return;
    free(document->text);
    FILE *stream = open_memstream(&document->text, &document->length);
    if (!stream)
        abort();
    put_little(stream, '\x80', 2, 1);
    put_pickled(stream, whole, &remembered);
    put_little(stream, '.', 0, 0);
    fclose(stream);
    json_decref(whole);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

/* Replaces `gone` bytes at `at` by a word, so often. */
static void splice(struct document *document, size_t at, size_t gone, const char *word, unsigned times) {
    size_t length = strlen(word);
    if (at > document->length)
        at = document->length;
    gone = gone < document->length - at ? gone : document->length - at;
    char *text = malloc(document->length + length * times + 1);
    if (!text)
        abort();
    memcpy(text, document->text, at);
    for (unsigned i = 0; i < times; i++)
        memcpy(text + at + i * length, word, length);
    memcpy(text + at + length * times, document->text + at + gone, document->length - at - gone);
    document->length += length * times - gone;
    free(document->text);
    document->text = text;
}

static void damage(struct document *documents, unsigned count, const struct fuzz_step *step) {
    struct document *document = &documents[step->who % count];
    size_t at = document->length > 0 ? (step->value & 0xffffff) % (document->length + 1) : 0;
    static const char *const words[] = {
        "{",       "[",       "\"",   "\\",      "]",       "}",           ",",       ":",     "null", "-1", "1e999",
        "\\u0000", "\\ud800", "\xff", "\"ts\":", "{\"a\":", "\"rank\":",   "h\x01",   "q\x02", "(",    "e",  "u",
        "a",       "s",       "t",    "\x85",    "\x94",    "]q\x01h\x01", "ca\nb\n", "K\x01", "."};
    const char *word = words[step->where % (sizeof words / sizeof *words)];
    switch (step->what % 5) {
    case 0:
        splice(document, at, 0, word, 1);
        break;
    case 1:
        splice(document, at, step->x % 64, "", 0);
        break;
    case 2:
        splice(document, at, step->x % 8, word, 1 + step->y % 1024);
        break;
    case 3:
        document->length = at;
        break;
    default:
        if (at < document->length)
            document->text[at] = (char)step->x;
    }
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static void put_member(FILE *stream, const struct document *document, const struct fuzz_step *first) {
    char block[TAR_BLOCK] = {0};
    size_t length = document->length;
    snprintf(block, 100, "%s", document->name);
    snprintf(block + 124, 12, "%011zo", first->y & 0x100 ? length + (first->y & 0xff) : length);
    if (first->y & 0x200) {
        block[124] = (char)0x80;
        memcpy(block + 128, &first->value, 8);
    }
    block[156] = first->y & 0x400 ? '5' : '0';
    memcpy(block + 257, "ustar", 6);
    fwrite(block, 1, sizeof block, stream);
    fwrite(document->text, 1, length, stream);
    for (; length % TAR_BLOCK != 0; length++)
        fputc(0, stream);
}

static void put_file(struct line *line, const char *name, const void *data, size_t bytes, bool compressed,
                     const struct fuzz_step *first) {
    if (!compressed) {
        line_add(line, memory_file(name, data, bytes));
        return;
    }
    static uint8_t packed[TEXT_MAX * 2];
    z_stream stream = {
        .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes, .next_out = packed, .avail_out = sizeof packed};
    if (deflateInit2(&stream, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&stream, Z_FINISH) != Z_STREAM_END)
        abort();
    size_t length = stream.total_out;
    deflateEnd(&stream);
    if (first->y & 0x800)
        packed[first->value % length] ^= (uint8_t)(1 + first->y);
    if (first->y & 0x1000)
        length = first->value % (length + 1);
    line_add(line, memory_file(name, packed, length));
}

static void put_files(struct line *line, struct document *documents, unsigned count, const struct fuzz_step *first) {
    bool compressed = first->where & 1, together = first->where & 2;
    if (!together) {
        for (unsigned i = 0; i < count; i++)
            put_file(line, documents[i].name, documents[i].text, documents[i].length, compressed, first);
        return;
    }
    char *archive;
    size_t bytes;
    FILE *stream = open_memstream(&archive, &bytes);
    if (!stream)
        abort();
    for (unsigned i = 0; i < count; i++)
        put_member(stream, &documents[i], first);
    fclose(stream);
    put_file(line, "all.tar", archive, bytes, compressed, first);
    free(archive);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void look_at(const uint8_t *bytes, const char *directory) {
    struct line line;
    struct stat status;
    if (stat(directory, &status) != 0)
        return;
    line_make(&line, bytes);
    line_add(&line, directory);
    if (line.command == &command_diff)
        line_add(&line, directory);
    line_run(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_step first = step_at(data, size, 0), command = step_at(data, size, 1);
    struct document documents[DOCUMENTS_MAX];
    struct line line = {.command = &command_import};
    char directory[128];
    uint8_t bytes[LINE_BYTES];
    unsigned count = 1 + first.who % DOCUMENTS_MAX;
    snprintf(directory, sizeof directory, "%s/imported", memory_root());
    line_add(&line, "-o");
    line_add(&line, directory);
    for (unsigned i = 0; i < count; i++) {
        make_document(&documents[i], first.op % 3, i, count, data, size);
        if (first.op % 3 == 2 && first.where & 4)
            pickle_document(&documents[i]);
    }
    for (size_t i = 2; i < step_count(size); i++) {
        struct fuzz_step step = step_at(data, size, i);
        if (step.op >= 0xf4)
            damage(documents, count, &step);
    }
    size_t all = 0;
    for (unsigned i = 0; i < count; i++)
        all += documents[i].length;
    if (all < TEXT_MAX) {
        put_files(&line, documents, count, &first);
        line_run(&line);
        memcpy(bytes, &command, sizeof bytes);
        look_at(bytes, directory);
        memory_remove(directory);
    }
    for (unsigned i = 0; i < count; i++)
        free(documents[i].text);
    return 0;
}
