/* SPDX-License-Identifier: Apache-2.0
 *
 * Three parts: what NVTX calls (ranges open and close, nothing is looked up), the labels of the dump (texts interned),
 * and the source that brings the two together when a recorded call asks.
 */
#include "shim/intercept/nvtx.h"

#include <stdlib.h>
#include <string.h>

#include "shim/base/fork_page.h"
#include "shim/base/os.h"
#include "shim/base/self_path.h"
#include "shim/intercept/region.h"
#include "shim/intercept/threads.h"
#include "shim/record/recorder.h"
#include "shim/record/ring.h"

#define INJECTION_VARIABLE "NVTX_INJECTION64_PATH"
#define DOMAINS            64u
#define DOMAIN_NAME_BYTES  64u
#define REGISTERED_BYTES   (1u << 20) /* all registered strings of a process */
#define LABELS             4096u
#define PATTERNS           512u
#define PROBE              32u

struct domain {
    uint32_t state;   /* DOMAIN_* */
    uint32_t string;  /* its name in the dump, 0 = not yet */
    bool is_librarys; /* ranges of a communication library: no labels of the job's */
    uint8_t length;
    char name[DOMAIN_NAME_BYTES];
};

enum { DOMAIN_FREE, DOMAIN_BUSY, DOMAIN_READY };

struct registered {
    size_t length;
    char text[];
};

/* A push that has not been popped. */
struct range {
    const struct domain *domain; /* NULL: popped while ranges inside it stay open */
    bool is_region;
    const char *text;
    uint16_t length;
    int16_t level;  /* among the ranges of its domain on this thread, from 0 */
    uint64_t entry; /* of a stack; 0 = no label. Valid below `named` */
    uint64_t hash;  /* over the entries up to here. Valid below `named` */
};

/* A thread's ranges, and what it last saw of the process's. */
struct labels {
    uint32_t depth;
    uint32_t named;  /* ranges from the outermost one that have their entry */
    uint32_t beyond; /* open ranges deeper than LABEL_LEVELS */
    uint32_t generation;
    uint64_t started_seen; /* value of `started_changes` that `started` belongs to */
    uint64_t started_hash;
    uint32_t started_count;
    uint64_t started[LABEL_SHOWN]; /* entries, latest first */
    struct range ranges[LABEL_LEVELS];
    char texts[LABEL_LEVELS][LABEL_BYTES];
};

/* A range of the process. */
struct started {
    uint32_t state;   /* STARTED_* */
    uint32_t version; /* odd while it is written */
    uint64_t serial;
    const struct domain *domain;
    bool is_region;
    uint16_t length;
    char text[LABEL_BYTES];
};

enum { STEP_LEVEL = 100 }; /* marks from here on begin a step */
enum { STARTED_FREE, STARTED_BUSY, STARTED_OPEN };

struct label_slot {
    uint64_t identity; /* of (domain, text), 0 = free */
    uint64_t entry;    /* 0 while it is being defined */
    uint32_t texts;    /* patterns: different texts seen of it */
};

static __thread struct labels *thread_labels;
static os_pthread_key labels_key_of_thread;
static bool have_labels_key;

static struct domain default_domain = {.state = DOMAIN_READY};
static struct domain domains[DOMAINS];
static char *registered_memory;
static size_t registered_used;

static struct started started[LABEL_STARTED];
static uint64_t started_serial;
static uint32_t labels_awake;    /* a copy of NVTX has taken the hooks */
static bool tells_regions;       /* COMMTAP_REGION names ranges */
static uint64_t started_changes; /* counts starts and ends: a thread whose copy is older looks again */

static struct label_slot *labels, *patterns;

/* ---- texts ----------------------------------------------------------------------------------- */

static size_t put_utf8(uint32_t c, char *to) {
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(c | (n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0));
    return n;
}

/* wchar_t holds code points here. */
static size_t narrow(const int32_t *wide, char *to, size_t room) {
    size_t length = 0;
    for (; wide && *wide && length + 4 <= room; wide++)
        length += put_utf8(*wide < 0 || *wide > 0x10ffff ? 0xfffd : (uint32_t)*wide, to + length);
    return length;
}

