/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/load/gpu_view.h"

#include <stdlib.h>

#include "analyzer/load/private.h"

/* The device that a record of a GPU names, GPU_NONE where it names none. */
static uint32_t named_gpu(const struct dump *dump, const struct record *record) {
    bool names = record_is_device(record) && record->kind != RECORD_PROXY;
    return names && record->tag >= 0 && (uint32_t)record->tag < dump->device_count ? (uint32_t)record->tag : GPU_NONE;
}

static uint32_t gpu_of_record(const struct dump *dump, const struct record *record) {
    uint32_t gpu = named_gpu(dump, record);
    return gpu == GPU_NONE && record->comm < dump->communicator_count ? dump->view->gpu_of[record->comm] : gpu;
}

bool dump_shows(const struct dump *dump, const struct record *record) {
    if (!dump->view)
        return true;
    uint32_t gpu = gpu_of_record(dump, record);
    return gpu == dump->view->gpu || (gpu == GPU_NONE && dump->view->rest);
}

const struct device_state *dump_gpu(const struct dump *dump) {
    bool has = dump->view && dump->view->gpu < dump->device_count;
    return has ? &dump->devices[dump->view->gpu] : NULL;
}

/* Notes on which GPUs the communicators of a lane's launches ran. False when memory is short. */
static bool read_lane(const struct dump *dump, uint32_t lane, uint32_t *gpu_of) {
    struct record_cursor cursor;
    if (!record_cursor_begin(&cursor, dump, lane))
        return false;
    for (const struct record *record; (record = record_cursor_next(&cursor)) != NULL;) {
        bool launch = record->kind == RECORD_GPU || record->kind == RECORD_KERNEL;
        uint32_t gpu = launch ? named_gpu(dump, record) : GPU_NONE;
        if (gpu != GPU_NONE && record->comm < dump->communicator_count && gpu_of[record->comm] == GPU_NONE)
            gpu_of[record->comm] = gpu;
    }
    record_cursor_end(&cursor);
    return true;
}

/* As the process counts them, which is not the order in which they were first used. */
static bool comes_before(const struct dump *dump, uint32_t a, uint32_t b) {
    uint32_t left = dump->devices[a].ordinal, right = dump->devices[b].ordinal;
    return left != right ? left < right : a < b;
}

/* The GPUs that communicators ran on, in their order; more than GPU_VIEWS_MOST are none. */
static uint32_t list_gpus(const struct dump *dump, const uint32_t *gpu_of, uint32_t gpus[GPU_VIEWS_MOST]) {
    uint32_t count = 0;
    for (uint32_t c = 0; c < dump->communicator_count; c++) {
        uint32_t at = 0;
        while (gpu_of[c] != GPU_NONE && at < count && comes_before(dump, gpus[at], gpu_of[c]))
            at++;
        if (gpu_of[c] == GPU_NONE || (at < count && gpus[at] == gpu_of[c]))
            continue;
        if (count == GPU_VIEWS_MOST)
            return 0;
        for (uint32_t i = count++; i > at; i--)
            gpus[i] = gpus[i - 1];
        gpus[at] = gpu_of[c];
    }
    return count;
}

/* A view: a copy of the whole dump, which owns nothing but its list of communicators. */
struct viewed {
    struct loaded loaded; /* the dump is its first member */
    struct gpu_view view;
};

static bool make_view(struct gpu_views *views, struct dump *dump, struct gpu_view view) {
    struct viewed *made = malloc(sizeof *made);
    if (!made)
        return false;
    *made = (struct viewed){.loaded = *loaded_of(dump), .view = view};
    struct dump *own = &made->loaded.dump;
    own->view = &made->view;
    own->communicators = calloc(dump->communicator_count, sizeof *own->communicators);
    views->dumps[views->count++] = own;
    for (uint32_t c = 0; own->communicators && c < dump->communicator_count; c++)
        if (view.gpu_of[c] == view.gpu || (view.gpu_of[c] == GPU_NONE && view.rest))
            own->communicators[c] = dump->communicators[c];
    return own->communicators != NULL;
}

/* An imported trace's work on GPUs does not say on which: it is taken as a whole. */
static bool may_have_views(const struct dump *dump) {
    return dump->header->pid != 0 && dump->device_count > 1 && dump->communicator_count > 1 &&
           dump_has_device_times(dump);
}

bool gpu_views_make(struct gpu_views *views, struct dump *dump) {
    uint32_t gpus[GPU_VIEWS_MOST];
    *views = (struct gpu_views){0};
    if (!may_have_views(dump))
        return true;
    views->gpu_of = malloc(dump->communicator_count * sizeof *views->gpu_of);
    bool done = views->gpu_of != NULL, mpi = dump->header->mpi_family != 0;
    for (uint32_t c = 0; done && c < dump->communicator_count; c++)
        views->gpu_of[c] = GPU_NONE;
    for (uint32_t lane = 0; done && lane < dump->lane_count; lane++)
        done = read_lane(dump, lane, views->gpu_of);
    uint32_t count = done ? list_gpus(dump, views->gpu_of, gpus) : 0;
    if (!done || count < 2)
        return done;
    if (mpi)
        done = make_view(views, dump, (struct gpu_view){dump, GPU_NONE, true, views->gpu_of});
    for (uint32_t i = 0; done && i < count; i++)
        done = make_view(views, dump, (struct gpu_view){dump, gpus[i], !mpi && i == 0, views->gpu_of});
    return done;
}

void gpu_views_free(struct gpu_views *views) {
    for (uint32_t i = 0; i < views->count; i++) {
        free(views->dumps[i]->communicators);
        free(loaded_of(views->dumps[i]));
    }
    free(views->gpu_of);
    *views = (struct gpu_views){0};
}
