/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants: Open MPI's mpi.h (4.1, 5.0), MPICH's mpi.h (stable since the ABI initiative of 2013, shared by Intel MPI,
 * MVAPICH and Cray MPICH), mpi_abi.h of the MPI 5.0 standard's appendix.
 */
#include "shim/mpi/mpi_abi.h"

#include <string.h>

#include "shim/base/os.h"
#include "shim/intercept/resolve.h"

struct mpi_abi mpi_abi;

/* Error classes in `refusals`: BUFFER to ARG and REQUEST; AMODE, ASSERT, BASE, DISP, FILE, INFO*, KEYVAL, LOCKTYPE,
 * RMA_SYNC, SIZE, WIN. */
#define CLASS(number)        (UINT64_C(1) << (number))
#define CLASSES(first, last) (CLASS((last) + 1) - CLASS(first))

static const struct mpi_abi families[] = {
    {.family = MPI_FAMILY_OPENMPI,
     .handle_bytes = 8,
     .status_bytes = 24,
     .status_source = 0,
     .status_tag = 1,
     .status_ignore = 0,
     .in_place = 1,
     .any_source = -1,
     .any_tag = -1,
     .proc_null = -2,
     .root = -4,
     .undefined = -32766,
     .thread_multiple = 3,
     .no_precede = 2,
     .no_succeed = 16,
     .refusals = CLASSES(1, 13) | CLASS(21) | CLASS(22) | CLASS(24) | CLASS(26) | CLASSES(30, 34) | CLASS(36) |
                 CLASS(37) | CLASS(47) | CLASS(49) | CLASS(53)},
    {.family = MPI_FAMILY_MPICH,
     .handle_bytes = 4,
     .status_bytes = 20,
     .status_source = 2,
     .status_tag = 3,
     .status_ignore = 1,
     .in_place = (uintptr_t)-1,
     .any_source = -2,
     .any_tag = -1,
     .proc_null = -1,
     .root = -3,
     .undefined = -32766,
     .thread_multiple = 3,
     .no_precede = 8192,
     .no_succeed = 16384,
     .refusals = CLASSES(1, 12) | CLASS(19) | CLASS(21) | CLASSES(27, 31) | CLASSES(45, 48) | CLASSES(50, 53),
     .comm_world = 0x44000000,
     .comm_self = 0x44000001,
     .comm_null = 0x04000000,
     .request_null = 0x2c000000,
     .win_null = 0x20000000,
     .file_null = 0,
     .group_null = 0x08000000,
     .message_no_proc = 0x6c000000,
     .type_byte = 0x4c00010d},
    {.family = MPI_FAMILY_STANDARD,
     .handle_bytes = 8,
     .status_bytes = 32,
     .status_source = 0,
     .status_tag = 1,
     .status_ignore = 0,
     .in_place = 1,
     .any_source = -1,
     .any_tag = -2,
     .proc_null = -3,
     .root = -4,
     .undefined = -32766,
     .thread_multiple = 4096,
     .no_precede = 2048,
     .no_succeed = 16384,
     .refusals = CLASSES(1, 13) | CLASS(21) | CLASS(22) | CLASS(24) | CLASS(26) | CLASSES(30, 34) | CLASS(36) |
                 CLASS(37) | CLASS(50) | CLASS(52) | CLASS(56),
     .comm_world = 0x101,
     .comm_self = 0x102,
     .comm_null = 0x100,
     .request_null = 0x180,
     .win_null = 0x110,
     .file_null = 0x118,
     .group_null = 0x108,
     .message_no_proc = 0x129,
     .type_byte = 0x247},
};

/* Predefined datatypes: the object in Open MPI, the handles of MPICH and of the standard ABI. */
static const struct predefined {
    uint8_t code;
    char openmpi[28];
    uint32_t mpich, standard;
} datatypes[] = {
    {DATATYPE_BYTE, "ompi_mpi_byte", 0x4c00010d, 0x247},
    {DATATYPE_CHAR, "ompi_mpi_char", 0x4c000101, 0x243},
    {DATATYPE_INT, "ompi_mpi_int", 0x4c000405, 0x209},
    {DATATYPE_UNSIGNED, "ompi_mpi_unsigned", 0x4c000406, 0x20d},
    {DATATYPE_LONG, "ompi_mpi_long", 0x4c000807, 0x20a},
    {DATATYPE_UNSIGNED_LONG, "ompi_mpi_unsigned_long", 0x4c000808, 0x20e},
    {DATATYPE_FLOAT, "ompi_mpi_float", 0x4c00040a, 0x210},
    {DATATYPE_DOUBLE, "ompi_mpi_double", 0x4c00080b, 0x214},
    {DATATYPE_INT8, "ompi_mpi_int8_t", 0x4c000137, 0x240},
    {DATATYPE_UINT8, "ompi_mpi_uint8_t", 0x4c00013b, 0x241},
    {DATATYPE_INT16, "ompi_mpi_int16_t", 0x4c000238, 0x248},
    {DATATYPE_UINT16, "ompi_mpi_uint16_t", 0x4c00023c, 0x249},
    {DATATYPE_INT32, "ompi_mpi_int32_t", 0x4c000439, 0x250},
    {DATATYPE_UINT32, "ompi_mpi_uint32_t", 0x4c00043d, 0x251},
    {DATATYPE_INT64, "ompi_mpi_int64_t", 0x4c00083a, 0x258},
    {DATATYPE_UINT64, "ompi_mpi_uint64_t", 0x4c00083e, 0x259},
};

