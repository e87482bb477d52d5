/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/stacks/python.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/fork_page.h"
#include "shim/base/os.h"
#include "shim/record/recorder.h"
#include "shim/stacks/modules.h"
#include "shim/stacks/python_code.h"

#define FRAMES_MAX     (STACK_SOURCE_ROOM - 1) /* innermost frames that count; deeper ones are cut */
#define CODE_SLOTS     16384u
#define CODE_PROBE     64u
#define NAME_MAX_BYTES 1024u
#define FILE_MAX_BYTES 4096u

enum state {
    STATE_LOOKING,   /* no interpreter was loaded when last looked */
    STATE_UNCHECKED, /* found; no chain of frames seen yet */
    STATE_READY,
    STATE_REFUSED,
};

/* A code object that has a definition in the dump. */
struct code_slot {
    uint64_t identity; /* 0 = free */
    uint32_t id;       /* 0 while it is being defined */
    uint32_t reserved;
};

static struct python_runtime runtime;
static uint32_t state;
static uint32_t looked_at;    /* libraries known when an interpreter was last looked for */
static uint32_t python_awake; /* there is an interpreter */
static struct code_slot *codes;
static uint32_t last_code_id;

const struct python_runtime *python_runtime(void) {
    return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == STATE_READY ? &runtime : NULL;
}

/* ---- walking --------------------------------------------------------------------------------- */

/* pthread_self(), which a thread's state keeps as its thread_id. */
static inline uintptr_t this_threads_identity(void) {
#if defined(__x86_64__)
    uintptr_t self; /* what the ABI keeps in the first word of the thread's block */
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
#else
    return (uintptr_t)pthread_self();
#endif
}

/* The thread's innermost frame, 0 when it has none. */
static inline uintptr_t innermost(const struct python_runtime *python) {
    const struct python_layout *at = &python->at;
    if (python->finalizing()) /* other threads' states are being freed */
        return 0;
    uintptr_t thread = (uintptr_t)python->thread_state();
    /* A state left over from an interpreter that has ended does not carry this thread's identity. */
    if (!thread || python_word(thread, at->state_thread) != this_threads_identity())
        return 0;
    uintptr_t frame = python_word(thread, at->state_frame);
    if (frame && (at->version == 0x030b || at->version == 0x030c))
        frame = python_word(frame, at->holder_frame);
    return frame;
}

static inline bool is_plausible(uintptr_t frame) {
    return frame > 4095 && frame % sizeof(void *) == 0;
}

/* Steps over frames that stand for C code. */
static inline uintptr_t skip_shims(const struct python_layout *at, uintptr_t frame, bool *skipped) {
    while (is_plausible(frame) && python_byte(frame, at->frame_owner) >= PYTHON_OWNER_SHIM_FIRST) {
        *skipped = true;
        frame = python_word(frame, at->frame_previous);
    }
    return frame;
}

/* Reads one frame and returns the one that called it. `version` is the layout's, a constant in the loops below. */
static inline uintptr_t read_frame(const struct python_layout *at, unsigned version, uintptr_t frame,
                                   struct python_frame *out) {
    uintptr_t previous = python_word(frame, at->frame_previous);
    out->code = python_word(frame, at->frame_code);
    if (version < PYTHON_INTERPRETER_FRAMES) {
        out->instruction = python_u32(frame, at->frame_instruction);
        out->entry = true;
        return previous;
    }
    out->instruction = python_word(frame, at->frame_instruction);
    if (version < PYTHON_SHIM_FRAMES) {
        out->entry = python_byte(frame, at->frame_entry) & 1;
        return previous;
    }
    out->code &= ~(uintptr_t)7; /* 3.14 keeps tags in a reference's low bits */
    out->entry = previous == 0;
    return skip_shims(at, previous, &out->entry);
}

static inline bool is_code(const struct python_runtime *python, uintptr_t object) {
    return is_plausible(object) && python_word(object, python->at.object_type) == python->code_type;
}

/* What tells a code object from another one that had its address before: the number that 3.12 gives to each, else where
 * it begins, its name (by the hash that a str keeps of itself) and its line table, by place and first bytes. */
static inline uint64_t distinguish(const struct python_layout *at, unsigned version, uintptr_t code) {
    if (version >= PYTHON_SHIM_FRAMES)
        return python_u32(code, at->code_version);
    uintptr_t lines = python_word(code, at->code_lines), name = python_word(code, at->code_name);
    return python_u32(code, at->code_first_line) + lines * 0xd6e8feb86659fd93u +
           python_word(name, at->text_hash) * 0xa0761d6478bd642fu +
           python_word(lines, at->bytes_data) * 0x8ebc6af09c88c6e3u;
}

