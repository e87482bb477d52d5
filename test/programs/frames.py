# SPDX-License-Identifier: Apache-2.0
#
# mpi4py calls under every kind of Python frame, and in threads; what the call tree must show is in test_nvtx.py.
import asyncio
import threading

from mpi4py import MPI

world = MPI.COMM_WORLD


class Модель:
    def вперёд(self):
        world.Barrier()


def numbers():
    world.Barrier()
    yield 1


async def coroutine():
    world.Barrier()


def recursion(depth):
    if depth:
        recursion(depth - 1)
    else:
        world.Barrier()


def through_c():
    sorted([1], key=lambda _: world.Barrier() or 0)


def spread_out():
    (lambda:
        world.Barrier(
        )
     )()


def in_thread():
    world.Barrier()


Модель().вперёд()
list(numbers())
asyncio.run(coroutine())
recursion(2)
through_c()
spread_out()
exec(compile("def made():\n\n world.Barrier()\nmade()", "<made>", "exec"))
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
world.Barrier()