/* Length of a text of which at most `room` bytes are kept, not cut within a character. */
static inline size_t kept_length(const char *text, size_t room) {
    size_t length = text ? strnlen(text, room + 1) : 0;
    if (likely(length <= room))
        return length;
    for (length = room; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80; length--)
        ;
    return length;
}

/* ---- ranges of a thread ---------------------------------------------------------------------- */

static void free_labels(void *memory) {
    struct labels *l = memory;
    for (uint32_t i = 0; i < l->depth; i++)
        if (l->ranges[i].domain && l->ranges[i].is_region)
            region_close();
    thread_labels = NULL;
    os_unmap(memory, sizeof(struct labels));
}

/* The slow half of this_threads_labels; NULL when there is no memory. Without a key it is kept for good. */
static struct labels *attach_thread(void) {
    if (!have_labels_key && os_pthread_key_create && os_pthread_setspecific && fork_lock_try(FORK_LOCK_NVTX)) {
        if (!have_labels_key && os_pthread_key_create(&labels_key_of_thread, free_labels) == 0)
            __atomic_store_n(&have_labels_key, true, __ATOMIC_RELEASE);
        fork_lock_release(FORK_LOCK_NVTX);
    }
    struct labels *l = os_memory(sizeof *l);
    if (l && __atomic_load_n(&have_labels_key, __ATOMIC_ACQUIRE))
        os_pthread_setspecific(labels_key_of_thread, l);
    return thread_labels = l;
}

static inline struct labels *this_threads_labels(void) {
    return likely(thread_labels != NULL) ? thread_labels : attach_thread();
}

static int level_of_next(const struct labels *l, const struct domain *domain) {
    for (uint32_t i = l->depth; i-- > 0;)
        if (l->ranges[i].domain == domain)
            return l->ranges[i].level + 1;
    return 0;
}

/* Opens a range; its text is still to be set. NULL: not kept. */
static inline struct range *open_range(struct labels *l, const struct domain *domain) {
    if (unlikely(l->depth == LABEL_LEVELS)) {
        l->beyond++;
        return NULL;
    }
    struct range *range = &l->ranges[l->depth];
    range->level = (int16_t)level_of_next(l, domain);
    range->domain = domain;
    range->is_region = false;
    l->depth++;
    return range;
}

static void mark_step(void) {
    static uint32_t steps;
    struct thread *self = current_thread();
    if (self)
        record_mark(self, STEP_LEVEL + (int32_t)(count_up(&steps) & INT16_MAX));
}

/* What the user's patterns make of a range: a region, the beginning of a step. True: a region, which is open now. */
static __attribute__((noinline)) bool match_patterns(const char *text, size_t length, bool may_be_step) {
    char copy[LABEL_BYTES + 1];
    length = length < LABEL_BYTES ? length : LABEL_BYTES;
    memcpy(copy, text, length);
    copy[length] = '\0';
    bool is_region = tells_regions && region_is_range(copy);
    if (is_region)
        region_open();
    if (may_be_step && recorder.marks_steps && knobs_match(recorder.knobs.step, copy))
        mark_step();
    return is_region;
}

static inline void look_at_text(struct range *range) {
    if (unlikely(tells_regions || recorder.marks_steps))
        range->is_region = match_patterns(range->text, range->length, true);
}

static inline int push_copy(const struct domain *domain, const char *text) {
    struct labels *l = this_threads_labels();
    struct range *range = likely(l && !domain->is_librarys) ? open_range(l, domain) : NULL;
    if (unlikely(!range))
        return 0;
    char *to = l->texts[l->depth - 1];
    size_t length = kept_length(text, LABEL_BYTES);
    memcpy(to, text, length);
    range->text = to;
    range->length = (uint16_t)length;
    look_at_text(range);
    return range->level;
}

static int push_wide(const struct domain *domain, const int32_t *text) {
    char buffer[LABEL_BYTES + 1];
    buffer[narrow(text, buffer, LABEL_BYTES)] = '\0';
    return push_copy(domain, buffer);
}

