/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/stacks/python_layout.h"

#include <dlfcn.h>
#include <stddef.h>

#include "shim/base/linker.h"
#include "shim/base/os.h"
#include "shim/base/pending_error.h"

#define OBJECT                                                                                                         \
    .object_type = 8, .bytes_size = 16, .bytes_data = 32, .text_length = 16, .text_hash = 24, .text_state = 32
#define TEXT_WITH_WIDE OBJECT, .text_ascii = 48, .text_other = 72 /* up to 3.11: with a wchar_t pointer */
#define TEXT           OBJECT, .text_ascii = 40, .text_other = 56

#define FRAME_OBJECT                                                                                                   \
    .state_frame = 24, .state_thread = 176, .frame_previous = 24, .frame_code = 32, .code_first_line = 40,             \
    .code_file = 104, .code_name = 112, .code_qualified = 112, .code_lines = 120, TEXT_WITH_WIDE

#define CODE .code_file = 112, .code_name = 120, .code_qualified = 128, .code_lines = 136

#define SHIM_FRAME                                                                                                     \
    .frame_previous = 8, .frame_code = 0, .frame_instruction = 56, .code_first_line = 68, .code_version = 92

static const struct python_layout layouts[] = {
    {.version = 0x0308, .frame_instruction = 104, FRAME_OBJECT},
    {.version = 0x0309, .frame_instruction = 104, FRAME_OBJECT},
    {.version = 0x030a, .frame_instruction = 96, FRAME_OBJECT},
    {.version = 0x030b,
     .state_frame = 56,
     .holder_frame = 8,
     .state_thread = 152,
     .frame_previous = 48,
     .frame_code = 32,
     .frame_instruction = 56,
     .frame_owner = 69,
     .frame_entry = 68,
     .code_first_line = 72,
     .code_start = 184,
     .code_traceable = 168,
     CODE,
     TEXT_WITH_WIDE},
    {.version = 0x030c,
     .state_frame = 56,
     .holder_frame = 0,
     .state_thread = 136,
     .frame_owner = 70,
     .code_start = 192,
     .code_traceable = 176,
     SHIM_FRAME,
     CODE,
     TEXT},
    {.version = 0x030d,
     .state_frame = 72,
     .state_thread = 152,
     .frame_owner = 70,
     .code_start = 200,
     .code_traceable = 184,
     SHIM_FRAME,
     CODE,
     TEXT},
    {.version = 0x030e,
     .state_frame = 72,
     .state_thread = 152,
     .frame_owner = 74,
     .code_start = 208,
     .code_traceable = 192,
     SHIM_FRAME,
     CODE,
     TEXT},
};

const struct python_layout *python_layout_of(unsigned version) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == version)
            return &layouts[i];
    return NULL;
}

/* ---- what the interpreter publishes ---------------------------------------------------------- */

/* Number of 64-bit words in the descriptor's parts, in order; each part of a structure begins with its size. */
struct descriptor_shape {
    unsigned interpreter, thread, frame, code, others; /* others: type, tuple, list, [set,] dict, float, int */
};

/* Members, counted from the part's beginning. */
enum thread_member { THREAD_FRAME = 4, THREAD_ID = 5 };
enum frame_member { FRAME_PREVIOUS = 1, FRAME_CODE = 2, FRAME_INSTRUCTION = 3, FRAME_OWNER = 5 };
enum code_member { CODE_FILE = 1, CODE_NAME, CODE_QUALIFIED, CODE_LINES, CODE_FIRST_LINE, CODE_START = 9 };
enum small_member { OBJECT_TYPE = 1, BYTES_SIZE = 1, BYTES_DATA = 2, TEXT_STATE = 1, TEXT_LENGTH = 2, TEXT_SIZE = 3 };

#define DESCRIPTOR_COOKIE "xdebugpy"

static bool has_offsets(const uint64_t *part, unsigned from, unsigned to) {
    for (unsigned i = from; i <= to; i++)
        if (part[i] > 4096)
            return false;
    return true;
}

