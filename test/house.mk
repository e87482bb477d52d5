# SPDX-License-Identifier: Apache-2.0
#
# How the sources hang together: no module and no folder includes itself by a detour, each room only those below it,
# stages are pure functions over memory: only commands and what brings files in open files, only renderers print.
#
#   make check-house

PYTHON ?= /usr/bin/python3
# The shim's rooms from the bottom up; the wrappers and the constructor stand above them at the top of shim/.
SHIM_ROOMS := base record comm gpu stacks intercept mpi nccl
# The analyzer's rooms from the bottom up: the data's way first, then what brings files in, then what a user calls.
ANALYZER_ROOMS := base elastic archive load dumps symbols align job match waits links replay steps leads stragglers wait_for_graph diagnose live profile tracks findings render traces cli screen control documents metrics page \
    import kineto collect pack fleet run doctor database file_commands commands mpi
PURE_ROOMS := elastic align job match waits links replay steps leads stragglers wait_for_graph diagnose live profile tracks findings
objects_of = $(foreach room,$(1),$(filter $(BUILD)/analyzer/$(room)/%.o,$(ANALYZER_OBJECTS)))

.PHONY: check-house
check-house: $(ANALYZER_OBJECTS)
	$(PYTHON) -m pytest -q -p no:cacheprovider test/house
	@$(PYTHON) test/house/cycles.py --order "$(SHIM_ROOMS:%=shim/%)" shim
	@$(PYTHON) test/house/cycles.py --order "$(ANALYZER_ROOMS:%=analyzer/%)" analyzer
	@$(PYTHON) test/house/stages.py $(call objects_of,$(PURE_ROOMS))
	@$(PYTHON) test/house/stages.py --may-print $(call objects_of,render traces metrics)