/* Polynomial in the frames' own hashes, so that the next frame need not wait for this one's multiplications. */
static inline __attribute__((always_inline)) uint64_t hash_chain(const struct python_runtime *python, unsigned version,
                                                                 uintptr_t frame) {
    const struct python_layout at = python->at;
    const uintptr_t code_type = python->code_type;
    uint64_t h = 0;
    for (unsigned n = 0; is_plausible(frame) && n <= FRAMES_MAX; n++) {
        struct python_frame f;
        frame = read_frame(&at, version, frame, &f);
        /* Up to 3.11 a frame has nothing else in that place. */
        if (version >= PYTHON_SHIM_FRAMES &&
            unlikely(!is_plausible(f.code) || python_word(f.code, at.object_type) != code_type))
            continue;
        h = (h + f.code * 0x9e3779b97f4a7c15u + (f.instruction * 2 + f.entry) * 0xc2b2ae3d27d4eb4fu +
             distinguish(&at, version, f.code) * 0x165667b19e3779f9u) *
            0xff51afd7ed558ccdu;
    }
    return h;
}

static uint64_t hash_frames(const struct python_runtime *python, uintptr_t frame) {
    unsigned version = python->at.version;
    if (version >= PYTHON_SHIM_FRAMES) {
        bool skipped;
        return hash_chain(python, PYTHON_SHIM_FRAMES, skip_shims(&python->at, frame, &skipped));
    }
    if (version >= PYTHON_INTERPRETER_FRAMES)
        return hash_chain(python, PYTHON_INTERPRETER_FRAMES, frame);
    return hash_chain(python, 0, frame);
}

/* A frame still being set up (its cells, its arguments), which no traceback shows; from 3.11. */
static bool is_incomplete(const struct python_layout *at, uintptr_t frame, const struct python_frame *f) {
    if (at->version < PYTHON_INTERPRETER_FRAMES || python_byte(frame, at->frame_owner) == PYTHON_OWNER_GENERATOR)
        return false;
    return f->instruction < f->code + at->code_start + 2 * (uintptr_t)python_u32(f->code, at->code_traceable);
}

static size_t list_frames(const struct python_runtime *python, uintptr_t frame, struct python_frame *frames,
                          size_t room) {
    const struct python_layout *at = &python->at;
    bool skipped;
    size_t n = 0;
    if (at->version >= PYTHON_SHIM_FRAMES)
        frame = skip_shims(at, frame, &skipped);
    for (unsigned steps = 0; is_plausible(frame) && n <= room && steps < 2 * STACK_SOURCE_ROOM; steps++) {
        struct python_frame f;
        uintptr_t this = frame;
        frame = read_frame(at, at->version, this, &f);
        /* An incomplete frame that is all of its loop stays: a native frame stands for it. */
        if (!is_code(python, f.code) || (is_incomplete(at, this, &f) && !f.entry))
            continue;
        if (n < room)
            frames[n] = f;
        n++;
    }
    return n;
}

/* ---- is the interpreter what the table says -------------------------------------------------- */

/* Whether a read here would fault, asked of the kernel: it copies the signal set before it looks at the bad `how`. */
static bool is_readable_word(uintptr_t address) {
    return syscall(SYS_rt_sigprocmask, ~0, address & ~(uintptr_t)7, NULL, 8) != -1 || errno != EFAULT;
}

/* Of less than a page. */
static bool is_readable(uintptr_t address, size_t bytes) {
    return is_readable_word(address) && is_readable_word(address + bytes - 1);
}

/* A str or bytes object, either at least as large as the head of a bytes object. Never asks beyond an object's end,
 * where the memory may end, too. */
static bool is_object_of(const struct python_layout *at, uintptr_t object, uintptr_t type) {
    return is_plausible(object) && is_readable(object, at->bytes_data) && python_word(object, at->object_type) == type;
}

static bool is_readable_frame(const struct python_layout *at, uintptr_t frame) {
    size_t bytes = at->frame_owner ? at->frame_owner + 1u : at->frame_instruction + sizeof(int);
    return is_plausible(frame) && is_readable(frame, bytes);
}

