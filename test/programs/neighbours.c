/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins, each loaded RTLD_LOCAL with an MPI of its own beneath, as Python loads its extensions: a real MPI, another
 * one, or the stand-in for MPI that serial solvers bring along.
 * Lives here: the loading program, with -DLIBRARY the plugin of a real MPI, with -DSOLVER the serial one, with -DSERIAL
 * the stand-in (in a library of its own, or within the solver), with -DASKING a plugin that refers weakly and has none,
 * with -DUNLINKED one that is bound to an MPI without being linked to it, with -DNAMESAKE a program that has one
 * function of that name itself, with -DPROGRAM a program of what else would be a plugin, with -DEARLY a library whose
 * constructor looks a function up before the C library has begun, with -DENVIRONMENT a program that counts what its
 * environment holds. Must not live here: what is said of a recorded call.
 *
 *   neighbours [now|lazy|opened] PLUGIN.so ...   each is loaded, started and then ended in this order; all are loaded
 *                                                before the first is started
 *   neighbours kept LIBRARY.so [PLUGIN.so]   MPI from a library that is closed while the program, or a plugin that is
 *                                            not linked to it, still needs it
 *   neighbours again LIBRARY.so              MPI from one library, which is unloaded in between: twice
 */
#include <stdio.h>

#if defined(LIBRARY)
#include <dlfcn.h>
#include <mpi.h>
#include <string.h>

int begin(int now), end(int now), barrier(int now);

/* Which library answers. */
static void say(const char *what, double value) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, " ,")] = '\0';
    printf("%s %s %g\n", text, what, value);
}

int begin(int now) {
    int flag, size;
    (void)now;
    double one = 1, sum = 0;
    MPI_Initialized(&flag);
    say("initialized", flag);
    say("next", dlsym(RTLD_NEXT, "MPI_Allreduce") != NULL);
    MPI_Init(NULL, NULL);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 7; i++)
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    say("sum", sum / size);
    return 0;
}

int barrier(int now) {
    (void)now;
    return MPI_Barrier(MPI_COMM_WORLD);
}

int end(int now) {
    MPI_Comm copy;
    (void)now;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_free(&copy);
    int result = MPI_Finalize();
    say("finalized", result);
    return 0;
}
#elif defined(SERIAL) || defined(SOLVER)
int MPI_Init(int *argc, char ***argv), MPI_Initialized(int *flag), MPI_Finalize(void), MPI_Barrier(int comm);
int MPI_Allreduce(const double *in, double *out, int count, int type, int op, int comm);
double MPI_Reduce_scatter_block(double a, double b, long c, long d, long e, long f, long g, long h);
double ncclCommGrow(double a, double b, long c, long d, long e, long f, long g, long h);
#ifdef SERIAL
static int initialized;
int MPI_Init(int *argc, char ***argv) {
    (void)argc, (void)argv;
    initialized = 1;
    return 0;
}
int MPI_Initialized(int *flag) {
    *flag = initialized;
    return 0;
}
int MPI_Finalize(void) {
    puts("serial finalizes");
    return 0;
}
int MPI_Barrier(int comm) {
    printf("serial barrier %d\n", comm);
    return 0;
}
int MPI_Allreduce(const double *in, double *out, int count, int type, int op, int comm) {
    (void)type, (void)op, (void)comm;
    for (int i = 0; i < count; i++)
        out[i] = in[i] + 100;
    return 0;
}
/* Not what MPI and NCCL have under these names. */
double MPI_Reduce_scatter_block(double a, double b, long c, long d, long e, long f, long g, long h) {
    return a + b + (double)(c + d + e + f + g + h);
}
double ncclCommGrow(double a, double b, long c, long d, long e, long f, long g, long h) {
    return a + b - (double)(c + d + e + f + g + h);
}
#endif
#ifdef SOLVER
int begin(int now), end(int now), barrier(int now);

int begin(int now) {
    int flag = -1;
    double one = 1, sum = 0;
    MPI_Initialized(&flag);
    MPI_Init(NULL, NULL);
    MPI_Allreduce(&one, &sum, 1, 0, 0, 0);
    printf("serial %d %g %g\n", flag, sum, now ? MPI_Reduce_scatter_block(.5, .25, 1, 2, 3, 4, 5, 6) : 0);
    return 0;
}

/* A tail call: the stand-in's caller is ours then. */
int barrier(int now) {
    return now ? MPI_Barrier(5) : 0;
}

int end(int now) {
    (void)now;
    return MPI_Finalize();
}
#endif
#elif defined(UNLINKED)
int MPI_Init(int *argc, char ***argv), MPI_Finalize(void);
int begin(int now), end(int now);

/* No function that commtap leaves to the MPI itself: one such reference would keep that loaded. */
int begin(int now) {
    return now ? MPI_Init(NULL, NULL) : 0;
}

