/* SPDX-License-Identifier: Apache-2.0
 *
 * What the file of a program tells before it runs: whether a library can be preloaded into it, and how it comes by MPI
 * and NCCL. Lives here: the few facts of a file. Must not live here: which file a command runs, words for the user.
 */
#ifndef COMMTAP_RUN_PROGRAM_FILE_H
#define COMMTAP_RUN_PROGRAM_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* What commtap-mpi holds, alone of all programs that call PMPI functions. */
#define COMMTAP_MPI_MARK "commtap-mpi: out of memory"

struct program_file {
    char script_of[PATH_MAX];   /* behind "#!" of a script, blanks in front left out; "" = it is none */
    bool is_elf, is_64_bits;    /* all below is known of 64-bit programs alone */
    bool is_cut;                /* a 64-bit program, of which a part is missing: nothing else is known */
    uint16_t machine;           /* EM_X86_64, EM_AARCH64, ... */
    char interpreter[PATH_MAX]; /* the dynamic loader that starts it; "" = it is linked statically */
    bool is_setuid;             /* to another user or group */
    bool has_capabilities;
    bool defines_pmpi, calls_pmpi; /* functions of MPI's second name */
    bool is_commtap_mpi;           /* which is never recorded */
    bool calls_mpi;
    bool defines_nccl, calls_nccl;
    bool names_mpi, names_nccl; /* a library's name stands in it, in the list of what it is linked to or elsewhere */
};

/* Looks at a regular file. False with errno set where it cannot be read. */
bool program_file_read(struct program_file *file, const char *path);

/* As a shell finds the command `word`: in PATH, where it holds no slash. False: there is no such program file. */
bool program_file_find(char path[PATH_MAX], const char *word);

#endif
