/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks across a fork: what another thread held in the parent is free in the child, and nobody's twice.
 * Lives here: that. Must not live here: what is locked (test/stress).
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/base/fork_page.h"

enum { THREADS = 4, ROUNDS = 2000 };

static int status_of_child(pid_t child) {
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_lock_held_at_the_fork_is_free_in_the_child(void **state) {
    (void)state;
    for (int lock = 0; lock < FORK_LOCKS; lock++) {
        assert_true(fork_lock_try((enum fork_lock)lock));
        assert_false(fork_lock_try((enum fork_lock)lock));
        pid_t child = fork();
        if (child == 0)
            _exit(fork_lock_try((enum fork_lock)lock) && !fork_lock_try((enum fork_lock)lock) ? 0 : 1);
        assert_int_equal(status_of_child(child), 0);
        assert_false(fork_lock_try((enum fork_lock)lock)); /* still ours */
        fork_lock_release((enum fork_lock)lock);
        assert_true(fork_lock_try((enum fork_lock)lock));
        fork_lock_release((enum fork_lock)lock);
    }
}

static void a_child_does_not_record(void **state) {
    (void)state;
    fork_page()->armed = 7;
    pid_t child = fork();
    if (child == 0)
        _exit(fork_page()->armed == 0 ? 0 : 1);
    assert_int_equal(status_of_child(child), 0);
    assert_int_equal(fork_page()->armed, 7);
    fork_page()->armed = 0;
}

static atomic_int inside, meetings, entries;

static void *enter_often(void *nothing) {
    for (int i = 0; i < ROUNDS;) {
        if (!fork_lock_try(FORK_LOCK_GPU))
            continue;
        meetings += atomic_fetch_add(&inside, 1) != 0;
        entries++;
        atomic_fetch_sub(&inside, 1);
        fork_lock_release(FORK_LOCK_GPU);
        i++;
    }
    return nothing;
}

static void one_thread_at_a_time(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enter_often, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(meetings, 0);
    assert_int_equal(entries, THREADS * ROUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_held_at_the_fork_is_free_in_the_child),
        cmocka_unit_test(a_child_does_not_record),
        cmocka_unit_test(one_thread_at_a_time),
    };
    return cmocka_run_group_tests_name("fork page", tests, NULL, NULL);
}
