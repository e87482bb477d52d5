/* SPDX-License-Identifier: Apache-2.0
 *
 * What a dump holds about GPUs, as lines of "what key value key value ...", in the units of the file: records of the
 * harvester's lane, devices, anchors, sensors, transfers, losses. For tests of the shim alone; the analyzer has its
 * own, careful reader.
 *
 *   show FILE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/format.h"

static char *file_bytes;

static void show_records(const struct section *section) {
    const struct record *records = (const void *)(file_bytes + section->offset);
    for (uint32_t i = 0; i < section->count; i++) {
        const struct record *r = &records[i];
        if (r->commit)
            printf("record kind %u t0 %lu t1 %lu op %u comm %u device %d captured %d seq %u\n", r->kind, r->t0, r->t1,
                   r->op, r->comm, r->tag, !!(r->flags & FLAG_CAPTURED), r->seq);
    }
}

static void show_rows(const struct section *section) {
    const struct operation_row *rows = (const void *)(file_bytes + section->offset);
    for (uint32_t i = 0; i < section->count; i++)
        if (rows[i].version)
            printf("row comm %u source %u count %lu time %lu\n", rows[i].comm_epoch & ROW_COMM_NONE, rows[i].source,
                   rows[i].count, rows[i].time_total);
}

static void show_devices(const struct section *section) {
    const struct device_state *rows = (const void *)(file_bytes + section->offset);
    for (uint32_t i = 0; i < section->count; i++)
        if (rows[i].version)
            printf("device index %u ordinal %u capacity %lu used %lu samples %lu exposed %lu waits %lu busy %lu\n", i,
                   rows[i].ordinal, rows[i].capacity, rows[i].memory_used, rows[i].memory_samples, rows[i].exposed_ns,
                   rows[i].exposed_waits, rows[i].busy_ns);
}

static void show_anchors(const struct section *section) {
    const struct device_anchor *rows = (const void *)(file_bytes + section->offset);
    for (uint32_t i = 0; i < section->count; i++)
        if (rows[i].version)
            printf("anchor device %u at %lu width %lu\n", rows[i].device, rows[i].monotonic_ns, rows[i].width_ns);
}

static void show_sensors(const struct section *section) {
    const struct sensor_row *rows = (const void *)(file_bytes + section->offset);
    for (uint32_t i = 0; i < section->count; i++)
        if (rows[i].wrapped || rows[i].plugged)
            printf("sensor call %u wrapped %lu plugged %lu captured %lu\n", rows[i].call, rows[i].wrapped,
                   rows[i].plugged, rows[i].captured);
}

static void show_transfers(const struct section *section) {
    const struct transfer_row *rows = (const void *)(file_bytes + section->offset);
    for (uint32_t i = 0; i < section->count; i++)
        if (rows[i].version)
            printf("transfer comm %u peer %d sends %u channels %u operations %lu steps %lu bytes %lu gpu %lu peers %lu "
                   "wire %lu flush %lu\n",
                   rows[i].comm, rows[i].peer, rows[i].sends, rows[i].channels, rows[i].operations, rows[i].steps,
                   rows[i].bytes, rows[i].wait_gpu, rows[i].wait_peer, rows[i].wait_wire, rows[i].wait_flush);
}

int main(int argc, char **argv) {
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!file || fseek(file, 0, SEEK_END) != 0)
        return 2;
    size_t bytes = (size_t)ftell(file);
    file_bytes = malloc(bytes);
    rewind(file);
    if (!file_bytes || bytes < SECTION_ALIGN || fread(file_bytes, 1, bytes, file) != bytes)
        return 2;
    const struct dump_header *h = (const void *)file_bytes;
    printf("header exited %d mode %u no_event %lu unfinished %lu failed %lu replays_untimed %lu "
           "unfollowed %lu\n",
           !!(h->state & STATE_EXITED), h->gpu_timing, h->losses.gpu_no_event, h->losses.gpu_unfinished,
           h->losses.gpu_failed, h->losses.replays_untimed, h->captured_unfollowed);
    printf("why %s\n", h->gpu_timing_why);
    uint32_t lane = UINT32_MAX;
    for (uint32_t i = 0; i < h->section_limit; i++)
        if (h->sections[i].kind == SECTION_LANES)
            for (uint32_t k = 0; k < h->sections[i].count; k++)
                if (((const struct lane_state *)(const void *)(file_bytes + h->sections[i].offset))[k].device)
                    lane = k;
    for (uint32_t i = 0; i < h->section_limit; i++) {
        const struct section *section = &h->sections[i];
        if (section->kind == SECTION_RING && section->index == lane)
            show_records(section);
        else if (section->kind == SECTION_OPERATIONS && section->index == lane)
            show_rows(section);
        else if (section->kind == SECTION_DEVICES)
            show_devices(section);
        else if (section->kind == SECTION_DEVICE_ANCHORS)
            show_anchors(section);
        else if (section->kind == SECTION_SENSORS)
            show_sensors(section);
        else if (section->kind == SECTION_TRANSFERS)
            show_transfers(section);
    }
    free(file_bytes);
    return fclose(file);
}
