# SPDX-License-Identifier: Apache-2.0
#
# commtap under PyTorch's own torchrun: ranks, a worker that dies, two agents, one that is lost with its workers.
#
#   make check-torchrun
#
# PyTorch comes from PyPI by the hashes in test/torchrun_trial/pins.txt, 0.8 GB; it needs a CPython 3.10 (in PATH or of
# pyenv). What cannot be had is skipped with a line. Two minutes on two cores.

.PHONY: check-torchrun
check-torchrun: all programs
	@$(PYTHON) test/torchrun_trial/main.py || [ $$? -eq 77 ]
