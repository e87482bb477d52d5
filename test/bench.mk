# What commtap costs, beside the floor of two bare clock reads and, where their sources are given, mpiP and IPM.
#
#   make bench [MPIP=DIR] [IPM=DIR] [BENCH_ONLY=percall,churn,recorder,gpu,nccl,startup,tail,report,top,heartbeat,database] [ROUNDS=15]
#
# DIR: the sources of mpiP (github.com/LLNL/mpiP) and of IPM (github.com/nerscadmin/IPM), which are built for each MPI
# here and take their turns in the same rounds.
#
# Prints a markdown document; test/bench/RESULTS.md holds one with the machine it was measured on.

PYTHON ?= /usr/bin/python3
ROUNDS ?= 15
BENCH := $(BUILD)/test/bench
BENCH_MPIS := $(foreach m,openmpi mpich,$(if $(shell command -v mpicc.$(m)),$(m)))
BENCH_PROGRAMS := $(foreach m,$(BENCH_MPIS),$(BENCH)/percall.$(m) $(BENCH)/messages.$(m) $(BENCH)/churn.$(m) $(BENCH)/floor.$(m).so \
        $(if $(MPIP),$(BENCH)/mpip.$(m).so) $(if $(IPM),$(BENCH)/ipm.$(m).so)) \
    $(BENCH)/spawn $(BENCH)/empty.so $(BENCH)/ring $(BENCH)/stack $(BENCH)/dumps $(BENCH)/gpu \
    $(BENCH)/ncclcall $(BENCH)/launches $(BENCH)/ncclfloor.so $(BENCH)/plugin \
    $(BENCH)/symbols $(BENCH)/large.so

.PHONY: bench bench-report
# The analyzer alone: 1 GB, one thread and two, 16,384 and 100,000 ranks; takes 4 GB of the disk.
bench-report: all $(BENCH)/dumps
	@$(PYTHON) test/bench/bench.py --build $(abspath $(BUILD)) --rounds $(ROUNDS) --only report

bench: all $(BENCH_PROGRAMS)
	@$(PYTHON) test/bench/bench.py --build $(abspath $(BUILD)) --rounds $(ROUNDS) --mpis "$(BENCH_MPIS)" \
	    --only "$(BENCH_ONLY)" $(if $(MPIP),--mpip) $(if $(IPM),--ipm)

$(BENCH)/percall.%: test/bench/percall.c test/bench/median.h
	@mkdir -p $(@D)
	mpicc.$* $(COMMON_CFLAGS) -Wno-stringop-overflow $(CFLAGS) $< -o $@

$(BENCH)/messages.%: test/bench/messages.c test/bench/median.h
	@mkdir -p $(@D)
	mpicc.$* $(COMMON_CFLAGS) -Wno-stringop-overflow $(CFLAGS) $< -o $@

# What their builds say is beside the library.
$(BENCH)/mpip.%.so: $(MPIP)/mpiPi.c test/bench/peer.sh
	@mkdir -p $(@D)
	test/bench/peer.sh mpip $* $(MPIP) $@

$(BENCH)/ipm.%.so: $(IPM)/src/ipm_core.c test/bench/peer.sh
	@mkdir -p $(@D)
	test/bench/peer.sh ipm $* $(IPM) $@

$(BENCH)/churn.%: test/bench/churn.c
	@mkdir -p $(@D)
	mpicc.$* $(COMMON_CFLAGS) $(CFLAGS) $< -o $@

$(BENCH)/floor.%.so: test/bench/floor.c
	@mkdir -p $(@D)
	mpicc.$* $(COMMON_CFLAGS) $(CFLAGS) -fPIC -shared $< -o $@

$(BENCH)/empty.so:
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -shared -x c /dev/null -o $@

$(BENCH)/spawn: test/bench/spawn.c
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -MMD -MP $< -o $@

# The recorder without the wrappers: an archive gives exactly what ring.c needs.
$(BENCH)/librecorder.a: $(SHIM_OBJECTS)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(BENCH)/ring: test/bench/ring.c $(BENCH)/librecorder.a
	$(CC) $(SHIM_CFLAGS) $(CFLAGS) -MMD -MP $(filter %.c %.a,$^) -pthread -o $@

# With the functions of CUDA that the library intercepts: wrap_dlsym.c wants a list of hooks.
$(BENCH)/gpu: test/bench/gpu.c $(BENCH)/librecorder.a
	$(CC) $(SHIM_CFLAGS) -Wno-strict-prototypes $(CFLAGS) -Wl,-u,cudaGraphLaunch -MMD -MP $(filter %.c %.a,$^) -pthread -ldl -o $@

# Linked whole: the wrappers are part of what the plugin belongs to.
$(BENCH)/plugin: test/bench/plugin.c $(BENCH)/librecorder.a
	$(CC) $(SHIM_CFLAGS) $(CFLAGS) -Wl,-u,cudaGraphLaunch -MMD -MP $(filter %.c %.a,$^) -pthread -ldl -o $@

$(BENCH)/ncclcall $(BENCH)/launches: $(BENCH)/%: test/bench/%.c | standin
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -MMD -MP $< -o $@ -L$(BUILD)/standin -lnccl -lcudart

$(BENCH)/ncclfloor.so: test/bench/ncclfloor.c | standin
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -fPIC -shared $< -o $@ -L$(BUILD)/standin -lnccl -ldl

$(BENCH)/stack: test/bench/stack.c $(BENCH)/librecorder.a
	$(CC) -std=c11 $(WARNINGS) -D_GNU_SOURCE -I. -fomit-frame-pointer $(CFLAGS) -MMD -MP $(filter %.c %.a,$^) -pthread -o $@

$(BENCH)/dumps: test/bench/dumps.c test/support/dump_builder.c test/support/page_builder.c
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -MMD -MP $(filter %.c,$^) -o $@

$(BENCH)/symbols: test/bench/symbols.c test/support/dump_builder.c test/support/page_builder.c $(filter-out %/main.o,$(ANALYZER_OBJECTS))
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -pthread $^ $(ANALYZER_LIBS) -o $@

# A library with 20000 functions and their debug data, for the symbols to be looked up in.
$(BENCH)/large.so: test/bench.mk
	@mkdir -p $(@D)
	for part in 0 1 2 3 4 5 6 7 8 9; do \
	    awk -v part=$$part 'BEGIN { for (i = 0; i < 2000; i++) \
	        printf "int f%d_%d(int *a, int b) {\n    a[b] += %d;\n    return a[b + 1] * b;\n}\n", part, i, i }' > $@.$$part.c && \
	    $(CC) -g -O1 -fPIC -c $@.$$part.c -o $@.$$part.o || exit 1; done
	$(CC) -shared -Wl,--build-id $@.?.o -o $@
	@rm -f $@.?.c $@.?.o

# Whom the analysis names in grids of ranks on stand-in GPUs, and what mending is said to give beside the truth. An hour
# on two processors, and only of use where nothing else runs.
#
#   make bench-grids [GRID_RUNS=20] [GRID_FIRST=0]
GRID_RUNS ?= 20
GRID_FIRST ?= 0
.PHONY: bench-grids
bench-grids: all standin $(BUILD)/test/programs/nccl/grid
	@$(PYTHON) test/bench/grids.py $(BUILD) --runs $(GRID_RUNS) --first $(GRID_FIRST)
