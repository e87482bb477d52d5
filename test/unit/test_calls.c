/* SPDX-License-Identifier: Apache-2.0
 *
 * Is the table of calls sound in itself: ids, positions, the columns that each kind's handler reads.
 * Must not live here: comparisons with an MPI library's headers (test/calls_headers.py).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shim/call.h"

#define LARGEST_ARITY 13

/* The columns that hold positions. */
enum column {
    COLUMN_COMM,
    COLUMN_WIN,
    COLUMN_FILE,
    COLUMN_COUNT,
    COLUMN_TYPE,
    COLUMN_COUNT2,
    COLUMN_TYPE2,
    COLUMN_INPLACE,
    COLUMN_ROOT,
    COLUMN_PEER,
    COLUMN_TAG,
    COLUMN_PEER2,
    COLUMN_TAG2,
    COLUMN_REDOP,
    COLUMN_REQUEST,
    COLUMN_N,
    COLUMN_STATUS,
    COLUMN_FLAG,
    COLUMN_INDEX,
    COLUMN_OUTCOUNT,
    COLUMN_MESSAGE,
    COLUMN_GROUP,
    COLUMN_GROUP2,
    COLUMN_TEXT,
    COLUMN_OUTPUT,
    COLUMN_STREAM,
    COLUMN_RANK,
    COLUMN_UNIQUE_ID,
    COLUMN_CONFIG,
    COLUMN_COLOR,
    COLUMN_DEVICES,
    COLUMN_ASSERTION,
    COLUMNS
};

#define BIT(column) (1u << COLUMN_##column)
#define SIZE        (BIT(COUNT) | BIT(TYPE))
#define SIZE2       (BIT(COUNT2) | BIT(TYPE2))
#define PARTNER     (BIT(COMM) | BIT(PEER) | BIT(TAG))
#define PARTNER2    (BIT(PEER2) | BIT(TAG2))
#define REQUESTS    (BIT(N) | BIT(REQUEST))

static void columns_of(const struct call *call, uint8_t position[COLUMNS]) {
    const uint8_t all[COLUMNS] = {
        call->comm,    call->win,    call->file,    call->count,     call->type,   call->count2,   call->type2,
        call->inplace, call->root,   call->peer,    call->tag,       call->peer2,  call->tag2,     call->redop,
        call->request, call->n,      call->status,  call->flag,      call->index,  call->outcount, call->message,
        call->group,   call->group2, call->text,    call->output,    call->stream, call->rank,     call->unique_id,
        call->config,  call->color,  call->devices, call->assertion,
    };
    memcpy(position, all, sizeof all);
}

static uint32_t columns_set(const struct call *call) {
    uint8_t position[COLUMNS];
    uint32_t set = 0;
    columns_of(call, position);
    for (int column = 0; column < COLUMNS; column++)
        set |= position[column] ? 1u << column : 0;
    return set;
}

/* What a kind's handler needs, and what it may be given besides. */
struct kind_columns {
    uint32_t needed;
    uint32_t allowed;
    uint8_t listed; /* 1: this row of the expectations is filled in */
};

#define COLLECTIVE_EXTRAS (SIZE | SIZE2 | BIT(ROOT) | BIT(REDOP) | BIT(INPLACE))
#define RMA_EXTRAS        (BIT(COUNT) | BIT(REDOP))

