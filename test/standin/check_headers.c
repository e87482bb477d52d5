/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled, never run, where CUDA's headers are: our declarations after theirs, so that the compiler reports any
 * difference of a prototype, and every constant and layout of ours against theirs.
 */
#define __CUDA_API_VERSION_INTERNAL /* declares all versions of a function by their symbols */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "test/standin/cuda_api.h"
#include "test/standin/cudart_api.h"
#include "test/standin/standin.h"

#define SAME(name, value, ...) _Static_assert((unsigned)(name) == (value), #name);
STANDIN_CUDA_ERRORS(SAME)
STANDIN_CUDA_CONSTANTS(SAME)
STANDIN_CUDART_ERRORS(SAME)
STANDIN_CUDART_MEMORY_TYPES(SAME)
STANDIN_CUDART_ENTRY_RESULTS(SAME)
STANDIN_CUDART_MEMCPY_KINDS(SAME)
STANDIN_CUDART_CAPTURE_MODES(SAME)
STANDIN_CUDART_CAPTURE_STATUSES(SAME)
SAME(cudaDevAttrMaxThreadsPerBlock, 1)
SAME(cudaStreamNonBlocking, 1)
SAME(cudaEventDisableTiming, 2)
SAME(cudaEventRecordExternal, 1)
