/* SPDX-License-Identifier: Apache-2.0
 *
 * From stacks to frames and trees: the splice of native and Python frames, plumbing, passes, sums over ranks, forms.
 * Lives here: dumps made by hand over a small ELF file whose functions bear the names that matter.
 * Must not live here: reading symbol tables (test_symbols.c), real programs (test/e2e/test_calls.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/profile/call_tree.h"
#include "analyzer/waits/hot_sites.h"
#include "analyzer/profile/summary.h"
#include "analyzer/render/call_tree.h"
#include "test/support/dump_builder.h"
#include "test/support/elf_builder.h"

enum { RANKS = 2 };

static char directory[] = "/tmp/commtap-tree-XXXXXX";

/* What the files hold, one function every 0x100 bytes. */
enum program { MAIN = 0x1000, STEP = 0x1100, SOLVE = 0x1200, START = 0x1300 };
enum python { EVAL = 0x1000, VECTORCALL = 0x1100, RUN = 0x1200 };
enum torch { ENGINE = 0x1000, WORK = 0x1100 };
static const struct elf_builder_symbol program_functions[] = {
    {"main", MAIN, 0x100}, {"step", STEP, 0x100}, {"solve", SOLVE, 0x100}, {"_start", START, 0x100}, {NULL, 0, 0}};
static const struct elf_builder_symbol python_functions[] = {{"_PyEval_EvalFrameDefault", EVAL, 0x100},
                                                             {"_PyFunction_Vectorcall", VECTORCALL, 0x100},
                                                             {"Py_RunMain", RUN, 0x100},
                                                             {NULL, 0, 0}};
static const struct elf_builder_symbol torch_functions[] = {
    {"_ZN5torch8autograd6Engine11thread_mainEv", ENGINE, 0x100}, {"_ZN4c10d4WorkEv", WORK, 0x100}, {NULL, 0, 0}};
static const struct elf_builder_symbol commtap_functions[] = {{"MPI_Allreduce", 0x1000, 0x100}, {NULL, 0, 0}};

/* Modules; each rank has them elsewhere. */
enum { PROGRAM, PYTHON, TORCH, COMMTAP, MODULES };
static const struct {
    const char *name;
    const struct elf_builder_symbol *functions;
} modules[MODULES] = {[PROGRAM] = {"solver", program_functions},
                      [PYTHON] = {"libpython3.11.so.1.0", python_functions},
                      [TORCH] = {"libtorch_cpu.so", torch_functions},
                      [COMMTAP] = {"libcommtap.so", commtap_functions}};

static uint64_t base_of(int32_t rank, unsigned module) {
    return 0x7f0000000000u + (uint64_t)rank * 0x123450000u + module * 0x1000000u;
}

static uint64_t native(int32_t rank, unsigned module, uint64_t function) {
    return base_of(rank, module) + function + 0x10;
}

static uint64_t python(uint32_t code, uint32_t line, bool entry) {
    return STACK_ENTRY_PYTHON | (entry ? STACK_PYTHON_ENTRY : 0) | (uint64_t)code << 32 | line;
}

static uint64_t label(uint32_t text, uint32_t domain) {
    return STACK_ENTRY_LABEL | (uint64_t)domain << 32 | text;
}

/* Two ranks, 1 tick = 1 ns; stacks and calls are the test's. */
struct made {
    struct dump_builder *builders[RANKS];
    struct dump *dumps[RANKS];
    struct job job;
    struct symbols *symbols;
    struct skip_list skip;
    struct filter filter;
    struct call_tree tree;
};

static void begin(struct made *made) {
    memset(made, 0, sizeof *made);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = rank, .world_size = RANKS});
        made->builders[rank] = builder;
        dump_builder_standard_calls(builder);
        dump_builder_anchor(builder, 0, 0, 1000000000, 1);
        dump_builder_anchor(builder, 1u << 30, 1u << 30, (1u << 30) + 1000000000u, 1);
        dump_builder_world(builder);
        for (unsigned m = 0; m < MODULES; m++) {
            char path[300];
            uint8_t id[20];
            snprintf(path, sizeof path, "%s/%s", directory, modules[m].name);
            memset(id, (int)m + 1, sizeof id);
            dump_builder_module(builder, path, id, sizeof id, base_of(rank, m), ELF_BUILDER_EXTENT);
        }
        dump_builder_code(builder, 1, "train", "/home/me/train.py");
        dump_builder_code(builder, 2, "Model.forward", "/home/me/model.py");
        dump_builder_code(builder, 3, "Module._call_impl", "/usr/lib/python3/dist-packages/torch/nn/modules/module.py");
        dump_builder_code(builder, 4, "recompute", "/usr/lib/python3/dist-packages/torch/utils/checkpoint.py");
        dump_builder_code(builder, 5, "<module>", "/home/me/train.py");
        dump_builder_string(builder, 1, "epoch 1");
        dump_builder_string(builder, 2, "mine");
    }
}