static const struct kind_columns expected[KIND_COUNT] = {
    [KIND_PLAIN] = {0, BIT(COMM) | BIT(REQUEST), 1},
    [KIND_INIT] = {0, BIT(OUTPUT), 1},
    [KIND_FINALIZE] = {0, 0, 1},
    [KIND_SESSION_FINALIZE] = {BIT(OUTPUT), 0, 1},
    [KIND_ABORT] = {BIT(COMM), 0, 1},
    [KIND_COLLECTIVE] = {BIT(COMM), COLLECTIVE_EXTRAS, 1},
    [KIND_ICOLLECTIVE] = {BIT(COMM) | BIT(REQUEST), COLLECTIVE_EXTRAS, 1},
    [KIND_COLLECTIVE_INIT] = {BIT(COMM) | BIT(REQUEST), COLLECTIVE_EXTRAS, 1},
    [KIND_SEND] = {SIZE | PARTNER, 0, 1},
    [KIND_RECV] = {SIZE | PARTNER | BIT(STATUS), 0, 1},
    [KIND_SENDRECV] = {SIZE | SIZE2 | PARTNER | PARTNER2 | BIT(STATUS), 0, 1},
    [KIND_ISEND] = {SIZE | PARTNER | BIT(REQUEST), 0, 1},
    [KIND_IRECV] = {SIZE | PARTNER | BIT(REQUEST), 0, 1},
    [KIND_ISENDRECV] = {SIZE | SIZE2 | PARTNER | PARTNER2 | BIT(REQUEST), 0, 1},
    [KIND_SEND_INIT] = {SIZE | PARTNER | BIT(REQUEST), BIT(COUNT2), 1},
    [KIND_RECV_INIT] = {SIZE | PARTNER | BIT(REQUEST), BIT(COUNT2), 1},
    [KIND_START] = {BIT(REQUEST), 0, 1},
    [KIND_STARTALL] = {REQUESTS, 0, 1},
    [KIND_WAIT] = {BIT(REQUEST) | BIT(STATUS), 0, 1},
    [KIND_WAITALL] = {REQUESTS | BIT(STATUS), 0, 1},
    [KIND_WAITANY] = {REQUESTS | BIT(INDEX) | BIT(STATUS), 0, 1},
    [KIND_WAITSOME] = {REQUESTS | BIT(OUTCOUNT) | BIT(INDEX) | BIT(STATUS), 0, 1},
    [KIND_TEST] = {BIT(REQUEST) | BIT(FLAG) | BIT(STATUS), 0, 1},
    [KIND_TESTALL] = {REQUESTS | BIT(FLAG) | BIT(STATUS), 0, 1},
    [KIND_TESTANY] = {REQUESTS | BIT(INDEX) | BIT(FLAG) | BIT(STATUS), 0, 1},
    [KIND_TESTSOME] = {REQUESTS | BIT(OUTCOUNT) | BIT(INDEX) | BIT(STATUS), 0, 1},
    [KIND_POLL] = {BIT(REQUEST), BIT(N) | BIT(FLAG) | BIT(INDEX) | BIT(OUTCOUNT) | BIT(STATUS), 1},
    [KIND_REQUEST_FREE] = {BIT(REQUEST), 0, 1},
    [KIND_CANCEL] = {BIT(REQUEST), 0, 1},
    [KIND_PROBE] = {PARTNER | BIT(STATUS), 0, 1},
    [KIND_IPROBE] = {PARTNER | BIT(FLAG) | BIT(STATUS), 0, 1},
    [KIND_MPROBE] = {PARTNER | BIT(MESSAGE) | BIT(STATUS), 0, 1},
    [KIND_IMPROBE] = {PARTNER | BIT(FLAG) | BIT(MESSAGE) | BIT(STATUS), 0, 1},
    [KIND_MRECV] = {SIZE | BIT(MESSAGE) | BIT(STATUS), 0, 1},
    [KIND_IMRECV] = {SIZE | BIT(MESSAGE) | BIT(REQUEST), 0, 1},
    [KIND_COMM_CREATE] = {BIT(COMM) | BIT(OUTPUT), BIT(GROUP) | BIT(ROOT), 1},
    [KIND_COMM_CREATE_GROUP] = {BIT(COMM) | BIT(GROUP) | BIT(TAG) | BIT(OUTPUT), 0, 1},
    [KIND_COMM_FROM_GROUP] = {BIT(GROUP) | BIT(TEXT) | BIT(OUTPUT), 0, 1},
    [KIND_COMM_IDUP] = {BIT(COMM) | BIT(OUTPUT) | BIT(REQUEST), 0, 1},
    [KIND_INTERCOMM_CREATE] = {BIT(COMM) | BIT(TAG) | BIT(OUTPUT), 0, 1},
    [KIND_INTERCOMM_FROM_GROUPS] = {BIT(GROUP) | BIT(GROUP2) | BIT(TEXT) | BIT(OUTPUT), 0, 1},
    [KIND_COMM_FREE] = {BIT(OUTPUT), 0, 1},
    [KIND_COMM_SET_NAME] = {BIT(COMM) | BIT(TEXT), 0, 1},
    [KIND_COMM_GET_PARENT] = {BIT(OUTPUT), 0, 1},
    [KIND_TYPE_FREE] = {BIT(OUTPUT), 0, 1},
    [KIND_WIN_CREATE] = {BIT(COMM) | BIT(OUTPUT), 0, 1},
    [KIND_WIN_FREE] = {BIT(OUTPUT), 0, 1},
    [KIND_RMA] = {BIT(WIN) | BIT(PEER) | BIT(TYPE), RMA_EXTRAS, 1},
    [KIND_RMA_REQUEST] = {BIT(WIN) | BIT(PEER) | BIT(TYPE) | BIT(REQUEST), RMA_EXTRAS, 1},
    [KIND_RMA_SYNC] = {BIT(WIN), BIT(PEER) | BIT(GROUP), 1},
    [KIND_WIN_TEST] = {BIT(WIN) | BIT(FLAG), 0, 1},
    [KIND_WIN_COLLECTIVE] = {BIT(WIN), BIT(ASSERTION), 1},
    [KIND_FILE_OPEN] = {BIT(COMM) | BIT(OUTPUT), 0, 1},
    [KIND_FILE_CLOSE] = {BIT(OUTPUT), 0, 1},
    [KIND_FILE_COLLECTIVE] = {BIT(FILE), SIZE | BIT(STATUS), 1},
    [KIND_FILE_IO] = {0, BIT(FILE) | SIZE | BIT(STATUS), 1},
    [KIND_FILE_IO_REQUEST] = {BIT(FILE) | SIZE | BIT(REQUEST), 0, 1},
    [KIND_NCCL_PLAIN] = {0, BIT(COMM), 1},
    [KIND_NCCL_UNIQUE_ID] = {0, 0, 1},
    [KIND_NCCL_COLLECTIVE] = {SIZE | BIT(COMM) | BIT(STREAM), BIT(ROOT) | BIT(REDOP), 1},
    [KIND_NCCL_SEND] = {SIZE | BIT(COMM) | BIT(STREAM) | BIT(PEER), 0, 1},
    [KIND_NCCL_RECV] = {SIZE | BIT(COMM) | BIT(STREAM) | BIT(PEER), 0, 1},
    [KIND_NCCL_RMA] = {BIT(COMM) | BIT(STREAM), SIZE | BIT(PEER), 1},
    [KIND_NCCL_GROUP_START] = {0, 0, 1},
    [KIND_NCCL_GROUP_END] = {0, 0, 1},
    [KIND_NCCL_GROUP_SIMULATE] = {0, 0, 1},
    [KIND_NCCL_INIT_RANK] = {BIT(OUTPUT) | BIT(N) | BIT(RANK) | BIT(UNIQUE_ID), BIT(CONFIG) | BIT(COUNT), 1},
    [KIND_NCCL_INIT_ALL] = {BIT(OUTPUT) | BIT(N) | BIT(DEVICES), 0, 1},
    [KIND_NCCL_SPLIT] = {BIT(COMM) | BIT(COLOR) | BIT(OUTPUT), BIT(CONFIG) | BIT(RANK), 1},
    [KIND_NCCL_SHRINK] = {BIT(COMM) | BIT(INDEX) | BIT(COUNT) | BIT(OUTPUT), BIT(CONFIG), 1},
    [KIND_NCCL_GROW] = {BIT(COMM) | BIT(N) | BIT(RANK) | BIT(UNIQUE_ID) | BIT(OUTPUT), BIT(CONFIG), 1},
    [KIND_NCCL_DESTROY] = {BIT(COMM), 0, 1},
    [KIND_NCCL_ABORT] = {BIT(COMM), 0, 1},
    [KIND_NCCL_REVOKE] = {BIT(COMM), 0, 1},
    [KIND_NCCL_WINDOW] = {BIT(COMM), 0, 1},
    [KIND_NCCL_WINDOW_GONE] = {BIT(COMM), 0, 1},
    [KIND_NCCL_ASYNC_ERROR] = {BIT(COMM) | BIT(STATUS), 0, 1},
};

