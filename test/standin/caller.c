/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that calls CUDA on its own behalf: what the stand-in counts and does by calling library is tested with it.
 */
#include "test/standin/cuda_api.h"
#include "test/standin/cudart_api.h"

__attribute__((visibility("default"))) int caller_query(CUevent event);
__attribute__((visibility("default"))) int caller_synchronize(CUstream stream);
__attribute__((visibility("default"))) int caller_make_context(void);

int caller_query(CUevent event) {
    return cuEventQuery(event);
}

int caller_synchronize(CUstream stream) {
    return cuStreamSynchronize(stream) + cudaDeviceSynchronize();
}

int caller_make_context(void) {
    return cudaFree(NULL);
}