static void stack(struct made *made, int32_t rank, uint32_t id, uint32_t depth, const uint64_t *entries) {
    dump_builder_stack(made->builders[rank], id, entries, depth);
}
#define STACK(MADE, RANK, ID, ...)                                                                                     \
    stack(MADE, RANK, ID, sizeof((uint64_t[]){__VA_ARGS__}) / 8, (const uint64_t[]){__VA_ARGS__})

static void calls(struct made *made, int32_t rank, uint32_t stack, uint16_t call, uint64_t count, uint64_t bytes,
                  uint64_t ns) {
    struct site_row *row = dump_builder_site(made->builders[rank], 0);
    row->stack = stack;
    row->call = call;
    row->count = count;
    row->bytes_total = bytes;
    row->time_total = ns;
    row->time_max = ns;
}

static void open_dumps(struct made *made) {
    static bool written;
    for (unsigned m = 0; m < MODULES && !written; m++) {
        char path[300];
        uint8_t id = (uint8_t)(m + 1);
        snprintf(path, sizeof path, "%s/%s", directory, modules[m].name);
        elf_builder_write(path, modules[m].functions, &id, NULL, 0);
    }
    written = true;
    for (int rank = 0; rank < RANKS; rank++) {
        size_t bytes;
        const void *data = dump_builder_data(made->builders[rank], &bytes);
        made->dumps[rank] = dump_open_buffer("made.ct", data, bytes);
        assert_int_equal(made->dumps[rank]->problems.count, 0);
    }
    made->job = (struct job){.dumps = made->dumps, .count = RANKS};
    made->symbols = symbols_new(made->dumps, RANKS, directory);
    assert_true(made->symbols && symbols_want_all(made->symbols) && symbols_resolve(made->symbols));
    assert_true(skip_list_init(&made->skip));
}

static void build(struct made *made, unsigned noise, const struct site_waits *waits) {
    struct call_tree_request request = {.job = &made->job,
                                        .symbols = made->symbols,
                                        .skip = &made->skip,
                                        .filter = &made->filter,
                                        .waits = waits,
                                        .noise = noise};
    call_tree_free(&made->tree);
    assert_true(call_tree_build(&made->tree, &request));
}

static void end(struct made *made) {
    call_tree_free(&made->tree);
    symbols_free(made->symbols);
    skip_list_free(&made->skip);
    filter_free(&made->filter);
    for (int rank = 0; rank < RANKS; rank++) {
        dump_close(made->dumps[rank]);
        dump_builder_free(made->builders[rank]);
    }
}

/* The tree as "name:line(count) { children }" in its order. */
static void sketch(const struct call_node *node, char *text, size_t size) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s:%u(%llu)", node->frame.name, node->frame.line,
             (unsigned long long)node->sums.count);
    for (size_t i = 0; i < node->child_count; i++) {
        used = strlen(text);
        snprintf(text + used, size - used, i ? " " : "{");
        sketch(node->children[i], text, size);
    }
    used = strlen(text);
    if (node->child_count)
        snprintf(text + used, size - used, "}");
}

static void assert_tree(const struct made *made, const char *expected) {
    char text[4096] = "";
    sketch(made->tree.root, text, sizeof text);
    assert_string_equal(text, expected);
}

/* ---- the tree ---------------------------------------------------------------------------------- */

static void ranks_are_merged_and_counts_are_inclusive(void **state) {
    struct made made;
    (void)state;
    begin(&made);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        uint64_t wrapper = native(rank, COMMTAP, 0x1000), start = native(rank, PROGRAM, START);
        uint64_t outer = native(rank, PROGRAM, MAIN), step = native(rank, PROGRAM, STEP);
        uint64_t solve = native(rank, PROGRAM, SOLVE);
        uint32_t first = rank ? 2 : 1, second = rank ? 1 : 2; /* ids are each rank's own */
        STACK(&made, rank, first, wrapper, solve, step, outer, start);
        STACK(&made, rank, second, wrapper, step, step, outer, start); /* recursion stays */
        calls(&made, rank, first, BUILDER_ALLREDUCE, 10, 1000, 5000);
        calls(&made, rank, first, BUILDER_BCAST, 1, 8, 700);
        calls(&made, rank, second, BUILDER_ALLREDUCE, 3, 24, 900);
    }
    open_dumps(&made);
    build(&made, 0, NULL);
    assert_tree(&made, "Global:0(28){main:0(28){step:0(28){solve:0(22) step:0(6)}}}");
    const struct call_node *root = made.tree.root, *solve = root->children[0]->children[0]->children[0];
    assert_int_equal(root->sums.time_ns, 2 * 6600);
    assert_int_equal(root->sums.bytes, 2 * 1032);
    assert_int_equal(root->op_count, 2);
    assert_string_equal(root->ops[0].op, "MPI_Allreduce");
    assert_int_equal(root->ops[0].sums.count, 26);
    assert_int_equal(solve->ops[0].sums.count, 20);
    assert_int_equal(solve->ops[0].sums.bytes, 2000);
    assert_false(made.tree.passes);
    build(&made, 2, NULL);
    assert_tree(&made, "Global:0(28){_start:0(28){main:0(28){step:0(28){solve:0(22) step:0(6)}}}}");
    assert_int_equal(filter_set_op(&made.filter, "bcast"), 0);
    assert_int_equal(filter_set_ranks(&made.filter, "1"), 0);
    build(&made, 0, NULL);
    assert_tree(&made, "Global:0(1){main:0(1){step:0(1){solve:0(1)}}}");
    end(&made);
}

