/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's memory functions: the driver's by other names, with pointers for addresses.
 */
#include <string.h>

#include "test/standin/runtime/runtime.h"

static CUdeviceptr address(const void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* Unlike the driver the runtime allows an allocation of nothing. */
static CUresult allocated(CUresult result, const CUdeviceptr *memory, void **pointer) {
    if (!result)
        *pointer = (void *)(uintptr_t)*memory;
    return result;
}

EXPORT cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    CUdeviceptr memory = 0;
    if (!pointer)
        return runtime_result(CUDA_ERROR_INVALID_VALUE);
    FORWARD(allocated(bytes ? cuMemAlloc_v2(&memory, bytes) : CUDA_SUCCESS, &memory, pointer));
}

EXPORT cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
    CUdeviceptr memory = 0;
    if (!pointer)
        return runtime_result(CUDA_ERROR_INVALID_VALUE);
    FORWARD(allocated(bytes ? cuMemAllocAsync(&memory, bytes, stream) : CUDA_SUCCESS, &memory, pointer));
}

/* cudaFree(NULL) is how programs ask for the context. */
EXPORT cudaError_t cudaFree(void *pointer) {
    FORWARD(cuMemFree_v2(address(pointer)));
}

EXPORT cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    FORWARD(cuMemFreeAsync(address(pointer), stream));
}

EXPORT cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
    FORWARD(cuMemAllocHost_v2(pointer, bytes));
}

EXPORT cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    FORWARD(cuMemHostAlloc(pointer, bytes, flags));
}

EXPORT cudaError_t cudaFreeHost(void *pointer) {
    FORWARD(cuMemFreeHost(pointer));
}

EXPORT cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags) {
    FORWARD(cuMemHostRegister_v2(pointer, bytes, flags));
}

EXPORT cudaError_t cudaHostUnregister(void *pointer) {
    FORWARD(cuMemHostUnregister(pointer));
}

EXPORT cudaError_t cudaHostGetDevicePointer(void **pointer, void *host, unsigned flags) {
    CUdeviceptr memory = 0;
    FORWARD(allocated(cuMemHostGetDevicePointer_v2(&memory, host, flags), &memory, pointer));
}

EXPORT cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
    FORWARD(cuMemGetInfo_v2(unused, total));
}

/* Memory unknown to CUDA is "unregistered" here, not an error as in the driver. */
EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer) {
    unsigned type;
    CUresult result = attributes ? runtime_enter() : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return runtime_result(result);
    memset(attributes, 0, sizeof *attributes);
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(pointer))) {
        attributes->type = cudaMemoryTypeUnregistered;
        attributes->device = -2; /* cudaInvalidDeviceId */
        attributes->hostPointer = (void *)(uintptr_t)pointer;
        return cudaSuccess;
    }
    attributes->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    attributes->devicePointer = (void *)(uintptr_t)pointer;
    attributes->hostPointer = attributes->type == cudaMemoryTypeHost ? attributes->devicePointer : NULL;
    return runtime_result(
        cuPointerGetAttribute(&attributes->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address(pointer)));
}

EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    (void)kind;
    FORWARD(cuMemcpy(address(to), address(from), bytes));
}

EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                   cudaStream_t stream) {
    (void)kind;
    FORWARD(cuMemcpyAsync(address(to), address(from), bytes, stream));
}

EXPORT cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                       cudaStream_t stream) {
    (void)to_device, (void)from_device; /* one address space */
    FORWARD(cuMemcpyAsync(address(to), address(from), bytes, stream));
}

EXPORT cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    FORWARD(cuMemsetD8_v2(address(to), (unsigned char)value, bytes));
}

EXPORT cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    FORWARD(cuMemsetD8Async(address(to), (unsigned char)value, bytes, stream));
}
