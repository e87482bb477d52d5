# SPDX-License-Identifier: Apache-2.0
#
# A job in Python on mpi4py with a fixed number of calls of each kind.
# Lives here: the calls. Must not live here: the counts expected (test/e2e).
from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
right, left = (rank + 1) % size, (rank - 1) % size

small, large = array("d", [1.0] * 4), array("d", [0.0] * 4)
for _ in range(15):
    world.Allreduce(small, large, MPI.SUM)
assert large[0] == size
for _ in range(3):
    world.Bcast(small, root=0)
world.Reduce(small, large, MPI.MAX, root=size - 1)

status = MPI.Status()
received = array("b", bytes(1000))
for length in (10, 20, 30):
    request = world.Isend(array("b", bytes(length)), dest=right, tag=length)
    world.Recv(received, source=MPI.ANY_SOURCE, tag=length, status=status)
    assert status.Get_count(MPI.BYTE) == length and status.source == left
    request.Wait()

half = world.Split(color=rank % 2, key=rank)
half.Set_name("evens and odds")
half.Allreduce(small, large, MPI.SUM)
half.Free()
world.Barrier()