/* The text stays where it is: registered strings live as long as the process. */
static int push_registered(const struct domain *domain, const struct registered *string) {
    struct labels *l = this_threads_labels();
    struct range *range = l && !domain->is_librarys ? open_range(l, domain) : NULL;
    if (!range)
        return 0;
    range->text = string ? string->text : "";
    range->length = string ? (uint16_t)string->length : 0;
    look_at_text(range);
    return range->level;
}

/* Closes the innermost range of `domain`; others may have been opened inside it. Returns its level, -1 without one. */
static int pop(const struct domain *domain) {
    struct labels *l = thread_labels;
    if (domain->is_librarys || !l)
        return domain->is_librarys ? 0 : -1;
    if (unlikely(l->beyond > 0)) {
        l->beyond--;
        return (int)(LABEL_LEVELS + l->beyond);
    }
    uint32_t i = l->depth;
    while (i > 0 && l->ranges[i - 1].domain != domain)
        i--;
    if (i == 0)
        return -1;
    if (unlikely(l->ranges[i - 1].is_region))
        region_close();
    l->ranges[i - 1].domain = NULL;
    if (l->named > i - 1)
        l->named = i - 1;
    while (l->depth > 0 && !l->ranges[l->depth - 1].domain)
        l->depth--;
    if (l->named > l->depth)
        l->named = l->depth;
    return l->ranges[i - 1].level;
}

/* ---- ranges of the process ------------------------------------------------------------------- */