int end(int now) {
    return now ? MPI_Finalize() : 0;
}
#elif defined(EARLY)
#include <dlfcn.h>

void *volatile found_early;

__attribute__((constructor)) static void look(void) {
    found_early = dlsym(RTLD_DEFAULT, "MPI_Init");
    found_early = dlsym(RTLD_DEFAULT, "ncclAllReduce");
}
#elif defined(ENVIRONMENT)
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int count = 0;
    while (environ && environ[count])
        count++;
    printf("%d %s %s\n", count > 1, getenv("PATH"), argv[argc - 1]);
    return system("exit 3") >> 8;
}
#elif defined(ASKING)
#define NAMES(X)                                                                                                       \
    X(MPI_Send) X(MPI_Comm_get_parent) X(PMPI_Send) X(MPI_Initialized) X(MPI_Send_c) X(ncclCommGrow) X(ncclAllReduce)
#define X(name) extern int name(void) __attribute__((weak));
NAMES(X)
#undef X
int begin(int now), end(int now), barrier(int now);

int begin(int now) {
    (void)now;
#define X(name) printf("asking %s %d\n", #name, name != NULL);
    NAMES(X)
#undef X
    return 0;
}

int barrier(int now) {
    return 0 * now;
}

int end(int now) {
    return 0 * now;
}
#elif defined(NAMESAKE)
#include <dlfcn.h>

int MPI_Send_c(void);
int MPI_Send_c(void) {
    return 5;
}

int main(void) {
    int found = dlsym(RTLD_NEXT, "MPI_Send_c") != NULL;
    printf("%d %s %d\n", found, dlerror(), MPI_Send_c());
    return 0;
}
#else
#include <dlfcn.h>
#include <string.h>

static int call(void *library, const char *name, int now) {
    int (*function)(int) = library ? (int (*)(int))dlsym(library, name) : NULL;
    if (!function)
        printf("no %s: %s\n", name, dlerror());
    fflush(stdout);
    int result = function ? function(now) : 9;
    fflush(stdout);
    return result;
}

static void call_namesake(void *library) {
    double (*namesake)(double, double, long, long, long, long, long, long) =
        library ? (double (*)(double, double, long, long, long, long, long, long))dlsym(library, "ncclCommGrow") : NULL;
    if (namesake)
        printf("namesake %g\n", namesake(.5, .25, 1, 2, 3, 4, 5, 6));
}

static int kept(const char *path, const char *plugin_path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    void *plugin = plugin_path ? dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*init)(int *, char ***) = plugin_path ? NULL : (int (*)(int *, char ***))dlsym(RTLD_DEFAULT, "MPI_Init");
    int (*finalize)(void) = plugin_path ? NULL : (int (*)(void))dlsym(RTLD_DEFAULT, "MPI_Finalize");
    printf("close %d\n", library ? dlclose(library) : 9);
    fflush(stdout);
    int failed = plugin_path ? call(plugin, "begin", 1) | call(plugin, "end", 1) : init(NULL, NULL) | finalize();
    printf("failed %d close %d", failed, plugin ? dlclose(plugin) : 0);
    printf(" still there %d\n", dlopen(path, RTLD_LAZY | RTLD_NOLOAD) != NULL);
    return failed;
}

static int twice(const char *path) {
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        int (*init)(int *, char ***) = library ? (int (*)(int *, char ***))dlsym(library, "MPI_Init") : NULL;
        int (*finalize)(void) = library ? (int (*)(void))dlsym(library, "MPI_Finalize") : NULL;
        if (!init || !finalize)
            return 9;
        printf("init %d", init(NULL, NULL));
        printf(" finalize %d", finalize());
        printf(" close %d", dlclose(library));
        printf(" still there %d\n", dlopen(path, RTLD_LAZY | RTLD_NOLOAD) != NULL);
        fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv) {
    void *plugins[8];
    if (argc > 2 && !strcmp(argv[1], "again"))
        return twice(argv[2]);
    if (argc > 2 && !strcmp(argv[1], "kept"))
        return kept(argv[2], argv[3]);
    int now = argc > 1 && strcmp(argv[1], "lazy") != 0, opened = argc > 1 && !strcmp(argv[1], "opened"), failed = 0;
    for (int i = 2; i < argc && i < 10; i++) {
        plugins[i - 2] = dlopen(argv[i], (now ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL);
        if (!opened)
            failed |= call(plugins[i - 2], "begin", now);
    }
    for (int i = 2; i < argc && i < 10 && opened; i++)
        failed |= call(plugins[i - 2], "begin", now);
    for (int i = 2; i < argc && i < 10; i++)
        failed |= call(plugins[i - 2], "barrier", now) | call(plugins[i - 2], "end", now);
    for (int i = 2; i < argc && i < 10; i++)
        call_namesake(plugins[i - 2]);
    return failed;
}
#endif

#ifdef PROGRAM
int main(void) {
    return begin(0) | barrier(1) | end(1);
}
#endif
