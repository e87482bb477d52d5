# SPDX-License-Identifier: Apache-2.0
#
# The demo, the end-to-end tests and the programs they run, built once per MPI.
# Must not live here: how the shim, the analyzer or the unit tests are built.

PYTHON ?= /usr/bin/python3
PROGRAMS := $(BUILD)/test/programs
# MPICH's header lets GCC take MPI_STATUSES_IGNORE for an array that is too short.
PROGRAM_CFLAGS := -std=c11 -D_GNU_SOURCE -O1 -g $(WARNINGS) -Wno-stringop-overflow -pthread
FORTRAN_BINDINGS := 1 2 3

# built without MPI; with MPI's header only; as libraries; elsewhere (references.mk, checkers.mk, neighbours.mk); all others are linked to MPI
PLAIN_PROGRAMS := absent weak scope runtimes rehost
UNLINKED_PROGRAMS := loaded plugin deepbind
PROGRAM_LIBRARIES := plugin tool early deepbind
LINKED_PROGRAMS := $(filter-out references bystander neighbours $(PLAIN_PROGRAMS) $(UNLINKED_PROGRAMS) $(PROGRAM_LIBRARIES),\
    $(patsubst test/programs/%.c,%,$(wildcard test/programs/*.c)))

.PHONY: deps deps-demo demo demo-run programs check-e2e check-clang
deps:
	@scripts/install-deps
deps-demo:
	@scripts/install-deps --for demo

ifeq ($(shell command -v gfortran),)
FORTRAN_BINDINGS :=
endif

# $(1) = openmpi or mpich
define programs_of
programs-$(1): $$(LINKED_PROGRAMS:%=$$(PROGRAMS)/$(1)/%) $$(UNLINKED_PROGRAMS:%=$$(PROGRAMS)/$(1)/%) \
    $$(PROGRAM_LIBRARIES:%=$$(PROGRAMS)/$(1)/%.so) $$(FORTRAN_BINDINGS:%=$$(PROGRAMS)/$(1)/fortran-%)
programs: programs-$(1) $$(BUILD)/test/bench/dumps
.PHONY: programs-$(1)

$$(LINKED_PROGRAMS:%=$$(PROGRAMS)/$(1)/%): $$(PROGRAMS)/$(1)/%: test/programs/%.c test/programs/expect.h
	@mkdir -p $$(@D)
	mpicc.$(1) $$(PROGRAM_CFLAGS) $$< -o $$@ -lm

$$(UNLINKED_PROGRAMS:%=$$(PROGRAMS)/$(1)/%): $$(PROGRAMS)/$(1)/%: test/programs/%.c test/programs/expect.h
	@mkdir -p $$(@D)
	mpicc.$(1) $$(PROGRAM_CFLAGS) -c $$< -o $$@.o
	$$(CC) $$@.o -o $$@ -ldl

$$(PROGRAM_LIBRARIES:%=$$(PROGRAMS)/$(1)/%.so): $$(PROGRAMS)/$(1)/%.so: test/programs/%.c test/programs/expect.h
	@mkdir -p $$(@D)
	mpicc.$(1) $$(PROGRAM_CFLAGS) -DLIBRARY -fPIC -shared $$< -o $$@

$$(PROGRAMS)/$(1)/fortran-%: test/programs/fortran.F90
	@mkdir -p $$(@D)
	mpif90.$(1) -DBINDING=$$* -O1 -g -w -fallow-argument-mismatch $$< -o $$@
endef
$(foreach mpi,$(MPIS),$(eval $(call programs_of,$(mpi))))
$(MPIS:%=$(PROGRAMS)/%/ordered): test/programs/phases.h

$(PLAIN_PROGRAMS:%=$(PROGRAMS)/%): $(PROGRAMS)/%: test/programs/%.c
	@mkdir -p $(@D)
	$(CC) $(PROGRAM_CFLAGS) -I. $< -o $@ -ldl
$(PROGRAMS)/scope.so: test/programs/scope.c
	@mkdir -p $(@D)
	$(CC) $(PROGRAM_CFLAGS) -DLIBRARY -fPIC -shared $< -o $@ -ldl
RUNTIMES := $(PROGRAMS)/cudarts
.PRECIOUS: $(RUNTIMES)/libcudart.so.%
$(RUNTIMES)/libcudart.so.%: test/programs/runtimes.c
	@mkdir -p $(@D)
	$(CC) $(PROGRAM_CFLAGS) -DRUNTIME=$* -fPIC -shared -Wl,-soname,$(@F) $< -o $@
$(RUNTIMES)/user%.so: test/programs/runtimes.c $(RUNTIMES)/libcudart.so.%
	$(CC) $(PROGRAM_CFLAGS) -DUSER -fPIC -shared $^ -Wl,-rpath,'$$ORIGIN' -o $@
programs: $(PLAIN_PROGRAMS:%=$(PROGRAMS)/%) $(PROGRAMS)/scope.so $(RUNTIMES)/user11.so $(RUNTIMES)/user12.so

# The MPI is looked for once there is one. As root, on few cores, or on a machine full of other work Open MPI starts all
# the same, and its idle ranks yield.
demo: export OMPI_ALLOW_RUN_AS_ROOT := 1
demo: export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
demo: export OMPI_MCA_rmaps_base_oversubscribe := 1
demo: export OMPI_MCA_mpi_yield_when_idle := 1
DEMO := $(BUILD)/demo
DEMO_MPI := $(firstword $(foreach m,$(MPIS),$(if $(shell command -v mpirun.$(m)),.$(m))))
DEMO_PROGRAM := $(PROGRAMS)/$(or $(DEMO_MPI:.%=%),mpi)/train
demo: deps-demo
	@$(MAKE) --no-print-directory demo-run
demo-run:
	@$(MAKE) -s --no-print-directory all $(DEMO_PROGRAM)
	@rm -rf $(DEMO)
	$(BUILD)/commtap run -o $(DEMO) -- mpirun$(DEMO_MPI) -n 4 $(DEMO_PROGRAM) --slow-rank 2 --slow-ms 8
	$(BUILD)/commtap report $(DEMO)

# by the only MPI there is, whichever it is
$(PROGRAMS)/mpi/train: test/programs/train.c test/programs/network.h
	@mkdir -p $(@D)
	mpicc $(PROGRAM_CFLAGS) $< -o $@ -lm

check-e2e: all programs
	@$(PYTHON) test/support/run_e2e.py test/e2e $(BUILD)/e2e

# the second compiler finds nothing to say either
check-clang:
	@$(MAKE) -s CC=clang CFLAGS=-O0 BUILD=$(BUILD)/clang all
