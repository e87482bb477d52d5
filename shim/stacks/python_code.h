/* SPDX-License-Identifier: Apache-2.0
 *
 * What a code object says: names and files as UTF-8, the line of an instruction.
 * Lives here: decoding, over memory that is known to hold such objects. Must not live here: how they were found.
 */
#ifndef COMMTAP_PYTHON_CODE_H
#define COMMTAP_PYTHON_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "shim/stacks/python_layout.h"

/* A str object as UTF-8: writes at most `room` bytes, whole characters, unterminated, and returns their number. With
 * `to` NULL nothing is written. Lone surrogates become U+FFFD; anything but an exact str is empty. */
size_t python_text(const struct python_runtime *python, uintptr_t object, char *to, size_t room);

/* Line that is executed at `instruction`, the value a frame holds at layout.frame_instruction; 0 = the table has none
 * for it. */
uint32_t python_line(const struct python_runtime *python, uintptr_t code, uintptr_t instruction);

#endif
