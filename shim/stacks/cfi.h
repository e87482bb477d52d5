/* SPDX-License-Identifier: Apache-2.0
 *
 * From a return address to the rule that leads to its caller's frame: the call frame information of .eh_frame
 * (DWARF 5, 6.4; Linux Standard Base, "Exception Frames") reduced to what a stack walk needs.
 * Lives here: reading the tables, bounds-checked. Must not live here: which module an address lies in, any stack.
 */
#ifndef COMMTAP_CFI_H
#define COMMTAP_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rule_kind {
    RULE_NONE = 0, /* not looked up yet */
    RULE_SP,       /* CFA = stack pointer + cfa */
    RULE_FP,       /* CFA = frame pointer + cfa */
    RULE_FP_DEREF, /* CFA = *(frame pointer + cfa): a realigned stack */
    RULE_SIGNAL,   /* the kernel's frame around a signal handler */
    RULE_END,      /* the outermost frame */
    RULE_CHAIN,    /* no information about this code */
    RULE_COMPLEX,  /* information of a kind not supported here: a full unwinder may know */
};

enum rule_fp {
    FP_KEPT = 0, /* the caller's frame pointer is still in its register */
    FP_AT_CFA,   /* saved at CFA + fp */
    FP_AT_FP,    /* saved at *frame pointer */
    FP_LOST,
};

#define RULE_RETURN_IN_REGISTER (-65536) /* `ra` of a frame that did not save it (never on x86-64) */

/* Offsets are in words of 8 bytes. All zero: RULE_NONE. */
struct frame_rule {
    uint64_t kind : 4;
    uint64_t frame_pointer : 2;
    int64_t cfa : 24;
    int64_t fp : 17;
    int64_t ra : 17; /* where the return address is: CFA + ra */
};
_Static_assert(sizeof(struct frame_rule) == 8, "a rule is read and written in one piece");

/* A module's tables: the segment that holds them (readable throughout) and the header of .eh_frame in it. */
struct cfi_tables {
    const uint8_t *start, *end;
    const uint8_t *header; /* PT_GNU_EH_FRAME, NULL when the module has none */
};

/* The rule for the frame that returns to `return_address`. Any bytes may be behind `tables`. */
struct frame_rule cfi_find_rule(const struct cfi_tables *tables, uintptr_t return_address);

#endif
