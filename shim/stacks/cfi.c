/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of encodings and operations are those of the LSB and of DWARF.
 */
#include "shim/stacks/cfi.h"

#include <string.h>

#if defined(__x86_64__)
#define REGISTER_SP     7u
#define REGISTER_FP     6u
#define REGISTER_RETURN 16u
#else
#define REGISTER_SP     31u
#define REGISTER_FP     29u
#define REGISTER_RETURN 30u
#endif
#define OPERATION_BREG_FP (0x70u + REGISTER_FP) /* DW_OP_breg<frame pointer>: aarch64's 29 is 0x8d */
#define OPERATION_DEREF   0x06u

#define SAVED_STATES 8u
#define WORD         8

/* ---- bytes ----------------------------------------------------------------------------------- */

struct reader {
    const uint8_t *at, *end;
    bool bad; /* read beyond the end: all further values are 0 */
};

static void read_bytes(struct reader *r, void *to, size_t bytes) {
    memset(to, 0, bytes);
    if (r->bad || (size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        return;
    }
    memcpy(to, r->at, bytes);
    r->at += bytes;
}

static uint8_t read_u8(struct reader *r) {
    uint8_t value;
    read_bytes(r, &value, sizeof value);
    return value;
}

static uint16_t read_u16(struct reader *r) {
    uint16_t value;
    read_bytes(r, &value, sizeof value);
    return value;
}

static uint32_t read_u32(struct reader *r) {
    uint32_t value;
    read_bytes(r, &value, sizeof value);
    return value;
}

static uint64_t read_u64(struct reader *r) {
    uint64_t value;
    read_bytes(r, &value, sizeof value);
    return value;
}

static uint64_t read_uleb(struct reader *r) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = read_u8(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static int64_t read_sleb(struct reader *r) {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
        uint8_t byte = read_u8(r);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80)
            continue;
        if (shift < 64 && byte & 0x40)
            value |= ~0ull << shift;
        return (int64_t)value;
    }
}

static void skip(struct reader *r, uint64_t bytes) {
    if (r->bad || (uint64_t)(r->end - r->at) < bytes)
        r->bad = true;
    else
        r->at += bytes;
}

/* The next `bytes` as a reader of their own; empty and bad when there are not so many. */
static struct reader part(struct reader *r, uint64_t bytes) {
    struct reader inner = {.at = r->at, .end = r->at};
    skip(r, bytes);
    inner.bad = r->bad;
    if (!r->bad)
        inner.end = inner.at + bytes;
    return inner;
}

/* A pointer as encoded (LSB, table "DWARF Exception Header Encoding"); `bad` for what addresses of code never use. */
static uint64_t read_encoded(struct reader *r, uint8_t encoding) {
    uint64_t value, place = (uintptr_t)r->at;
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c:
        value = read_u64(r);
        break;
    case 0x02:
        value = read_u16(r);
        break;
    case 0x03:
        value = read_u32(r);
        break;
    case 0x0a:
        value = (uint64_t)(int16_t)read_u16(r);
        break;
    case 0x0b:
        value = (uint64_t)(int32_t)read_u32(r);
        break;
    default:
        r->bad = true;
        return 0;
    }
    if ((encoding & 0x70) == 0x10)
        return value + place;
    if (encoding & 0x70)
        r->bad = true;
    return value;
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum saved_how { SAVED_NOT = 0, SAVED_AT_CFA, SAVED_AT_FP, SAVED_UNDEFINED, SAVED_COMPLEX };

struct saved {
    uint8_t how; /* enum saved_how */
    int64_t offset;
};

/* One row of the table that a frame's program describes: how to find the CFA and the two registers that matter. */
struct row {
    uint64_t cfa_register;
    int64_t cfa_offset;
    bool cfa_deref, cfa_complex;
    struct saved fp, ra;
};

struct program {
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding;
    bool signal;
    struct row initial;
    struct row saved_rows[SAVED_STATES];
    unsigned saved_count;
    bool failed;
};

static void set_saved(struct row *row, uint64_t reg, enum saved_how how, int64_t offset) {
    struct saved value = {.how = (uint8_t)how, .offset = offset};
    if (reg == REGISTER_FP)
        row->fp = value;
    else if (reg == REGISTER_RETURN)
        row->ra = value;
}

static void restore(struct row *row, uint64_t reg, const struct row *initial) {
    if (reg == REGISTER_FP)
        row->fp = initial->fp;
    else if (reg == REGISTER_RETURN)
        row->ra = initial->ra;
}

