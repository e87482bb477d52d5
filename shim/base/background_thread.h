/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread of commtap's own in the job's process.
 * Lives here: starting it so that the job does not notice. Must not live here: what it does.
 */
#ifndef COMMTAP_SHIM_BASE_BACKGROUND_THREAD_H
#define COMMTAP_SHIM_BASE_BACKGROUND_THREAD_H

#include <stdbool.h>

/* Whether those who interpose on pthread_create() hear of it. Sanitizers have to, or they fail in what others than we
 * do on the thread; a library that gives each new thread a processor of its own must not give one to ours. */
enum thread_told { THREAD_UNTOLD, THREAD_TOLD };

/* Starts `body` in a detached thread that takes none of the job's signals and inherits the processors of the calling
 * one; what `body` returns goes nowhere. False where there is no room for a thread, or the program was built without
 * threads. errno is not kept. */
bool background_thread_start(void *(*body)(void *), enum thread_told told);

#endif
