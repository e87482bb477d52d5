/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with NVTX ranges around its MPI calls, and what an NVTX copy does to find a tool.
 * Lives here: the loader's protocol (dlopen $NVTX_INJECTION64_PATH, InitializeInjectionNvtx2 with a function that
 * hands out tables of function pointers), written down once more for machines without NVTX's headers.
 *
 *   ranges            each call inside the ranges that its comment says
 *   ranges numbered   300 calls, each in a range of its own number
 *   ranges regions    barriers inside ranges called "train ...", one of them of another thread's, broadcasts outside
 *   ranges probe      only prints whether there is a tool
 */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "not so: %s\n", #condition);                                                               \
            exit(9);                                                                                                   \
        }                                                                                                              \
    } while (0)

typedef void (*function)(void);
struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
enum { ASCII = 1, UNICODE = 2, REGISTERED = 3 };

/* What the tool fills; NULL without one. Places as NVTX numbers them. */
static uint64_t (*start_a)(const char *);
static void (*end)(uint64_t);
static int (*push_ex)(const struct attributes *);
static int (*push_a)(const char *);
static int (*push_w)(const wchar_t *);
static int (*pop)(void);
static int (*domain_push_ex)(void *, const struct attributes *);
static int (*domain_pop)(void *);
static void *(*register_a)(void *, const char *);
static void *(*create_a)(const char *);

#define PLACE(pointer) ((function *)(void *)&(pointer))
static function unused;
static function *core[16] = {[1 ... 15] = &unused};
static function *core2[16] = {[1 ... 15] = &unused};

static int function_table(int module, function ***table, unsigned *count) {
    if (module != 1 && module != 5)
        return 0;
    *table = module == 1 ? core : core2;
    *count = 16;
    return 1;
}

static struct {
    size_t bytes;
    int (*function_table)(int, function ***, unsigned *);
} callbacks = {sizeof callbacks, function_table};

static const void *get_export_table(uint32_t table) {
    return table == 1 ? &callbacks : NULL;
}

/* Returns whether a tool took the tables. */
static int load_tool(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    core[5] = PLACE(start_a);
    core[7] = PLACE(end);
    core[8] = PLACE(push_ex);
    core[9] = PLACE(push_a);
    core[10] = PLACE(push_w);
    core[11] = PLACE(pop);
    core2[4] = PLACE(domain_push_ex);
    core2[5] = PLACE(domain_pop);
    core2[10] = PLACE(register_a);
    core2[12] = PLACE(create_a);
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    int (*initialise)(const void *(*)(uint32_t)) = NULL;
    if (library)
        *(void **)&initialise = dlsym(library, "InitializeInjectionNvtx2");
    if (initialise && initialise(get_export_table))
        return 1;
    if (library)
        dlclose(library);
    return 0;
}

/* The message's memory is the program's again as soon as push returns. */
static int push_from_heap(const char *text) {
    char *message = strdup(text);
    int level = push_a(message);
    memset(message, 'x', strlen(message));
    free(message);
    return level;
}

static void *in_thread(void *unused_argument) {
    (void)unused_argument;
    push_a("of the thread");
    MPI_Allreduce(MPI_IN_PLACE, &(int){1}, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* of the thread */
    pop();
    return NULL;
}

static void various(void) {
    void *mine = create_a("mine"), *nccl = create_a("NCCL"), *registered = register_a(mine, "registered");
    struct attributes a = {.version = 3, .size = sizeof a, .message_type = REGISTERED, .message = registered};
    struct attributes b = {.version = 3, .size = sizeof b, .message_type = ASCII, .message = "with attributes"};
    int value = 0;
    EXPECT(create_a("mine") == mine);
    EXPECT(push_from_heap("outer") == 0);
    EXPECT(push_w(L"größer \u65e5") == 1);
    MPI_Barrier(MPI_COMM_WORLD); /* outer, größer 日 */
    EXPECT(domain_push_ex(mine, &a) == 0);
    domain_push_ex(nccl, &b);
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD); /* outer, größer 日, mine: registered */
    domain_pop(nccl);
    EXPECT(pop() == 1); /* closes größer 日, inside which registered is still open */
    EXPECT(push_ex(&b) == 1);
    MPI_Reduce(&value, &(int){0}, 1, MPI_INT, MPI_SUM, 0,
               MPI_COMM_WORLD); /* outer, mine: registered, with attributes */
    EXPECT(pop() == 1);
    EXPECT(domain_pop(mine) == 0);
    EXPECT(pop() == 0);
    EXPECT(pop() < 0);
    uint64_t first = start_a("first started"), second = start_a("second started");
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL); /* first started, second started, of the thread */
    pthread_join(thread, NULL);
    end(first);
    MPI_Scan(&(int){1}, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* second started */
    end(second);
    MPI_Alltoall(&(int[16]){0}, 1, MPI_INT, &(int[16]){0}, 1, MPI_INT, MPI_COMM_WORLD); /* nothing */
}

static void numbered(void) {
    for (int i = 0; i < 300; i++) {
        char text[64];
        snprintf(text, sizeof text, "step %d of 300", i);
        push_a(text);
        MPI_Barrier(MPI_COMM_WORLD);
        pop();
    }
}

static void barriers(int count) {
    for (int i = 0; i < count; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void *barrier_in_thread(void *unused_argument) {
    (void)unused_argument;
    barriers(4);
    return NULL;
}

static void regions(void) {
    pthread_t thread;
    int value = 0;
    barriers(1); /* main() has opened a range before MPI_Init */
    pop();
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    push_a("train once");
    push_a("inner");
    barriers(2);
    pthread_create(&thread, NULL, barrier_in_thread, NULL);
    pthread_join(thread, NULL);
    pop();
    pop();
    push_a("validate");
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    pop();
    uint64_t first = start_a("train again"), second = start_a("train too");
    end(first);
    barriers(8);
    end(second);
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int provided, tool = load_tool();
    if (!strcmp(what, "probe")) {
        printf("%s %s\n", tool ? "tool" : "none", getenv("NVTX_INJECTION64_PATH"));
        return 0;
    }
    if (!tool || !push_a || !domain_push_ex)
        return 2;
    if (!strcmp(what, "regions"))
        push_a("train early");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (!strcmp(what, "numbered"))
        numbered();
    else if (!strcmp(what, "regions"))
        regions();
    else
        various();
    MPI_Finalize();
    return 0;
}