static void python_frames_take_the_place_of_the_interpreter(void **state) {
    struct made made;
    (void)state;
    begin(&made);
    uint64_t wrapper = native(0, COMMTAP, 0x1000), eval = native(0, PYTHON, EVAL), call = native(0, PYTHON, VECTORCALL);
    uint64_t run = native(0, PYTHON, RUN), solve = native(0, PROGRAM, SOLVE);
    /* two loops: the inner one runs forward, called through C code from the outer one, which runs two functions */
    STACK(&made, 0, 1, wrapper, solve, call, eval, call, solve, call, eval, run, native(0, PROGRAM, START),
          python(2, 42, true), python(1, 17, false), python(5, 99, true), label(1, 2));
    /* the native list was cut inside the inner loop's callers: outer Python frames are still known */
    STACK(&made, 0, 2, wrapper, eval, STACK_ENTRY_CUT, python(2, 43, true), python(1, 17, true));
    /* a native-only recording of the same program, and a Python-only one */
    STACK(&made, 0, 3, wrapper, eval, native(0, PROGRAM, START));
    STACK(&made, 0, 4, python(1, 5, true), python(5, 6, true));
    /* a loop in a part of the interpreter that has no name: fewer loops than marks */
    STACK(&made, 0, 5, wrapper, call, call, run, python(2, 50, true), python(1, 60, true));
    for (uint32_t id = 1; id <= 5; id++)
        calls(&made, 0, id, BUILDER_ALLREDUCE, id, 0, 1000 * (6 - id));
    open_dumps(&made);
    build(&made, 0, NULL);
    assert_tree(&made, "Global:0(15){"
                       "epoch 1:0(1){<module>:99(1){train:17(1){solve:0(1){Model.forward:42(1){solve:0(1)}}}}} "
                       "train:17(2){Model.forward:43(2)} "
                       "_PyEval_EvalFrameDefault:0(3) "
                       "<module>:6(4){train:5(4)} "
                       "train:60(5){Model.forward:50(5)}}");
    const struct call_node *range = made.tree.root->children[0];
    assert_int_equal(range->frame.kind, FRAME_NVTX);
    assert_string_equal(range->frame.module, "mine");
    assert_string_equal(range->children[0]->frame.file, "/home/me/train.py");
    build(&made, 2, NULL);
    assert_string_equal(made.tree.root->children[1]->frame.name, "train");
    assert_string_equal(made.tree.root->children[1]->children[0]->frame.name, "[missing frames]");
    end(&made);
}

static void plumbing_is_what_the_list_says(void **state) {
    struct skip_list list;
    (void)state;
    assert_true(skip_list_init(&list));
    assert_true(skip_native(&list, "libmpi.so.40", "ompi_something"));
    assert_true(skip_native(&list, "solver", "c10d::ProcessGroupNCCL::allreduce"));
    assert_true(skip_native(&list, "MPI.cpython-311-x86_64-linux-gnu.so", "x"));
    assert_true(skip_python(&list, "/x/site-packages/torch/distributed/distributed_c10d.py", "all_reduce"));
    assert_true(skip_python(&list, "/x/site-packages/deepspeed/comm/comm.py", "all_reduce"));
    assert_true(skip_python(&list, "<frozen runpy>", "_run_code"));
    assert_false(skip_native(&list, "solver", "main"));
    assert_false(skip_python(&list, "/home/me/torch/train.py", "train"));
    assert_int_equal(skip_list_add(&list, "function:my_comm_*"), SKIP_OK);
    assert_int_equal(skip_list_add(&list, "!module:libmpi_mine.so"), SKIP_OK);
    assert_true(skip_native(&list, "solver", "my_comm_wait"));
    assert_false(skip_native(&list, "libmpi_mine.so", "f"));
    assert_int_equal(skip_list_add(&list, "colour:blue"), SKIP_NO_PATTERN);
    assert_int_equal(skip_list_add(&list, "/no/such/file"), SKIP_NO_FILE);
    assert_int_equal(skip_list_add(&list, "none"), SKIP_OK);
    assert_false(skip_native(&list, "libmpi.so.40", "f"));
    skip_list_free(&list);
}

