/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels as nvcc's output registers and launches them. They do not run: one takes its place in the stream.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "test/standin/runtime/runtime.h"

enum { MAX_NESTED = 16 };

struct kernel {
    struct kernel *next;
    const void *host_function;
    void **module;
};

static struct kernel *kernels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Between `kernel<<<...>>>` and its stub, which may nest. */
struct configuration {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};
static _Thread_local struct configuration pushed[MAX_NESTED];
static _Thread_local unsigned pushed_count;

EXPORT void **__cudaRegisterFatBinary(void *binary) {
    void **handle = malloc(sizeof *handle);
    if (handle)
        *handle = binary;
    return handle;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle; /* nothing is loaded from it */
}

EXPORT void __cudaUnregisterFatBinary(void **handle) {
    pthread_mutex_lock(&lock);
    for (struct kernel **link = &kernels; *link;) {
        struct kernel *kernel = *link;
        if (kernel->module == handle) {
            *link = kernel->next;
            free(kernel);
        } else {
            link = &kernel->next;
        }
    }
    pthread_mutex_unlock(&lock);
    free(handle);
}

EXPORT char __cudaInitModule(void **handle) {
    return handle != NULL;
}

EXPORT void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function, const char *name,
                                   int thread_limit, struct uint3 *thread, struct uint3 *block, dim3 *block_size,
                                   dim3 *grid_size, int *warp_size) {
    (void)device_function, (void)name, (void)thread_limit, (void)thread, (void)block;
    (void)block_size, (void)grid_size, (void)warp_size;
    struct kernel *kernel = malloc(sizeof *kernel);
    if (!kernel)
        return;
    pthread_mutex_lock(&lock);
    *kernel = (struct kernel){kernels, host_function, handle};
    kernels = kernel;
    pthread_mutex_unlock(&lock);
}

EXPORT void __cudaRegisterVar(void **handle, char *host_variable, char *device_address, const char *name, int external,
                              size_t bytes, int constant, int global) {
    (void)handle, (void)host_variable, (void)device_address, (void)name; /* no kernel reads it */
    (void)external, (void)bytes, (void)constant, (void)global;
}

static bool is_registered(const void *function) {
    pthread_mutex_lock(&lock);
    const struct kernel *kernel = kernels;
    while (kernel && kernel->host_function != function)
        kernel = kernel->next;
    pthread_mutex_unlock(&lock);
    return kernel != NULL;
}

static bool is_empty(dim3 size) {
    return !size.x || !size.y || !size.z;
}

EXPORT cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                    cudaStream_t stream) {
    if (!is_registered(function))
        return runtime_result((CUresult)cudaErrorInvalidDeviceFunction);
    if (is_empty(grid) || is_empty(block))
        return runtime_result((CUresult)cudaErrorInvalidConfiguration);
    FORWARD(cuLaunchKernel((CUfunction)(uintptr_t)function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                           (unsigned)shared_bytes, stream, arguments, NULL));
}

EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    if (!config)
        return runtime_result(CUDA_ERROR_INVALID_VALUE);
    return cudaLaunchKernel(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                            config->stream);
}

/* A kernel's handle is its host stub. */
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    if (!is_registered(function))
        return runtime_result((CUresult)cudaErrorInvalidDeviceFunction);
    *kernel = (cudaKernel_t)(uintptr_t)function;
    return cudaSuccess;
}

EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                      cudaStream_t stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st *stream) {
    if (pushed_count == MAX_NESTED)
        return 1;
    pushed[pushed_count++] = (struct configuration){grid, block, shared_bytes, stream};
    return 0;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream) {
    if (!pushed_count)
        return runtime_result((CUresult)cudaErrorInvalidConfiguration);
    const struct configuration *top = &pushed[--pushed_count];
    *grid = top->grid;
    *block = top->block;
    *shared_bytes = top->shared_bytes;
    *(cudaStream_t *)stream = top->stream;
    return cudaSuccess;
}
