# SPDX-License-Identifier: Apache-2.0
#
# What commtap says of flight recorders beside what PyTorch's own fr_trace says.
#
#   make check-fr-trace
#
# fr_trace is Python alone, and part of torch's wheels: the smallest one (macOS) comes from PyPI by the hash in
# test/fr_trace_peer/pins.txt, its other files are left in it. Where it cannot be had, the comparison is skipped with a line.

.PHONY: check-fr-trace
check-fr-trace: all
	@$(PYTHON) test/fr_trace_peer/main.py
