# SPDX-License-Identifier: Apache-2.0
#
# What commtap says of GPUs in PyTorch traces beside what Holistic Trace Analysis says, on that tool's own test traces.
#
#   make check-hta [HTA_DATA=DIR]
#
# The tool comes from PyPI by the hashes in test/hta_peer/pins.txt, the traces from its repository at a fixed commit, or
# from DIR (its tests/data). What cannot be had is skipped with a line; two of the traces are here.

.PHONY: check-hta
check-hta: all
	@$(PYTHON) test/hta_peer/main.py $(HTA_DATA)