/* ---- passes ------------------------------------------------------------------------------------ */

static void record(struct made *made, uint32_t lane, uint32_t stack, uint32_t seq, uint64_t bytes, uint64_t at) {
    dump_builder_collective(made->builders[0], lane, BUILDER_ALLREDUCE, 0, seq, bytes, at, at + 5)->stack = stack;
}

/* A framework makes communicators wherever it first needs one: that is no part of the forward pass. */
static void setup_is_of_no_pass(void **state) {
    static const uint16_t setup[] = {BUILDER_INIT, BUILDER_COMM_DUP, BUILDER_FILE_WRITE_ALL};
    struct made made;
    (void)state;
    begin(&made);
    STACK(&made, 0, 1, native(0, TORCH, WORK), native(0, PYTHON, EVAL), python(3, 9, false), python(1, 17, true));
    STACK(&made, 0, 2, native(0, TORCH, WORK), native(0, TORCH, ENGINE));
    for (size_t i = 0; i < sizeof setup / sizeof *setup; i++) {
        calls(&made, 0, 1, setup[i], 1, 0, 10);
        calls(&made, 0, 2, setup[i], 1, 0, 10);
    }
    calls(&made, 0, 1, BUILDER_ALLREDUCE, 4, 4, 100);
    calls(&made, 0, 2, BUILDER_WAIT, 4, 4, 100);
    open_dumps(&made);
    build(&made, 0, NULL);
    const struct call_node *root = made.tree.root;
    assert_int_equal(root->op_count, 5);
    for (size_t i = 0; i < root->op_count; i++) {
        enum pass expected = strcmp(root->ops[i].op, "MPI_Allreduce") == 0 ? PASS_FORWARD
                             : strcmp(root->ops[i].op, "MPI_Wait") == 0    ? PASS_BACKWARD
                                                                           : PASS_NONE;
        assert_int_equal(root->ops[i].pass, expected);
    }
    json_t *json = call_tree_to_commdebug(&made.tree, 1);
    assert_int_equal(json_array_size(json_object_get(json, "collectives_forward")), 1);
    assert_int_equal(json_array_size(json_object_get(json, "collectives_backward")), 0); /* waits are none */
    json_decref(json);
    end(&made);
}

static void passes_are_told_by_the_stack_and_paired_by_size(void **state) {
    struct made made;
    (void)state;
    begin(&made);
    uint64_t eval = native(0, PYTHON, EVAL), engine = native(0, TORCH, ENGINE), work = native(0, TORCH, WORK);
    STACK(&made, 0, 1, work, eval, python(3, 9, false), python(2, 42, false), python(1, 17, true)); /* forward, big */
    STACK(&made, 0, 2, work, eval, python(3, 9, false), python(2, 44, false), python(1, 17, true)); /* forward, small */
    STACK(&made, 0, 3, work, engine);                                                               /* backward */
    STACK(&made, 0, 4, native(0, TORCH, WORK) + 1, engine);                                         /* backward */
    STACK(&made, 0, 5, work, eval, engine, python(2, 42, false), python(4, 7, true));               /* recomputation */
    for (uint32_t step = 0; step < 4; step++) {
        uint64_t at = 1000 * step;
        record(&made, 0, 1, 5 * step, 4096, at + 100);
        record(&made, 0, 2, 5 * step + 1, 64, at + 200);
        record(&made, 0, 3, 5 * step + 2, 64, at + 300);
        record(&made, 0, 5, 5 * step + 3, 4096, at + 400);
        record(&made, 0, 4, 5 * step + 4, 4096, at + 500);
    }
    for (uint32_t id = 1; id <= 5; id++)
        calls(&made, 0, id, BUILDER_ALLREDUCE, 4, 4, 100 * id);
    open_dumps(&made);
    build(&made, 1, NULL);
    assert_true(made.tree.passes);
    const struct call_node *train = made.tree.root->children[0];
    assert_string_equal(train->frame.name, "train");
    assert_int_equal(train->child_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct call_node *forward = train->children[i];
        bool big = forward->frame.line == 42;
        assert_int_equal(forward->op_count, 2);
        assert_int_equal(forward->ops[0].pass, PASS_FORWARD);
        assert_false(forward->ops[0].inferred);
        assert_int_equal(forward->ops[1].pass, PASS_BACKWARD);
        assert_true(forward->ops[1].inferred);
        assert_int_equal(forward->ops[1].sums.time_ns, big ? 400 : 300);
        assert_int_equal(forward->entries[0].sizes[0].bytes, big ? 4096 : 64);
        assert_int_equal(forward->entries[0].sizes[0].count, 4);
    }
    const struct call_node *again = made.tree.root->children[1];
    assert_string_equal(again->frame.name, "Model.forward");
    assert_int_equal(again->ops[0].pass, PASS_CHECKPOINT);

    json_t *json = call_tree_to_commdebug(&made.tree, 1);
    assert_non_null(json);
    json_t *child = json_array_get(json_object_get(json, "children"), 0);
    assert_string_equal(json_string_value(json_object_get(child, "fqn")), "train (train.py:17)");
    assert_int_equal(
        json_integer_value(json_array_get(json_array_get(json_object_get(json, "collectives_forward"), 0), 1)), 8);
    assert_int_equal(
        json_integer_value(json_array_get(json_array_get(json_object_get(json, "collectives_backward"), 0), 1)), 12);
    json_decref(json);
    end(&made);
}

