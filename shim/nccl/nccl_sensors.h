/* SPDX-License-Identifier: Apache-2.0
 *
 * How often each function of NCCL was seen, by which sensor: a difference is calls that one of them cannot see.
 */
#ifndef COMMTAP_NCCL_SENSORS_H
#define COMMTAP_NCCL_SENSORS_H

#include <stdbool.h>

#include "shim/nccl/nccl_frame.h"

/* Opens the section, a row per function of NCCL; false when there is no room. */
bool sensors_begin(void);

/* The row of a function; NULL where it is not NCCL's, or before sensors_begin. Any thread may count in it, atomically.
 */
struct sensor_row *sensor_row(const struct call *call);

/* An operation was seen by its wrapper. NCCL never tells its plugin of communicators of one rank. */
void sensors_count(const struct call_frame *f);

#endif
