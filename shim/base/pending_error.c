/* SPDX-License-Identifier: Apache-2.0
 *
 * The message is taken out, and a failed look-up of a name of ours left in its place
 * when we are done: the linker then forgets it whenever it would have forgotten the message. Our dlerror() answers with
 * the message where it finds that name.
 */
#include "shim/base/pending_error.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shim/base/linker.h"
#include "shim/base/os.h"

#define PLACE_HOLDER "commtap_keeps_the_message_that_was_here"
#define KEPT_MAX     16u
#define KEPT_TEXT    500

/* One per thread that had a message pending; a thread is known by the address of its `depth`. Only that thread looks at
 * the rest. */
static struct kept {
    uintptr_t thread;
    uint32_t waiting; /* to be asked for by dlerror() */
    char text[KEPT_TEXT];
} kept[KEPT_MAX];
static uint32_t any_kept;
static __thread uint32_t depth;

static struct kept *find_own(void) {
    for (uint32_t i = 0; i < KEPT_MAX; i++)
        if (__atomic_load_n(&kept[i].thread, __ATOMIC_RELAXED) == (uintptr_t)&depth)
            return &kept[i];
    return NULL;
}

/* This thread's place, for as long as the process lives; NULL when all are other threads'. */
static struct kept *take_kept(void) {
    struct kept *own = find_own();
    for (uint32_t i = 0; !own && i < KEPT_MAX; i++) {
        uintptr_t nobody = 0;
        if (__atomic_compare_exchange_n(&kept[i].thread, &nobody, (uintptr_t)&depth, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            own = &kept[i];
    }
    return own;
}

static void keep(const char *text) {
    if (strstr(text, PLACE_HOLDER)) /* it is kept already */
        return;
    struct kept *own = take_kept();
    if (!own)
        return;
    copy_text(own->text, sizeof own->text, text);
    own->waiting = 1;
    __atomic_store_n(&any_kept, 1, __ATOMIC_RELAXED);
}

void pending_error_hold(void) {
    if (depth++ > 0)
        return;
    int saved = errno;
    struct kept *own = __atomic_load_n(&any_kept, __ATOMIC_RELAXED) ? find_own() : NULL;
    const char *text = linker_dlerror();
    if (text)
        keep(text);
    else if (own) /* forgotten by what the job did since */
        own->waiting = 0;
    errno = saved;
}

void pending_error_release(void) {
    if (--depth > 0)
        return;
    int saved = errno;
    struct kept *own = __atomic_load_n(&any_kept, __ATOMIC_RELAXED) ? find_own() : NULL;
    if (own && own->waiting)
        linker_dlsym(RTLD_DEFAULT, PLACE_HOLDER);
    else
        linker_dlerror();
    errno = saved;
}

__attribute__((visibility("default"))) char *dlerror(void) {
    char *text = linker_dlerror();
    if (likely(!__atomic_load_n(&any_kept, __ATOMIC_RELAXED)))
        return text;
    struct kept *own = find_own();
    bool ours = text && strstr(text, PLACE_HOLDER);
    if (own) /* the text stays as it is until the thread's next message is kept */
        own->waiting = 0;
    return !ours ? text : own ? own->text : NULL;
}
