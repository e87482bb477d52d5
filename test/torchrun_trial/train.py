# SPDX-License-Identifier: Apache-2.0
"""A job as torchrun starts it: the process group is gloo's, the gradients go over NCCL, here the stand-in by ctypes.

    train.py STEPS [--slow RANK] [--fail RANK]

A slow rank works twice as long as the others. One that fails kills itself half-way, the first time that it is started.
Whoever waits for too long is killed, as PyTorch's own watchdog does where a peer is lost.
"""
import argparse
import ctypes
import os
import signal
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--slow", type=int, default=-1)
parser.add_argument("--fail", type=int, default=-1)
wanted = parser.parse_args()

WORK_S, WATCHDOG_S, NUMBERS, FLOAT, SUM = 0.005, 10, 1024, 7, 0


class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def check(status):
    assert status == 0, status


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
nccl, runtime = ctypes.CDLL("libnccl.so.2"), ctypes.CDLL("libcudart.so.13")
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
check(runtime.cudaSetDevice(int(os.environ["LOCAL_RANK"])))
unique, comm, memory = Id(), ctypes.c_void_p(), ctypes.c_void_p()
if rank == 0:
    check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
told = torch.tensor(list(bytes(unique)), dtype=torch.uint8)
dist.broadcast(told, 0)
check(nccl.ncclCommInitRank(ctypes.byref(comm), size, Id.from_buffer_copy(bytes(told.tolist())), rank))
check(runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4 * NUMBERS)))
first_start = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
for step in range(wanted.steps):
    signal.alarm(WATCHDOG_S)
    time.sleep(WORK_S * (2 if rank == wanted.slow else 1))
    if rank == wanted.fail and first_start and step == wanted.steps // 2:
        os.kill(os.getpid(), signal.SIGKILL)
    check(nccl.ncclAllReduce(memory, memory, NUMBERS, FLOAT, SUM, comm, None))
    check(runtime.cudaDeviceSynchronize())
signal.alarm(0)
check(nccl.ncclCommDestroy(comm))
dist.barrier()
dist.destroy_process_group()