/* ---- forms ------------------------------------------------------------------------------------- */

static char *print(const struct made *made, const char *form) {
    char *text;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    struct call_tree_context context = {.run_id = "r"};
    if (strcmp(form, "text") == 0)
        call_tree_print_text(stream, &made->tree, &context, false);
    else
        assert_true(call_tree_print_folded(stream, &made->tree,
                                           strcmp(form, "wait") == 0    ? WEIGHT_WAIT
                                           : strcmp(form, "bytes") == 0 ? WEIGHT_BYTES
                                                                        : WEIGHT_COUNT));
    fclose(stream);
    return text;
}

static void assert_printed(const struct made *made, const char *form, const char *expected) {
    char *text = print(made, form);
    assert_string_equal(text, expected);
    free(text);
}

static void forms_say_the_same(void **state) {
    struct made made;
    struct site_waits waits = {0};
    (void)state;
    begin(&made);
    STACK(&made, 0, 1, native(0, PROGRAM, STEP), native(0, PROGRAM, MAIN));
    STACK(&made, 0, 2, native(0, PROGRAM, MAIN), label(1, 0));
    dump_builder_string(made.builders[0], 3, "a;b\n");
    STACK(&made, 0, 3, native(0, PROGRAM, MAIN), label(3, 0));
    calls(&made, 0, 1, BUILDER_ALLREDUCE, 10, 80, 5000);
    calls(&made, 0, 2, BUILDER_BARRIER, 2, 0, 100);
    calls(&made, 0, 3, BUILDER_BARRIER, 1, 0, 50);
    calls(&made, 1, 0, BUILDER_BCAST, 7, 7, 10);
    open_dumps(&made);
    site_waits_add(&waits, 0, 1, 300, 0);
    site_waits_add(&waits, 0, 2, 20, 5);
    build(&made, 0, &waits);
    assert_int_equal(made.tree.without_stack, 7);
    assert_printed(&made, "count",
                   "MPI_Bcast 7\n"
                   "main (solver);step (solver);MPI_Allreduce 10\n"
                   "epoch 1;main (solver);MPI_Barrier 2\n"
                   "a:b\\x0a;main (solver);MPI_Barrier 1\n");
    assert_printed(&made, "bytes", "MPI_Bcast 7\nmain (solver);step (solver);MPI_Allreduce 80\n");
    assert_printed(&made, "wait",
                   "main (solver);step (solver);MPI_Allreduce 300\nepoch 1;main (solver);MPI_Barrier 20\n");
    char *text = print(&made, "text");
    static const char *const lines[] = {"Global ", "\n    *MPI_Allreduce: 10 ", "\n    main (solver) ",
                                        "\n        step (solver) ", "\n            *MPI_Allreduce: 10 "};
    const char *at = text;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        at = strstr(at, lines[i]);
        assert_non_null(at);
    }
    free(text);
    site_waits_free(&waits);
    end(&made);
}

/* Rows of communicator `comm`, which every rank calls from main. */
static void calls_on(struct made *made, uint32_t comm) {
    for (int32_t rank = 0; rank < RANKS; rank++) {
        STACK(made, rank, 1, native(rank, PROGRAM, MAIN));
        struct site_row *row = dump_builder_site(made->builders[rank], 0);
        *row = (struct site_row){
            .version = 2, .stack = 1, .call = BUILDER_ALLREDUCE, .comm_epoch = comm, .count = 1, .time_total = 10};
    }
}

static char *print_details(const struct made *made, const char *form, unsigned noise) {
    struct call_tree_context context = {.run_id = "r", .noise = noise};
    char *text = NULL;
    size_t bytes;
    if (strcmp(form, "text") == 0) {
        FILE *stream = open_memstream(&text, &bytes);
        call_tree_print_text(stream, &made->tree, &context, false);
        fclose(stream);
        return text;
    }
    json_t *json =
        strcmp(form, "json") == 0 ? call_tree_to_json(&made->tree, &context) : call_tree_to_commdebug(&made->tree, 1);
    text = json_dumps(json, 0);
    json_decref(json);
    return text;
}

