/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap-mpi, the analyzer as several processes.
 */
#include <stdio.h>

#include "analyzer/cli/command.h"
#include "analyzer/mpi/mpi_team.h"
#include "analyzer/program.h"
#include "analyzer/run/program_file.h"

int main(int argc, char **argv) {
    struct team team;
    int code = EXIT_OUTPUT;
    if (mpi_team_begin(&team, &argc, &argv))
        code = program_run(argc, argv, &team);
    else
        fputs(COMMTAP_MPI_MARK "\n", stderr);
    mpi_team_end(&team);
    return code;
}