static bool is_sound_code(const struct python_runtime *python, uintptr_t code) {
    const struct python_layout *at = &python->at;
    return is_plausible(code) && is_readable(code, at->code_start ? at->code_start : 128) &&
           python_word(code, at->object_type) == python->code_type &&
           is_object_of(at, python_word(code, at->code_file), python->text_type) &&
           is_object_of(at, python_word(code, at->code_name), python->text_type) &&
           is_object_of(at, python_word(code, at->code_qualified), python->text_type) &&
           is_object_of(at, python_word(code, at->code_lines), python->bytes_type) &&
           (int32_t)python_u32(code, at->code_first_line) >= 0;
}

static bool is_sound_instruction(const struct python_layout *at, const struct python_frame *f) {
    if (at->version < PYTHON_INTERPRETER_FRAMES)
        return (int32_t)f->instruction >= -1 && (int32_t)f->instruction < 1 << 24;
    /* One before the first instruction is a frame that has not begun. */
    return f->instruction % 2 == 0 && f->instruction + 2 >= f->code + at->code_start &&
           f->instruction - f->code < 1 << 24;
}

/* Looks at the first frames that are seen, with care. A build with other structures than the table's (debugging,
 * patched) shows itself here. */
static bool is_sound_chain(const struct python_runtime *python, uintptr_t frame) {
    const struct python_layout *at = &python->at;
    unsigned seen = 0;
    for (unsigned n = 0; frame && n < 16; n++) {
        struct python_frame f;
        if (!is_readable_frame(at, frame))
            return false;
        uintptr_t previous = python_word(frame, at->frame_previous);
        if (at->version >= PYTHON_SHIM_FRAMES && python_byte(frame, at->frame_owner) >= PYTHON_OWNER_SHIM_FIRST) {
            frame = previous;
            continue;
        }
        if (previous && !is_readable_frame(at, previous)) /* looked at together with this one */
            return false;
        frame = read_frame(at, at->version, frame, &f);
        if (!is_sound_code(python, f.code) || !is_sound_instruction(at, &f))
            return false;
        seen++;
    }
    return seen > 0;
}

/* ---- finding the interpreter ----------------------------------------------------------------- */

static void say_refused(unsigned version) {
    char line[128];
    struct text t;
    text_begin(&t, line, sizeof line);
    text_add(&t, "Python ");
    text_add_unsigned(&t, version >> 8);
    text_add(&t, ".");
    text_add_unsigned(&t, version & 0xff);
    text_add(&t, " is built in a way not known here: native stacks only");
    if (recorder.header && recorder.header->rank <= 0)
        message(line);
}

static bool enter_state(enum state from) {
    if (!fork_lock_try(FORK_LOCK_PYTHON))
        return false;
    if (__atomic_load_n(&state, __ATOMIC_RELAXED) == from)
        return true;
    fork_lock_release(FORK_LOCK_PYTHON);
    return false;
}

static void leave_state(enum state to) {
    __atomic_store_n(&state, to, __ATOMIC_RELEASE);
    fork_lock_release(FORK_LOCK_PYTHON);
}

static void look(void) {
    unsigned version;
    int saved = errno;
    if (!enter_state(STATE_LOOKING))
        return;
    enum python_found found = python_runtime_find(&runtime, &version);
    if (found == PYTHON_UNKNOWN)
        say_refused(version);
    __atomic_store_n(&python_awake, found == PYTHON_FOUND, __ATOMIC_RELAXED);
    leave_state(found == PYTHON_FOUND ? STATE_UNCHECKED : found == PYTHON_UNKNOWN ? STATE_REFUSED : STATE_LOOKING);
    errno = saved;
}

static void check(void) {
    int saved = errno;
    if (!enter_state(STATE_UNCHECKED))
        return;
    uintptr_t frame = innermost(&runtime);
    bool sound = frame && is_sound_chain(&runtime, frame);
    if (frame && !sound)
        say_refused(runtime.at.version);
    leave_state(sound ? STATE_READY : frame ? STATE_REFUSED : STATE_UNCHECKED);
    errno = saved;
}

/* Anything but ready. An interpreter may be loaded late (a plugin's): it is looked for whenever a stack shows code of
 * another library. */
static bool become_ready(void) {
    uint32_t modules = modules_count();
    if (__atomic_load_n(&state, __ATOMIC_RELAXED) == STATE_LOOKING &&
        __atomic_exchange_n(&looked_at, modules, __ATOMIC_RELAXED) != modules)
        look();
    if (__atomic_load_n(&state, __ATOMIC_RELAXED) == STATE_UNCHECKED)
        check();
    return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == STATE_READY;
}

