/* SPDX-License-Identifier: Apache-2.0
 *
 * The local MPI functions that the shim itself calls, by their PMPI_ names. None of them involves another rank.
 * Lives here: the table of those functions. Must not live here: when it is legal to call one.
 */
#ifndef COMMTAP_MPI_LIBRARY_H
#define COMMTAP_MPI_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, parameters): handles travel as uintptr_t, MPI_Count as int64_t. Those not in every MPI may be NULL. */
#define MPI_LIBRARY_FUNCTIONS(X)                                                                                       \
    X(Initialized, (int *flag))                                                                                        \
    X(Finalized, (int *flag))                                                                                          \
    X(Get_library_version, (char *text, int *length))                                                                  \
    X(Query_thread, (int *provided))                                                                                   \
    X(Comm_size, (uintptr_t comm, int *size))                                                                          \
    X(Comm_rank, (uintptr_t comm, int *rank))                                                                          \
    X(Comm_test_inter, (uintptr_t comm, int *flag))                                                                    \
    X(Comm_remote_size, (uintptr_t comm, int *size))                                                                   \
    X(Comm_group, (uintptr_t comm, uintptr_t * group))                                                                 \
    X(Comm_remote_group, (uintptr_t comm, uintptr_t * group))                                                          \
    X(Group_size, (uintptr_t group, int *size))                                                                        \
    X(Group_translate_ranks, (uintptr_t group, int n, const int *ranks, uintptr_t other, int *translated))             \
    X(Win_get_group, (uintptr_t window, uintptr_t * group))                                                            \
    X(Group_rank, (uintptr_t group, int *rank))                                                                        \
    X(Group_from_session_pset, (uintptr_t session, const char *name, uintptr_t *group))                                \
    X(Group_free, (uintptr_t * group))                                                                                 \
    X(Comm_create_keyval, (int (*copy)(), int (*forget)(), int *keyval, void *extra))                                  \
    X(Comm_free_keyval, (int *keyval))                                                                                 \
    X(Comm_set_attr, (uintptr_t comm, int keyval, void *value))                                                        \
    X(Type_size, (uintptr_t type, int *size))                                                                          \
    X(Type_size_x, (uintptr_t type, int64_t * size))                                                                   \
    X(Get_count, (const void *status, uintptr_t type, int *count))                                                     \
    X(Get_elements_x, (const void *status, uintptr_t type, int64_t *count))                                            \
    X(Error_class, (int code, int *class))                                                                             \
    X(Test_cancelled, (const void *status, int *flag))                                                                 \
    X(Cartdim_get, (uintptr_t comm, int *dimensions))                                                                  \
    X(Cart_shift, (uintptr_t comm, int direction, int displacement, int *source, int *destination))                    \
    X(Graph_neighbors_count, (uintptr_t comm, int rank, int *count))                                                   \
    X(Graph_neighbors, (uintptr_t comm, int rank, int most, int *neighbours))                                          \
    X(Dist_graph_neighbors_count, (uintptr_t comm, int *in, int *out, int *weighted))                                  \
    X(Dist_graph_neighbors, (uintptr_t comm, int most_in, int *sources, int *source_weights, int most_out,             \
                             int *destinations, int *destination_weights))

struct mpi_library {
#define X(name, parameters) int(*name) parameters;
    MPI_LIBRARY_FUNCTIONS(X)
#undef X
};

extern struct mpi_library mpi_library;

/* Resolves them all. False when one that every MPI has is missing. */
bool mpi_library_resolve(void);

/* Did the library refuse a call that returned `code` for its arguments, so that no other rank noticed it? Other errors,
 * such as a truncated message, befall calls that did communicate. */
bool mpi_library_refused(int code);

#endif