/* The one expression compilers write for a realigned stack: CFA = *(frame pointer + n). */
static void set_cfa_expression(struct row *row, struct reader expression) {
    row->cfa_complex = true;
    if (read_u8(&expression) != OPERATION_BREG_FP)
        return;
    int64_t offset = read_sleb(&expression);
    if (read_u8(&expression) != OPERATION_DEREF || expression.bad || expression.at != expression.end)
        return;
    row->cfa_offset = offset;
    row->cfa_deref = true;
    row->cfa_complex = false;
}

/* ... and where such a frame saved the frame pointer: at *(frame pointer). */
static void set_saved_expression(struct row *row, uint64_t reg, struct reader expression) {
    bool at_fp = read_u8(&expression) == OPERATION_BREG_FP && read_sleb(&expression) == 0 && !expression.bad &&
                 expression.at == expression.end;
    set_saved(row, reg, at_fp && reg == REGISTER_FP ? SAVED_AT_FP : SAVED_COMPLEX, 0);
}

static void define_cfa(struct row *row, uint64_t reg, int64_t offset) {
    row->cfa_register = reg;
    row->cfa_offset = offset;
    row->cfa_deref = row->cfa_complex = false;
}

static int64_t aligned(const struct program *p, uint64_t factor) {
    return (int64_t)(factor * (uint64_t)p->data_align);
}

/* Operations that say where the caller's stack pointer is found; false when it is none of them. */
static bool run_cfa_operation(const struct program *p, struct row *row, struct reader *r, uint8_t operation) {
    uint64_t reg;
    switch (operation) {
    case 0x0c: /* def_cfa */
        reg = read_uleb(r);
        define_cfa(row, reg, (int64_t)read_uleb(r));
        return true;
    case 0x12: /* def_cfa_sf */
        reg = read_uleb(r);
        define_cfa(row, reg, aligned(p, (uint64_t)read_sleb(r)));
        return true;
    case 0x0d: /* def_cfa_register */
        define_cfa(row, read_uleb(r), row->cfa_offset);
        return true;
    case 0x0e: /* def_cfa_offset */
        row->cfa_offset = (int64_t)read_uleb(r);
        return true;
    case 0x13: /* def_cfa_offset_sf */
        row->cfa_offset = aligned(p, (uint64_t)read_sleb(r));
        return true;
    case 0x0f: /* def_cfa_expression */
        set_cfa_expression(row, part(r, read_uleb(r)));
        return true;
    default:
        return false;
    }
}

/* Operations that say where a register is found in a way that only the full unwinder follows, most of them; false when
 * it is none of them. */
static bool run_rare_register_operation(struct row *row, struct reader *r, uint8_t operation) {
    uint64_t reg;
    switch (operation) {
    case 0x09: /* register */
    case 0x14: /* val_offset */
        reg = read_uleb(r);
        read_uleb(r);
        set_saved(row, reg, SAVED_COMPLEX, 0);
        return true;
    case 0x15: /* val_offset_sf */
        reg = read_uleb(r);
        read_sleb(r);
        set_saved(row, reg, SAVED_COMPLEX, 0);
        return true;
    case 0x10: /* expression */
        reg = read_uleb(r);
        set_saved_expression(row, reg, part(r, read_uleb(r)));
        return true;
    case 0x16: /* val_expression */
        reg = read_uleb(r);
        skip(r, read_uleb(r));
        set_saved(row, reg, SAVED_COMPLEX, 0);
        return true;
    default:
        return false;
    }
}

/* Operations that say where a register is found; false when it is none of them. */
static bool run_register_operation(const struct program *p, struct row *row, struct reader *r, uint8_t operation) {
    uint64_t reg;
    switch (operation) {
    case 0x05: /* offset_extended */
        reg = read_uleb(r);
        set_saved(row, reg, SAVED_AT_CFA, aligned(p, read_uleb(r)));
        return true;
    case 0x11: /* offset_extended_sf */
        reg = read_uleb(r);
        set_saved(row, reg, SAVED_AT_CFA, aligned(p, (uint64_t)read_sleb(r)));
        return true;
    case 0x06: /* restore_extended */
        restore(row, read_uleb(r), &p->initial);
        return true;
    case 0x07: /* undefined */
        set_saved(row, read_uleb(r), SAVED_UNDEFINED, 0);
        return true;
    case 0x08: /* same_value */
        set_saved(row, read_uleb(r), SAVED_NOT, 0);
        return true;
    default:
        return run_rare_register_operation(row, r, operation);
    }
}

