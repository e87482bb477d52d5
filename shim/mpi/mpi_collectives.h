/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of collective, one-sided and file calls, named in wrap_mpi.c's table of kinds. Each takes the frame of one
 * call, before or after the real function.
 */
#ifndef COMMTAP_MPI_COLLECTIVES_H
#define COMMTAP_MPI_COLLECTIVES_H

#include "shim/mpi/mpi_frame.h"

/* What follows from the arguments. */
void collective_find_facts(struct call_frame *f);

static inline void number_collective(struct call_frame *f) {
    f->flags |= FLAG_COLLECTIVE;
    f->seq = collective_enter(f->comm, f->call->id, f->t0);
}

static inline void collective_before(struct call_frame *f) {
    if (unlikely(!f->cached))
        collective_find_facts(f);
    if (likely(f->comm))
        number_collective(f);
}

/* The end of one of which not all was known before, or that failed. */
void collective_settle_after(struct call_frame *f);

static inline void collective_after(struct call_frame *f) {
    if (unlikely(!f->cached || f->failed)) {
        collective_settle_after(f);
        return;
    }
    collective_took_place(f->comm, f->cached->signature);
    collective_complete(f->comm);
    emit_call(f);
}

void icollective_after(struct call_frame *f);
void collective_init_after(struct call_frame *f);
void comm_create_before(struct call_frame *f);
void comm_create_after(struct call_frame *f);
void comm_create_group_before(struct call_frame *f);
void comm_create_group_after(struct call_frame *f);
void intercomm_create_after(struct call_frame *f);
void comm_from_group_after(struct call_frame *f);
void comm_idup_after(struct call_frame *f);
void comm_get_parent_after(struct call_frame *f);
void comm_set_name_after(struct call_frame *f);
void comm_free_before(struct call_frame *f);
void comm_free_after(struct call_frame *f);
void win_collective_before(struct call_frame *f);
void win_free_before(struct call_frame *f);
void win_free_after(struct call_frame *f);
void file_close_before(struct call_frame *f);
void file_close_after(struct call_frame *f);
void win_create_after(struct call_frame *f);
void file_open_after(struct call_frame *f);
void independent_before(struct call_frame *f);
void independent_after(struct call_frame *f);
void win_test_after(struct call_frame *f);
void independent_request_before(struct call_frame *f);
void independent_request_after(struct call_frame *f);

#endif
