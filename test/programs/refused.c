/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives that fail, on some ranks or on all, before and among 200 Allreduces that do not.
 * Lives here: one scene per sort of failure. Must not live here: expectations on what commtap says of it.
 *
 *   refused SCENE [RANK]     RANK alone fails; without it all ranks do
 */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEFORE = 50, AFTER = 150, LARGE = 1 << 20 };

static int me, size, fails;
static int value, sum;

/* What must fail fails, all else must not. */
static void want(const char *what, int failed, int code) {
    if ((code != MPI_SUCCESS) == failed)
        return;
    fprintf(stderr, "rank %d: %s returned %d\n", me, what, code);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void allreduces(int count, MPI_Comm comm) {
    value = 1;
    for (int i = 0; i < count; i++)
        want("MPI_Allreduce", 0, MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
}

/* ---- refused for their arguments ------------------------------------------------------------- */

static void scene_bcast(void) {
    if (fails)
        want("MPI_Bcast", 1, MPI_Bcast(&value, 1, MPI_INT, size, MPI_COMM_WORLD));
}

static void scene_ibcast(void) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (fails)
        want("MPI_Ibcast", 1, MPI_Ibcast(&value, -1, MPI_INT, 0, MPI_COMM_WORLD, &request));
}

/* Children made afterwards are the same ones on all ranks. */
static void scene_split(void) {
    MPI_Comm child;
    MPI_Comm *volatile nowhere = NULL;
    if (fails)
        want("MPI_Comm_split", 1, MPI_Comm_split(MPI_COMM_WORLD, 0, me, nowhere));
    want("MPI_Comm_dup", 0, MPI_Comm_dup(MPI_COMM_WORLD, &child));
    MPI_Comm_set_name(child, "child");
    allreduces(20, child);
    MPI_Comm_free(&child);
}

static void scene_window(void) {
    MPI_Win window;
    if (fails)
        want("MPI_Win_create", 1, MPI_Win_create(&value, -5, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i < 10; i++)
        MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

/* MPI_COMM_WORLD is not to be freed: it is there as before. */
static void scene_free(void) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Win none = MPI_WIN_NULL;
    if (!fails)
        return;
    want("MPI_Comm_free", 1, MPI_Comm_free(&world));
    want("MPI_Win_free", 1, MPI_Win_free(&none));
}

/* ---- refused while something is going on ----------------------------------------------------- */

/* A window in use is not to be freed, which MPICH notices; afterwards it is there as before. */
static void scene_busy_window(void) {
    MPI_Win window, same;
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    same = window;
    if (fails) {
        MPI_Win_lock(MPI_LOCK_SHARED, me, 0, window);
        want("MPI_Win_free", 1, MPI_Win_free(&same));
        MPI_Win_unlock(me, window);
    }
    for (int i = 0; i < 10; i++)
        MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

/* A group that is none, which is for the call itself to mind: errors that are nobody's own end the job here. */
static void scene_no_group(void) {
    MPI_Win window;
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (fails)
        MPI_Win_start(MPI_GROUP_NULL, 0, window);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win_free(&window);
}

/* The error handler of the communicator leaves the call by a jump of its own. */
static jmp_buf back;

static void jump(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    longjmp(back, 1);
}

/* Deep in the stack: a call left by a jump is known to be over when one is made from less deep. */
static __attribute__((noinline)) void call_that_jumps(void) {
    volatile char deep[4096];
    deep[0] = 0;
    MPI_Bcast(&value, 1 + deep[0], MPI_INT, size, MPI_COMM_WORLD);
    deep[1] = deep[0];
}

static void scene_jump(void) {
    MPI_Errhandler jumping;
    MPI_Comm_create_errhandler(jump, &jumping);
    if (fails) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, jumping);
        if (setjmp(back) == 0)
            call_that_jumps();
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    MPI_Errhandler_free(&jumping);
}

/* ---- failed after they communicated ---------------------------------------------------------- */

/* It fails on all ranks. */
static void scene_open(void) {
    MPI_File file;
    want("MPI_File_open", 1, MPI_File_open(MPI_COMM_WORLD, "/nonexistent/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
}

/* Less room than the root sends fails on that rank only; the others have had their Bcast. */
static void scene_truncated(void) {
    int *data = calloc(LARGE, sizeof *data);
    int count = fails && me != 0 ? LARGE / 2 : LARGE;
    want("MPI_Bcast", count < LARGE, MPI_Bcast(data, count, MPI_INT, 0, MPI_COMM_WORLD));
    free(data);
}

/* ---- the others did it, or wait for it ------------------------------------------------------- */

/* They have had a small one from the root, which waits for nobody. */
static void scene_alone(void) {
    want("MPI_Bcast", fails, MPI_Bcast(&value, fails ? -1 : 1, MPI_INT, 0, MPI_COMM_WORLD));
}

/* They wait for all to come. */
static void scene_waiting(void) {
    MPI_Comm child;
    MPI_Comm *volatile nowhere = NULL;
    want("MPI_Comm_dup", fails, MPI_Comm_dup(MPI_COMM_WORLD, fails ? nowhere : &child));
}

static void scene_mixture(void) {
    scene_bcast();
    scene_ibcast();
    scene_split();
    scene_open();
    allreduces(7, MPI_COMM_WORLD);
    scene_window();
    scene_free();
    scene_jump();
}

static void abort_while_others_wait(void) {
    if (me == 0) {
        usleep(300000);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static const struct scene {
    const char *name;
    void (*play)(void);
} scenes[] = {
    {"bcast", scene_bcast},         {"ibcast", scene_ibcast}, {"split", scene_split},
    {"window", scene_window},       {"free", scene_free},     {"busy", scene_busy_window},
    {"no-group", scene_no_group},   {"jump", scene_jump},     {"open", scene_open},
    {"truncated", scene_truncated}, {"alone", scene_alone},   {"waiting", scene_waiting},
    {"mixture", scene_mixture},
};

int main(int argc, char **argv) {
    const struct scene *scene = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (size_t i = 0; argc > 1 && i < sizeof scenes / sizeof *scenes; i++)
        if (strcmp(scenes[i].name, argv[1]) == 0)
            scene = &scenes[i];
    if (!scene)
        MPI_Abort(MPI_COMM_WORLD, 2);
    fails = argc <= 2 || me == atoi(argv[2]);
    allreduces(BEFORE, MPI_COMM_WORLD);
    scene->play();
    allreduces(AFTER, MPI_COMM_WORLD);
    if (strcmp(scene->name, "mixture") == 0)
        abort_while_others_wait();
    MPI_Finalize();
    return 0;
}