/* Operations other than those that move the location or hold a register in their low bits. */
static void run_operation(struct program *p, struct row *row, struct reader *r, uint8_t operation) {
    if (run_cfa_operation(p, row, r, operation) || run_register_operation(p, row, r, operation))
        return;
    switch (operation) {
    case 0x0a: /* remember_state */
        if (p->saved_count < SAVED_STATES)
            p->saved_rows[p->saved_count++] = *row;
        else
            p->failed = true;
        break;
    case 0x0b: /* restore_state */
        if (p->saved_count)
            *row = p->saved_rows[--p->saved_count];
        else
            p->failed = true;
        break;
    case 0x2e: /* GNU_args_size */
        read_uleb(r);
        break;
    case 0x00: /* nop */
#if defined(__aarch64__)
    case 0x2d: /* AARCH64_negate_ra_state: the signature is taken off every return address anyway */
#endif
        break;
    default:
        p->failed = true;
    }
}

/* How far an operation moves the location, in code units; false when it is none of those that do. */
static bool read_advance(struct reader *r, uint8_t operation, uint64_t *units) {
    if ((operation & 0xc0) == 0x40)
        *units = operation & 0x3f;
    else if (operation == 0x02)
        *units = read_u8(r);
    else if (operation == 0x03)
        *units = read_u16(r);
    else if (operation == 0x04)
        *units = read_u32(r);
    else
        return false;
    return true;
}

/* Runs instructions from `location` until the row that covers `pc`. */
static void run(struct program *p, struct row *row, struct reader instructions, uint64_t location, uint64_t pc) {
    struct reader *r = &instructions;
    while (r->at < r->end && !r->bad && !p->failed) {
        uint8_t operation = read_u8(r);
        uint64_t units;
        if (operation == 0x01) /* set_loc */
            location = read_encoded(r, p->encoding);
        else if (read_advance(r, operation, &units))
            location += units * p->code_align;
        else if ((operation & 0xc0) == 0x80)
            set_saved(row, operation & 0x3f, SAVED_AT_CFA, aligned(p, read_uleb(r)));
        else if ((operation & 0xc0) == 0xc0)
            restore(row, operation & 0x3f, &p->initial);
        else
            run_operation(p, row, r, operation);
        if (location > pc)
            return;
    }
    p->failed |= r->bad;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* A CIE or FDE at `at`: what follows its length. Bad when it does not lie within the tables. */
static struct reader open_entry(const struct cfi_tables *tables, const uint8_t *at) {
    struct reader r = {.at = at, .end = tables->end};
    if (at < tables->start || at >= tables->end)
        r.bad = true;
    uint32_t length = read_u32(&r);
    if (length == 0 || length == UINT32_MAX) /* the terminator; the 64-bit form, which nobody writes here */
        r.bad = true;
    return part(&r, length);
}

/* Reads a CIE; the returned reader stands at its initial instructions. */
static struct reader read_cie(struct reader r, struct program *p, bool *augmented) {
    char augmentation[8] = "";
    read_u32(&r); /* id */
    uint8_t version = read_u8(&r);
    for (size_t i = 0; i < sizeof augmentation; i++)
        if (!(augmentation[i] = (char)read_u8(&r)))
            break;
    p->code_align = read_uleb(&r);
    p->data_align = read_sleb(&r);
    if (version == 1)
        read_u8(&r);
    else
        read_uleb(&r);
    *augmented = augmentation[0] == 'z';
    if (augmentation[sizeof augmentation - 1] || (augmentation[0] && !*augmented))
        r.bad = true;
    if (r.bad || !*augmented)
        return r;
    struct reader data = part(&r, read_uleb(&r));
    for (const char *a = augmentation + 1; *a; a++)
        if (*a == 'R')
            p->encoding = read_u8(&data);
        else if (*a == 'S')
            p->signal = true;
        else if (*a == 'L')
            read_u8(&data);
        else if (*a == 'P')
            read_encoded(&data, read_u8(&data) & 0x0f);
        else if (*a != 'B')
            r.bad = true;
    r.bad |= data.bad;
    return r;
}

/* The FDE that may cover `pc`: the last one of the sorted table that does not begin behind it. NULL: none. */
static const uint8_t *search(const struct cfi_tables *tables, uintptr_t pc) {
    struct reader r = {.at = tables->header, .end = tables->end};
    if (!tables->header || tables->header < tables->start || tables->header >= tables->end)
        return NULL;
    uint32_t format = read_u32(&r); /* version, encodings of: pointer, count, table */
    if ((format & 0xff) != 1 || format >> 24 != 0x3b)
        return NULL;
    read_encoded(&r, (uint8_t)(format >> 8));
    uint64_t count = read_encoded(&r, (uint8_t)(format >> 16));
    if (r.bad || count == 0 || count > (uint64_t)(r.end - r.at) / 8)
        return NULL;
    int64_t wanted = (int64_t)(pc - (uintptr_t)tables->header);
    size_t low = 0, high = (size_t)count;
    int32_t entry[2];
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        memcpy(entry, r.at + 8 * middle, sizeof entry);
        if (entry[0] <= wanted)
            low = middle;
        else
            high = middle;
    }
    memcpy(entry, r.at + 8 * low, sizeof entry);
    return entry[0] <= wanted ? (const uint8_t *)((uintptr_t)tables->header + (uintptr_t)(intptr_t)entry[1]) : NULL;
}