static void assert_says(const struct made *made, const char *form, const char *expected) {
    char *text = print_details(made, form, 1);
    if (!strstr(text, expected))
        fail_msg("'%s' is not in: %s", expected, text);
    free(text);
}

/* 5 us inside MPI_Isend, 900 us in flight; 100 us inside MPI_Wait. */
static void posted_operations(struct made *made, uint64_t posting) {
    begin(made);
    STACK(made, 0, 1, native(0, PROGRAM, MAIN));
    struct site_row *row = dump_builder_site(made->builders[0], 0);
    *row = (struct site_row){.version = 2, .stack = 1, .call = BUILDER_ISEND, .count = 10, .time_total = 900000};
    row->posting_total = posting;
    calls(made, 0, 1, BUILDER_WAIT, 10, 0, 100000);
}

static void operations_in_flight_are_no_cost(void **state) {
    (void)state;
    struct made made;
    posted_operations(&made, 5000);
    open_dumps(&made);
    build(&made, 0, NULL);
    assert_int_equal(made.tree.root->sums.time_ns, 105000);
    assert_int_equal(made.tree.root->sums.in_flight_ns, 900000);
    assert_false(made.tree.posting_unknown);
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    assert_true(call_tree_print_folded(stream, &made.tree, WEIGHT_TIME));
    fclose(stream);
    assert_non_null(strstr(text, "MPI_Isend 5000\n"));
    assert_non_null(strstr(text, "MPI_Wait 100000\n"));
    free(text);
    assert_says(&made, "text", "900 us in flight");
    assert_says(&made, "json", "\"in_flight_us\": 900.0");
    end(&made);
}

static void older_dumps_do_not_tell_what_passed_inside(void **state) {
    (void)state;
    struct made made;
    posted_operations(&made, 0);
    dump_builder_header(made.builders[0])->version = 2; /* 2.0 */
    open_dumps(&made);
    build(&made, 0, NULL);
    assert_int_equal(made.tree.root->sums.time_ns, 100000);
    assert_int_equal(made.tree.root->sums.in_flight_ns, 900000);
    assert_true(made.tree.posting_unknown);
    assert_says(&made, "text", "is not on record");
    end(&made);
}

static void what_a_record_claims_is_no_negative_number(void **state) {
    struct made made;
    (void)state;
    begin(&made);
    dump_builder_header(made.builders[0])->rank = RANK_UNKNOWN;
    STACK(&made, 0, 1, native(0, PROGRAM, MAIN));
    dump_builder_collective(made.builders[0], 0, BUILDER_ALLREDUCE, 0, 0, UINT64_C(1) << 63, 10, 20)->stack = 1;
    open_dumps(&made);
    build(&made, 3, NULL);
    char *text = print_details(&made, "json", 3);
    assert_non_null(strstr(text, "\"rank\": null"));
    assert_non_null(strstr(text, "\"bytes\": 9.2233720368547758e18"));
    free(text);
    end(&made);
}

static void call_of_type(struct made *made, uint32_t stack, uint8_t dtype, uint64_t at) {
    struct record *record = dump_builder_collective(made->builders[0], 0, BUILDER_ALLREDUCE, 0, 0, 8, at, at + 5);
    record->stack = stack;
    record->dtype = dtype;
}

/* Two modules in a net; the range says in which pass it is, unless the autograd engine's frames do. */
static void types_and_passes_are_counted_in_every_module(void **state) {
    struct made made;
    (void)state;
    begin(&made);
    const char *texts[] = {"Net", "Linear", "Norm fwd", "net backward", "forwarding"};
    for (uint32_t i = 0; i < 5; i++)
        dump_builder_string(made.builders[0], 10 + i, texts[i]);
    STACK(&made, 0, 1, native(0, PROGRAM, MAIN), label(11, 0), label(10, 0));
    STACK(&made, 0, 2, native(0, PROGRAM, MAIN), label(12, 0), label(10, 0));
    STACK(&made, 0, 3, native(0, PROGRAM, MAIN), label(13, 0), label(12, 0));
    STACK(&made, 0, 4, native(0, TORCH, ENGINE), label(12, 0));
    STACK(&made, 0, 5, native(0, PROGRAM, MAIN), label(14, 0));
    calls(&made, 0, 1, BUILDER_ALLREDUCE, 3, 24, 15);
    for (uint32_t stack = 2; stack <= 5; stack++)
        calls(&made, 0, stack, BUILDER_ALLREDUCE, 1, 8, 5);
    call_of_type(&made, 1, DATATYPE_FLOAT, 10);
    call_of_type(&made, 1, DATATYPE_BFLOAT16, 20);
    for (uint32_t stack = 1; stack <= 5; stack++)
        call_of_type(&made, stack, DATATYPE_FLOAT, 20 + 10 * stack);
    open_dumps(&made);
    build(&made, 1, NULL);
    const struct call_node *root = made.tree.root;
    static const struct {
        enum pass pass;
        uint64_t count, floats;
    } expected[] = {{PASS_NONE, 4, 3}, {PASS_FORWARD, 1, 1}, {PASS_BACKWARD, 2, 2}};
    assert_int_equal(root->op_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct call_op *op = &root->ops[i];
        assert_int_equal(op->pass, expected[i].pass);
        assert_int_equal(op->sums.count, expected[i].count);
        assert_int_equal(op->type_count, i == 0 ? 2 : 1);
        assert_int_equal(op->types[0].dtype, DATATYPE_FLOAT);
        assert_int_equal(op->types[0].count, expected[i].floats);
    }
    assert_int_equal(root->ops[0].types[1].count, 1);
    assert_says(&made, "text", "*MPI_Allreduce: 4 (3 float, 1 bfloat16)");
    assert_says(&made, "json", "\"datatypes\": {\"float\": 6, \"bfloat16\": 1}");
    build(&made, 0, NULL);
    assert_int_equal(made.tree.root->ops[0].type_count, 0);
    end(&made);
}

