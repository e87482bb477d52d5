/* SPDX-License-Identifier: Apache-2.0
 *
 * How the processes of a test program get one ncclUniqueId without MPI: rank 0 leaves it in a file.
 * Must not live here: launching, ranks.
 */
#ifndef COMMTAP_TEST_UNIQUE_ID_H
#define COMMTAP_TEST_UNIQUE_ID_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "test/standin/nccl_api.h"

enum { UNIQUE_ID_TRIES = 30000 }; /* a millisecond each */

/* The same id in every process that names this file; the file has its name only when it is complete. Ends the process
 * when there is none for half a minute. */
static inline ncclUniqueId unique_id_exchange(const char *path, int rank) {
    char draft[4096];
    ncclUniqueId id;
    FILE *file = NULL;
    if (rank == 0) {
        snprintf(draft, sizeof draft, "%s.draft", path);
        if (ncclGetUniqueId(&id) == ncclSuccess && (file = fopen(draft, "wb")) &&
            fwrite(&id, sizeof id, 1, file) == 1 && fclose(file) == 0 && rename(draft, path) == 0)
            return id;
    }
    for (int i = 0; i < UNIQUE_ID_TRIES && rank != 0 && !(file = fopen(path, "rb")); i++)
        usleep(1000);
    if (rank == 0 || !file || fread(&id, sizeof id, 1, file) != 1) {
        fprintf(stderr, "no unique id of NCCL in %s\n", path);
        exit(1);
    }
    fclose(file);
    return id;
}

#endif
