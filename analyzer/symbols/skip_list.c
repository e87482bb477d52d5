/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of what is plumbing.
 * Lives here: the built-in patterns, parsing, matching.
 * Must not live here: stacks.
 */
#include "analyzer/symbols/skip_list.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/regular_file.h"

enum kind { KIND_MODULE, KIND_FUNCTION, KIND_FILE };

static const char *const kind_names[] = {"module", "function", "file"};
enum { KINDS = sizeof kind_names / sizeof *kind_names };

struct skip_pattern {
    enum kind kind;
    bool keep; /* frames that match are no plumbing */
    char *glob;
};

static const char *const built_in[] = {
    /* communication libraries, their transports and language bindings */
    "module:libcommtap*.so*",
    "module:libmpi*.so*",
    "module:libpmpi*.so*",
    "module:libmpich*.so*",
    "module:libopen-*.so*",
    "module:libnccl*.so*",
    "module:librccl*.so*",
    "module:libuc[cpst]*.so*",
    "module:libfabric*.so*",
    "module:libMPItrampoline*.so*",
    "module:libmpitrampoline*.so*",
    "module:libmpiwrapper*.so*",
    "module:libgloo*.so*",
    "module:MPI.*.so",
    "module:libdarshan*.so*",
    "function:MPI_*",
    "function:PMPI_*",
    "function:mpi_*_",
    "function:pmpi_*_",
    "function:nccl[A-Z]*",
    "function:MPI::*",
    "function:boost::mpi::*",
    "function:mpl::*",
    "function:mpi::*",
    "file:*/mpi4py/*",
    "file:*/cupy/cuda/nccl*",
    "file:*/cupyx/distributed/*",
    /* frameworks on top of them */
    "module:libtorch*.so*",
    "module:libc10*.so*",
    "module:_C.*.so",
    "module:mpi_lib*.so",
    "module:libhorovod*.so*",
    "function:c10d::*",
    "function:c10::*",
    "function:at::*",
    "function:torch::*",
    "function:aten::*",
    "function:record_param_comms",
    "function:<built-in *",
    "function:horovod::*",
    "file:*-packages/torch/*",
    "file:*/torch/distributed/*",
    "file:*/torch/nn/*",
    "file:*/torch/autograd/*",
    "file:*/torch/utils/*",
    "file:*/torch/optim/*",
    "file:*/torch/_*",
    "file:*-packages/deepspeed/*",
    "file:*/deepspeed/comm/*",
    "file:*/deepspeed/runtime/*",
    "file:*/deepspeed/utils/*",
    "file:*/horovod/*",
    "file:*-packages/lightning*/*",
    "file:*-packages/pytorch_lightning/*",
    "file:*-packages/accelerate/*",
    "file:*-packages/jax*/*",
    "file:*-packages/ray/*",
    "file:*-packages/numpy/*",
    /* how programs and threads start, and what calls back */
    "function:_start",
    "function:__libc_start*",
    "function:start_thread",
    "function:clone*",
    "function:__clone*",
    "function:_dl_*",
    "module:ld-linux*.so*",
    "module:libc.so*",
    "module:libc-*.so*",
    "module:libpthread*.so*",
    "module:libstdc++.so*",
    "module:libgomp*.so*",
    "module:libffi*.so*",
    "module:_ctypes.*.so",
    "file:<frozen *",
    "file:*/runpy.py",
    "file:*/threading.py",
    "file:*/concurrent/futures/*",
    "file:*/multiprocessing/*",
    "file:*/contextlib.py",
    "file:*/functools.py",
    /* the interpreter, where its frames could not be replaced by Python's */
    "module:python[23]*",
    "module:libpython*.so*",
};

static bool add_pattern(struct skip_list *list, const char *text) {
    struct skip_pattern pattern = {.keep = *text == '!'};
    text += pattern.keep;
    size_t kind = 0, length = strcspn(text, ":");
    while (kind < KINDS && (strlen(kind_names[kind]) != length || strncmp(kind_names[kind], text, length) != 0))
        kind++;
    pattern.kind = (enum kind)kind;
    pattern.glob = grow_list(list->patterns, list->count) ? strdup(text + length + 1) : NULL;
    if (!pattern.glob)
        return false;
    list->patterns[list->count++] = pattern;
    return true;
}

bool skip_list_init(struct skip_list *list) {
    *list = (struct skip_list){0};
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        if (!add_pattern(list, built_in[i]))
            return false;
    return true;
}

void skip_list_free(struct skip_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->patterns[i].glob);
    free(list->patterns);
    *list = (struct skip_list){0};
}

static bool is_pattern(const char *text) {
    text += *text == '!';
    for (size_t kind = 0; kind < KINDS; kind++) {
        size_t length = strlen(kind_names[kind]);
        if (strncmp(text, kind_names[kind], length) == 0 && text[length] == ':' && text[length + 1])
            return true;
    }
    return false;
}

static enum skip_result add_one(struct skip_list *list, const char *text) {
    if (strcmp(text, "none") == 0) {
        skip_list_free(list);
        return SKIP_OK;
    }
    if (!is_pattern(text))
        return SKIP_NO_PATTERN;
    return add_pattern(list, text) ? SKIP_OK : SKIP_NO_MEMORY;
}

enum skip_result skip_list_add(struct skip_list *list, const char *text) {
    enum skip_result result = add_one(list, text);
    if (result != SKIP_NO_PATTERN)
        return result;
    int descriptor = regular_file_open(AT_FDCWD, text, 0);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "r");
    if (!file && descriptor >= 0)
        close(descriptor);
    if (!file)
        return strchr(text, ':') ? SKIP_NO_PATTERN : SKIP_NO_FILE;
    char *line = NULL;
    size_t capacity = 0;
    result = SKIP_OK;
    while (result == SKIP_OK && getline(&line, &capacity, file) >= 0) {
        char *start = line + strspn(line, " \t");
        size_t length = strcspn(start, "\r\n");
        while (length > 0 && (start[length - 1] == ' ' || start[length - 1] == '\t'))
            length--;
        start[length] = '\0';
        if (length > 0 && *start != '#')
            result = add_one(list, start);
    }
    free(line);
    fclose(file);
    return result;
}

static bool matches(const struct skip_list *list, enum kind place, const char *where, const char *function) {
    for (size_t i = list->count; i-- > 0;) {
        const struct skip_pattern *pattern = &list->patterns[i];
        const char *text = pattern->kind == KIND_FUNCTION ? function : pattern->kind == place ? where : NULL;
        if (text && fnmatch(pattern->glob, text, 0) == 0)
            return !pattern->keep;
    }
    return false;
}

bool skip_native(const struct skip_list *list, const char *module, const char *function) {
    return matches(list, KIND_MODULE, module, function);
}

bool skip_python(const struct skip_list *list, const char *file, const char *function) {
    return matches(list, KIND_FILE, file, function);
}
