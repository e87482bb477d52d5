# SPDX-License-Identifier: Apache-2.0
#
# mpi4py's own test suites with commtap and without: 3.1 and 4.1 on five MPIs, with 1, 2 and 3 ranks. Hours on two cores.
#
#   make check-mpi4py [MPI4PY="--mpi openmpi-4,impi --mpi4py 4.1.2 --ranks 1 --every 10"]
#
# The MPIs that Debian has not, and both versions of mpi4py, come from PyPI by the hashes in test/mpi4py_suite/pins.txt;
# what cannot be had is skipped with a line. check-e2e runs a fixed sample.

.PHONY: check-mpi4py
check-mpi4py: all
	@$(PYTHON) test/mpi4py_suite/main.py $(MPI4PY)