static bool fits_in_rule(int64_t offset, int64_t words) {
    return offset % WORD == 0 && offset / WORD > -words && offset / WORD < words;
}

static struct frame_rule rule_of_row(const struct row *row) {
    static const struct frame_rule complex_rule = {.kind = RULE_COMPLEX};
    static const uint8_t fp_rules[] = {
        [SAVED_NOT] = FP_KEPT, [SAVED_AT_CFA] = FP_AT_CFA, [SAVED_AT_FP] = FP_AT_FP, [SAVED_UNDEFINED] = FP_LOST};
    struct frame_rule rule = {.kind = RULE_NONE};
    if (row->ra.how == SAVED_UNDEFINED) {
        rule.kind = RULE_END;
        return rule;
    }
    if (row->cfa_complex || row->fp.how == SAVED_COMPLEX || row->ra.how == SAVED_COMPLEX ||
        !fits_in_rule(row->cfa_offset, 1 << 23) || !fits_in_rule(row->fp.offset, 1 << 16) ||
        !fits_in_rule(row->ra.offset, 1 << 16))
        return complex_rule;
    if (row->cfa_deref)
        rule.kind = RULE_FP_DEREF;
    else if (row->cfa_register == REGISTER_SP)
        rule.kind = RULE_SP;
    else if (row->cfa_register == REGISTER_FP)
        rule.kind = RULE_FP;
    else
        return complex_rule;
    rule.cfa = row->cfa_offset / WORD;
    rule.frame_pointer = fp_rules[row->fp.how];
    rule.fp = row->fp.offset / WORD;
    rule.ra = row->ra.how == SAVED_NOT ? RULE_RETURN_IN_REGISTER : row->ra.offset / WORD;
    return rule;
}

/* Opens the FDE that covers `pc`; false: there is none. The reader stands at its instructions then. */
static bool open_fde(const struct cfi_tables *tables, uintptr_t pc, struct program *p, struct reader *fde,
                     struct reader *cie, uint64_t *begin) {
    bool augmented = false;
    const uint8_t *at = search(tables, pc);
    if (!at)
        return false;
    *fde = open_entry(tables, at);
    const uint8_t *id_place = fde->at;
    uint32_t to_cie = read_u32(fde);
    if (fde->bad || to_cie > (uint64_t)(id_place - tables->start))
        return false;
    *cie = read_cie(open_entry(tables, id_place - to_cie), p, &augmented);
    *begin = read_encoded(fde, p->encoding);
    uint64_t length = read_encoded(fde, p->encoding & 0x0f);
    if (augmented)
        skip(fde, read_uleb(fde));
    return !cie->bad && !fde->bad && pc - *begin < length;
}

/* A function that nothing called, although a return address says so: put at the bottom of a stack by whoever made it
 * (makecontext's __start_context). */
static bool is_artificial(const struct cfi_tables *tables, uintptr_t return_address) {
    struct program p = {.code_align = 1};
    struct reader fde, cie;
    uint64_t begin;
    return open_fde(tables, return_address, &p, &fde, &cie, &begin) && begin == return_address;
}

struct frame_rule cfi_find_rule(const struct cfi_tables *tables, uintptr_t return_address) {
    uintptr_t pc = return_address - 1; /* within the call: what it returns to may belong to the next row or function */
    struct program p = {.code_align = 1};
    struct reader fde, cie;
    uint64_t begin;
    if (!open_fde(tables, pc, &p, &fde, &cie, &begin))
        return (struct frame_rule){.kind = is_artificial(tables, return_address) ? RULE_END : RULE_CHAIN};
    if (p.signal)
        return (struct frame_rule){.kind = RULE_SIGNAL};
    struct row row = {.cfa_complex = true};
    run(&p, &row, cie, 0, UINT64_MAX);
    p.initial = row;
    run(&p, &row, fde, begin, pc);
    return p.failed ? (struct frame_rule){.kind = RULE_COMPLEX} : rule_of_row(&row);
}
