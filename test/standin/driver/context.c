/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: the primary one of each device, those that the job creates, and each thread's stack of current ones.
 */
#include "test/standin/driver/engine.h"

enum { STACK_DEPTH = 64 };

static struct {
    CUcontext context; /* NULL while inactive */
    unsigned retained, flags;
} primaries[MAX_DEVICES];

static _Thread_local struct {
    CUcontext items[STACK_DEPTH];
    int depth;
} stack;

CUresult context_check(CUcontext context) {
    if (!context || context->object.kind != KIND_CONTEXT)
        return CUDA_ERROR_INVALID_CONTEXT;
    return context->object.destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult context_current(CUcontext *context) {
    if (!stack.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack.items[stack.depth - 1];
    return context_check(*context);
}

static CUcontext context_new(CUdevice device, unsigned flags, void *caller) {
    CUcontext context = allocate(sizeof *context);
    context->object.kind = KIND_CONTEXT;
    context->id = engine_next_id();
    context->device = device;
    context->flags = flags;
    context->legacy = stream_new(context, CU_STREAM_DEFAULT, 0);
    context->legacy->implicit = true;
    count_call(STANDIN_CREATE_CONTEXT, caller);
    return context;
}

/* Its memory stays: threads may have it on their stacks, and objects of it are recognized by it. */
static void context_destroy(CUcontext context) {
    context->object.destroyed = true;
    for (CUstream stream = context->streams; stream; stream = stream->next)
        capture_leave(stream);
    context_abandon_work(context);
    context->legacy = NULL;
    memory_of_context_destroyed(context);
}

CUcontext context_of_events(CUcontext context) {
    return context->primary ? context->primary : context;
}

/* A part of the device; which one makes no difference here. */
EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc description, CUdevice device, unsigned flags) {
    ENTER();
    (void)description, (void)flags;
    if (!green)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    if (device < 0 || device >= knobs.devices || !primaries[device].context)
        LEAVE(CUDA_ERROR_INVALID_DEVICE);
    CUcontext context = context_new(device, 0, __builtin_return_address(0));
    context->primary = primaries[device].context;
    *green = (CUgreenCtx)context;
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green) {
    ENTER();
    CUresult result = context ? context_check((CUcontext)green) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *context = (CUcontext)green;
    LEAVE(result);
}

static bool is_primary(CUcontext context) {
    return primaries[context->device].context == context;
}

static CUresult device_check(CUdevice device) {
    return device < 0 || device >= knobs.devices ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult primary_destroy(CUdevice device) {
    CUcontext context = primaries[device].context;
    primaries[device].context = NULL;
    primaries[device].retained = 0;
    if (context)
        context_destroy(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    ENTER();
    if (!context)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    if (device_check(device))
        LEAVE(CUDA_ERROR_INVALID_DEVICE);
    if (!primaries[device].context)
        primaries[device].context = context_new(device, primaries[device].flags, __builtin_return_address(0));
    primaries[device].retained++;
    *context = primaries[device].context;
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    ENTER();
    if (device_check(device))
        LEAVE(CUDA_ERROR_INVALID_DEVICE);
    if (!primaries[device].retained)
        LEAVE(CUDA_ERROR_INVALID_CONTEXT);
    if (--primaries[device].retained == 0)
        LEAVE(primary_destroy(device));
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return cuDevicePrimaryCtxRelease_v2(device);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    ENTER();
    if (device_check(device))
        LEAVE(CUDA_ERROR_INVALID_DEVICE);
    primaries[device].flags = flags;
    if (primaries[device].context)
        primaries[device].context->flags = flags;
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    ENTER();
    if (device_check(device))
        LEAVE(CUDA_ERROR_INVALID_DEVICE);
    *flags = primaries[device].flags;
    *active = primaries[device].context != NULL;
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    ENTER();
    LEAVE(device_check(device) ? CUDA_ERROR_INVALID_DEVICE : primary_destroy(device));
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    return cuDevicePrimaryCtxReset_v2(device);
}

static CUresult push(CUcontext context) {
    if (stack.depth == STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    stack.items[stack.depth++] = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    ENTER();
    if (!context)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    if (device_check(device))
        LEAVE(CUDA_ERROR_INVALID_DEVICE);
    *context = context_new(device, flags, __builtin_return_address(0));
    LEAVE(push(*context));
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device) {
    return parameters ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(context, flags, device);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
    ENTER();
    CUresult result = context_check(context);
    if (!result && is_primary(context))
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        LEAVE(result);
    if (stack.depth && stack.items[stack.depth - 1] == context)
        stack.depth--;
    context_destroy(context);
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
    ENTER();
    CUresult result = context_check(context);
    LEAVE(result ? result : push(context));
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    ENTER();
    if (!stack.depth)
        LEAVE(CUDA_ERROR_INVALID_CONTEXT);
    stack.depth--;
    if (context)
        *context = stack.items[stack.depth];
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    ENTER();
    CUresult result = context ? context_check(context) : CUDA_SUCCESS;
    if (result)
        LEAVE(result);
    if (stack.depth)
        stack.depth--;
    LEAVE(context ? push(context) : CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
    ENTER();
    if (!context)
        LEAVE(CUDA_ERROR_INVALID_VALUE);
    *context = stack.depth ? stack.items[stack.depth - 1] : NULL;
    LEAVE(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
    ENTER();
    CUcontext context;
    CUresult result = context_current(&context);
    if (!result)
        *device = context->device;
    LEAVE(result);
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
    ENTER();
    CUresult result = context ? context_check(context) : context_current(&context);
    if (!result)
        *device = context->device;
    LEAVE(result);
}

EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
    ENTER();
    CUcontext context;
    CUresult result = context_current(&context);
    if (!result)
        *flags = context->flags;
    LEAVE(result);
}

EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
    ENTER();
    CUresult result = context ? context_check(context) : context_current(&context);
    if (!result)
        *id = context->id;
    LEAVE(result);
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
    ENTER();
    CUresult result = context ? context_check(context) : context_current(&context);
    if (!result)
        *version = 3020; /* of every context since CUDA 3.2 */
    LEAVE(result);
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    ENTER();
    CUcontext context;
    CUresult result = context_current(&context);
    if (!result && least)
        *least = 0;
    if (!result && greatest)
        *greatest = -5;
    LEAVE(result);
}

void context_wait(CUcontext context) {
    struct work_list all = {0};
    for (CUstream stream = context->streams; stream; stream = stream->next)
        works_add(&all, stream->last);
    for (size_t i = 0; i < all.count; i++)
        work_wait(all.items[i]);
    works_clear(&all);
}

static CUresult synchronize(CUcontext context, void *caller) {
    CUresult result = context ? context_check(context) : context_current(&context);
    if (!result)
        result = capture_check_wait_context(context);
    if (result)
        return result;
    count_call(STANDIN_SYNCHRONIZE, caller);
    context_wait(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void) {
    ENTER();
    LEAVE(synchronize(NULL, __builtin_return_address(0)));
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext context) {
    ENTER();
    LEAVE(synchronize(context, __builtin_return_address(0)));
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    ENTER();
    LEAVE(flags ? CUDA_ERROR_INVALID_VALUE : context_check(peer));
}
