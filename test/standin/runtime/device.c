/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's devices, contexts and errors. A device's primary context comes to be at the first call that needs it.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "test/standin/runtime/runtime.h"

enum { MAX_DEVICES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primaries[MAX_DEVICES]; /* that the runtime retains */

static _Thread_local int thread_device;
static _Thread_local cudaError_t last_error;

cudaError_t runtime_result(CUresult result) {
    if (result)
        last_error = (cudaError_t)result;
    return (cudaError_t)result;
}

static bool is_alive(CUcontext context) {
    unsigned version;
    return context && cuCtxGetApiVersion(context, &version) == CUDA_SUCCESS;
}

/* Retains it, again if it was reset since. */
static CUresult use_primary(int device) {
    CUresult result = CUDA_SUCCESS;
    if (device < 0 || device >= MAX_DEVICES)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    if (!is_alive(primaries[device]))
        result = cuDevicePrimaryCtxRetain(&primaries[device], device);
    CUcontext context = primaries[device];
    pthread_mutex_unlock(&lock);
    return result ? result : cuCtxSetCurrent(context);
}

CUresult runtime_enter(void) {
    CUcontext context;
    CUresult result = cuInit(0);
    if (!result)
        result = cuCtxGetCurrent(&context);
    if (!result && !is_alive(context))
        result = use_primary(thread_device);
    return result;
}

EXPORT cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

EXPORT cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

static const struct {
    cudaError_t error;
    const char *name;
} errors[] = {
#define ERROR(name, value) {name, #name},
    STANDIN_CUDART_ERRORS(ERROR)
#undef ERROR
};

EXPORT const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(cudaError_t error) {
    const char *text;
    if (error == cudaErrorInvalidDeviceFunction)
        return "invalid device function";
    if (error == cudaErrorInvalidConfiguration)
        return "invalid configuration argument";
    return cuGetErrorString((CUresult)error, &text) ? "unrecognized error code" : text;
}

EXPORT cudaError_t cudaGetDeviceCount(int *count) {
    if (!count)
        return runtime_result(CUDA_ERROR_INVALID_VALUE);
    *count = 0;
    CUresult result = cuInit(0);
    return runtime_result(result ? result : cuDeviceGetCount(count));
}

EXPORT cudaError_t cudaSetDevice(int device) {
    CUresult result = cuInit(0);
    if (!result)
        result = use_primary(device);
    if (!result)
        thread_device = device;
    return runtime_result(result);
}

EXPORT cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
    (void)device_flags, (void)flags;
    CUcontext before = NULL;
    CUresult result = cuInit(0);
    if (!result)
        result = cuCtxGetCurrent(&before);
    if (!result)
        result = use_primary(device);
    if (!result && before) /* makes it ready, not current */
        result = cuCtxSetCurrent(before);
    return runtime_result(result);
}

/* Asks for no context: none is made by it. */
EXPORT cudaError_t cudaGetDevice(int *device) {
    CUcontext context = NULL;
    CUresult result = device ? cuInit(0) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = cuCtxGetCurrent(&context);
    if (!result && !is_alive(context))
        *device = thread_device;
    else if (!result)
        result = cuCtxGetDevice(device);
    return runtime_result(result);
}

EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags) {
    int device;
    cudaError_t result = cudaGetDevice(&device);
    return result ? result : runtime_result(cuDevicePrimaryCtxSetFlags_v2(device, flags));
}

EXPORT cudaError_t cudaDeviceReset(void) {
    int device;
    cudaError_t result = cudaGetDevice(&device);
    return result ? result : runtime_result(cuDevicePrimaryCtxReset_v2(device));
}

EXPORT cudaError_t cudaDeviceSynchronize(void) {
    FORWARD(cuCtxSynchronize());
}

EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    FORWARD(cuCtxGetStreamPriorityRange(least, greatest));
}

/* Questions about devices need no context either. */
#define ASK(call)                                                                                                      \
    do {                                                                                                               \
        CUresult ready_ = cuInit(0);                                                                                   \
        return runtime_result(ready_ ? ready_ : (call));                                                               \
    } while (0)

EXPORT cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
    ASK(cuDeviceGetByPCIBusId(device, id));
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *id, int room, int device) {
    ASK(cuDeviceGetPCIBusId(id, room, device));
}

EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    ASK(cuDeviceCanAccessPeer(can, device, peer));
}

EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    int count;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (!result && (peer < 0 || peer >= count))
        result = runtime_result(CUDA_ERROR_INVALID_DEVICE);
    if (!result && flags)
        result = runtime_result(CUDA_ERROR_INVALID_VALUE);
    return result;
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    ASK(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

static int attribute_of(int device, CUdevice_attribute attribute) {
    int value = 0;
    cuDeviceGetAttribute(&value, attribute, device);
    return value;
}

EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    CUresult result = properties ? cuInit(0) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return runtime_result(result);
    memset(properties, 0, sizeof *properties);
    result = cuDeviceGetName(properties->name, sizeof properties->name, device);
    if (!result)
        result = cuDeviceGetUuid_v2(&properties->uuid, device);
    if (!result)
        result = cuDeviceTotalMem_v2(&properties->totalGlobalMem, device);
    if (result)
        return runtime_result(result);
    properties->warpSize = attribute_of(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    properties->maxThreadsPerBlock = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    properties->major = attribute_of(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    properties->minor = attribute_of(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    properties->multiProcessorCount = attribute_of(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return cudaSuccess;
}

EXPORT cudaError_t cudaDriverGetVersion(int *version) {
    return runtime_result(cuDriverGetVersion(version));
}

EXPORT cudaError_t cudaRuntimeGetVersion(int *version) {
    return cudaDriverGetVersion(version);
}

/* A name that the driver does not know is no error of this call. */
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *result) {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult found = cuGetProcAddress_v2(name, function, (int)version, flags, &status);
    if (found && found != CUDA_ERROR_NOT_FOUND)
        return runtime_result(found);
    if (result)
        *result = found ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *result) {
    return cudaGetDriverEntryPointByVersion(name, function, STANDIN_DRIVER_VERSION, flags, result);
}

/* Of cuda_profiler_api.h. There is no profiler here. */
EXPORT cudaError_t cudaProfilerStart(void);
EXPORT cudaError_t cudaProfilerStart(void) {
    return cudaSuccess;
}

EXPORT cudaError_t cudaProfilerStop(void);
EXPORT cudaError_t cudaProfilerStop(void) {
    return cudaSuccess;
}
