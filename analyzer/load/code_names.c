/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: the tables. Must not live here: how unknown ones are shown.
 */
#include "analyzer/load/code_names.h"

#include <stddef.h>

#include "shim/format.h"

static const char *const datatype_names[DATATYPE_CODES] = {
    [DATATYPE_OTHER] = "other",
    [DATATYPE_BYTE] = "byte",
    [DATATYPE_CHAR] = "char",
    [DATATYPE_INT] = "int",
    [DATATYPE_UNSIGNED] = "unsigned",
    [DATATYPE_LONG] = "long",
    [DATATYPE_UNSIGNED_LONG] = "unsigned long",
    [DATATYPE_FLOAT] = "float",
    [DATATYPE_DOUBLE] = "double",
    [DATATYPE_INT8] = "int8",
    [DATATYPE_UINT8] = "uint8",
    [DATATYPE_INT16] = "int16",
    [DATATYPE_UINT16] = "uint16",
    [DATATYPE_INT32] = "int32",
    [DATATYPE_UINT32] = "uint32",
    [DATATYPE_INT64] = "int64",
    [DATATYPE_UINT64] = "uint64",
    [DATATYPE_HALF] = "half",
    [DATATYPE_BFLOAT16] = "bfloat16",
    [DATATYPE_FP8_E4M3] = "fp8_e4m3",
    [DATATYPE_FP8_E5M2] = "fp8_e5m2",
};

const char *datatype_name(uint8_t code) {
    return code < DATATYPE_CODES ? datatype_names[code] : NULL;
}

static const char *const redop_names[REDOP_CODES] = {
    [REDOP_MAX] = "max",         [REDOP_MIN] = "min",     [REDOP_SUM] = "sum",       [REDOP_PROD] = "prod",
    [REDOP_LAND] = "land",       [REDOP_BAND] = "band",   [REDOP_LOR] = "lor",       [REDOP_BOR] = "bor",
    [REDOP_LXOR] = "lxor",       [REDOP_BXOR] = "bxor",   [REDOP_MINLOC] = "minloc", [REDOP_MAXLOC] = "maxloc",
    [REDOP_REPLACE] = "replace", [REDOP_NO_OP] = "no_op", [REDOP_AVG] = "avg",
};

const char *redop_name(uint8_t code) {
    return code < REDOP_CODES ? redop_names[code] : NULL;
}
