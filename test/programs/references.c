/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs and libraries that refer to functions of MPI, NCCL and CUDA of which some are there and some are not.
 * Lives here: what they see. Must not live here: headers or libraries of MPI; how the parts are linked (references.mk).
 *
 * Built as a program, as a library that it needs (-DNEEDED), as libraries to be opened (-DOPENED), and with one strong
 * reference to a function that nobody has (-DSTRONG). Prints what the references are and what the linker says; with and
 * without commtap every line must be the same.
 *
 *     references [call]                    `call`: calls the function that only STRONG refers to
 *     references open FILE MODE...         opens a library: now or lazy, local or global, deepbind; `mpi` opens MPI
 * first
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* there in every MPI; in some or none; a weak reference only; NCCL's and CUDA's where there is no such library */
/* clang-format off */
#define NAMES(X)                                                                                                       \
    X(MPI_Send)                                                                                                        \
    X(PMPI_Send)                                                                                                       \
    X(MPI_Initialized)                                                                                                 \
    X(MPI_Pcontrol) X(MPI_Allreduce) X(MPI_Send_c) X(PMPI_Send_c) X(MPI_Allreduce_c) X(MPI_Barrier_init)               \
        X(MPI_Session_init) X(PMPI_Session_init) X(MPI_Alltoallw_init_c) X(MPI_Buffer_flush) X(ncclAllReduce)          \
            X(ncclGroupStart) X(cudaGraphLaunch) X(cuGraphLaunch) X(cuGraphLaunch_ptsz)
#define DECLARE(name) extern int name(void) __attribute__((weak));
NAMES(DECLARE)

struct entry {
    const char *name;
    int (*function)(void);
};
/* relocated as data, writable and not */
#define ROW(name) {#name, name},
static struct entry table[] = {NAMES(ROW)};
static const struct entry constant_table[] = {NAMES(ROW)};
#define ROWS (sizeof table / sizeof *table)

#ifdef STRONG
extern int MPI_Comm_iflush_buffer(void);
#endif

/* The rights of the memory that an object's constant table lies in. */
static void show_rights(const char *who) {
    char line[512], rights[8];
    unsigned long low, high;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &low, &high, rights) == 3 && (unsigned long)constant_table >= low &&
            (unsigned long)constant_table < high)
            printf("%s's constants are %s\n", who, rights);
    if (maps)
        fclose(maps);
}

static void show(const char *who) {
    show_rights(who);
    printf("%s:", who);
#define CODE(name) printf(" %d", name != NULL);
    NAMES(CODE)
    printf(" |");
    for (size_t i = 0; i < ROWS; i++)
        printf(" %d", table[i].function != NULL);
    printf(" |");
    for (size_t i = 0; i < ROWS; i++)
        printf(" %d", constant_table[i].function != NULL);
    puts("");
}

#if defined NEEDED
static int seen[ROWS];
__attribute__((constructor)) static void look_early(void) {
    for (size_t i = 0; i < ROWS; i++)
        seen[i] = constant_table[i].function != NULL;
}

void needed_show(void) {
    show("needed");
    printf("needed at its start:");
    for (size_t i = 0; i < ROWS; i++)
        printf(" %d", seen[i]);
    puts("");
}
#elif defined OPENED
void opened_show(int call) {
    show("opened");
#ifdef STRONG
    fflush(stdout);
    if (call)
        printf("called: %d\n", MPI_Comm_iflush_buffer());
#else
    (void)call;
#endif
}
#else
extern void needed_show(void) __attribute__((weak));

static void look_up(const char *name) {
    static const char *const how[] = {"default", "next", "program"};
    void *handles[] = {RTLD_DEFAULT, RTLD_NEXT, dlopen(NULL, RTLD_NOW)};
    for (int i = 0; i < 3; i++) {
        dlerror();
        void *found = dlsym(handles[i], name);
        const char *error = dlerror();
        printf("%s %s: %s %s\n", how[i], name, found ? "there" : "not there", error ? error : "no error");
    }
    void *found = dlvsym(RTLD_DEFAULT, name, "GLIBC_2.2.5");
    const char *error = dlerror();
    printf("versioned %s: %s %s\n", name, found ? "there" : "not there", error ? error : "no error");
}

static int mode_of(int argc, char **argv) {
    int mode = 0;
    for (int i = 3; i < argc; i++)
        mode |= !strcmp(argv[i], "now")        ? RTLD_NOW
                : !strcmp(argv[i], "lazy")     ? RTLD_LAZY
                : !strcmp(argv[i], "global")   ? RTLD_GLOBAL
                : !strcmp(argv[i], "deepbind") ? RTLD_DEEPBIND
                                               : 0;
    return mode;
}

static bool has(int argc, char **argv, const char *word) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], word))
            return true;
    return false;
}

static void open_library(int argc, char **argv) {
    const char *mpi = getenv("REFERENCES_MPI");
    if (has(argc, argv, "mpi") && !(mpi && dlopen(mpi, RTLD_NOW | RTLD_GLOBAL)))
        printf("no MPI: %s\n", dlerror());
    void *library = dlopen(argv[2], mode_of(argc, argv));
    if (!library) {
        printf("not opened: %s\n", dlerror());
        return;
    }
    void (*opened_show)(int) = (void (*)(int))dlsym(library, "opened_show");
    opened_show(has(argc, argv, "call"));
}

int main(int argc, char **argv) {
    show("program");
    if (needed_show)
        needed_show();
    fflush(stdout);
    for (size_t i = 0; i < ROWS; i++)
        look_up(table[i].name);
    if (has(argc, argv, "open"))
        open_library(argc, argv);
    fflush(stdout);
#ifdef STRONG
    if (has(argc, argv, "call"))
        printf("called: %d\n", MPI_Comm_iflush_buffer());
#endif
    return 0;
}
#endif