/* What each byte formula reads. */
static const uint32_t formula_columns[BYTES_FORMULAS] = {
    [BYTES_ZERO] = 0,
    [BYTES_COUNT] = SIZE,
    [BYTES_ELEMENT] = BIT(TYPE),
    [BYTES_COUNT_N] = SIZE,
    [BYTES_SUM] = SIZE,
    [BYTES_GATHER] = SIZE | SIZE2,
    [BYTES_SCATTER] = SIZE | SIZE2,
    [BYTES_GATHERV] = SIZE | SIZE2,
    [BYTES_SCATTERV] = SIZE | SIZE2,
    [BYTES_ALLTOALLV] = SIZE | SIZE2,
    [BYTES_ALLTOALLW] = SIZE | SIZE2,
    [BYTES_NEIGHBOR] = SIZE,
    [BYTES_NEIGHBOR_V] = SIZE,
    [BYTES_NEIGHBOR_W] = SIZE,
    [BYTES_PARTITIONED] = SIZE | BIT(COUNT2),
};

static const struct call *find(const char *name) {
    for (unsigned i = 0; i < commtap_call_count; i++)
        if (strcmp(commtap_calls[i].name, name) == 0)
            return &commtap_calls[i];
    return NULL;
}

static void ids_and_names_are_unique(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        assert_int_not_equal(commtap_calls[i].id, 0);
        for (unsigned j = 0; j < i; j++) {
            assert_int_not_equal(commtap_calls[i].id, commtap_calls[j].id);
            assert_string_not_equal(commtap_calls[i].name, commtap_calls[j].name);
        }
    }
}