/* The first dump says how many members there are, and leaves who they are to the second, which says otherwise. */
static void a_size_of_one_dump_is_not_believed_of_another_ones_list(void **state) {
    struct made made;
    (void)state;
    begin(&made);
    struct communicator_definition *definition = dump_builder_definition(made.builders[0], 0);
    definition->size = 1000000;
    definition->run_count = 0;
    definition->flags = COMMUNICATOR_MEMBERS_ELSEWHERE;
    calls_on(&made, 0);
    open_dumps(&made);
    build(&made, 1, NULL);
    assert_says(&made, "text", "MPI_COMM_WORLD (1000000 ranks): 2");
    assert_says(&made, "json", "\"ranks\": null");
    assert_says(&made, "commdebug", "\"device_mesh\": \"\"");
    end(&made);
}

static void members_of_both_groups_of_an_intercommunicator_are_listed(void **state) {
    struct made made;
    (void)state;
    begin(&made);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        const struct member_run left = {0, 1, 1}, right = {1, 1, 1};
        dump_builder_intercommunicator(made.builders[rank], 77, 0, rank ? &right : &left, rank ? &left : &right);
    }
    calls_on(&made, 1);
    open_dumps(&made);
    build(&made, 1, NULL);
    assert_says(&made, "text", "(2 ranks: 0-1): 2");
    end(&made);
}

/* 16 million members take 12 bytes in a dump: they are counted, and not listed. */
static void a_long_list_in_few_bytes_is_not_written_out(void **state) {
    struct made made;
    (void)state;
    begin(&made);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        struct communicator_definition *definition = dump_builder_definition(made.builders[rank], 0);
        dump_builder_header(made.builders[rank])->world_size = 1 << 24;
        definition->size = 1 << 24;
        *(struct member_run *)(definition + 1) = (struct member_run){0, 1 << 24, 1};
    }
    calls_on(&made, 0);
    open_dumps(&made);
    build(&made, 1, NULL);
    assert_true(made.tree.ranks_left_out);
    assert_says(&made, "text", "(16777216 ranks): 2");
    assert_says(&made, "text", "members of some communicators are not listed");
    end(&made);
}

/* Two lines of one function are two call sites and one caller; a function of the same name in another file is the same
 * caller. */
static void callers_are_functions(void **state) {
    struct made made;
    (void)state;
    begin(&made);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        dump_builder_code(made.builders[rank], 6, "train", "/home/me/other.py");
        STACK(&made, rank, 1, python(1, 10, true), python(5, 3, true));
        STACK(&made, rank, 2, python(1, 20, true), python(5, 3, true));
        STACK(&made, rank, 3, python(6, 10, true));
        STACK(&made, rank, 4, python(2, 5, true));
        for (uint32_t stack = 1; stack <= 4; stack++)
            calls(&made, rank, stack, BUILDER_ALLREDUCE, stack, 8 * stack, 100 * stack);
    }
    open_dumps(&made);
    struct site_labels *labels = site_labels_new(made.symbols, &made.skip);
    struct dump_set set = {.dumps = made.dumps, .count = RANKS, .duplicate = (bool[RANKS]){false}};
    struct summary summary;
    assert_true(summary_build_sites(&summary, &set, NULL, SUMMARY_BY_CALLER | SUMMARY_BY_OP, labels));
    assert_int_equal(summary.count, 2);
    assert_string_equal(summary.entries[0].caller, "train");
    assert_null(summary.entries[0].site);
    assert_int_equal(summary.entries[0].count, RANKS * (1 + 2 + 3));
    assert_int_equal(summary.entries[0].time.total_ns, RANKS * 600);
    assert_string_equal(summary.entries[1].caller, "Model.forward");
    assert_int_equal(summary.entries[1].count, RANKS * 4);
    summary_free(&summary);
    assert_true(summary_build_sites(&summary, &set, NULL, SUMMARY_BY_CALLER | SUMMARY_BY_SITE, labels));
    assert_int_equal(summary.count, 4);
    summary_free(&summary);
    site_labels_free(labels);
    end(&made);
}