static const struct predefined reductions[] = {
    {REDOP_MAX, "ompi_mpi_op_max", 0x58000001, 0x23},         {REDOP_MIN, "ompi_mpi_op_min", 0x58000002, 0x22},
    {REDOP_SUM, "ompi_mpi_op_sum", 0x58000003, 0x21},         {REDOP_PROD, "ompi_mpi_op_prod", 0x58000004, 0x24},
    {REDOP_LAND, "ompi_mpi_op_land", 0x58000005, 0x30},       {REDOP_BAND, "ompi_mpi_op_band", 0x58000006, 0x28},
    {REDOP_LOR, "ompi_mpi_op_lor", 0x58000007, 0x31},         {REDOP_BOR, "ompi_mpi_op_bor", 0x58000008, 0x29},
    {REDOP_LXOR, "ompi_mpi_op_lxor", 0x58000009, 0x32},       {REDOP_BXOR, "ompi_mpi_op_bxor", 0x5800000a, 0x2a},
    {REDOP_MINLOC, "ompi_mpi_op_minloc", 0x5800000b, 0x38},   {REDOP_MAXLOC, "ompi_mpi_op_maxloc", 0x5800000c, 0x39},
    {REDOP_REPLACE, "ompi_mpi_op_replace", 0x5800000d, 0x3c}, {REDOP_NO_OP, "ompi_mpi_op_no_op", 0x5800000e, 0x3d},
};
#define REDUCTIONS (sizeof reductions / sizeof *reductions)

static uintptr_t reduction_handles[REDUCTIONS];

static uintptr_t object(const char *name) {
    return (uintptr_t)resolve_in_provider(name);
}

static void find_openmpi_objects(void) {
    mpi_abi.comm_world = object("ompi_mpi_comm_world");
    mpi_abi.comm_self = object("ompi_mpi_comm_self");
    mpi_abi.comm_null = object("ompi_mpi_comm_null");
    mpi_abi.request_null = object("ompi_request_null");
    mpi_abi.win_null = object("ompi_mpi_win_null");
    mpi_abi.file_null = object("ompi_mpi_file_null");
    mpi_abi.group_null = object("ompi_mpi_group_null");
    mpi_abi.message_no_proc = object("ompi_message_no_proc");
    mpi_abi.type_byte = object("ompi_mpi_byte");
}

static uintptr_t handle_of(const struct predefined *p) {
    switch (mpi_abi.family) {
    case MPI_FAMILY_OPENMPI:
        return object(p->openmpi);
    case MPI_FAMILY_MPICH:
        return p->mpich;
    default:
        return p->standard;
    }
}

bool mpi_abi_detect(void) {
    const char *base = strrchr(resolve_provider_path(), '/');
    base = base ? base + 1 : resolve_provider_path();
    if (!*base)
        return false;
    if (strstr(base, "mpi_abi") || !strncmp(base, "libmuk", 6))
        mpi_abi = families[2];
    else if (object("ompi_mpi_comm_world"))
        mpi_abi = families[0];
    else
        mpi_abi = families[1];
    if (mpi_abi.family == MPI_FAMILY_OPENMPI)
        find_openmpi_objects();
    for (size_t i = 0; i < REDUCTIONS; i++)
        reduction_handles[i] = handle_of(&reductions[i]);
    return mpi_abi.comm_world != 0;
}

void mpi_abi_each_datatype(void (*visit)(uintptr_t handle, enum datatype_code code)) {
    for (size_t i = 0; i < sizeof datatypes / sizeof *datatypes; i++) {
        uintptr_t handle = handle_of(&datatypes[i]);
        if (handle)
            visit(handle, datatypes[i].code);
    }
}

/* Jobs use few reductions: handle and code of recent ones in one word each. */
#define RECENT 16u
static uint64_t recent_reductions[RECENT];

enum redop_code mpi_abi_redop(uintptr_t handle) {
    uint64_t *slot = &recent_reductions[(handle ^ handle >> 6) % RECENT];
    uint64_t known = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (likely(known >> 8 == handle))
        return (enum redop_code)(known & 0xff);
    enum redop_code code = REDOP_NONE;
    for (size_t i = 0; i < REDUCTIONS; i++)
        if (reduction_handles[i] == handle)
            code = reductions[i].code;
    if (handle < 1ull << 55) /* a user's operation freed and made again keeps the code: REDOP_NONE */
        __atomic_store_n(slot, (uint64_t)handle << 8 | code, __ATOMIC_RELAXED);
    return code;
}
