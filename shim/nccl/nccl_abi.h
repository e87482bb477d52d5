/* SPDX-License-Identifier: Apache-2.0
 *
 * What the shim knows of NCCL's binary interface: results, the unique id, datatypes, reductions, the head of a
 * configuration. Published in nccl.h (NVIDIA/nccl, src/nccl.h.in) and the same in RCCL; a test compares them with the
 * real header where there is one.
 * Must not live here: functions (calls.def), anything private to a library.
 */
#ifndef COMMTAP_NCCL_ABI_H
#define COMMTAP_NCCL_ABI_H

#include <stdint.h>

#include "shim/format.h"

enum nccl_result { NCCL_SUCCESS = 0, NCCL_SYSTEM_ERROR = 2, NCCL_IN_PROGRESS = 7 };

#define NCCL_UNIQUE_ID_SIZE 128
struct nccl_unique_id {
    char internal[NCCL_UNIQUE_ID_SIZE];
};

#define NCCL_CONFIG_MAGIC 0xcafebeefu

/* ncclConfig_t up to the name of the communicator, as it is since 2.27. */
struct nccl_config {
    uint64_t size;
    uint32_t magic;
    uint32_t version; /* NCCL_VERSION_CODE that the program was built with */
    int32_t blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int32_t split_share, traffic_class;
    const char *comm_name;
};
#define NCCL_CONFIG_HAS_NAME 22700u /* first version with comm_name */

#define NCCL_DATATYPES 12u
#define NCCL_REDOPS    5u

struct nccl_datatype {
    uint8_t code; /* enum datatype_code */
    uint8_t size; /* bytes */
};

/* By ncclDataType_t. */
static const struct nccl_datatype nccl_datatypes[NCCL_DATATYPES] = {
    {DATATYPE_INT8, 1},   {DATATYPE_UINT8, 1},    {DATATYPE_INT32, 4},    {DATATYPE_UINT32, 4},
    {DATATYPE_INT64, 8},  {DATATYPE_UINT64, 8},   {DATATYPE_HALF, 2},     {DATATYPE_FLOAT, 4},
    {DATATYPE_DOUBLE, 8}, {DATATYPE_BFLOAT16, 2}, {DATATYPE_FP8_E4M3, 1}, {DATATYPE_FP8_E5M2, 1},
};

/* By ncclRedOp_t: sum, prod, max, min, avg. Larger ones are the user's. */
static const uint8_t nccl_redops[NCCL_REDOPS] = {REDOP_SUM, REDOP_PROD, REDOP_MAX, REDOP_MIN, REDOP_AVG};

#endif
