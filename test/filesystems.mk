# Jobs on file systems that are full or fill up, many times over: how many were harmed, and what was lost unsaid.
#
#   make check-filesystems [RUNS=100]    as root, where loop devices can be mounted; about a second per run
#
# Each of them once is a part of check-e2e.

RUNS ?= 100

.PHONY: check-filesystems
check-filesystems: all $(foreach mpi,mpich openmpi,$(PROGRAMS)/$(mpi)/growing)
	$(PYTHON) test/e2e/filesystems.py --table $(RUNS)