static void names_fit_the_dump(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        assert_true(memchr(call->name, 0, sizeof call->name) != NULL);
        assert_true(memchr(call->torch, 0, sizeof call->torch) != NULL);
        assert_true(strncmp(call->name, call->api == API_MPI ? "MPI_" : "nccl", 4) == 0);
    }
}

static void positions_lie_within_the_arguments(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        uint8_t position[COLUMNS];
        columns_of(call, position);
        assert_in_range(call->arity, 0, LARGEST_ARITY);
        for (int column = 0; column < COLUMNS; column++)
            if (position[column] > call->arity)
                fail_msg("%s: column %d is argument %u of %u", call->name, column, position[column], call->arity);
    }
}

/* One argument plays one part; only Sendrecv_replace sends and receives the same. */
static void arguments_play_one_part(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        uint8_t position[COLUMNS];
        int used[LARGEST_ARITY + 1] = {0};
        columns_of(call, position);
        if (call->count2 == call->count && call->type2 == call->type)
            position[COLUMN_COUNT2] = position[COLUMN_TYPE2] = 0;
        for (int column = 0; column < COLUMNS; column++)
            if (position[column] && used[position[column]]++)
                fail_msg("%s: argument %u is in two columns", call->name, position[column]);
    }
}

static void kinds_have_the_columns_they_need(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        const struct kind_columns *kind = &expected[call->kind];
        uint32_t set = columns_set(call);
        assert_true(kind->listed);
        if (kind->needed & ~set)
            fail_msg("%s lacks columns 0x%x", call->name, kind->needed & ~set);
        if (set & ~(kind->needed | kind->allowed))
            fail_msg("%s has columns 0x%x that nobody reads", call->name, set & ~(kind->needed | kind->allowed));
    }
}

