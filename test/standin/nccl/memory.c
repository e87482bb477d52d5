/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers and operators of the stand-in NCCL. Lives here: allocation, registration, windows, device communicators, user
 * reduction operators. Registration changes no behaviour: the stand-in has no faster path for registered buffers.
 */
#include "test/standin/nccl/communicator.h"

#include <stdlib.h>
#include <string.h>

#define HANDLE_MAGIC 0x72656769u

struct registration {
    unsigned magic;
    ncclComm_t comm;
    void *buffer;
    size_t size;
};

NCCL_API(ncclResult_t, ncclMemAlloc, void **pointer, size_t size) {
    if (!pointer || size == 0)
        return ncclInvalidArgument;
    const struct device_functions *driver = device_driver();
    device_context context = device_primary(device_of_thread());
    if (!context)
        return ncclUnhandledCudaError;
    device_enter(context);
    int error = driver->memory_allocate(pointer, size);
    device_leave();
    return error ? ncclUnhandledCudaError : ncclSuccess;
}

NCCL_API(ncclResult_t, ncclMemFree, void *pointer) {
    if (!pointer)
        return ncclSuccess;
    const struct device_functions *driver = device_driver();
    if (!driver)
        return ncclUnhandledCudaError;
    device_enter(device_primary(device_of_thread()));
    int error = driver->memory_free(pointer);
    device_leave();
    return error ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t enter_registration(ncclComm_t comm, void *buffer, size_t size, void **handle) {
    ncclResult_t result = communicator_check(comm);
    if (result != ncclSuccess)
        return result;
    struct registration *r = malloc(sizeof *r);
    if (!r)
        return ncclSystemError;
    *r = (struct registration){.magic = HANDLE_MAGIC, .comm = comm, .buffer = buffer, .size = size};
    *handle = r;
    return ncclSuccess;
}

static ncclResult_t drop_registration(ncclComm_t comm, void *handle) {
    struct registration *r = handle;
    ncclResult_t result = communicator_check(comm);
    if (result != ncclSuccess || !r)
        return result;
    if (r->magic != HANDLE_MAGIC || r->comm != comm)
        return ncclInvalidArgument;
    r->magic = 0;
    free(r);
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommRegister, ncclComm_t comm, void *buffer, size_t size, void **handle) {
    return handle ? enter_registration(comm, buffer, size, handle) : ncclInvalidArgument;
}

NCCL_API(ncclResult_t, ncclCommDeregister, ncclComm_t comm, void *handle) {
    return drop_registration(comm, handle);
}

NCCL_API(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window,
         int flags) {
    (void)flags;
    return window && buffer ? enter_registration(comm, buffer, size, (void **)window) : ncclInvalidArgument;
}

NCCL_API(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t window) {
    return drop_registration(comm, window);
}

/* Device communicators need kernels of the job's own: refused, as on hardware without symmetric memory. */
NCCL_API(ncclResult_t, ncclDevCommCreate, ncclComm_t comm, const void *requirements, void *device_comm) {
    ncclResult_t result = communicator_check(comm);
    (void)requirements;
    (void)device_comm;
    if (result == ncclSuccess)
        message_set("Communicator does not support symmetric memory!");
    return result == ncclSuccess ? ncclInvalidUsage : result;
}

NCCL_API(ncclResult_t, ncclDevCommDestroy, ncclComm_t comm, const void *device_comm) {
    (void)device_comm;
    return communicator_check(comm);
}

NCCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t *op, void *scalar, ncclDataType_t type,
         ncclScalarResidence_t residence, ncclComm_t comm) {
    ncclResult_t result = communicator_check(comm);
    if (result == ncclSuccess)
        result = communicator_ready(comm);
    if (result != ncclSuccess)
        return result;
    if (!op || !scalar || type_size(type) == 0)
        return ncclInvalidArgument;
    int free_op = 0;
    while (free_op < MAX_USER_OPS && comm->user_ops[free_op].used)
        free_op++;
    if (free_op == MAX_USER_OPS)
        return ncclInternalError;
    struct user_op *user = &comm->user_ops[free_op];
    *user = (struct user_op){.used = true, .type = type, .op = {.op = ncclSum, .premultiply = 1}};
    if (residence == ncclScalarHostImmediate) {
        memcpy(user->op.immediate, scalar, type_size(type));
    } else {
        user->op.scalar_on_device = 1;
        user->op.pointer = scalar;
    }
    *op = (ncclRedOp_t)(ncclNumOps + free_op);
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
    int user = (int)op - ncclNumOps;
    if (communicator_check(comm) != ncclSuccess || user < 0 || user >= MAX_USER_OPS || !comm->user_ops[user].used)
        return ncclInvalidArgument;
    comm->user_ops[user].used = false;
    return ncclSuccess;
}
