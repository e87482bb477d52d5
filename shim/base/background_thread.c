/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/base/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include "shim/base/linker.h"
#include "shim/base/os.h"

typedef int (*thread_creator)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

extern int os_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) __attribute__((weak));
extern int os_pthread_attr_setstacksize(pthread_attr_t *, size_t) __attribute__((weak));
__asm__(".symver os_pthread_create,pthread_create@" OLD_GLIBC);
__asm__(".symver os_pthread_attr_setstacksize,pthread_attr_setstacksize@" OLD_GLIBC);

#define STACK_BYTES (1u << 20) /* glibc takes all libraries' thread-local storage out of it */

/* The C library's own, where all that we call is (linker_bind_to_libc); in tests it is not. */
static thread_creator find_creator(enum thread_told told) {
    return told == THREAD_TOLD || !linker_own_tables()->symbols
               ? os_pthread_create
               : (thread_creator)linker_symbol_in_libc("pthread_create");
}

/* The job's signals are for its own threads. */
bool background_thread_start(void *(*body)(void *), enum thread_told told) {
    thread_creator create = find_creator(told);
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (!create || pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (os_pthread_attr_setstacksize)
        os_pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    int error = create(&thread, &attributes, body, NULL);
    if (error) { /* more thread-local storage than that stack: as large as the system makes them */
        pthread_attr_destroy(&attributes);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        error = create(&thread, &attributes, body, NULL);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0;
}
