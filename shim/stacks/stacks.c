/* SPDX-License-Identifier: Apache-2.0
 *
 * Three layers: what a thread remembers of its own walks, verified slot by slot; native frames interned for the
 * process; and (native, keys of the sources) -> id. Tables are filled by compare-and-swap and never give anything up,
 * so nobody waits; a race makes a second id for one stack, which is harmless.
 */
#include "shim/stacks/stacks.h"

#include <errno.h>
#include <string.h>

#include "shim/base/unloads.h"
#include "shim/record/aggregates.h"
#include "shim/stacks/modules.h"
#include "shim/stacks/walk.h"

#define SETS          32u
#define WAYS          4u
#define NATIVES       65536u
#define STACKS        65536u
#define PROBES        128u
#define SOURCES       2u
#define ARENA_BYTES   (256u << 10)
#define KEY_NOT_ASKED UINT64_MAX

enum stack_mode stacks_mode;
bool stacks_taken;
static bool are_shed;

static uint32_t depth_limit;
static bool has_tables;                             /* natives, stacks, modules and rules of unwinding */
static const struct stack_source *sources[SOURCES]; /* NULL: none, or nothing to give in this process */
static bool is_wanted[SOURCES];                     /* those that stacks are to hold now */
static const uint32_t asleep;
static const uint32_t *awake[SOURCES] = {&asleep, &asleep};

/* ---- native frames --------------------------------------------------------------------------- */

struct native {
    uint64_t hash; /* 0 = free */
    const uint64_t *entries;
    uint32_t depth; /* released once the above is filled */
    uint32_t dead;  /* code of it was unloaded: the same addresses may mean something else now */
};
static struct native *natives;

/* Memory for entries, handed out by one addition; a new piece is made by whoever finds the old one used up. */
struct arena {
    uint64_t used;
    char bytes[ARENA_BYTES - sizeof(uint64_t)];
};
static struct arena *arena;

