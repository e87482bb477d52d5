/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes are cached per datatype handle as size + 1 (bits 8 and up) and the code of a predefined type (low byte).
 */
#include "shim/mpi/mpi_bytes.h"

#include <errno.h>

#include "shim/base/os.h"
#include "shim/mpi/mpi_abi.h"
#include "shim/mpi/mpi_library.h"
#include "shim/mpi/mpi_topology.h"
#include "shim/record/call_cache.h"

struct handle_map *mpi_types;

static uint64_t ask_size(uintptr_t type) {
    int small = -1;
    int64_t large = -1;
    if (mpi_library.Type_size(type, &small) == 0 && small >= 0)
        return (uint64_t)small;
    if (mpi_library.Type_size_x && mpi_library.Type_size_x(type, &large) == 0 && large >= 0)
        return (uint64_t)large;
    return BYTES_UNKNOWN;
}

static void know_predefined(uintptr_t handle, enum datatype_code code) {
    uint64_t size = ask_size(handle);
    if (size != BYTES_UNKNOWN)
        handle_map_set(mpi_types, handle, (size + 1) << 8 | code);
}

bool mpi_bytes_begin(void) {
    mpi_types = os_memory(sizeof *mpi_types);
    if (mpi_types)
        mpi_abi_each_datatype(know_predefined);
    return mpi_types != NULL;
}

static uint64_t type_size(uintptr_t argument, bool ask) {
    uintptr_t handle = mpi_handle(argument), known = handle_map_get(mpi_types, handle);
    if (likely(known))
        return (known >> 8) - 1;
    if (!ask)
        return BYTES_UNKNOWN;
    int saved = errno;
    uint64_t size = ask_size(handle);
    errno = saved;
    if (size < (1ull << 55))
        handle_map_set(mpi_types, handle, (size + 1) << 8);
    return size;
}

void mpi_bytes_forget_type(uintptr_t handle) {
    if (handle_map_get(mpi_types, handle) & 0xff) /* predefined: the call will fail */
        return;
    handle_map_remove(mpi_types, handle);
    call_cache_forget();
}

/* ---- arguments ------------------------------------------------------------------------------- */

struct counts { /* one (count, type) pair of arguments, scalar or array */
    const struct call *call;
    const uintptr_t *arguments;
    uint8_t count, type;
};

static int64_t scalar_count(const struct counts *c) {
    uintptr_t value = c->arguments[c->count - 1];
    return c->call->bits & CALL_LARGE ? (int64_t)value : (int32_t)value;
}

static int64_t count_at(const struct counts *c, uint32_t i) {
    const void *array = (const void *)c->arguments[c->count - 1];
    return c->call->bits & CALL_LARGE ? ((const int64_t *)array)[i] : ((const int32_t *)array)[i];
}

static uint64_t times(int64_t count, uint64_t size) {
    return count < 0 || size == BYTES_UNKNOWN ? BYTES_UNKNOWN : (uint64_t)count * size;
}

static uint64_t scalar(const struct counts *c, bool ask) {
    int64_t count = scalar_count(c);
    return count == 0 ? 0 : times(count, type_size(c->arguments[c->type - 1], ask));
}

static uint64_t sum_of_counts(const struct counts *c, uint32_t n, uint64_t missing, bool ask) {
    if (n && !c->arguments[c->count - 1]) /* the library will say what is wrong */
        return BYTES_UNKNOWN;
    int64_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        if (i >= 64 || !(missing >> i & 1))
            total += count_at(c, i);
    return total == 0 ? 0 : times(total, type_size(c->arguments[c->type - 1], ask));
}

static uint64_t sum_of_types(const struct counts *c, uint32_t n, uint64_t missing, bool ask) {
    if (n && (!c->arguments[c->count - 1] || !c->arguments[c->type - 1]))
        return BYTES_UNKNOWN;
    uint64_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t count = i < 64 && missing >> i & 1 ? 0 : count_at(c, i);
        if (count == 0) /* its datatype need not be valid */
            continue;
        uint64_t bytes = times(count, type_size(mpi_handle_at(c->arguments[c->type - 1], i), ask));
        if (bytes == BYTES_UNKNOWN)
            return BYTES_UNKNOWN;
        total += bytes;
    }
    return total;
}

