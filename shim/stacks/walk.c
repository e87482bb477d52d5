/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/stacks/walk.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "shim/base/lookup.h"
#include "shim/base/os.h"
#include "shim/format.h"
#include "shim/stacks/cfi.h"
#include "shim/stacks/modules.h"

/* ---- the cache of rules ---------------------------------------------------------------------- */

#define RULES_FIRST  (1u << 14)
#define RULES_MAX    (1u << 20)
#define RULES_PROBES 8u

struct rule_slot {
    uintptr_t pc;           /* return address, 0 = free; once set it stays */
    struct frame_rule rule; /* RULE_NONE: not known now */
};

/* Grown by putting a larger, empty one in its place; the old one stays for whoever still reads it. */
struct rules {
    uint32_t mask;
    struct rule_slot slots[];
};
static struct rules *rules;

static struct rules *make_rules(uint32_t count) {
    struct rules *made = os_memory(sizeof *made + count * sizeof made->slots[0]);
    if (made)
        made->mask = count - 1;
    return made;
}

bool walk_begin(void) {
    rules = make_rules(RULES_FIRST);
    return rules != NULL;
}

static inline uint32_t rule_place(uintptr_t pc) {
    return (uint32_t)(hash_spread(pc) >> 40);
}

static void grow_rules(struct rules *full) {
    struct rules *larger = full->mask + 1 < RULES_MAX ? make_rules((full->mask + 1) * 4) : NULL;
    if (larger && !__atomic_compare_exchange_n(&rules, &full, larger, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        os_unmap(larger, sizeof *larger + (larger->mask + 1) * sizeof larger->slots[0]);
}

static void remember_rule(uintptr_t pc, struct frame_rule rule) {
    struct rules *table = __atomic_load_n(&rules, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < RULES_PROBES; i++) {
        struct rule_slot *slot = &table->slots[(rule_place(pc) + i) & table->mask];
        uintptr_t nobody = 0;
        if (__atomic_compare_exchange_n(&slot->pc, &nobody, pc, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
            nobody == pc) {
            __atomic_store(&slot->rule, &rule, __ATOMIC_RELEASE);
            return;
        }
    }
    grow_rules(table);
}

void walk_forget(uintptr_t start, uintptr_t end) {
    struct frame_rule none = {.kind = RULE_NONE};
    struct rules *table = __atomic_load_n(&rules, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i <= table->mask; i++)
        if (table->slots[i].pc > start && table->slots[i].pc <= end)
            __atomic_store(&table->slots[i].rule, &none, __ATOMIC_RELEASE);
}

/* Is this where a signal handler returns to, as the kernel wants it? (mov $SYS_rt_sigreturn; syscall) */
READS_ANY_FRAME static bool is_signal_return(uintptr_t pc) {
#if defined(__x86_64__)
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
#else
    static const uint8_t code[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
#endif
    if (!view_is_readable(pc) || !view_is_readable(pc + sizeof code - 1))
        return false;
    for (size_t i = 0; i < sizeof code; i++) /* no memcmp: a sanitizer's would look for its notes on any address */
        if (((const uint8_t *)pc)[i] != code[i])
            return false;
    return true;
}

static __attribute__((noinline)) struct frame_rule find_rule(uintptr_t pc) {
    struct module module;
    struct frame_rule rule = {.kind = RULE_CHAIN};
    if (modules_find(pc - 1, &module))
        rule = cfi_find_rule(&module.tables, pc);
    if (rule.kind == RULE_CHAIN && is_signal_return(pc)) /* a run time's own, without tables */
        rule.kind = RULE_SIGNAL;
    else if (rule.kind == RULE_SIGNAL && !is_signal_return(pc))
        rule.kind = RULE_COMPLEX;
    remember_rule(pc, rule);
    return rule;
}

static inline struct frame_rule rule_of(uintptr_t pc) {
    const struct rules *table = __atomic_load_n(&rules, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < RULES_PROBES; i++) {
        const struct rule_slot *slot = &table->slots[(rule_place(pc) + i) & table->mask];
        uintptr_t at = __atomic_load_n(&slot->pc, __ATOMIC_RELAXED);
        if (likely(at == pc)) {
            struct frame_rule rule;
            __atomic_load(&slot->rule, &rule, __ATOMIC_ACQUIRE);
            if (likely(rule.kind != RULE_NONE))
                return rule;
            break;
        }
        if (!at)
            break;
    }
    return find_rule(pc);
}

/* ---- one step -------------------------------------------------------------------------------- */

enum step { STEP_ON, STEP_END, STEP_CUT, STEP_COMPLEX };

static inline void note_slot(struct walk *w, uintptr_t at, uintptr_t value) {
    if (unlikely(w->slot_count == w->limit * WALK_SLOTS_PER_FRAME)) {
        w->transient = true;
        return;
    }
    w->foreign |= at < w->view->low || at >= w->view->high;
    w->slots[w->slot_count++] = (struct stack_slot){.at = (const uintptr_t *)at, .value = value};
}

static inline bool read_slot(struct walk *w, uintptr_t at, uintptr_t *value) {
    if (unlikely(!view_read(w->view, at, value)))
        return false;
    note_slot(w, at, *value);
    return true;
}

/* The next frame follows from the frame pointer: what that was read from has to hold from here on. */
static inline void use_fp(struct walk *w) {
    if (w->fp_at == FP_OF_CALLER)
        w->needs_fp = true;
    else if (w->fp_at)
        note_slot(w, w->fp_at, w->fp);
    w->fp_at = 0;
}

/* aarch64 may sign return addresses in bits that no address of user space has. */
static inline uintptr_t plain_address(uintptr_t pc) {
#if defined(__aarch64__)
    pc &= 0x0000ffffffffffffu;
#endif
    return pc;
}

/* Through the frame that the kernel laid out for a handler: the registers of what was interrupted. Its next instruction
 * is one that did not run yet, hence 1 more than it: like a return address it lies behind what was going on. */
static enum step step_signal(struct walk *w) {
    uintptr_t context = w->sp, pc, sp, fp;
#if defined(__x86_64__)
    uintptr_t registers = context + offsetof(ucontext_t, uc_mcontext.gregs);
    if (!read_slot(w, registers + REG_RBP * sizeof(greg_t), &fp) ||
        !read_slot(w, registers + REG_RSP * sizeof(greg_t), &sp) ||
        !read_slot(w, registers + REG_RIP * sizeof(greg_t), &pc))
        return STEP_CUT;
#else
    context += sizeof(siginfo_t);
    if (!read_slot(w, context + offsetof(ucontext_t, uc_mcontext.regs[29]), &fp) ||
        !read_slot(w, context + offsetof(ucontext_t, uc_mcontext.regs[30]), &w->link) ||
        !read_slot(w, context + offsetof(ucontext_t, uc_mcontext.sp), &sp) ||
        !read_slot(w, context + offsetof(ucontext_t, uc_mcontext.pc), &pc))
        return STEP_CUT;
#endif
    w->pc = pc + 1;
    w->sp = sp;
    w->fp = fp;
    w->fp_at = 0;
    return pc ? STEP_ON : STEP_CUT;
}

/* Does a call instruction end where `pc` points, in a module's code? */
static bool is_after_call(struct stack_view *view, uintptr_t pc) {
    const uint8_t *code = (const uint8_t *)pc;
#if defined(__x86_64__)
    if (!view_ask(view, pc - 7) || !view_ask(view, pc - 1))
        return false;
    if (code[-5] == 0xe8)
        return true;
    for (int length = 2; length <= 7; length++)
        if (code[-length] == 0xff && (code[1 - length] & 0x38) == 0x10)
            return true;
    return false;
#else
    uint32_t instruction;
    if (pc & 3 || !view_ask(view, pc - 4))
        return false;
    memcpy(&instruction, code - 4, sizeof instruction);
    return (instruction & 0xfc000000u) == 0x94000000u || (instruction & 0xfefff000u) == 0xd63f0000u;
#endif
}

/* Code that says nothing about its frames (a just-in-time compiler's): a chain of frame pointers is believed when it
 * leads to a call in code of a module. */
static bool chain_lands(struct walk *w) {
    uintptr_t fp = w->fp, next, pc;
    struct module module;
    if (!view_reaches(w->sp, fp))
        return false;
    for (uint32_t i = 0; i < w->limit; i++) {
        if (!view_read(w->view, fp, &next) || !view_read(w->view, fp + 8, &pc))
            return false;
        pc = plain_address(pc);
        if (pc && modules_find(pc - 1, &module))
            return is_after_call(w->view, pc);
        if (next == fp || !view_reaches(fp, next))
            return false;
        fp = next;
    }
    return false;
}

/* A frame found by its tables is where the program will return to, so its memory stays as long as it is found again.
 * Frames guessed, or believed until nothing made sense any more, may lie in memory that others give back. */
static void distrust(struct walk *w) {
    w->transient |= w->foreign;
}

static enum step step_chain(struct walk *w) {
    uintptr_t fp, pc, frame = w->fp;
    use_fp(w);
    if (!chain_lands(w) || !read_slot(w, frame, &fp) || !read_slot(w, frame + 8, &pc))
        return STEP_CUT;
    distrust(w);
    w->pc = plain_address(pc);
    w->sp = frame + 16;
    w->fp = fp;
    return STEP_ON;
}

static inline enum step step_plain(struct walk *w, struct frame_rule rule) {
    if (rule.kind != RULE_SP || unlikely(rule.frame_pointer == FP_AT_FP))
        use_fp(w);
    uintptr_t cfa = (rule.kind == RULE_SP ? w->sp : w->fp) + (uintptr_t)(rule.cfa * 8), fp = w->fp, pc;
    uintptr_t fp_at = w->fp_at;
    if (unlikely(rule.kind == RULE_FP_DEREF) && !read_slot(w, cfa, &cfa))
        return STEP_CUT;
    if (unlikely(rule.frame_pointer == FP_LOST)) {
        fp = fp_at = 0;
    } else if (rule.frame_pointer != FP_KEPT) {
        fp_at = likely(rule.frame_pointer == FP_AT_CFA) ? cfa + (uintptr_t)(rule.fp * 8) : fp;
        if (unlikely(!view_read(w->view, fp_at, &fp)))
            return STEP_CUT;
    }
    if (unlikely(rule.ra == RULE_RETURN_IN_REGISTER)) {
        if (!w->link || cfa < w->sp)
            return STEP_CUT;
        pc = w->link;
    } else if (unlikely(cfa <= w->sp || !read_slot(w, cfa + (uintptr_t)(rule.ra * 8), &pc))) {
        return STEP_CUT;
    }
    w->link = 0;
    w->pc = plain_address(pc);
    w->sp = cfa;
    w->fp = fp;
    w->fp_at = fp_at;
    return likely(pc) ? STEP_ON : STEP_END;
}

static inline enum step step(struct walk *w) {
    struct frame_rule rule = rule_of(w->pc);
    if (likely(rule.kind <= RULE_FP_DEREF))
        return step_plain(w, rule);
    switch (rule.kind) {
    case RULE_SIGNAL:
        return step_signal(w);
    case RULE_END:
        return STEP_END;
    case RULE_CHAIN:
        return step_chain(w);
    default:
        return STEP_COMPLEX;
    }
}

/* ---- libgcc's unwinder, where the program has it --------------------------------------------- */

/* Itanium C++ ABI: Exception Handling, 1.2 to 1.6; declared here so that no library is needed. */
struct _Unwind_Context;
static struct {
    int (*Backtrace)(int (*)(struct _Unwind_Context *, void *), void *);
    uintptr_t (*GetIP)(struct _Unwind_Context *);
    uintptr_t (*GetCFA)(struct _Unwind_Context *);
    uintptr_t (*GetGR)(struct _Unwind_Context *, int);
} unwinder;
#define UNWIND_GO_ON 0
#define UNWIND_STOP  5 /* _URC_END_OF_STACK */
#if defined(__x86_64__)
#define UNWIND_FP 6
#else
#define UNWIND_FP 29
#endif

struct complex_step {
    struct walk *walk;
    bool reached, done;
};

/* GetCFA tells the stack pointer of a frame as it was at its call: what a walk has, too. */
static int take_complex_step(struct _Unwind_Context *context, void *data) {
    struct complex_step *search = data;
    struct walk *w = search->walk;
    uintptr_t sp = unwinder.GetCFA(context);
    if (!search->reached) {
        search->reached = sp == w->sp && plain_address(unwinder.GetIP(context)) == w->pc;
        return sp > w->sp ? UNWIND_STOP : UNWIND_GO_ON;
    }
    w->pc = plain_address(unwinder.GetIP(context));
    w->sp = sp;
    w->fp = unwinder.GetGR(context, UNWIND_FP);
    search->done = w->pc != 0;
    return UNWIND_STOP;
}

/* Only one that is loaded already, by the program or by a library of it; looked for again when code of another library
 * has shown on a stack. Races store the same pointers. */
static bool find_unwinder(void) {
    static uint32_t looked_at;
    uint32_t modules = modules_count() + 1;
    if (__atomic_exchange_n(&looked_at, modules, __ATOMIC_RELAXED) == modules || unwinder.Backtrace)
        return __atomic_load_n(&unwinder.Backtrace, __ATOMIC_ACQUIRE) != NULL;
    void *backtrace = lookup_in_loaded("libgcc_s.so.1", "_Unwind_Backtrace");
    if (!backtrace)
        return false;
#define FIND(name) *(void **)&unwinder.name = lookup_in_loaded("libgcc_s.so.1", "_Unwind_" #name);
    FIND(GetIP)
    FIND(GetCFA)
    FIND(GetGR)
#undef FIND
    if (unwinder.GetIP && unwinder.GetCFA && unwinder.GetGR)
        __atomic_store_n((void **)&unwinder.Backtrace, backtrace, __ATOMIC_RELEASE);
    return unwinder.Backtrace != NULL;
}

/* It restores every register, which tells what a rule here cannot; the slots it read are unknown. */
static enum step step_complex(struct walk *w) {
    struct complex_step search = {.walk = w};
    w->transient = true;
    w->fp_at = 0;
    if (!find_unwinder())
        return STEP_CUT;
    unwinder.Backtrace(take_complex_step, &search);
    return search.done ? STEP_ON : STEP_CUT;
}

/* ---- all of it ------------------------------------------------------------------------------- */

void walk_stack(struct walk *w) {
    for (;;) {
        w->frames[w->depth++] = w->pc;
        enum step s = step(w);
        if (unlikely(s == STEP_COMPLEX))
            s = step_complex(w);
        if (s == STEP_END)
            return;
        if (s == STEP_CUT)
            distrust(w);
        if (s == STEP_CUT || w->depth == w->limit) {
            w->frames[w->depth++] = STACK_ENTRY_CUT;
            w->cut = true;
            return;
        }
    }
}
