# SPDX-License-Identifier: Apache-2.0
#
# Programs that use NCCL without MPI, for the end-to-end tests on the stand-in (test/e2e/test_nccl_*.py).

NCCL_PROGRAMS := $(BUILD)/test/programs/nccl
NCCL_PROGRAM_FLAGS := -std=c11 -D_GNU_SOURCE -O1 -g $(WARNINGS) -I. -pthread

NCCL_COPIES := 0 1 2 3 4 5

.PHONY: programs-nccl
programs-nccl: $(addprefix $(NCCL_PROGRAMS)/,exercise exercise-looked-up exercise.so host rounds grid gpus accounts launches ordered \
    $(MPIS:%=mixed-%) $(NCCL_COPIES:%=asks-%.so))
programs: programs-nccl $(BUILD)/test/standin/nccl_test/recorder.so

NCCL_EXERCISE := test/programs/nccl/exercise.c test/programs/nccl/ledger.h test/standin/nccl_api.h
$(NCCL_PROGRAMS)/exercise: $(NCCL_EXERCISE) | standin
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) $< -o $@ -L$(STANDIN) -lnccl -lcudart -ldl

$(NCCL_PROGRAMS)/exercise.so: $(NCCL_EXERCISE) | standin
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) -DMODULE -fPIC -shared $< -o $@ -L$(STANDIN) -lnccl -lcudart -ldl

$(NCCL_PROGRAMS)/exercise-looked-up: $(NCCL_EXERCISE) | standin
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) -DLOOKED_UP $< -o $@ -L$(STANDIN) -lcudart -ldl

$(NCCL_PROGRAMS)/rounds: test/programs/nccl/rounds.c test/programs/nccl/unique_id.h test/standin/nccl_api.h test/standin/cudart_api.h | standin
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) $< -o $@ -L$(STANDIN) -lnccl -lcudart

$(NCCL_PROGRAMS)/launches: test/programs/nccl/launches.c test/programs/nccl/unique_id.h test/standin/nccl_api.h test/standin/cudart_api.h | standin
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) $< -o $@ -L$(STANDIN) -lnccl -lcudart

$(NCCL_PROGRAMS)/grid: test/programs/nccl/grid.c test/programs/nccl/unique_id.h test/standin/nccl_api.h test/standin/cudart_api.h | standin
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) $< -o $@ -L$(STANDIN) -lnccl -lcudart -lm

$(NCCL_PROGRAMS)/gpus: test/programs/nccl/gpus.c test/programs/nccl/unique_id.h test/standin/nccl_api.h test/standin/cudart_api.h | standin
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) $< -o $@ -L$(STANDIN) -lnccl -lcudart

$(NCCL_PROGRAMS)/accounts: test/programs/nccl/accounts.c test/programs/nccl/unique_id.h test/standin/nccl_api.h test/standin/cudart_api.h | standin
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) $< -o $@ -L$(STANDIN) -lnccl -lcudart

$(NCCL_PROGRAMS)/ordered: test/programs/nccl/ordered.c test/programs/phases.h test/programs/nccl/unique_id.h test/standin/nccl_api.h test/standin/cudart_api.h | standin
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) $< -o $@ -L$(STANDIN) -lnccl -lcudart

$(NCCL_PROGRAMS)/host: test/programs/nccl/host.c
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) $< -o $@ -ldl

$(NCCL_PROGRAMS)/mixed-%: test/programs/nccl/mixed.c test/standin/nccl_api.h | standin
	@mkdir -p $(@D)
	mpicc.$* $(NCCL_PROGRAM_FLAGS) $< -o $@ -L$(STANDIN) -lnccl -lcudart

$(NCCL_PROGRAMS)/copy-%.so: test/programs/nccl/copy.c
	@mkdir -p $(@D)
	$(CC) $(NCCL_PROGRAM_FLAGS) -DCOPY=$* -fPIC -shared $< -Wl,-soname,copy-$*.so -o $@

# Each linked to the copy of its number.
$(NCCL_PROGRAMS)/asks-%.so: test/programs/nccl/copy.c $(NCCL_PROGRAMS)/copy-%.so
	$(CC) $(NCCL_PROGRAM_FLAGS) -DCALLER -fPIC -shared $^ -Wl,-rpath,'$$ORIGIN' -o $@
.PRECIOUS: $(NCCL_PROGRAMS)/copy-%.so
