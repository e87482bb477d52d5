/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor/: what commtap would see of a command here, and what it would not, before any job has run.
 * Lives here: looking at the program, its libraries, the environment and the place for dumps. The program itself is
 * never run: its loader lists libraries, MPI and NCCL are asked for their versions, an interpreter for its modules.
 * Must not live here: printing (cmd_doctor.c), what `commtap run` does (run/).
 */
#ifndef COMMTAP_DOCTOR_DOCTOR_H
#define COMMTAP_DOCTOR_DOCTOR_H

#include "analyzer/cli/knobs.h"
#include "analyzer/doctor/checks.h"
#include "analyzer/doctor/libraries.h"
#include "analyzer/run/program_file.h"
#include "analyzer/run/run.h"

enum bound {
    BOUND_NOT = 0,       /* there is no sign of it */
    BOUND_AT_START,      /* the loader brings it with the program */
    BOUND_WHILE_RUNNING, /* the program, or a module of its interpreter, loads it */
    BOUND_STATIC,        /* it is part of the program's file */
};

struct doctor {
    char *const *command; /* NULL-terminated; empty: only the surroundings are looked at */
    char *const *launch;  /* of the command: from its launcher on, where programs that only start it come before */
    enum run_launcher launcher;
    char program[PATH_MAX];   /* the file that the command starts; "" = there is none, or it was not found */
    char binary[PATH_MAX];    /* the same, or what interprets it */
    bool is_shell;            /* the binary: what it starts was not looked at */
    bool is_missing;          /* there is no such program */
    struct program_file file; /* of the binary */
    char library[PATH_MAX];   /* libcommtap.so; "" = not found */
    struct found_library mpi, nccl;
    enum bound mpi_bound, nccl_bound;
    char directory[PATH_MAX]; /* for the dumps, as far as it is known before the job runs; "" = none */
    char file_system[24];     /* of it */
    bool mapped;              /* dumps are written in it directly */
    const char *staged_in;    /* where it is not mapped; NULL: they are kept in memory */
    struct knobs_here knobs;
    struct checks checks;
};

/* In this order: each uses what those before it found. */
void doctor_find_library(struct doctor *doctor);
void doctor_look_at_program(struct doctor *doctor);
void doctor_look_at_knobs(struct doctor *doctor);
void doctor_look_at_plugins(struct doctor *doctor);
void doctor_look_at_dumps(struct doctor *doctor);
void doctor_look_at_process(struct doctor *doctor);

/* Parts of doctor_look_at_program. */
void doctor_look_at_binary(struct doctor *doctor);
void doctor_ask_python(struct doctor *doctor);

#endif
