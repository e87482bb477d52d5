/* SPDX-License-Identifier: Apache-2.0
 *
 * Which MPI and which NCCL a process used.
 * Lives here: name and version from what the libraries say of themselves. Must not live here: printing.
 */
#ifndef COMMTAP_JOB_LIBRARY_H
#define COMMTAP_JOB_LIBRARY_H

#include <stdint.h>

#include "analyzer/load/dump.h"

struct library {
    char name[64];    /* "Open MPI", "MPICH", "NCCL"; never empty */
    char version[32]; /* "4.1.4"; empty: not known */
    const char *path; /* the dump's; empty: not known */
};

/* False where the process used none. */
bool library_of_mpi(const struct dump *dump, struct library *library);
bool library_of_nccl(const struct dump *dump, struct library *library);

/* Fills name and version from what a library says of itself: MPI_Get_library_version's text; the code that
 * ncclGetVersion gives (0: not known), and the file that says whose it is. */
void library_name_mpi(struct library *library, const char *text);
void library_name_nccl(struct library *library, const char *path, uint32_t code);

#endif