static void formulas_have_the_columns_they_read(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        uint32_t missing = formula_columns[call->bytes] & ~columns_set(call);
        if (missing)
            fail_msg("%s: its byte formula needs columns 0x%x", call->name, missing);
        if (call->bytes == BYTES_ZERO && call->type)
            fail_msg("%s has a datatype and no byte formula", call->name);
    }
}

static void non_blocking_calls_have_a_request_or_a_stream(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++)
        if (commtap_call_nonblocking(&commtap_calls[i]))
            assert_int_not_equal(commtap_calls[i].request | commtap_calls[i].stream, 0);
}

/* Every row of NCCL comes behind every row of MPI: tables of theirs alone begin at the first. */
static void nccl_comes_last(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        assert_int_equal(call->api, i < INDEX_ncclGetUniqueId ? API_MPI : API_NCCL);
        assert_int_equal(call->id >= 2000 && call->id < 3000, call->api == API_NCCL);
        assert_int_equal(call->kind >= KIND_NCCL_PLAIN, call->api == API_NCCL);
    }
}

static void classes_follow_the_kind(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum call_class call_class;
        int nonblocking;
    } known[] = {
        {"MPI_Init", CLASS_SETUP, 0},
        {"MPI_Iallreduce", CLASS_COLLECTIVE, 1},
        {"MPI_Barrier", CLASS_COLLECTIVE, 0},
        {"MPI_Bcast_init", CLASS_COLLECTIVE, 1},
        {"MPI_Ssend", CLASS_SEND, 0},
        {"MPI_Isend_c", CLASS_SEND, 1},
        {"MPI_Mrecv", CLASS_RECV, 0},
        {"MPI_Imrecv", CLASS_RECV, 1},
        {"MPI_Sendrecv", CLASS_SENDRECV, 0},
        {"MPI_Waitsome", CLASS_WAIT, 0},
        {"MPI_Testany", CLASS_TEST, 0},
        {"MPI_Improbe", CLASS_PROBE, 0},
        {"MPI_Startall", CLASS_START, 0},
        {"MPI_Comm_idup", CLASS_COMMUNICATOR, 1},
        {"MPI_Rput", CLASS_RMA, 1},
        {"MPI_Win_fence", CLASS_RMA_SYNC, 0},
        {"MPI_File_iwrite_all", CLASS_FILE, 1},
        {"MPI_File_delete", CLASS_FILE, 0},
    };
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct call *call = find(known[i].name);
        assert_non_null(call);
        assert_int_equal(commtap_call_class(call), known[i].call_class);
        assert_int_equal(commtap_call_nonblocking(call), known[i].nonblocking);
    }
}

static void torch_names_are_known(void **state) {
    (void)state;
    static const char *const known[] = {"all_reduce",
                                        "broadcast",
                                        "reduce",
                                        "all_gather_into_tensor",
                                        "reduce_scatter_tensor",
                                        "all_to_all_single",
                                        "gather",
                                        "scatter",
                                        "send",
                                        "recv",
                                        "isend",
                                        "irecv",
                                        "barrier"};
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const char *torch = commtap_calls[i].torch;
        unsigned found = !*torch;
        for (unsigned k = 0; k < sizeof known / sizeof known[0] && !found; k++)
            found = strcmp(torch, known[k]) == 0;
        if (!found)
            fail_msg("%s: torch.distributed has no %s", commtap_calls[i].name, torch);
    }
}

