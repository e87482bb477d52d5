/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of the pretended machine and what can be asked about them without a context.
 */
#include <stdio.h>
#include <string.h>

#include "test/standin/driver/engine.h"

static bool valid(CUdevice device) {
    return device >= 0 && device < knobs.devices;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = STANDIN_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
    if (engine_ready())
        return engine_ready();
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = knobs.devices;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    if (engine_ready())
        return engine_ready();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
    if (engine_ready())
        return engine_ready();
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!name || room < 1)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)room, "Stand-in GPU");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    if (engine_ready())
        return engine_ready();
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "stand-in GPU ..", sizeof uuid->bytes);
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    return cuDeviceGetUuid_v2(uuid, device);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    if (engine_ready())
        return engine_ready();
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = knobs.memory;
    return CUDA_SUCCESS;
}

/* Device d sits at 0000:(d+1):00.0. */
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    static const struct {
        unsigned attribute;
        int value;
    } attributes[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024}, {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},         {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},       {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},       {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    };
    if (engine_ready())
        return engine_ready();
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? device + 1 : 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute)
            *value = attributes[i].value;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int room, CUdevice device) {
    if (engine_ready())
        return engine_ready();
    if (!valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!id || room < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(id, (size_t)room, "0000:%02X:00.0", (unsigned)device + 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
    unsigned domain, bus;
    if (engine_ready())
        return engine_ready();
    if (!device || !id || sscanf(id, "%x:%x", &domain, &bus) != 2)
        return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdevice)bus - 1;
    return domain || !valid(*device) ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    if (engine_ready())
        return engine_ready();
    if (!valid(device) || !valid(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}