static uint64_t multiplied(uint64_t bytes, uint64_t n) {
    return bytes == BYTES_UNKNOWN ? bytes : bytes * n;
}

/* ---- formulas -------------------------------------------------------------------------------- */

static uint64_t neighbours(const struct call *call, const struct counts *c, struct mpi_communicator *comm, bool ask) {
    if (comm->outdegree < 0) {
        if (!ask)
            return BYTES_UNKNOWN;
        mpi_topology_count(comm);
    }
    switch (call->bytes) {
    case BYTES_NEIGHBOR:
        return comm->outdegree == 0 ? 0 : multiplied(scalar(c, ask), (uint64_t)comm->outdegree);
    case BYTES_NEIGHBOR_V:
        return sum_of_counts(c, comm->neighbours, comm->missing, ask);
    default:
        return sum_of_types(c, comm->neighbours, comm->missing, ask);
    }
}

/* Formulas that count the communicator's members. */
static uint64_t bytes_of_all(const struct call *call, const struct counts *first, const struct counts *second,
                             struct communicator *comm, bool root, bool ask) {
    bool in_place = call->inplace && first->arguments[call->inplace - 1] == mpi_abi.in_place;
    uint32_t n = comm->others;
    switch (call->bytes) {
    case BYTES_COUNT_N:
        return multiplied(scalar(first, ask), n);
    case BYTES_SUM: /* a reduction is scattered over the local group, a gather collects from the other one */
        return sum_of_counts(first, call->redop ? comm->size : n, 0, ask);
    case BYTES_GATHER:
        return multiplied(scalar(root ? second : first, ask), n);
    case BYTES_SCATTER:
        return multiplied(scalar(root ? first : second, ask), n);
    case BYTES_GATHERV:
        return root ? sum_of_counts(second, n, 0, ask) : scalar(first, ask);
    case BYTES_SCATTERV:
        return root ? sum_of_counts(first, n, 0, ask) : scalar(second, ask);
    case BYTES_ALLTOALLV:
        return sum_of_counts(in_place ? second : first, n, 0, ask);
    case BYTES_ALLTOALLW:
        return sum_of_types(in_place ? second : first, n, 0, ask);
    default:
        return neighbours(call, first, mpi_communicator(comm), ask);
    }
}

uint64_t mpi_bytes(const struct call *call, const uintptr_t *arguments, struct communicator *comm, bool root,
                   bool ask) {
    const struct counts first = {call, arguments, call->count, call->type};
    const struct counts second = {call, arguments, call->count2, call->type2};
    switch (call->bytes) {
    case BYTES_ZERO:
        return 0;
    case BYTES_COUNT:
        return scalar(&first, ask);
    case BYTES_ELEMENT:
        return type_size(arguments[call->type - 1], ask);
    case BYTES_PARTITIONED: /* the count of one partition is an MPI_Count also without _c */
        return multiplied(times((int64_t)arguments[call->count - 1], type_size(arguments[call->type - 1], ask)),
                          (uint64_t)scalar_count(&second));
    default:
        return comm ? bytes_of_all(call, &first, &second, comm, root, ask) : BYTES_UNKNOWN;
    }
}

uint64_t mpi_bytes_second(const struct call *call, const uintptr_t *arguments, bool ask) {
    const struct counts second = {call, arguments, call->count2, call->type2};
    return scalar(&second, ask);
}

uint64_t mpi_bytes_received(const void *status) {
    int small = -1;
    int64_t large = -1;
    int saved = errno;
    uint64_t bytes = BYTES_UNKNOWN;
    if (mpi_library.Get_count(status, mpi_abi.type_byte, &small) == 0 && small >= 0)
        bytes = (uint64_t)small;
    else if (mpi_library.Get_elements_x && mpi_library.Get_elements_x(status, mpi_abi.type_byte, &large) == 0 &&
             large >= 0)
        bytes = (uint64_t)large;
    errno = saved;
    return bytes;
}