static uint64_t *arena_take(size_t bytes) {
    for (int attempt = 0; attempt < 2; attempt++) {
        struct arena *now = __atomic_load_n(&arena, __ATOMIC_ACQUIRE);
        uint64_t at = now ? __atomic_fetch_add(&now->used, bytes, __ATOMIC_RELAXED) : sizeof now->bytes;
        if (at + bytes <= sizeof now->bytes)
            return (uint64_t *)(now->bytes + at);
        struct arena *next = os_memory(sizeof *next);
        if (next && !__atomic_compare_exchange_n(&arena, &now, next, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            os_unmap(next, sizeof *next);
    }
    return NULL;
}

static bool holds(const struct native *native, const uint64_t *frames, uint32_t depth) {
    return __atomic_load_n(&native->depth, __ATOMIC_ACQUIRE) == depth &&
           !__atomic_load_n(&native->dead, __ATOMIC_RELAXED) &&
           !memcmp(native->entries, frames, depth * sizeof *frames);
}

/* Number of these frames, from 1; 0 when there is no room. */
static uint32_t intern(const uint64_t *frames, uint32_t depth) {
    uint64_t hash = hash_bytes(depth, frames, depth * sizeof *frames) | 1;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = ((uint32_t)(hash >> 32) + i) % NATIVES;
        struct native *native = &natives[at];
        uint64_t taken = 0;
        if (!__atomic_compare_exchange_n(&native->hash, &taken, hash, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            if (taken == hash && holds(native, frames, depth))
                return at + 1;
            continue;
        }
        uint64_t *entries = arena_take(depth * sizeof *entries);
        if (!entries)
            return 0;
        native->entries = memcpy(entries, frames, depth * sizeof *entries);
        __atomic_store_n(&native->depth, depth, __ATOMIC_RELEASE);
        if (frames[depth - 1] == STACK_ENTRY_CUT)
            count_loss(&recorder.header->losses.stacks_truncated);
        return at + 1;
    }
    return 0;
}

/* ---- ids ------------------------------------------------------------------------------------- */

struct stack {
    uint32_t native; /* 0 = free */
    uint32_t id;     /* released once defined */
    uint64_t keys[SOURCES];
};
static struct stack *stacks;
static uint32_t last_id;

/* Writes the stack down; 0 when there is no room. */
static uint32_t define_stack(struct thread *self, const struct native *native, const uint64_t *keys, uint64_t *room) {
    uint32_t depth = native->depth;
    memcpy(room, native->entries, depth * sizeof *room);
    for (unsigned i = 0; i < SOURCES; i++)
        if (keys[i])
            depth += (uint32_t)sources[i]->entries(self, keys[i], room + depth, STACK_SOURCE_ROOM);
    struct stack_definition *d = definitions_reserve(&recorder.definitions, sizeof *d + depth * sizeof *room);
    if (!d)
        return STACK_NONE;
    d->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    d->depth = depth;
    memcpy(d->entries, room, depth * sizeof *room);
    definitions_commit(d, DEFINITION_STACK);
    return d->id;
}

static uint32_t find_id(struct thread *self, uint32_t native, const uint64_t *keys, uint64_t *room) {
    uint64_t hash = hash_combine(hash_combine(native, keys[0]), keys[1]);
    for (uint32_t i = 0; i < PROBES; i++) {
        struct stack *stack = &stacks[((uint32_t)hash + i) % STACKS];
        uint32_t taken = 0;
        if (__atomic_compare_exchange_n(&stack->native, &taken, native, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            memcpy(stack->keys, keys, sizeof stack->keys);
            uint32_t id = define_stack(self, &natives[native - 1], keys, room);
            __atomic_store_n(&stack->id, id, __ATOMIC_RELEASE);
            return id;
        }
        uint32_t id = taken == native ? __atomic_load_n(&stack->id, __ATOMIC_ACQUIRE) : STACK_NONE;
        if (id && !memcmp(stack->keys, keys, sizeof stack->keys))
            return id;
    }
    count_loss(&recorder.header->losses.definitions_full);
    return STACK_NONE;
}

/* ---- what a thread remembers ----------------------------------------------------------------- */

struct memo {
    uintptr_t pc, sp, fp; /* pc 0: free */
    uint32_t native;      /* 0: no room for it */
    uint32_t id;          /* with these keys */
    uint64_t keys[SOURCES];
    uint32_t slot_count;
    bool needs_fp;
    struct stack_slot slots[]; /* and behind them one that never holds, where comparing ends */
};

struct stack_memory {
    struct stack_view view;
    uint64_t *room;   /* for the entries of one stack */
    uint32_t unloads; /* of modules, that were taken note of */
    uint32_t next_way;
    uint32_t memo_bytes;
    enum stack_mode mode;               /* that its memos are of */
    _Alignas(struct memo) char memos[]; /* SETS * WAYS of memo_bytes */
};

static inline struct stack_memory *memory_of(const struct thread *self) {
    return self->parts[PART_STACKS].memory;
}

static inline struct memo *memo_at(struct stack_memory *memory, uint32_t index) {
    return (struct memo *)(memory->memos + (size_t)index * memory->memo_bytes);
}

static inline uint32_t set_of(uintptr_t pc, uintptr_t sp) {
    return (uint32_t)(hash_spread(pc ^ sp << 7) >> 59) % SETS;
}

/* In the order of the walk, up to the first difference: each slot is where it was because the ones before hold what
 * they held, so none is read that the walk itself would not read. */
READS_ANY_FRAME static inline bool is_unchanged(const struct memo *memo) {
    const struct stack_slot *slot = memo->slots;
    while (*slot->at == slot->value)
        slot++;
    return likely(slot == &memo->slots[memo->slot_count]);
}

static inline struct memo *recall(struct stack_memory *memory, uintptr_t pc, uintptr_t sp, uintptr_t fp) {
    struct memo *memo = memo_at(memory, set_of(pc, sp) * WAYS);
    for (uint32_t way = 0; way < WAYS; way++) {
        if (memo->pc == pc && memo->sp == sp && (memo->fp == fp || !memo->needs_fp) && is_unchanged(memo))
            return memo;
        memo = (struct memo *)((char *)memo + memory->memo_bytes);
    }
    return NULL;
}

static struct memo *oldest_way(struct stack_memory *memory, uint32_t set) {
    for (uint32_t way = 0; way < WAYS; way++)
        if (!memo_at(memory, set * WAYS + way)->pc)
            return memo_at(memory, set * WAYS + way);
    return memo_at(memory, set * WAYS + memory->next_way++ % WAYS);
}

static __attribute__((noinline)) struct memo *remember_walk(struct stack_memory *memory, uintptr_t pc, uintptr_t sp,
                                                            uintptr_t fp) {
    int saved = errno;
    struct memo *memo = oldest_way(memory, set_of(pc, sp));
    struct walk walk = {.pc = pc,
                        .sp = sp,
                        .fp = fp,
                        .fp_at = FP_OF_CALLER,
                        .view = &memory->view,
                        .frames = memory->room,
                        .limit = depth_limit,
                        .slots = memo->slots};
    memo->pc = 0;
    if (memory->mode == STACK_SITE) {
        struct module module;
        modules_find(pc - 1, &module);
        memory->room[walk.depth++] = pc;
    } else {
        view_begin(&memory->view, sp);
        walk_stack(&walk);
    }
    memo->native = intern(memory->room, walk.depth);
    if (!memo->native)
        count_loss(&recorder.header->losses.definitions_full);
    memo->id = STACK_NONE;
    memo->keys[0] = memo->keys[1] = KEY_NOT_ASKED;
    memo->slot_count = walk.slot_count;
    memo->slots[walk.slot_count] = (struct stack_slot){.at = &memo->sp, .value = ~sp};
    memo->needs_fp = walk.needs_fp;
    memo->sp = sp;
    memo->fp = fp;
    memo->pc = walk.transient ? 0 : pc;
    errno = saved;
    return memo;
}

static __attribute__((noinline)) uint32_t compose(struct thread *self, struct memo *memo, const uint64_t *keys) {
    int saved = errno;
    memcpy(memo->keys, keys, sizeof memo->keys);
    memo->id = memo->native ? find_id(self, memo->native, keys, memory_of(self)->room) : STACK_NONE;
    errno = saved;
    return memo->id;
}

/* ---- unloaded code --------------------------------------------------------------------------- */

static void forget_module(const struct module *module, void *memory) {
    (void)memory;
    walk_forget(module->start, module->end);
    for (uint32_t i = 0; i < NATIVES; i++) {
        uint32_t depth = __atomic_load_n(&natives[i].depth, __ATOMIC_ACQUIRE);
        for (uint32_t k = 0; k < depth; k++)
            if (natives[i].entries[k] > module->start && natives[i].entries[k] <= module->end)
                __atomic_store_n(&natives[i].dead, 1, __ATOMIC_RELAXED);
    }
}

/* Something was unloaded since this thread last looked: nothing remembered is believed before that is known. */
static __attribute__((noinline)) void catch_up(struct stack_memory *memory, uint32_t now) {
    int saved = errno;
    modules_check();
    modules_each_gone(memory->unloads, forget_module, memory);
    for (uint32_t i = 0; i < SETS * WAYS; i++)
        memo_at(memory, i)->pc = 0;
    memory->unloads = now;
    errno = saved;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static inline bool is_awake(unsigned source) {
    return __atomic_load_n(__atomic_load_n(&awake[source], __ATOMIC_RELAXED), __ATOMIC_RELAXED) != 0;
}

static bool wants(enum stack_mode mode, unsigned source) {
    return mode == STACK_FULL || (mode == STACK_PYTHON && source == 0);
}

/* The memory that goes with what stacks are to hold now, in the place of one for less or more. */
static __attribute__((noinline)) struct stack_memory *follow_mode(struct thread *self) {
    struct thread_part *part = &self->parts[PART_STACKS];
    int saved = errno;
    if (part->memory)
        os_unmap(part->memory, part->bytes);
    *part = (struct thread_part){0};
    stacks_attach(self);
    errno = saved;
    return memory_of(self);
}

static __attribute__((noinline)) uint32_t take_slowly(struct thread *self, uintptr_t pc, uintptr_t sp, uintptr_t fp) {
    struct stack_memory *memory = memory_of(self);
    uint64_t keys[SOURCES] = {0, 0};
    if (unlikely(!memory || memory->mode != __atomic_load_n(&stacks_mode, __ATOMIC_RELAXED)))
        memory = follow_mode(self);
    if (unlikely(!memory))
        return STACK_NONE;
    if (unlikely(memory->mode == STACK_SITE))
        sp = fp = 0;
    uint32_t now = __atomic_load_n(&unloads_so_far, __ATOMIC_ACQUIRE);
    if (unlikely(memory->unloads != now))
        catch_up(memory, now);
    struct memo *memo = recall(memory, pc, sp, fp);
    bool is_new = !memo;
    if (unlikely(is_new)) {
        uint64_t begin = ticks();
        memo = remember_walk(memory, pc, sp, fp);
        thread_took(self, ticks() - begin);
    }
    for (unsigned i = 0; i < SOURCES; i++)
        if (unlikely((is_awake(i) || is_new) && __atomic_load_n(&is_wanted[i], __ATOMIC_RELAXED)))
            keys[i] = sources[i]->key(self);
    if (likely(memo->keys[0] == keys[0] && memo->keys[1] == keys[1]))
        return memo->id;
    return compose(self, memo, keys);
}

/* The commonest case without a detour: native frames alone, remembered. With one address per stack (STACK_SITE) no memo
 * has this `sp`. */
uint32_t stack_take(struct thread *self, uintptr_t pc, uintptr_t sp, uintptr_t fp) {
    struct stack_memory *memory = memory_of(self);
    if (unlikely(!memory || memory->unloads != __atomic_load_n(&unloads_so_far, __ATOMIC_ACQUIRE) || is_awake(0) ||
                 is_awake(1)))
        return take_slowly(self, pc, sp, fp);
    const struct memo *memo = recall(memory, pc, sp, fp);
    return likely(memo && !(memo->keys[0] | memo->keys[1])) ? memo->id : take_slowly(self, pc, sp, fp);
}

void stacks_attach(struct thread *self) {
    enum stack_mode mode = __atomic_load_n(&stacks_mode, __ATOMIC_ACQUIRE);
    if (mode == STACK_OFF)
        return;
    if (memory_of(self)) { /* of a thread that ended */
        memory_of(self)->view = (struct stack_view){.low = 0};
        return;
    }
    size_t slots = mode == STACK_SITE ? 0 : WALK_SLOTS_PER_FRAME * depth_limit;
    size_t memo_bytes = sizeof(struct memo) + (slots + 1) * sizeof(struct stack_slot);
    size_t memos = sizeof(struct stack_memory) + (size_t)SETS * WAYS * memo_bytes;
    size_t bytes = memos + (depth_limit + 1 + SOURCES * STACK_SOURCE_ROOM) * sizeof(uint64_t);
    struct stack_memory *memory = os_memory(bytes);
    if (!memory)
        return;
    memory->mode = mode;
    memory->memo_bytes = (uint32_t)memo_bytes;
    memory->room = (uint64_t *)((char *)memory + memos);
    memory->unloads = __atomic_load_n(&unloads_so_far, __ATOMIC_ACQUIRE);
    self->parts[PART_STACKS] = (struct thread_part){memory, bytes};
}

bool stacks_wants_source(unsigned place) {
    return wants(stacks_mode, place);
}

void stacks_add_source(unsigned place, const struct stack_source *source) {
    if (!sources[place] && !source->begin())
        return;
    __atomic_store_n(&sources[place], source, __ATOMIC_RELEASE);
    __atomic_store_n(&awake[place], source->awake, __ATOMIC_RELEASE);
    __atomic_store_n(&is_wanted[place], true, __ATOMIC_RELEASE);
}

/* False when `text` is none of the modes. */
static bool parse_mode(const char *text, enum stack_mode *mode) {
    static const char *const names[] = {[STACK_OFF] = "off",
                                        [STACK_SITE] = "site",
                                        [STACK_NATIVE] = "native",
                                        [STACK_PYTHON] = "python",
                                        [STACK_FULL] = "full"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i])) {
            *mode = (enum stack_mode)i;
            return true;
        }
    return false;
}

static void choose_taking(void) {
    bool taken = __atomic_load_n(&stacks_mode, __ATOMIC_RELAXED) != STACK_OFF;
    __atomic_store_n(&stacks_taken, taken && !__atomic_load_n(&are_shed, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

void stacks_shed(bool shed) {
    __atomic_store_n(&are_shed, shed, __ATOMIC_RELAXED);
    choose_taking();
}

void stack_leave_out(struct thread *self) {
    lane_count(self->lane, &self->lane->state->stacks_shed);
}

/* What all threads share. */
static bool make_tables(void) {
    natives = os_memory(NATIVES * sizeof *natives);
    stacks = os_memory(STACKS * sizeof *stacks);
    if (!natives || !stacks || !walk_begin())
        return false;
    modules_begin();
    return true;
}

/* Sources are never taken away: another thread may be about to ask one. They fall asleep. */
bool stacks_change(const char *text) {
    enum stack_mode mode;
    if (!parse_mode(text, &mode) || mode == stacks_mode)
        return true;
    if (mode != STACK_OFF && !has_tables) {
        has_tables = make_tables();
        if (!has_tables || !aggregates_tell_sites())
            return false;
    }
    for (unsigned i = 0; i < SOURCES; i++)
        if (!wants(mode, i)) {
            __atomic_store_n(&is_wanted[i], false, __ATOMIC_RELEASE);
            __atomic_store_n(&awake[i], &asleep, __ATOMIC_RELEASE);
        }
    __atomic_store_n(&stacks_mode, mode, __ATOMIC_RELEASE);
    choose_taking();
    unloads_count(); /* no thread trusts its memos until it has looked anew, and then finds another mode */
    return true;
}

const char *stacks_begin(const char *mode, uint64_t depth) {
    stacks_mode = STACK_FULL;
    parse_mode(mode, &stacks_mode);
    depth_limit = (uint32_t)knob_stack_depth(depth);
    awake[0] = awake[1] = &asleep;
    memset(sources, 0, sizeof sources);
    memset(is_wanted, 0, sizeof is_wanted);
    arena = NULL;
    last_id = 0;
    has_tables = false;
    stacks_shed(false);
    if (stacks_mode == STACK_OFF)
        return NULL;
    has_tables = make_tables();
    if (!has_tables) {
        stacks_mode = STACK_OFF;
        stacks_shed(false);
        return "no memory for call stacks: they are off";
    }
    return NULL;
}