bool python_layout_published(struct python_layout *layout, const void *descriptor) {
    static const struct descriptor_shape shapes[] = {{13, 9, 6, 10, 4 + 3 + 3 + 3 + 2 + 3},
                                                     {16, 9, 8, 11, 4 + 3 + 3 + 4 + 3 + 2 + 3}};
    const uint64_t *head = descriptor; /* cookie, version, free_threaded, then the runtime's own part of 3 */
    bool newer = layout->version >= 0x030e;
    const struct descriptor_shape *shape = &shapes[newer];
    const uint64_t *thread = head + 3 + 3 + shape->interpreter, *frame = thread + shape->thread;
    const uint64_t *code = frame + shape->frame, *object = code + shape->code;
    const uint64_t *bytes = object + 2 + shape->others, *text = bytes + 3;
    /* A free-threaded 3.14 runs copies of the code, one per thread. */
    if (memcmp(head, DESCRIPTOR_COOKIE, 8) != 0 || head[1] >> 16 != layout->version || (newer && head[2]))
        return false;
    if (!has_offsets(frame, 1, 5) || !has_offsets(code, 1, 9) || !has_offsets(object, 1, 1) ||
        !has_offsets(bytes, 1, 2) || !has_offsets(text, 1, 3) || thread[THREAD_FRAME] > 4096 ||
        thread[THREAD_ID] > 4096)
        return false;
    layout->state_frame = (uint16_t)thread[THREAD_FRAME];
    layout->state_thread = (uint16_t)thread[THREAD_ID];
    layout->frame_previous = (uint16_t)frame[FRAME_PREVIOUS];
    layout->frame_code = (uint16_t)frame[FRAME_CODE];
    layout->frame_instruction = (uint16_t)frame[FRAME_INSTRUCTION];
    layout->frame_owner = (uint16_t)frame[FRAME_OWNER];
    /* Not published, but at a constant distance in these versions. */
    layout->code_version = (uint16_t)(code[CODE_FIRST_LINE] + layout->code_version - layout->code_first_line);
    layout->code_traceable = (uint16_t)(code[CODE_START] + layout->code_traceable - layout->code_start);
    layout->code_file = (uint16_t)code[CODE_FILE];
    layout->code_name = (uint16_t)code[CODE_NAME];
    layout->code_qualified = (uint16_t)code[CODE_QUALIFIED];
    layout->code_lines = (uint16_t)code[CODE_LINES];
    layout->code_first_line = (uint16_t)code[CODE_FIRST_LINE];
    layout->code_start = (uint16_t)code[CODE_START];
    layout->object_type = (uint16_t)object[OBJECT_TYPE];
    layout->bytes_size = (uint16_t)bytes[BYTES_SIZE];
    layout->bytes_data = (uint16_t)bytes[BYTES_DATA];
    layout->text_state = (uint16_t)text[TEXT_STATE];
    layout->text_length = (uint16_t)text[TEXT_LENGTH];
    layout->text_hash = (uint16_t)(text[TEXT_LENGTH] + 8);
    layout->text_ascii = (uint16_t)text[TEXT_SIZE];
    layout->text_other = (uint16_t)(text[TEXT_SIZE] + 16);
    return true;
}

/* ---- the interpreter of this process --------------------------------------------------------- */

/* From the text "3.10.13 (main, ...", which interpreters before 3.11 have only a function for. */
static unsigned version_of_text(const char *text) {
    unsigned major = 0, minor = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        major = major * 10 + (unsigned)(*text - '0');
    if (*text++ != '.')
        return 0;
    for (; *text >= '0' && *text <= '9'; text++)
        minor = minor * 10 + (unsigned)(*text - '0');
    return (major & 0xff) << 8 | (minor & 0xff);
}

/* Its functions are called from now on: a program that embeds it must not be able to unload it under us. */
static void keep_loaded(const char *object) {
    pending_error_hold();
    if (*object)
        linker_dlopen(object, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    pending_error_release();
}

enum python_found python_runtime_find(struct python_runtime *runtime, unsigned *version) {
    const char *object;
    void *thread_state = linker_symbol_anywhere("PyGILState_GetThisThreadState", &object);
    void *finalizing = linker_symbol_anywhere("_Py_IsFinalizing", NULL);
    const unsigned long *number = linker_symbol_anywhere("Py_Version", NULL);
    const char *(*text)(void) = (const char *(*)(void))linker_symbol_anywhere("Py_GetVersion", NULL);
    *version = 0;
    if (!thread_state)
        return PYTHON_ABSENT;
    if (!finalizing)
        finalizing = linker_symbol_anywhere("Py_IsFinalizing", NULL);
    *version = number ? (unsigned)(*number >> 16) : text ? version_of_text(text()) : 0;
    const struct python_layout *layout = python_layout_of(*version);
    runtime->thread_state = (void *(*)(void))thread_state;
    runtime->finalizing = (int (*)(void))finalizing;
    runtime->code_type = (uintptr_t)linker_symbol_anywhere("PyCode_Type", NULL);
    runtime->text_type = (uintptr_t)linker_symbol_anywhere("PyUnicode_Type", NULL);
    runtime->bytes_type = (uintptr_t)linker_symbol_anywhere("PyBytes_Type", NULL);
    if (!layout || !finalizing || !runtime->code_type || !runtime->text_type || !runtime->bytes_type)
        return PYTHON_UNKNOWN;
    runtime->at = *layout;
    if (*version >= 0x030d) {
        const void *descriptor = linker_symbol_anywhere("_PyRuntime", NULL);
        if (!descriptor || !python_layout_published(&runtime->at, descriptor))
            return PYTHON_UNKNOWN;
    }
    keep_loaded(object);
    return PYTHON_FOUND;
}
