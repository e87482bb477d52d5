# SPDX-License-Identifier: Apache-2.0
#
# Documentation and checks of the table of calls (shim/calls.def).
#
#   make calls-doc     write shim/CALLS.md from the table
#   make check-calls   is CALLS.md fresh, does the table agree with the MPI headers here, is one more call one more row
#                      (whether it is sound in itself: test/unit/test_calls.c, in check-unit), does it know what every
#                      libnccl on the package index exported when they were last read
#   make check-nccl-wheels   ... and what those that have come since then export; without the index it says so and passes
#
# MPI_HEADERS: directories with an mpi.h to check against instead of the installed ones.
# NCCL_HEADERS: the same for nccl.h; where there is none that check says so and passes.

PYTHON ?= /usr/bin/python3
CALLS_DOC := $(BUILD)/test/calls_doc

.PHONY: calls-doc check-calls check-nccl-wheels
calls-doc: $(CALLS_DOC)
	$(CALLS_DOC) >shim/CALLS.md

check-calls: $(CALLS_DOC)
	$(CALLS_DOC) | diff -u shim/CALLS.md - || { echo "shim/CALLS.md is stale: make calls-doc" >&2; exit 1; }
	$(PYTHON) test/calls_headers.py $(CALLS_DOC) $(MPI_HEADERS)
	$(PYTHON) test/nccl_headers.py $(CALLS_DOC) $(NCCL_HEADERS)
	$(PYTHON) test/nccl_wheels/main.py $(CALLS_DOC)
	test/calls_onerow.sh

check-nccl-wheels: $(CALLS_DOC)
	@$(PYTHON) test/nccl_wheels/main.py $(CALLS_DOC) --fetch

$(CALLS_DOC): test/calls_doc.c $(BUILD)/shim/call.o
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -MMD -MP $(filter %.c %.o,$^) -o $@
