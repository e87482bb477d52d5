# SPDX-License-Identifier: Apache-2.0
#
# commtap elastic beside DeepSpeed's own elasticity.py, on random configurations.
#
#   make check-elastic
#
# DeepSpeed's source comes from PyPI by the hash in test/elastic_peer/pins.txt; only its folder elasticity is unpacked.
# Where it cannot be had, the comparison is skipped with a line.

.PHONY: check-elastic
check-elastic: all
	@$(PYTHON) test/elastic_peer/main.py
