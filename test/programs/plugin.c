/* SPDX-License-Identifier: Apache-2.0
 *
 * A program without MPI that loads a plugin (RTLD_LOCAL) which is linked to MPI, as Python does with mpi4py.
 * Lives here: the loading program, and with -DLIBRARY the plugin. Must not live here: anything both need.
 *
 *   plugin PLUGIN.so
 */
#ifdef LIBRARY
#include <mpi.h>

#include "expect.h"

int plugin_run(void);

int plugin_run(void) {
    int me, in[3] = {1, 2, 3}, out[3];
    CALLED(MPI_Init, 0, MPI_Init(NULL, NULL));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (int i = 0; i < 40; i++)
        CALLED(MPI_Allreduce, 12, MPI_Allreduce(in, out, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    expect_digest(out, sizeof out);
    MPI_Barrier(MPI_COMM_WORLD); /* last, so that its return may be a tail call's */
    expect("MPI_Barrier", 0, 1);
    CALLED(MPI_Finalize, 0, MPI_Finalize());
    expect_write(me);
    return 0;
}
#else
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    int (*run)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_run") : NULL;
    if (!run) {
        fprintf(stderr, "plugin: %s\n", dlerror());
        return 9;
    }
    return run();
}
#endif
