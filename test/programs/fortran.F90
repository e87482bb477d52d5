! SPDX-License-Identifier: Apache-2.0
!
! One job in Fortran, compiled three times: BINDING is 1 for mpif.h, 2 for `use mpi`, 3 for `use mpi_f08`.
! Lives here: calls of every family with fixed counts. Must not live here: the counts expected (test/e2e).
program fortran
#if BINDING == 3
  use mpi_f08
#elif BINDING == 2
  use mpi
#endif
  implicit none
#if BINDING == 1
  include 'mpif.h'
#endif
#if BINDING == 3
  type(MPI_Comm) :: copy
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: stat, stats(2)
#define SOURCE_OF(s) s%MPI_SOURCE
#else
  integer :: copy, requests(2)
  integer :: stat(MPI_STATUS_SIZE), stats(MPI_STATUS_SIZE, 2)
#define SOURCE_OF(s) s(MPI_SOURCE)
#endif
  integer :: me, n, right, left, i, ierr, flag_count
  integer :: whole(64), part(64), counts(16), places(16)
  double precision :: x(32), y(32)
  logical :: flag

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
  right = mod(me + 1, n)
  left = mod(me + n - 1, n)
  x = me + 1
  part = me
  whole = 0
  y = 0

  do i = 1, 6
    call MPI_Allreduce(x, y, 32, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  call MPI_Allreduce(MPI_IN_PLACE, y, 8, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
  if (y(1) /= n * (n + 1) / 2) stop 8
  do i = 1, 4
    call MPI_Bcast(whole, 10, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  end do
  call MPI_Reduce(part, whole, 5, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  call MPI_Gather(part, 3, MPI_INTEGER, whole, 3, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  call MPI_Allgather(part, 2, MPI_INTEGER, whole, 2, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  call MPI_Alltoall(whole, 1, MPI_INTEGER, part, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  do i = 1, n
    counts(i) = i
    places(i) = i * (i - 1) / 2
  end do
  call MPI_Allgatherv(part, me + 1, MPI_INTEGER, whole, counts, places, MPI_INTEGER, MPI_COMM_WORLD, ierr)

  do i = 1, 3
    call MPI_Irecv(y, 20, MPI_DOUBLE_PRECISION, left, i, MPI_COMM_WORLD, requests(1), ierr)
    call MPI_Isend(x, 10 + i, MPI_DOUBLE_PRECISION, right, i, MPI_COMM_WORLD, requests(2), ierr)
    call MPI_Waitall(2, requests, stats, ierr)
  end do
  call MPI_Sendrecv(x, 4, MPI_DOUBLE_PRECISION, right, 9, y, 4, MPI_DOUBLE_PRECISION, left, 9, &
                    MPI_COMM_WORLD, stat, ierr)
  if (SOURCE_OF(stat) /= left) stop 8
  if (me == 0) then
    call MPI_Send(x, 7, MPI_DOUBLE_PRECISION, 1, 11, MPI_COMM_WORLD, ierr)
  else if (me == 1) then
    call MPI_Recv(y, 32, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end if
  call MPI_Iallreduce(x, y, 2, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
  call MPI_Ibarrier(MPI_COMM_WORLD, requests(1), ierr)
  flag = .false.
  flag_count = 0
  do while (.not. flag)
    call MPI_Test(requests(1), flag, stat, ierr)
    flag_count = flag_count + 1
  end do

  call MPI_Comm_dup(MPI_COMM_WORLD, copy, ierr)
  call MPI_Allreduce(x, y, 1, MPI_DOUBLE_PRECISION, MPI_SUM, copy, ierr)
  call MPI_Comm_free(copy, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
  write (*, '(a,i0,a,i0)') 'tests ', flag_count, ' rank ', me
end program
