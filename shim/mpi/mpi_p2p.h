/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of point-to-point calls, named in wrap_mpi.c's table of kinds. Each takes the frame of one call, before or
 * after the real function.
 */
#ifndef COMMTAP_MPI_P2P_H
#define COMMTAP_MPI_P2P_H

#include "shim/mpi/mpi_frame.h"

void send_before(struct call_frame *f);
void send_after(struct call_frame *f);
void recv_before(struct call_frame *f);
void recv_after(struct call_frame *f);
void sendrecv_before(struct call_frame *f);
void sendrecv_after(struct call_frame *f);
void isend_after(struct call_frame *f);
void irecv_before(struct call_frame *f);
void irecv_after(struct call_frame *f);
void isendrecv_before(struct call_frame *f);
void isendrecv_after(struct call_frame *f);
void send_init_before(struct call_frame *f);
void send_init_after(struct call_frame *f);
void recv_init_before(struct call_frame *f);
void recv_init_after(struct call_frame *f);
void probe_before(struct call_frame *f);
void probe_after(struct call_frame *f);
void mprobe_before(struct call_frame *f);
void mprobe_after(struct call_frame *f);
void mrecv_before(struct call_frame *f);
void mrecv_after(struct call_frame *f);
void imrecv_after(struct call_frame *f);

#endif
