# SPDX-License-Identifier: Apache-2.0
#
# Which lines of the shim and the analyzer the tests reach.
#
#   make coverage                  unit and end-to-end tests, per folder; what doc/COVERAGE.md holds
#   make coverage COVERAGE_E2E=    unit tests alone; or the end-to-end tests named: test/e2e/test_run.py
#
# Everything is built once more with gcov's counters, below build/coverage. The preloaded library counts like any other,
# except in processes that are killed or leave by _exit: what these reached is missing. Tests that look at how the library
# is laid out in memory or at what is linked to it fail here, and that is no matter: only the counts are looked at.

COVERAGE := $(BUILD)/coverage
# Warnings are the ordinary build's.
COVERAGE_FLAGS := -O1 -g -w --coverage -fprofile-update=atomic
COVERAGE_E2E ?= test/e2e
COVERAGE_MAKE := $(MAKE) --no-print-directory BUILD=$(COVERAGE) CFLAGS='$(COVERAGE_FLAGS)' SHIM_OPTIMIZE= \
    SAN_FLAGS='$(COVERAGE_FLAGS)'

.PHONY: coverage
coverage:
	+@$(COVERAGE_MAKE) all $(if $(COVERAGE_E2E),programs) >$(BUILD)/coverage.log 2>&1 || { tail $(BUILD)/coverage.log; exit 1; }
	@find $(COVERAGE) -name '*.gcda' -delete
	+-@$(COVERAGE_MAKE) -k check-unit >>$(BUILD)/coverage.log 2>&1
	-@$(if $(COVERAGE_E2E),COMMTAP_BUILD=$(COVERAGE) $(PYTHON) -m pytest -q -p no:cacheprovider $(COVERAGE_E2E) \
	    >>$(BUILD)/coverage.log 2>&1)
	@$(PYTHON) test/coverage.py $(COVERAGE) shim analyzer
