/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/base/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include "shim/base/os.h"

extern int os_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) __attribute__((weak));
extern int os_pthread_attr_setstacksize(pthread_attr_t *, size_t) __attribute__((weak));
__asm__(".symver os_pthread_create,pthread_create@" OLD_GLIBC);
__asm__(".symver os_pthread_attr_setstacksize,pthread_attr_setstacksize@" OLD_GLIBC);

#define STACK_BYTES (1u << 20) /* glibc takes all libraries' thread-local storage out of it */

/* The job's signals are for its own threads. */
bool background_thread_start(void *(*body)(void *)) {
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (!os_pthread_create || pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (os_pthread_attr_setstacksize)
        os_pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    int error = os_pthread_create(&thread, &attributes, body, NULL);
    if (error) { /* more thread-local storage than that stack: as large as the system makes them */
        pthread_attr_destroy(&attributes);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        error = os_pthread_create(&thread, &attributes, body, NULL);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0;
}
