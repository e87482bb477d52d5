/* SPDX-License-Identifier: Apache-2.0
 *
 * The stand-in NCCL's names as the real library has them: a strong pncclX, a weak ncclX at the same address, and its
 * own calls through the public names, which whoever is first in the search order receives. Here that is this program.
 */
#include "test/standin/nccl_test/ranks.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static int broadcasts, questions, ids;

__attribute__((visibility("default"))) ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
                                                                  ncclDataType_t type, int root, ncclComm_t comm,
                                                                  cudaStream_t stream) {
    broadcasts++;
    return pncclBroadcast(send, recv, count, type, root, comm, stream);
}

__attribute__((visibility("default"))) ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    questions++;
    return pncclCommGetAsyncError(comm, error);
}

__attribute__((visibility("default"))) ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    ids++;
    return pncclGetUniqueId(id);
}

static void calls_by_public_names(struct rank *r) {
    float value = 1;
    ncclComm_t comm;
    (void)r;
    use_device(0);
    CUstream stream = new_stream();
    EXPECT(ncclCommInitAll(&comm, 1, NULL) == ncclSuccess);
    EXPECT(ids == 1);
    questions = 0;
    EXPECT(ncclBcast(&value, 1, ncclFloat32, 0, comm, stream) == ncclSuccess);
    EXPECT(broadcasts == 1 && questions == 1);
    EXPECT(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
    EXPECT(broadcasts == 1 && questions == 2);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
}

static void re_entry(void **state) {
    (void)state;
    ranks_succeed(1, calls_by_public_names);
}

/* ELF binding of a name in the library's dynamic symbols. */
static int binding_of(void *library, const char *name) {
    struct link_map *map;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            symbols = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB)
            strings = (const void *)d->d_un.d_ptr;
    }
    /* The string table follows the symbols in every library that GNU ld makes. */
    for (const ElfW(Sym) *symbol = symbols; (const char *)symbol < strings; symbol++)
        if (strcmp(strings + symbol->st_name, name) == 0)
            return ELF64_ST_BIND(symbol->st_info);
    return -1;
}

static void weak_over_strong(void **state) {
    static const char *const names[] = {
        "ncclAllGather",
        "ncclAllReduce",
        "ncclAlltoAll",
        "ncclBcast",
        "ncclBroadcast",
        "ncclCommAbort",
        "ncclCommCount",
        "ncclCommCuDevice",
        "ncclCommDeregister",
        "ncclCommDestroy",
        "ncclCommFinalize",
        "ncclCommGetAsyncError",
        "ncclCommGetUniqueId",
        "ncclCommGrow",
        "ncclCommInitAll",
        "ncclCommInitRank",
        "ncclCommInitRankConfig",
        "ncclCommInitRankScalable",
        "ncclCommRegister",
        "ncclCommRevoke",
        "ncclCommShrink",
        "ncclCommSplit",
        "ncclCommUserRank",
        "ncclCommWindowDeregister",
        "ncclCommWindowRegister",
        "ncclDevCommCreate",
        "ncclDevCommDestroy",
        "ncclGather",
        "ncclGetErrorString",
        "ncclGetLastError",
        "ncclGetUniqueId",
        "ncclGetVersion",
        "ncclGroupEnd",
        "ncclGroupSimulateEnd",
        "ncclGroupStart",
        "ncclMemAlloc",
        "ncclMemFree",
        "ncclRecv",
        "ncclRedOpCreatePreMulSum",
        "ncclRedOpDestroy",
        "ncclReduce",
        "ncclReduceScatter",
        "ncclScatter",
        "ncclSend",
    };
    (void)state;
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char strong[64];
        snprintf(strong, sizeof strong, "p%s", names[i]);
        void *address = dlsym(library, names[i]);
        assert_non_null(address);
        assert_ptr_equal(address, dlsym(library, strong));
        assert_int_equal(binding_of(library, names[i]), STB_WEAK);
        assert_int_equal(binding_of(library, strong), STB_GLOBAL);
    }
}

static void texts_and_version(void **state) {
    int version;
    (void)state;
    assert_int_equal(ncclGetVersion(&version), ncclSuccess);
    assert_int_equal(version, 22809);
    setenv("STANDIN_NCCL_VERSION", "23007", 1);
    assert_int_equal(ncclGetVersion(&version), ncclSuccess);
    assert_int_equal(version, 23007);
    unsetenv("STANDIN_NCCL_VERSION");
    assert_string_equal(ncclGetErrorString(ncclSuccess), "no error");
    assert_string_equal(ncclGetErrorString((ncclResult_t)99), "unknown result code");
}

/* As on a machine whose driver finds no device: an id can be had, a communicator cannot. */
static void without_a_device(struct rank *r) {
    ncclComm_t comm;
    ncclUniqueId id;
    EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
    EXPECT(ncclCommInitRank(&comm, 1, id, r->rank) == ncclUnhandledCudaError);
}

static void no_device(void **state) {
    (void)state;
    setenv("STANDIN_DEVICES", "0", 1);
    ranks_succeed(1, without_a_device);
    unsetenv("STANDIN_DEVICES");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(re_entry),
        cmocka_unit_test(weak_over_strong),
        cmocka_unit_test(texts_and_version),
        cmocka_unit_test(no_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
