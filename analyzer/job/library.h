/* SPDX-License-Identifier: Apache-2.0
 *
 * Which MPI and which NCCL a process used.
 * Lives here: name and version from what the libraries say of themselves. Must not live here: printing.
 */
#ifndef COMMTAP_JOB_LIBRARY_H
#define COMMTAP_JOB_LIBRARY_H

#include "analyzer/load/dump.h"

struct library {
    char name[64];    /* "Open MPI", "MPICH", "NCCL"; never empty */
    char version[32]; /* "4.1.4"; empty: not known */
    const char *path; /* the dump's; empty: not known */
};

/* False where the process used none. */
bool library_of_mpi(const struct dump *dump, struct library *library);
bool library_of_nccl(const struct dump *dump, struct library *library);

#endif