/* A large count twin differs from its function by name, id and one bit. */
static void twins_agree(void **state) {
    (void)state;
    unsigned twins = 0;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *twin = &commtap_calls[i];
        struct call expected_twin;
        char name[64];
        if (!(twin->bits & CALL_LARGE))
            continue;
        assert_true(strlen(twin->name) < sizeof name);
        strcpy(name, twin->name);
        assert_string_equal(name + strlen(name) - 2, "_c");
        name[strlen(name) - 2] = '\0';
        assert_non_null(find(name));
        memcpy(&expected_twin, find(name), sizeof expected_twin);
        memcpy(expected_twin.name, twin->name, sizeof expected_twin.name);
        expected_twin.id = (uint16_t)(expected_twin.id + LARGE_COUNT_IDS);
        expected_twin.bits |= CALL_LARGE;
        assert_memory_equal(&expected_twin, twin, sizeof *twin);
        twins++;
    }
    assert_int_not_equal(twins, 0);
}

/* So does an NCCL collective with a configuration of its own, which has one argument more. */
static void configured_twins_agree(void **state) {
    (void)state;
    unsigned twins = 0;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *twin = &commtap_calls[i];
        struct call expected_twin;
        char name[64] = "";
        if (!(twin->bits & CALL_CONFIG))
            continue;
        memcpy(name, twin->name, strlen(twin->name) - strlen("Config"));
        assert_non_null(find(name));
        memcpy(&expected_twin, find(name), sizeof expected_twin);
        assert_string_equal(twin->name + strlen(name), "Config");
        memcpy(expected_twin.name, twin->name, sizeof expected_twin.name);
        expected_twin.id = (uint16_t)(expected_twin.id + NCCL_CONFIG_IDS);
        expected_twin.bits |= CALL_CONFIG;
        expected_twin.arity++;
        assert_memory_equal(&expected_twin, twin, sizeof *twin);
        twins++;
    }
    assert_int_equal(twins, 8);
}

static void variants_of_a_collective_agree(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const struct call *call = &commtap_calls[i];
        const struct call *blocking;
        char name[64] = "MPI_";
        if (call->kind != KIND_ICOLLECTIVE || (call->bits & CALL_LARGE))
            continue;
        assert_true(strlen(call->name) < sizeof name);
        strcpy(name + 4, call->name + 5);
        name[4] = (char)(name[4] - 'a' + 'A');
        blocking = find(name);
        if (!blocking)
            fail_msg("%s has no blocking form %s", call->name, name);
        assert_int_equal(call->busbw, blocking->busbw);
        assert_int_equal(call->flow, blocking->flow);
        assert_int_equal(call->bytes, blocking->bytes);
        assert_string_equal(call->torch ? call->torch : "", blocking->torch ? blocking->torch : "");
        strcat(name, "_init");
        assert_non_null(find(name));
        assert_int_equal(find(name)->busbw, blocking->busbw);
        assert_int_equal(find(name)->flow, blocking->flow);
        assert_int_equal(find(name)->bytes, blocking->bytes);
    }
}

static void synchronous_sends_say_so(void **state) {
    (void)state;
    for (unsigned i = 0; i < commtap_call_count; i++) {
        const char *name = commtap_calls[i].name;
        int synchronous = strncmp(name, "MPI_Ssend", 9) == 0 || strncmp(name, "MPI_Issend", 10) == 0;
        assert_int_equal((commtap_calls[i].bits & CALL_SYNCHRONOUS) != 0, synchronous);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_names_are_unique),
        cmocka_unit_test(names_fit_the_dump),
        cmocka_unit_test(positions_lie_within_the_arguments),
        cmocka_unit_test(arguments_play_one_part),
        cmocka_unit_test(kinds_have_the_columns_they_need),
        cmocka_unit_test(formulas_have_the_columns_they_read),
        cmocka_unit_test(non_blocking_calls_have_a_request_or_a_stream),
        cmocka_unit_test(nccl_comes_last),
        cmocka_unit_test(classes_follow_the_kind),
        cmocka_unit_test(torch_names_are_known),
        cmocka_unit_test(twins_agree),
        cmocka_unit_test(configured_twins_agree),
        cmocka_unit_test(variants_of_a_collective_agree),
        cmocka_unit_test(synchronous_sends_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
