/* SPDX-License-Identifier: Apache-2.0
 *
 * Where CPython keeps what a stack needs: offsets into its structures, per minor version.
 * Lives here: the table, what the interpreter says about itself (3.13 on), whether the process's interpreter is one
 * that can be read. Must not live here: walking frames, and decoding what is found.
 */
#ifndef COMMTAP_PYTHON_LAYOUT_H
#define COMMTAP_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Offsets in bytes. Sources: Include/cpython/{pystate,frameobject,code,unicodeobject,bytesobject}.h and
 * Include/internal/pycore_{frame,interpframe_structs,debug_offsets}.h of each version; a test compiles this table
 * against the headers of every interpreter it finds. */
struct python_layout {
    uint16_t version;        /* 0x030b for 3.11 */
    uint16_t state_frame;    /* PyThreadState: the innermost frame, or (3.11, 3.12) the struct that points to it */
    uint16_t state_thread;   /* PyThreadState.thread_id */
    uint16_t holder_frame;   /* 3.11, 3.12: in that struct */
    uint16_t frame_previous; /* PyFrameObject up to 3.10, _PyInterpreterFrame from 3.11 */
    uint16_t frame_code;
    uint16_t frame_instruction; /* up to 3.10 an int index, then a pointer into the code */
    uint16_t frame_owner;       /* from 3.11 */
    uint16_t frame_entry;       /* 3.11: byte "is_entry"; later a shim frame below the entry says it */
    uint16_t code_first_line;
    uint16_t code_version; /* from 3.12: a number that no other code object has had; 0 = there is none */
    uint16_t code_file;
    uint16_t code_name;
    uint16_t code_qualified; /* = code_name where there is no qualified one */
    uint16_t code_lines;     /* co_lnotab, co_linetable */
    uint16_t code_start;     /* from 3.11: first instruction */
    uint16_t code_traceable; /* from 3.11: index of the first instruction of the function proper */
    uint16_t object_type;    /* PyObject.ob_type */
    uint16_t bytes_size, bytes_data;
    uint16_t text_length, text_hash, text_state, text_ascii, text_other; /* str; where ASCII and other data begin */
};

/* Frames are objects of their own up to 3.10. */
#define PYTHON_INTERPRETER_FRAMES 0x030b
/* From 3.12 frames with such an owner stand for the C code around an interpreter loop. */
#define PYTHON_SHIM_FRAMES      0x030c
#define PYTHON_OWNER_GENERATOR  1
#define PYTHON_OWNER_SHIM_FIRST 3

/* The interpreter of this process. */
struct python_runtime {
    struct python_layout at;
    void *(*thread_state)(void); /* PyGILState_GetThisThreadState: needs no GIL, NULL for threads unknown to Python */
    int (*finalizing)(void);
    uintptr_t code_type, text_type, bytes_type; /* addresses of the type objects */
};

enum python_found {
    PYTHON_ABSENT,  /* no interpreter is loaded */
    PYTHON_UNKNOWN, /* there is one that must be left alone */
    PYTHON_FOUND,
};

/* Looks for an interpreter among the loaded objects. `version` becomes what it says it is (0x030b), 0 when absent. */
enum python_found python_runtime_find(struct python_runtime *runtime, unsigned *version);

/* The table's row of a version, NULL when it has none. */
const struct python_layout *python_layout_of(unsigned version);

/* Replaces what a 3.13 or 3.14 interpreter publishes about its structures (_Py_DebugOffsets at the start of
 * _PyRuntime). False when it describes something that the readers here do not understand. */
bool python_layout_published(struct python_layout *layout, const void *descriptor);

static inline uintptr_t python_word(uintptr_t object, uint16_t offset) {
    uintptr_t word;
    memcpy(&word, (const void *)(object + offset), sizeof word);
    return word;
}

static inline uint32_t python_u32(uintptr_t object, uint16_t offset) {
    uint32_t value;
    memcpy(&value, (const void *)(object + offset), sizeof value);
    return value;
}

static inline uint8_t python_byte(uintptr_t object, uint16_t offset) {
    return *(const uint8_t *)(object + offset);
}

#endif
