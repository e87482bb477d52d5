/* SPDX-License-Identifier: Apache-2.0
 *
 * The job's NVTX ranges as labels of its stacks.
 * Lives here: being the injection library that NVTX loads, the ranges open now, their texts in the dump.
 * Must not live here: what a profiler would do with ranges (times, colours, payloads, marks).
 *
 * Every copy of NVTX 3 in a process opens $NVTX_INJECTION64_PATH at its first use and calls InitializeInjectionNvtx2
 * there; the constructor sets the variable to this library unless a profiler has it. A message belongs to the caller
 * again when a push returns, so it is copied then, into memory of the thread; nothing else is done before a recorded
 * call asks. Declarations of NVTX are our own (NVIDIA/NVTX, nvtx3/nvtxDetail/nvtxTypes.h and nvToolsExt.h, binary
 * interface of version 3); where the headers are installed a test compiles against them.
 */
#ifndef COMMTAP_SHIM_INTERCEPT_NVTX_H
#define COMMTAP_SHIM_INTERCEPT_NVTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/record/knobs.h"
#include "shim/stacks/sources.h"

#define LABEL_BYTES   120u /* of a range's text that are kept, whole UTF-8 characters */
#define LABEL_LEVELS  64u  /* nested ranges of a thread that are kept, the outermost ones */
#define LABEL_STARTED 64u  /* ranges of the process (start/end) open at once that are kept */
#define LABEL_SHOWN   16u  /* of these, the latest ones that a stack shows */

/* Texts that differ in their digits only are kept apart up to this number, then shown with # for digits: "step 4711"
 * must not make a stack of its own for every step. */
#define LABEL_NUMBERED 128u

extern const struct stack_source label_source;

/* For the constructor: offers this library to NVTX where COMMTAP_STACK (full, or not given) wants labels, or
 * COMMTAP_REGION ranges. `knobs` is NULL where none is given. */
void nvtx_offer(const struct knobs *knobs);

/* What NVTX calls. Returns 0, "no tool here", unless the library was preloaded and wants labels: a child process may
 * inherit the variable without the preload. */
typedef const void *(*nvtx_export_table)(uint32_t table);
int InitializeInjectionNvtx2(nvtx_export_table get_export_table);

/* Fills the function tables of one NVTX copy. Returns 0 when it has none. For InitializeInjectionNvtx2 and tests. */
int nvtx_attach(nvtx_export_table get_export_table);

/* ---- NVTX's binary interface ----------------------------------------------------------------- */

enum nvtx_export { NVTX_EXPORT_CALLBACKS = 1 };
enum nvtx_module { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5 };

enum nvtx_core {
    NVTX_RANGE_START_EX = 4,
    NVTX_RANGE_START_A,
    NVTX_RANGE_START_W,
    NVTX_RANGE_END,
    NVTX_RANGE_PUSH_EX,
    NVTX_RANGE_PUSH_A,
    NVTX_RANGE_PUSH_W,
    NVTX_RANGE_POP,
};

enum nvtx_core2 {
    NVTX_DOMAIN_RANGE_START_EX = 2,
    NVTX_DOMAIN_RANGE_END,
    NVTX_DOMAIN_RANGE_PUSH_EX,
    NVTX_DOMAIN_RANGE_POP,
    NVTX_DOMAIN_REGISTER_STRING_A = 10,
    NVTX_DOMAIN_REGISTER_STRING_W,
    NVTX_DOMAIN_CREATE_A,
    NVTX_DOMAIN_CREATE_W,
};

enum nvtx_message { NVTX_ASCII = 1, NVTX_UNICODE = 2, NVTX_REGISTERED = 3 };

struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

typedef void (*nvtx_function)(void);

struct nvtx_callbacks {
    size_t bytes;
    /* The table is of pointers to the function pointers that the program calls through; `count` includes index 0,
     * which is none. Returns 0 for modules it does not have. */
    int (*function_table)(int module, nvtx_function ***table, unsigned *count);
};

#endif
