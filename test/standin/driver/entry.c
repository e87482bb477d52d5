/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known by name: errors, and the functions that cuGetProcAddress hands out.
 */
#include <stdio.h>
#include <string.h>

#include "test/standin/driver/engine.h"

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
#define ERROR(name, value, text) {name, #name, text},
    STANDIN_CUDA_ERRORS(ERROR)
#undef ERROR
};

EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) {
            *name = errors[i].name;
            return CUDA_SUCCESS;
        }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error) {
            *text = errors[i].text;
            return CUDA_SUCCESS;
        }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

struct function {
    const char *name;
    void *address;
};

static const struct function functions[] = {
#define FUNCTION(name, parameters) {#name, (void *)name},
    STANDIN_CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* Since which CUDA version a name without suffix means a symbol; other names mean their newest symbol always. */
static const struct {
    const char *name;
    int since;
    const char *symbol;
} versions[] = {
    {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
    {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"},
    {"cuStreamGetCaptureInfo", 10010, "cuStreamGetCaptureInfo"},
    {"cuGraphExecUpdate", 12000, "cuGraphExecUpdate_v2"},
    {"cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"},
    {"cuGraphInstantiate", 11000, "cuGraphInstantiate_v2"},
    {"cuEventElapsedTime", 12080, "cuEventElapsedTime_v2"},
    {"cuEventElapsedTime", 2000, "cuEventElapsedTime"},
    {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
    {"cuGetProcAddress", 11030, "cuGetProcAddress"},
    {"cuCtxCreate", 13000, "cuCtxCreate_v4"},
    {"cuCtxCreate", 3020, "cuCtxCreate_v2"},
    {"cuCtxGetDevice", 13000, "cuCtxGetDevice_v2"},
    {"cuCtxGetDevice", 2000, "cuCtxGetDevice"},
    {"cuCtxSynchronize", 13000, "cuCtxSynchronize_v2"},
    {"cuCtxSynchronize", 2000, "cuCtxSynchronize"},
};

static void *function_named(const char *name) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].address;
    return NULL;
}

static void *function_for(const char *name, int version) {
    char suffixed[128];
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strcmp(versions[i].name, name) == 0 && versions[i].since <= version)
            return function_named(versions[i].symbol);
    for (int suffix = 4; suffix >= 2; suffix--) {
        snprintf(suffixed, sizeof suffixed, "%s_v%d", name, suffix);
        void *address = function_named(suffixed);
        if (address)
            return address;
    }
    return function_named(name);
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                    CUdriverProcAddressQueryResult *status) {
    (void)flags; /* per-thread default streams by name are not offered */
    if (!name || !function)
        return CUDA_ERROR_INVALID_VALUE;
    *function = function_for(name, version);
    if (status)
        *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
