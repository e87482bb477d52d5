/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameter lists of wrappers, by arity: every argument is an integer or a pointer and travels as one machine word.
 *   P3  the parameters    V3  their names    A3  the same, taken from an array `a`
 */
#ifndef COMMTAP_SHIM_BASE_ARGUMENTS_H
#define COMMTAP_SHIM_BASE_ARGUMENTS_H

#define EXPORTED __attribute__((visibility("default")))

#define P0  void
#define P1  uintptr_t a1
#define P2  P1, uintptr_t a2
#define P3  P2, uintptr_t a3
#define P4  P3, uintptr_t a4
#define P5  P4, uintptr_t a5
#define P6  P5, uintptr_t a6
#define P7  P6, uintptr_t a7
#define P8  P7, uintptr_t a8
#define P9  P8, uintptr_t a9
#define P10 P9, uintptr_t a10
#define P11 P10, uintptr_t a11
#define P12 P11, uintptr_t a12
#define P13 P12, uintptr_t a13
#define V0  0
#define V1  a1
#define V2  V1, a2
#define V3  V2, a3
#define V4  V3, a4
#define V5  V4, a5
#define V6  V5, a6
#define V7  V6, a7
#define V8  V7, a8
#define V9  V8, a9
#define V10 V9, a10
#define V11 V10, a11
#define V12 V11, a12
#define V13 V12, a13
#define A0
#define A1  a[0]
#define A2  A1, a[1]
#define A3  A2, a[2]
#define A4  A3, a[3]
#define A5  A4, a[4]
#define A6  A5, a[5]
#define A7  A6, a[6]
#define A8  A7, a[7]
#define A9  A8, a[8]
#define A10 A9, a[9]
#define A11 A10, a[10]
#define A12 A11, a[11]
#define A13 A12, a[12]

#endif