static void labels_merge_sites_over_ranks(void **state) {
    struct made made;
    struct site_waits waits = {0};
    struct hot_sites hot;
    (void)state;
    begin(&made);
    for (int32_t rank = 0; rank < RANKS; rank++) {
        STACK(&made, rank, 1, native(rank, TORCH, WORK), native(rank, PROGRAM, STEP), native(rank, PROGRAM, MAIN));
        STACK(&made, rank, 2, native(rank, PROGRAM, STEP), native(rank, PROGRAM, START));
        STACK(&made, rank, 3, native(rank, PROGRAM, MAIN));
        calls(&made, rank, 1, BUILDER_ALLREDUCE, 2, 16, 100);
        calls(&made, rank, 2, BUILDER_ALLREDUCE, 3, 24, 200);
        calls(&made, rank, 3, BUILDER_BARRIER, 1, 0, 50);
        site_waits_add(&waits, (size_t)rank, 1, 1000, rank ? 0 : 9000);
        site_waits_add(&waits, (size_t)rank, 3, 500, 10);
    }
    open_dumps(&made);
    struct site_labels *labels = site_labels_new(made.symbols, &made.skip);
    struct dump_set set = {.dumps = made.dumps, .count = RANKS, .duplicate = (bool[RANKS]){false}};
    struct summary summary;
    assert_true(summary_build_sites(&summary, &set, NULL, SUMMARY_BY_SITE | SUMMARY_BY_OP, labels));
    assert_int_equal(summary.count, 2);
    assert_string_equal(summary.entries[0].site, "step (solver)");
    assert_int_equal(summary.entries[0].count, 10);
    assert_int_equal(summary.entries[0].time.total_ns, 600);
    assert_string_equal(summary.entries[1].site, "main (solver)");
    summary_free(&summary);
    assert_true(hot_sites_build(&hot, &waits, made.symbols, labels));
    assert_int_equal(hot.count, 2);
    assert_string_equal(hot.items[0].site, "step (solver)");
    assert_int_equal(hot.items[0].wait_ns, 2000);
    assert_int_equal(hot.items[0].waited_for_ns, 9000);
    const size_t first = 0;
    assert_int_equal(hot_site_of(&waits, &first, 1).key.stack, 1);
    hot_sites_free(&hot);
    site_labels_free(labels);
    site_waits_free(&waits);
    end(&made);
}

static void no_stack_is_too_deep(void **state) {
    struct made made;
    static uint64_t entries[5000];
    (void)state;
    begin(&made);
    for (size_t i = 0; i < 5000; i++)
        entries[i] = i < 4000   ? native(0, PROGRAM, STEP)
                     : i < 4500 ? python((uint32_t)i, 1, false)
                                : label((uint32_t)i, 0);
    stack(&made, 0, 1, 5000, entries);
    calls(&made, 0, 1, BUILDER_ALLREDUCE, 1, 8, 5);
    open_dumps(&made);
    build(&made, 2, NULL);
    size_t depth = 0;
    for (const struct call_node *node = made.tree.root; node->child_count; node = node->children[0])
        depth++;
    assert_int_equal(depth, FRAMES_MAX);
    assert_string_equal(made.tree.root->children[0]->frame.name, "[missing frames]");
    end(&made);
}

static int make_directory(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_merged_and_counts_are_inclusive),
        cmocka_unit_test(python_frames_take_the_place_of_the_interpreter),
        cmocka_unit_test(plumbing_is_what_the_list_says),
        cmocka_unit_test(setup_is_of_no_pass),
        cmocka_unit_test(passes_are_told_by_the_stack_and_paired_by_size),
        cmocka_unit_test(forms_say_the_same),
        cmocka_unit_test(a_size_of_one_dump_is_not_believed_of_another_ones_list),
        cmocka_unit_test(operations_in_flight_are_no_cost),
        cmocka_unit_test(older_dumps_do_not_tell_what_passed_inside),
        cmocka_unit_test(what_a_record_claims_is_no_negative_number),
        cmocka_unit_test(members_of_both_groups_of_an_intercommunicator_are_listed),
        cmocka_unit_test(types_and_passes_are_counted_in_every_module),
        cmocka_unit_test(a_long_list_in_few_bytes_is_not_written_out),
        cmocka_unit_test(callers_are_functions),
        cmocka_unit_test(labels_merge_sites_over_ranks),
        cmocka_unit_test(no_stack_is_too_deep),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
