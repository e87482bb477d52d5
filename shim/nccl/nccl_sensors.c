/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/nccl_sensors.h"

enum {
    FIRST = INDEX_ncclGetUniqueId, /* NCCL's rows are the table's last */
    ROWS = CALL_INDEX_COUNT - FIRST
};

struct sensor_row *sensor_rows;

bool sensors_begin(void) {
    struct sensor_row *rows = dumpfile_full_section(&recorder.file, SECTION_SENSORS, 0, ROWS, sizeof *rows);
    for (unsigned i = 0; rows && i < ROWS; i++)
        rows[i].call = commtap_calls[FIRST + i].id;
    sensor_rows = rows;
    return rows != NULL;
}

struct sensor_row *sensor_row(const struct call *call) {
    ptrdiff_t index = call - commtap_calls - FIRST;
    return sensor_rows && index >= 0 && index < ROWS ? &sensor_rows[index] : NULL;
}

void sensors_count(const struct call_frame *f) {
    struct sensor_row *row = sensor_row(f->call);
    if (!row || f->failed || !f->comm || f->comm->size == 1)
        return;
    __atomic_fetch_add(&row->wrapped, 1, __ATOMIC_RELAXED);
    if (f->flags & FLAG_CAPTURED)
        __atomic_fetch_add(&row->captured, 1, __ATOMIC_RELAXED);
}