static inline bool is_ready(void) {
    return likely(__atomic_load_n(&state, __ATOMIC_ACQUIRE) == STATE_READY) || become_ready();
}

size_t python_frames(struct python_frame *frames, size_t room) {
    uintptr_t frame = is_ready() ? innermost(&runtime) : 0;
    return frame ? list_frames(&runtime, frame, frames, room) : 0;
}

/* ---- code objects in the dump ---------------------------------------------------------------- */

static uint32_t define_code(uintptr_t code) {
    const struct python_layout *at = &runtime.at;
    uintptr_t name = python_word(code, at->code_qualified), file = python_word(code, at->code_file);
    size_t name_bytes = python_text(&runtime, name, NULL, NAME_MAX_BYTES);
    size_t file_bytes = python_text(&runtime, file, NULL, FILE_MAX_BYTES);
    struct code_definition *d = definitions_reserve(&recorder.definitions, sizeof *d + name_bytes + file_bytes);
    if (!d)
        return 0;
    d->id = __atomic_add_fetch(&last_code_id, 1, __ATOMIC_RELAXED);
    d->first_line = python_u32(code, at->code_first_line);
    d->name_bytes = (uint32_t)name_bytes;
    d->file_bytes = (uint32_t)file_bytes;
    python_text(&runtime, name, d->text, name_bytes);
    python_text(&runtime, file, d->text + name_bytes, file_bytes);
    definitions_commit(d, DEFINITION_CODE);
    return d->id;
}

static uint64_t code_identity(uintptr_t code) {
    const struct python_layout *at = &runtime.at;
    uint64_t h = hash_combine(code, distinguish(at, at->version, code));
    h = hash_combine(h, python_word(code, at->code_qualified));
    h = hash_combine(h, python_word(code, at->code_file));
    h = hash_combine(h, python_u32(code, at->code_first_line));
    return h | 1;
}

/* Id of a code object's definition, 0 when there was no room for one. A race, or a full table, may define one twice. */
static uint32_t code_id(uintptr_t code) {
    uint64_t identity = code_identity(code);
    for (uint32_t i = 0; i < CODE_PROBE && codes; i++) {
        struct code_slot *slot = &codes[(identity + i) % CODE_SLOTS];
        uint64_t free = 0;
        if (__atomic_compare_exchange_n(&slot->identity, &free, identity, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            uint32_t id = define_code(code);
            __atomic_store_n(&slot->id, id, __ATOMIC_RELEASE);
            return id;
        }
        if (free == identity) {
            uint32_t id = __atomic_load_n(&slot->id, __ATOMIC_ACQUIRE);
            if (id)
                return id;
            break;
        }
    }
    return define_code(code);
}

/* ---- the source ------------------------------------------------------------------------------ */

static bool python_begin(void) {
    if (codes)
        os_unmap(codes, CODE_SLOTS * sizeof *codes);
    codes = os_memory(CODE_SLOTS * sizeof *codes);
    last_code_id = 0;
    looked_at = 0;
    look();
    return codes && __atomic_load_n(&state, __ATOMIC_RELAXED) != STATE_REFUSED;
}

static uint64_t python_key(struct thread *self) {
    (void)self;
    if (!is_ready())
        return 0;
    uintptr_t frame = innermost(&runtime);
    if (!frame)
        return 0;
    uint64_t h = hash_frames(&runtime, frame);
    return h ? hash_mix(h) | 1 : 0;
}

static size_t python_entries(struct thread *self, uint64_t key, uint64_t *to, size_t room) {
    struct python_frame frames[FRAMES_MAX];
    (void)self;
    (void)key;
    size_t limit = room < FRAMES_MAX ? room : FRAMES_MAX, n = python_frames(frames, limit);
    bool cut = n > limit;
    if (cut)
        n = room > FRAMES_MAX ? FRAMES_MAX : room ? room - 1 : 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t id = code_id(frames[i].code);
        to[i] = id ? STACK_ENTRY_PYTHON | (frames[i].entry ? STACK_PYTHON_ENTRY : 0) | id << 32 |
                         python_line(&runtime, frames[i].code, frames[i].instruction)
                   : STACK_ENTRY_CUT;
    }
    if (cut && room)
        to[n++] = STACK_ENTRY_CUT;
    return n;
}

const struct stack_source python_source = {
    .begin = python_begin, .awake = &python_awake, .key = python_key, .entries = python_entries};
