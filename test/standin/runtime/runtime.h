/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the stand-in libcudart share: the current device and the last error of a thread. The runtime keeps
 * nothing else; streams, events, graphs and memory are the driver's.
 */
#ifndef COMMTAP_TEST_STANDIN_RUNTIME_H
#define COMMTAP_TEST_STANDIN_RUNTIME_H

#include "test/standin/cudart_api.h"

#define EXPORT __attribute__((visibility("default")))

/* Makes the primary context of the thread's device current unless a live context already is: what every function that
 * needs a device does first, also in a thread that never asked for one. Returns 0, 3, 4, 100 ... */
CUresult runtime_enter(void);
/* Remembers an error for cudaGetLastError and returns it as the runtime's. */
cudaError_t runtime_result(CUresult result);

/* The whole of most functions: a context, then the driver's function. */
#define FORWARD(call)                                                                                                  \
    do {                                                                                                               \
        CUresult entered_ = runtime_enter();                                                                           \
        return runtime_result(entered_ ? entered_ : (call));                                                           \
    } while (0)

#endif
