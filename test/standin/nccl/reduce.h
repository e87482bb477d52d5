/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of the stand-in's reductions. Lives here: element sizes, names, and acc = acc OP in for every type.
 * Must not live here: who sends what to whom.
 */
#ifndef STANDIN_NCCL_REDUCE_H
#define STANDIN_NCCL_REDUCE_H

#include "test/standin/nccl_api.h"

/* An operator with its scalar resolved: built-in ones as they are, a user's as ncclSum with `scale`. */
struct reduction_op {
    ncclRedOp_t op;             /* ncclSum .. ncclAvg */
    int premultiply;            /* multiply this rank's own input by the scalar first */
    int scalar_on_device;       /* scalar is read when the operation runs */
    const void *pointer;        /* where, if so */
    unsigned char immediate[8]; /* else its value, in the element type */
};

/* Bytes of an element; 0 for an unknown type. */
size_t type_size(ncclDataType_t type);
/* "ncclFloat32" and the like, as the library names them to a profiler. */
const char *type_name(ncclDataType_t type);
/* Can elements of this type be reduced here? (fp8 needs a GPU newer than the one played.) */
int type_reduces(ncclDataType_t type);

/* accumulator[i] = accumulator[i] op in[i]; ncclAvg adds (divide when all are in). */
void reduce_into(void *accumulator, const void *in, size_t count, ncclDataType_t type, ncclRedOp_t op);
/* The average's division by `ranks`. */
void reduce_divide(void *data, size_t count, ncclDataType_t type, int ranks);
/* data[i] *= scalar, the scalar being an element of the same type. */
void reduce_scale(void *data, size_t count, ncclDataType_t type, const void *scalar);

#endif
