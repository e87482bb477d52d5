/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/mpi_library.h"

#include "shim/intercept/resolve.h"
#include "shim/mpi/mpi_abi.h"

struct mpi_library mpi_library;

bool mpi_library_resolve(void) {
#define X(name, parameters) mpi_library.name = (int(*) parameters)resolve_in_job_mpi("PMPI_" #name);
    MPI_LIBRARY_FUNCTIONS(X)
#undef X
    return mpi_library.Initialized && mpi_library.Comm_size && mpi_library.Comm_rank && mpi_library.Comm_group &&
           mpi_library.Group_translate_ranks && mpi_library.Group_free && mpi_library.Group_size &&
           mpi_library.Comm_test_inter && mpi_library.Comm_remote_size && mpi_library.Comm_remote_group &&
           mpi_library.Type_size && mpi_library.Get_count && mpi_library.Test_cancelled;
}

bool mpi_library_refused(int code) {
    int class = 0;
    return mpi_library.Error_class && mpi_library.Error_class(code, &class) == 0 && class > 0 && class < 64 &&
           mpi_abi.refusals >> class & 1;
}
