/* SPDX-License-Identifier: Apache-2.0
 *
 * See reduce.h. The 16-bit floats are computed in float, one rounding (to nearest even) per step, as the kernels
 * do.
 */
#include "test/standin/nccl/reduce.h"

#include <math.h>
#include <string.h>

static const struct {
    size_t size;
    const char *name;
} types[ncclNumTypes] = {
    [ncclInt8] = {1, "ncclInt8"},
    [ncclUint8] = {1, "ncclUint8"},
    [ncclInt32] = {4, "ncclInt32"},
    [ncclUint32] = {4, "ncclUint32"},
    [ncclInt64] = {8, "ncclInt64"},
    [ncclUint64] = {8, "ncclUint64"},
    [ncclFloat16] = {2, "ncclFloat16"},
    [ncclFloat32] = {4, "ncclFloat32"},
    [ncclFloat64] = {8, "ncclFloat64"},
    [ncclBfloat16] = {2, "ncclBfloat16"},
    [ncclFloat8e4m3] = {1, "ncclFloat8e4m3"},
    [ncclFloat8e5m2] = {1, "ncclFloat8e5m2"},
};

size_t type_size(ncclDataType_t type) {
    return (unsigned)type < ncclNumTypes ? types[type].size : 0;
}

const char *type_name(ncclDataType_t type) {
    return (unsigned)type < ncclNumTypes ? types[type].name : "Unknown";
}

int type_reduces(ncclDataType_t type) {
    return type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

static float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float from_bf16(uint16_t h) {
    return bits_float((uint32_t)h << 16);
}

static uint16_t to_bf16(float value) {
    uint32_t bits = float_bits(value);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_fp16(uint16_t h) {
    int exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
    float sign = h & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31)
        return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf((float)(mantissa | 0x400), exponent - 25) : ldexpf((float)mantissa, -24));
}

static uint16_t to_fp16(float value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float magnitude = fabsf(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (magnitude >= 65520.0f) /* halfway beyond the largest finite value rounds to infinity */
        return sign | 0x7c00;
    if (magnitude < 0x1p-14f)
        return (uint16_t)(sign | (uint16_t)rintf(ldexpf(magnitude, 24)));
    int exponent;
    float fraction = frexpf(magnitude, &exponent); /* in [0.5, 1) */
    /* A mantissa that rounds up to 2048 carries into the exponent by itself. */
    return (uint16_t)(sign | (uint16_t)(((exponent + 13) << 10) + (int)rintf(ldexpf(fraction, 11))));
}

static float identity_float(float value) {
    return value;
}

static double identity_double(double value) {
    return value;
}

/* One loop per operator, so that each is a plain vector loop. LOAD and STORE convert between storage and arithmetic. */
#define REDUCE(name, storage, LOAD, STORE)                                                                             \
    static void name(void *accumulator, const void *input, size_t count, ncclRedOp_t op) {                             \
        storage *acc = accumulator;                                                                                    \
        const storage *in = input;                                                                                     \
        switch (op) {                                                                                                  \
        case ncclProd:                                                                                                 \
            for (size_t i = 0; i < count; i++)                                                                         \
                acc[i] = (storage)STORE(LOAD(acc[i]) * LOAD(in[i]));                                                   \
            break;                                                                                                     \
        case ncclMax:                                                                                                  \
            for (size_t i = 0; i < count; i++)                                                                         \
                acc[i] = LOAD(in[i]) > LOAD(acc[i]) ? in[i] : acc[i];                                                  \
            break;                                                                                                     \
        case ncclMin:                                                                                                  \
            for (size_t i = 0; i < count; i++)                                                                         \
                acc[i] = LOAD(in[i]) < LOAD(acc[i]) ? in[i] : acc[i];                                                  \
            break;                                                                                                     \
        default:                                                                                                       \
            for (size_t i = 0; i < count; i++)                                                                         \
                acc[i] = (storage)STORE(LOAD(acc[i]) + LOAD(in[i]));                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    static void name##_divide(void *data, size_t count, int ranks) {                                                   \
        storage *at = data;                                                                                            \
        for (size_t i = 0; i < count; i++)                                                                             \
            at[i] = (storage)STORE(LOAD(at[i]) / ranks);                                                               \
    }                                                                                                                  \
    static void name##_scale(void *data, size_t count, const void *scalar) {                                           \
        storage *at = data, factor;                                                                                    \
        memcpy(&factor, scalar, sizeof factor);                                                                        \
        for (size_t i = 0; i < count; i++)                                                                             \
            at[i] = (storage)STORE(LOAD(at[i]) * LOAD(factor));                                                        \
    }

/* Sums and products of the narrow types are exact here and wrap when stored; those of 64 bits wrap as built (-fwrapv).
 */
#define WIDEN_SIGNED(x)   ((int64_t)(x))
#define WIDEN_UNSIGNED(x) ((uint64_t)(x))
#define AS_IS(x)          (x)

REDUCE(reduce_int8, int8_t, WIDEN_SIGNED, AS_IS)
REDUCE(reduce_uint8, uint8_t, WIDEN_UNSIGNED, AS_IS)
REDUCE(reduce_int32, int32_t, WIDEN_SIGNED, AS_IS)
REDUCE(reduce_uint32, uint32_t, WIDEN_UNSIGNED, AS_IS)
REDUCE(reduce_int64, int64_t, WIDEN_SIGNED, AS_IS)
REDUCE(reduce_uint64, uint64_t, WIDEN_UNSIGNED, AS_IS)
REDUCE(reduce_float32, float, identity_float, identity_float)
REDUCE(reduce_float64, double, identity_double, identity_double)
REDUCE(reduce_float16, uint16_t, from_fp16, to_fp16)
REDUCE(reduce_bfloat16, uint16_t, from_bf16, to_bf16)

static const struct {
    void (*into)(void *, const void *, size_t, ncclRedOp_t);
    void (*divide)(void *, size_t, int);
    void (*scale)(void *, size_t, const void *);
} arithmetic[ncclNumTypes] = {
#define ARITHMETIC(type, name) [type] = {name, name##_divide, name##_scale}
    ARITHMETIC(ncclInt8, reduce_int8),       ARITHMETIC(ncclUint8, reduce_uint8),
    ARITHMETIC(ncclInt32, reduce_int32),     ARITHMETIC(ncclUint32, reduce_uint32),
    ARITHMETIC(ncclInt64, reduce_int64),     ARITHMETIC(ncclUint64, reduce_uint64),
    ARITHMETIC(ncclFloat16, reduce_float16), ARITHMETIC(ncclFloat32, reduce_float32),
    ARITHMETIC(ncclFloat64, reduce_float64), ARITHMETIC(ncclBfloat16, reduce_bfloat16),
};

void reduce_into(void *accumulator, const void *in, size_t count, ncclDataType_t type, ncclRedOp_t op) {
    arithmetic[type].into(accumulator, in, count, op);
}

void reduce_divide(void *data, size_t count, ncclDataType_t type, int ranks) {
    arithmetic[type].divide(data, count, ranks);
}

void reduce_scale(void *data, size_t count, ncclDataType_t type, const void *scalar) {
    arithmetic[type].scale(data, count, scalar);
}