/* An id that is never 0: its slot + 1 in the low byte (0: not kept), a serial number above. */
static uint64_t start_range(const struct domain *domain, const char *text, size_t length) {
    uint64_t serial = __atomic_add_fetch(&started_serial, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < LABEL_STARTED && !domain->is_librarys; i++) {
        struct started *s = &started[i];
        uint32_t free = STARTED_FREE;
        if (!__atomic_compare_exchange_n(&s->state, &free, STARTED_BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&s->version, s->version + 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        s->domain = domain;
        s->length = (uint16_t)length;
        memcpy(s->text, text, length);
        s->is_region = tells_regions && match_patterns(text, length, false);
        __atomic_store_n(&s->serial, serial, __ATOMIC_RELAXED);
        __atomic_store_n(&s->version, s->version + 1, __ATOMIC_RELEASE);
        __atomic_store_n(&s->state, STARTED_OPEN, __ATOMIC_RELEASE);
        __atomic_fetch_add(&started_changes, 1, __ATOMIC_RELEASE);
        return serial << 8 | (i + 1);
    }
    return serial << 8;
}

static uint64_t start_text(const struct domain *domain, const char *text) {
    return start_range(domain, text ? text : "", kept_length(text, LABEL_BYTES));
}

static uint64_t start_wide(const struct domain *domain, const int32_t *text) {
    char buffer[LABEL_BYTES];
    return start_range(domain, buffer, narrow(text, buffer, sizeof buffer));
}

static void end_range(uint64_t id) {
    uint32_t i = (uint32_t)(id & 0xff) - 1, open = STARTED_OPEN;
    if (i >= LABEL_STARTED || __atomic_load_n(&started[i].serial, __ATOMIC_RELAXED) != id >> 8)
        return;
    bool is_region = started[i].is_region;
    if (!__atomic_compare_exchange_n(&started[i].state, &open, STARTED_FREE, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return;
    __atomic_fetch_add(&started_changes, 1, __ATOMIC_RELEASE);
    if (is_region)
        region_close();
}

/* ---- domains and registered strings ---------------------------------------------------------- */

/* Domains in which communication libraries tell of themselves. */
static bool is_librarys_domain(const char *name) {
    static const char *const names[] = {"NCCL"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* The handle of a name, the same for the same name; beyond DOMAINS the default domain's. */
static struct domain *create_domain(const char *name, size_t length) {
    for (uint32_t i = 0; i < DOMAINS; i++) {
        struct domain *d = &domains[i];
        uint32_t state = DOMAIN_FREE;
        if (__atomic_compare_exchange_n(&d->state, &state, DOMAIN_BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            memcpy(d->name, name, length);
            d->name[length] = '\0';
            d->length = (uint8_t)length;
            d->is_librarys = is_librarys_domain(d->name);
            __atomic_store_n(&d->state, DOMAIN_READY, __ATOMIC_RELEASE);
            return d;
        }
        if (state == DOMAIN_READY && d->length == length && !memcmp(d->name, name, length))
            return d;
    }
    return &default_domain;
}

static const struct registered *register_string(const char *text, size_t length) {
    size_t bytes = (sizeof(struct registered) + length + 7) & ~(size_t)7;
    char *memory = __atomic_load_n(&registered_memory, __ATOMIC_ACQUIRE);
    if (!memory) {
        char *fresh = os_memory(REGISTERED_BYTES);
        if (!__atomic_compare_exchange_n(&registered_memory, &memory, fresh, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            if (fresh)
                os_unmap(fresh, REGISTERED_BYTES);
        } else {
            memory = fresh;
        }
    }
    size_t at = __atomic_fetch_add(&registered_used, bytes, __ATOMIC_RELAXED);
    if (!memory || at + bytes > REGISTERED_BYTES)
        return NULL;
    struct registered *string = (void *)(memory + at);
    string->length = length;
    memcpy(string->text, text, length);
    return string;
}

/* ---- what NVTX calls ------------------------------------------------------------------------- */

static const struct domain *domain_of(const struct domain *handle) {
    return handle ? handle : &default_domain;
}

static const void *message_of(const struct nvtx_attributes *attributes, int *type) {
    bool has = attributes && attributes->size >= sizeof *attributes;
    *type = has && attributes->message ? attributes->message_type : 0;
    return has ? attributes->message : NULL;
}

static int domain_push_ex(const struct domain *handle, const struct nvtx_attributes *attributes) {
    int type;
    const void *message = message_of(attributes, &type);
    if (likely(type == NVTX_ASCII))
        return push_copy(domain_of(handle), message);
    if (type == NVTX_UNICODE)
        return push_wide(domain_of(handle), message);
    return push_registered(domain_of(handle), type == NVTX_REGISTERED ? message : NULL);
}

static uint64_t domain_start_ex(const struct domain *handle, const struct nvtx_attributes *attributes) {
    int type;
    const void *message = message_of(attributes, &type);
    const struct registered *string = message;
    if (type == NVTX_UNICODE)
        return start_wide(domain_of(handle), message);
    if (type == NVTX_REGISTERED)
        return start_range(domain_of(handle), string->text, string->length);
    return start_text(domain_of(handle), type == NVTX_ASCII ? message : "");
}

static int push_ex(const struct nvtx_attributes *attributes) {
    return domain_push_ex(NULL, attributes);
}

static int push_a(const char *message) {
    return push_copy(&default_domain, message ? message : "");
}

static int push_w(const int32_t *message) {
    return push_wide(&default_domain, message);
}

static int pop_default(void) {
    return pop(&default_domain);
}

static int domain_pop(const struct domain *handle) {
    return pop(domain_of(handle));
}

static uint64_t start_ex(const struct nvtx_attributes *attributes) {
    return domain_start_ex(NULL, attributes);
}

static uint64_t start_a(const char *message) {
    return start_text(&default_domain, message);
}

static uint64_t start_w(const int32_t *message) {
    return start_wide(&default_domain, message);
}

static void domain_end(const struct domain *handle, uint64_t id) {
    (void)handle;
    end_range(id);
}

static const struct registered *register_a(const struct domain *handle, const char *text) {
    (void)handle;
    return register_string(text, kept_length(text, LABEL_BYTES));
}

static const struct registered *register_w(const struct domain *handle, const int32_t *text) {
    char buffer[LABEL_BYTES];
    (void)handle;
    return register_string(buffer, narrow(text, buffer, sizeof buffer));
}

static struct domain *create_a(const char *name) {
    return create_domain(name, kept_length(name, DOMAIN_NAME_BYTES - 1));
}

static struct domain *create_w(const int32_t *name) {
    char buffer[DOMAIN_NAME_BYTES];
    return create_domain(buffer, narrow(name, buffer, sizeof buffer - 1));
}

int nvtx_attach(nvtx_export_table get_export_table) {
    static const struct {
        int module;
        unsigned index;
        nvtx_function function;
    } hooks[] = {
        {NVTX_MODULE_CORE, NVTX_RANGE_START_EX, (nvtx_function)start_ex},
        {NVTX_MODULE_CORE, NVTX_RANGE_START_A, (nvtx_function)start_a},
        {NVTX_MODULE_CORE, NVTX_RANGE_START_W, (nvtx_function)start_w},
        {NVTX_MODULE_CORE, NVTX_RANGE_END, (nvtx_function)end_range},
        {NVTX_MODULE_CORE, NVTX_RANGE_PUSH_EX, (nvtx_function)push_ex},
        {NVTX_MODULE_CORE, NVTX_RANGE_PUSH_A, (nvtx_function)push_a},
        {NVTX_MODULE_CORE, NVTX_RANGE_PUSH_W, (nvtx_function)push_w},
        {NVTX_MODULE_CORE, NVTX_RANGE_POP, (nvtx_function)pop_default},
        {NVTX_MODULE_CORE2, NVTX_DOMAIN_RANGE_START_EX, (nvtx_function)domain_start_ex},
        {NVTX_MODULE_CORE2, NVTX_DOMAIN_RANGE_END, (nvtx_function)domain_end},
        {NVTX_MODULE_CORE2, NVTX_DOMAIN_RANGE_PUSH_EX, (nvtx_function)domain_push_ex},
        {NVTX_MODULE_CORE2, NVTX_DOMAIN_RANGE_POP, (nvtx_function)domain_pop},
        {NVTX_MODULE_CORE2, NVTX_DOMAIN_REGISTER_STRING_A, (nvtx_function)register_a},
        {NVTX_MODULE_CORE2, NVTX_DOMAIN_REGISTER_STRING_W, (nvtx_function)register_w},
        {NVTX_MODULE_CORE2, NVTX_DOMAIN_CREATE_A, (nvtx_function)create_a},
        {NVTX_MODULE_CORE2, NVTX_DOMAIN_CREATE_W, (nvtx_function)create_w},
    };
    const struct nvtx_callbacks *callbacks = get_export_table ? get_export_table(NVTX_EXPORT_CALLBACKS) : NULL;
    if (!callbacks || callbacks->bytes < sizeof *callbacks || !callbacks->function_table)
        return 0;
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        nvtx_function **table;
        unsigned count;
        if (callbacks->function_table(hooks[i].module, &table, &count) && hooks[i].index < count &&
            table[hooks[i].index])
            *table[hooks[i].index] = hooks[i].function;
    }
    tells_regions = region_marked_by(&recorder.knobs) == REGION_RANGES;
    __atomic_store_n(&labels_awake, 1, __ATOMIC_RELAXED);
    return 1;
}

static inline bool are_wanted(const struct knobs *knobs) {
    const char *stack = knobs_stack(knobs);
    return knobs_enabled(knobs) && (!*stack || !strcmp(stack, "full") || region_marked_by(knobs) == REGION_RANGES);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_export_table get_export_table) {
    return are_wanted(&recorder.knobs) && self_preloaded() ? nvtx_attach(get_export_table) : 0;
}

AT_START void nvtx_offer(const struct knobs *knobs) {
    static char variable[] = INJECTION_VARIABLE; /* not constant: then it lies in a page that is touched anyway */
    if (!knobs || are_wanted(knobs))
        self_offer(variable);
}

/* ---- labels of the dump ---------------------------------------------------------------------- */

static uint64_t identity_of(const struct domain *domain, const char *text, size_t length) {
    return hash_bytes((uintptr_t)domain, text, length) | 1;
}

/* The slot of an identity, claimed for it when it had none (*fresh); NULL when the table has no room there. */
static struct label_slot *find_slot(struct label_slot *table, uint32_t slots, uint64_t identity, bool claim,
                                    bool *fresh) {
    *fresh = false;
    for (uint32_t i = 0; i < PROBE; i++) {
        struct label_slot *slot = &table[((identity >> 8) + i) % slots];
        uint64_t found = __atomic_load_n(&slot->identity, __ATOMIC_ACQUIRE);
        if (found == identity)
            return slot;
        if (found == 0 && !claim)
            return NULL;
        if (found == 0 &&
            __atomic_compare_exchange_n(&slot->identity, &found, identity, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            *fresh = true;
            return slot;
        }
        if (found == identity)
            return slot;
    }
    return NULL;
}

static uint64_t define_label(struct domain *domain, const char *text, size_t length) {
    uint32_t name = __atomic_load_n(&domain->string, __ATOMIC_RELAXED);
    if (!name && domain->length) {
        name = definitions_string(&recorder.definitions, domain->name, domain->length);
        __atomic_store_n(&domain->string, name, __ATOMIC_RELAXED);
    }
    uint32_t id = definitions_string(&recorder.definitions, text, length);
    return id ? STACK_ENTRY_LABEL | (uint64_t)(name & 0x3fffffff) << 32 | id : 0;
}

/* Digits as #, one for each run of them. Returns the length, 0 when there are none. */
static size_t fold_numbers(const char *text, size_t length, char *to) {
    size_t n = 0;
    bool any = false;
    for (size_t i = 0; i < length; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        any |= digit;
        if (!digit)
            to[n++] = text[i];
        else if (i == 0 || text[i - 1] < '0' || text[i - 1] > '9')
            to[n++] = '#';
    }
    return any ? n : 0;
}

/* The entry of all texts of one pattern, once there are too many of them; else 0, and one more was counted. */
static uint64_t folded_entry(struct domain *domain, const char *text, size_t length) {
    char folded[LABEL_BYTES];
    bool fresh;
    size_t n = fold_numbers(text, length, folded);
    struct label_slot *slot = n ? find_slot(patterns, PATTERNS, identity_of(domain, folded, n), true, &fresh) : NULL;
    if (!slot)
        return 0;
    if (__atomic_load_n(&slot->texts, __ATOMIC_RELAXED) < LABEL_NUMBERED) {
        __atomic_fetch_add(&slot->texts, 1, __ATOMIC_RELAXED);
        return 0;
    }
    uint64_t entry = __atomic_load_n(&slot->entry, __ATOMIC_ACQUIRE);
    if (!entry) {
        entry = define_label(domain, folded, n);
        __atomic_store_n(&slot->entry, entry, __ATOMIC_RELEASE);
    }
    return entry;
}

/* The stack entry of a range; 0: it has no text, there is no room, or another thread is just defining it. */
static uint64_t label_entry(const struct domain *in, const char *text, size_t length) {
    struct domain *domain = (struct domain *)in;
    bool fresh;
    if (length == 0)
        return 0;
    uint64_t identity = identity_of(domain, text, length);
    struct label_slot *slot = find_slot(labels, LABELS, identity, false, &fresh);
    if (slot)
        return __atomic_load_n(&slot->entry, __ATOMIC_ACQUIRE);
    uint64_t entry = folded_entry(domain, text, length);
    if (entry)
        return entry;
    slot = find_slot(labels, LABELS, identity, true, &fresh);
    if (slot && fresh)
        __atomic_store_n(&slot->entry, define_label(domain, text, length), __ATOMIC_RELEASE);
    return slot ? __atomic_load_n(&slot->entry, __ATOMIC_ACQUIRE) : 0;
}

/* ---- the source ------------------------------------------------------------------------------ */

static void forget_labels(void) {
    if (labels)
        os_unmap(labels, LABELS * sizeof *labels);
    if (patterns)
        os_unmap(patterns, PATTERNS * sizeof *patterns);
    labels = os_memory(LABELS * sizeof *labels);
    patterns = os_memory(PATTERNS * sizeof *patterns);
    default_domain.string = 0;
    for (uint32_t i = 0; i < DOMAINS; i++)
        domains[i].string = 0;
}

static bool labels_begin(void) {
    forget_labels();
    return labels && patterns;
}

static void name_ranges(struct labels *l) {
    for (; l->named < l->depth; l->named++) {
        struct range *range = &l->ranges[l->named];
        uint64_t before = l->named ? range[-1].hash : 0;
        range->entry = range->domain ? label_entry(range->domain, range->text, range->length) : 0;
        range->hash = range->entry ? hash_combine(before, range->entry) : before;
    }
}

/* A consistent copy of an open range; false when it is not open, or changes just now. */
static bool copy_started(const struct started *from, struct started *to) {
    uint32_t version = __atomic_load_n(&from->version, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&from->state, __ATOMIC_ACQUIRE) != STARTED_OPEN || version % 2)
        return false;
    to->domain = from->domain;
    to->length = from->length;
    memcpy(to->text, from->text, sizeof to->text);
    to->serial = from->serial;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&from->version, __ATOMIC_RELAXED) == version && to->length <= LABEL_BYTES;
}

static void look_at_started(struct labels *l, uint64_t changes) {
    uint64_t serials[LABEL_SHOWN];
    uint32_t n = 0;
    for (uint32_t i = 0; i < LABEL_STARTED; i++) {
        struct started s;
        if (!copy_started(&started[i], &s))
            continue;
        uint64_t entry = label_entry(s.domain, s.text, s.length);
        uint32_t at = n;
        while (at > 0 && serials[at - 1] < s.serial)
            at--;
        if (!entry || at == LABEL_SHOWN)
            continue;
        n += n < LABEL_SHOWN;
        memmove(&serials[at + 1], &serials[at], (n - at - 1) * sizeof *serials);
        memmove(&l->started[at + 1], &l->started[at], (n - at - 1) * sizeof *l->started);
        serials[at] = s.serial;
        l->started[at] = entry;
    }
    l->started_count = n;
    l->started_hash = 0;
    for (uint32_t i = 0; i < n; i++)
        l->started_hash = hash_combine(l->started_hash, l->started[i]);
    l->started_seen = changes;
}

static uint64_t labels_key(struct thread *self) {
    uint64_t changes = __atomic_load_n(&started_changes, __ATOMIC_ACQUIRE);
    struct labels *l = likely(!changes) ? thread_labels : this_threads_labels();
    if (!l)
        return 0;
    if (unlikely(l->generation != self->generation)) { /* another dump: nothing is defined there yet */
        l->generation = self->generation;
        l->named = 0;
        l->started_seen = 0;
        l->started_count = 0;
        l->started_hash = 0;
    }
    if (l->named < l->depth)
        name_ranges(l);
    if (unlikely(l->started_seen != changes))
        look_at_started(l, changes);
    uint64_t pushed = l->depth ? l->ranges[l->depth - 1].hash : 0;
    if (!pushed && !l->started_count)
        return 0;
    return hash_combine(pushed + (l->beyond > 0), l->started_hash) | 1;
}

/* Between labels_key() and here only other threads have run: everything is as it was. */
static size_t labels_entries(struct thread *self, uint64_t key, uint64_t *to, size_t room) {
    const struct labels *l = thread_labels;
    uint64_t all[1 + LABEL_LEVELS + LABEL_SHOWN];
    size_t n = 0;
    (void)self;
    (void)key;
    if (!l)
        return 0;
    if (l->beyond)
        all[n++] = STACK_ENTRY_CUT;
    for (uint32_t i = l->named; i-- > 0;)
        if (l->ranges[i].entry)
            all[n++] = l->ranges[i].entry;
    for (uint32_t i = 0; i < l->started_count; i++)
        all[n++] = l->started[i];
    size_t written = n < room ? n : room;
    memcpy(to, all, written * sizeof *to);
    if (n > room && room)
        to[room - 1] = STACK_ENTRY_CUT;
    return written;
}

const struct stack_source label_source = {
    .begin = labels_begin, .awake = &labels_awake, .key = labels_key, .entries = labels_entries};
