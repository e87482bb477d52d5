/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of calls on requests, named in wrap_mpi.c's table of kinds. Each takes the frame of one call, before or
 * after the real function.
 */
#ifndef COMMTAP_MPI_REQUESTS_H
#define COMMTAP_MPI_REQUESTS_H

#include "shim/mpi/mpi_frame.h"

void start_after(struct call_frame *f);
void startall_after(struct call_frame *f);
void wait_before(struct call_frame *f);
void waits_before(struct call_frame *f);
void request_free_before(struct call_frame *f);
void request_free_after(struct call_frame *f);
void cancel_after(struct call_frame *f);
void poll_after(struct call_frame *f);

#endif
