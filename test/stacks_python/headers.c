/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of CPython's structures against the headers of one interpreter: built and run once per interpreter.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#endif

#include "shim/stacks/python_layout.h"

static int wrong;

static void expect(const char *name, size_t table, size_t header) {
    if (table != header) {
        printf("%s is at %zu, the table says %zu\n", name, header, table);
        wrong = 1;
    }
}

#define SAME(field, type, member) expect(#type "." #member, at->field, offsetof(type, member))

#if PY_VERSION_HEX < 0x030b0000
static void check_frames(const struct python_layout *at) {
    SAME(state_frame, PyThreadState, frame);
    SAME(frame_previous, PyFrameObject, f_back);
    SAME(frame_code, PyFrameObject, f_code);
    SAME(frame_instruction, PyFrameObject, f_lasti);
}
#else
static void check_frames(const struct python_layout *at) {
#if PY_VERSION_HEX < 0x030d0000
    SAME(state_frame, PyThreadState, cframe);
    SAME(holder_frame, _PyCFrame, current_frame);
    SAME(frame_code, _PyInterpreterFrame, f_code);
    SAME(frame_instruction, _PyInterpreterFrame, prev_instr);
#else
    SAME(state_frame, PyThreadState, current_frame);
    SAME(frame_code, _PyInterpreterFrame, f_executable);
    SAME(frame_instruction, _PyInterpreterFrame, instr_ptr);
#endif
#if PY_VERSION_HEX < 0x030c0000
    SAME(frame_entry, _PyInterpreterFrame, is_entry);
#else
    SAME(code_version, PyCodeObject, co_version);
    expect("FRAME_OWNED_BY_CSTACK", PYTHON_OWNER_SHIM_FIRST, 3);
#endif
    SAME(frame_previous, _PyInterpreterFrame, previous);
    SAME(frame_owner, _PyInterpreterFrame, owner);
    SAME(code_qualified, PyCodeObject, co_qualname);
    SAME(code_start, PyCodeObject, co_code_adaptive);
    SAME(code_traceable, PyCodeObject, _co_firsttraceable);
    expect("FRAME_OWNED_BY_GENERATOR", PYTHON_OWNER_GENERATOR, FRAME_OWNED_BY_GENERATOR);
}
#endif

int main(void) {
    const struct python_layout *at = python_layout_of(PY_VERSION_HEX >> 16);
    if (!at) {
        puts("no row in the table");
        return 1;
    }
    check_frames(at);
    SAME(state_thread, PyThreadState, thread_id);
    SAME(code_first_line, PyCodeObject, co_firstlineno);
    SAME(code_file, PyCodeObject, co_filename);
    SAME(code_name, PyCodeObject, co_name);
#if PY_VERSION_HEX < 0x030a0000
    SAME(code_lines, PyCodeObject, co_lnotab);
#else
    SAME(code_lines, PyCodeObject, co_linetable);
#endif
    SAME(object_type, PyObject, ob_type);
    SAME(bytes_size, PyVarObject, ob_size);
    SAME(bytes_data, PyBytesObject, ob_sval);
    SAME(text_length, PyASCIIObject, length);
    SAME(text_hash, PyASCIIObject, hash);
    SAME(text_state, PyASCIIObject, state);
    SAME(text_other, PyUnicodeObject, data);
    expect("sizeof PyASCIIObject", at->text_ascii, sizeof(PyASCIIObject));
    expect("sizeof PyCompactUnicodeObject", at->text_other, sizeof(PyCompactUnicodeObject));
    return wrong;
}
