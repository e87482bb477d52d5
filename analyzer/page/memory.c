/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/memory.h"

#include <stdlib.h>

#include "analyzer/render/escape.h"

struct memory_key {
    uint64_t dump, device, call;
};

struct memory_device {
    struct memory_key key;
    const char *name;
    uint64_t *most; /* by interval; UINT64_MAX: no sample */
};

HASH_TABLE_OF(memory_devices, struct memory_device, struct memory_key);

void memory_free(struct memory *memory) {
    struct memory_device *devices = memory_devices_items(&memory->devices);
    for (size_t i = 0; i < memory->devices.count; i++)
        free(devices[i].most);
    hash_table_free(&memory->devices);
}

static uint64_t *cells_new(size_t intervals) {
    uint64_t *cells = malloc((intervals + 1) * sizeof *cells);
    for (size_t i = 0; cells && i < intervals; i++)
        cells[i] = UINT64_MAX;
    return cells;
}

/* NULL: there is no room for one more, or memory is short. */
static struct memory_device *device_of(struct memory *memory, const struct memory_source *source) {
    const struct memory_key key = {source->dump, source->device, source->call};
    struct memory_device *device = memory_devices_find(&memory->devices, &key);
    if (device)
        return device;
    if ((memory->devices.count + 1) * memory->intervals > MEMORY_CELLS_MOST) {
        memory->left_out++;
        return NULL;
    }
    device = memory_devices_add(&memory->devices, &key);
    if (device) {
        device->name = source->name;
        device->most = cells_new(memory->intervals);
    }
    memory->no_memory |= !device || !device->most;
    return device && device->most ? device : NULL;
}

void memory_add(struct memory *memory, const struct memory_source *source, int64_t at, uint64_t bytes) {
    if (at < 0 || at > memory->span_ns || memory->intervals == 0 || memory->no_memory)
        return;
    struct memory_device *place = device_of(memory, source);
    size_t interval = (size_t)((double)at / (double)memory->span_ns * (double)memory->intervals);
    interval = interval < memory->intervals ? interval : memory->intervals - 1;
    if (place && (place->most[interval] == UINT64_MAX || place->most[interval] < bytes))
        place->most[interval] = bytes;
}

static json_t *device_to_json(const struct memory *memory, const struct memory_device *device) {
    uint64_t peak = 0;
    json_t *bytes = json_array();
    for (size_t i = 0; i < memory->intervals; i++) {
        uint64_t most = device->most[i];
        bool known = most != UINT64_MAX;
        peak = known && most > peak ? most : peak;
        json_array_append_new(bytes,
                              known ? json_integer((json_int_t)(most < INT64_MAX ? most : INT64_MAX)) : json_null());
    }
    return json_pack("{s:I, s:I, s:o, s:I, s:o}", "dump", (json_int_t)device->key.dump, "device",
                     (json_int_t)device->key.device, "what", escape_json(device->name ? device->name : "in use"),
                     "peak_bytes", (json_int_t)(peak < INT64_MAX ? peak : INT64_MAX), "bytes", bytes);
}

json_t *memory_to_json(const struct memory *memory) {
    json_t *devices = json_array();
    const struct memory_device *items = memory_devices_items(&memory->devices);
    for (size_t i = 0; !memory->no_memory && i < memory->devices.count; i++)
        json_array_append_new(devices, device_to_json(memory, &items[i]));
    json_t *json = json_pack("{s:s, s:I, s:I, s:I, s:o}", "schema", "commtap.page.memory/1", "intervals",
                             (json_int_t)memory->intervals, "span_us", (json_int_t)(memory->span_ns / 1000),
                             "samples_left_out", (json_int_t)memory->left_out, "devices", devices);
    if (json && memory->no_memory) {
        json_decref(json);
        return NULL;
    }
    return json;
}
