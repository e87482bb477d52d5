# SPDX-License-Identifier: Apache-2.0
#
# commtap under a real Slurm: two nodes on this host, their daemons started without systemd and ended again.
#
#   apt-get install slurmctld slurmd slurm-client munge
#   make check-slurm
#
# It needs these and root's rights; where something is missing it is skipped with a line. Two minutes on two cores.

.PHONY: check-slurm
check-slurm: all programs
	@$(PYTHON) test/slurm_trial/main.py || [ $$? -eq 77 ]
