# SPDX-License-Identifier: Apache-2.0
#
# libFuzzer over everything that reads what others wrote: the commands over whole jobs of dumps, the importers, the
# small readers of text, and packed dumps. Inputs that once were findings lie in test/corpus/fuzz and are replayed in check.
#
#   make fuzz                  a minute, shared by the targets; it stops at the first finding
#   make fuzz FUZZ_SECONDS=n   FUZZ_ONLY=fuzz_job for one target; what it learns stays in build/fuzz/found
#   make fuzz-coverage         how much of each of the analyzer's files is reached by what was learned
#   make check-fuzz            the kept inputs once more, under the sanitizers
#   make check-fuzzers         a minute of every target, side by side (FUZZ_SECONDS)
#
# A kept input means what it meant only as long as steps do: new meanings take what was unused, and who changes old ones
# makes the inputs anew (each fails when what it found is put back).

FUZZ_CC ?= clang-14
FUZZ_SECONDS ?= 60
FUZZ_DIR := $(BUILD)/fuzz
FUZZ_TARGETS := fuzz_job fuzz_import fuzz_words fuzz_pack
FUZZ_ONLY ?= $(FUZZ_TARGETS)
FUZZ_KEPT := test/corpus/fuzz
FUZZ_COVERAGE := $(BUILD)/fuzz-coverage

# What both libFuzzer and the replay need.
FUZZ_HELPERS := $(filter-out $(FUZZ_TARGETS:%=test/fuzz/%.c) test/fuzz/replay.c test/fuzz/mutate.c,$(wildcard test/fuzz/*.c)) \
    test/support/dump_builder.c test/support/page_builder.c test/support/elf_builder.c test/scenes/actors.c test/scenes/scene.c
FUZZ_SOURCES := $(FUZZ_HELPERS) $(filter-out analyzer/main.c,$(ANALYZER_SOURCES))
# Dumps come from memory, waiting takes no time, and there is one processor: test/fuzz/memory.h.
FUZZ_WRAP := -Wl,--wrap=dump_open,--wrap=nanosleep,--wrap=clock_nanosleep,--wrap=sysconf

# Comparisons are not traced: the mutators know the numbers that matter, and tracing takes a third of the time. So do
# long stacks of allocations and much freed memory kept.
FUZZ_SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_CFLAGS := -O1 -g $(FUZZ_SANITIZERS) -fsanitize-coverage=inline-8bit-counters,pc-table -fno-omit-frame-pointer
FUZZ_ENVIRONMENT := ASAN_OPTIONS=malloc_context_size=4:quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1
# An input of kilobytes may take neither 10 s nor a gigabyte. The commands write to both standard streams; libFuzzer and
# the sanitizers keep theirs.
FUZZ_OPTIONS := -entropic=0 -max_len=2048 -len_control=0 -timeout=10 -rss_limit_mb=1500 -malloc_limit_mb=1024 \
    -close_fd_mask=3 -print_final_stats=1

.PHONY: fuzz fuzz-build fuzz-coverage check-fuzz check-fuzzers
fuzz-build: $(FUZZ_TARGETS:%=$(FUZZ_DIR)/%)

fuzz: fuzz-build
	@for target in $(FUZZ_ONLY); do \
	    mkdir -p $(FUZZ_DIR)/found/$$target $(FUZZ_DIR)/crashes && \
	    $(FUZZ_ENVIRONMENT) $(FUZZ_DIR)/$$target $(FUZZ_OPTIONS) -max_total_time=$$(($(FUZZ_SECONDS) / $(words $(FUZZ_ONLY)))) \
	        -artifact_prefix=$(FUZZ_DIR)/crashes/$$target- $(FUZZ_DIR)/found/$$target $(FUZZ_KEPT)/$$target || exit 1; \
	done

# What a target finds is kept and named, with the command that shows it again; the others go on to their end.
check-fuzzers: fuzz-build
	@for target in $(FUZZ_ONLY); do \
	    mkdir -p $(FUZZ_DIR)/found/$$target $(FUZZ_DIR)/crashes && rm -f $(FUZZ_DIR)/$$target.failed; \
	    { $(FUZZ_ENVIRONMENT) timeout $$(($(FUZZ_SECONDS) + 120)) $(FUZZ_DIR)/$$target $(FUZZ_OPTIONS) \
	        -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$(FUZZ_DIR)/crashes/$$target- \
	        $(FUZZ_DIR)/found/$$target $(FUZZ_KEPT)/$$target >$(FUZZ_DIR)/$$target.log 2>&1 || \
	        touch $(FUZZ_DIR)/$$target.failed; } & \
	done; wait; \
	failed=; for target in $(FUZZ_ONLY); do \
	    if [ -e $(FUZZ_DIR)/$$target.failed ]; then \
	        tail -n 60 $(FUZZ_DIR)/$$target.log; \
	        kept=$$(sed -n 's/.*Test unit written to //p' $(FUZZ_DIR)/$$target.log | tail -n 1); \
	        failed="$$failed\nagain: $(FUZZ_ENVIRONMENT) $(FUZZ_DIR)/$$target $${kept:-(no input was kept)}"; \
	    else \
	        echo "$$target: $$(sed -n 's/stat::number_of_executed_units: *//p' $(FUZZ_DIR)/$$target.log) inputs, no finding"; \
	    fi; \
	done; if [ -n "$$failed" ]; then printf "$$failed\n"; exit 1; fi

$(FUZZ_DIR)/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) $(ANALYZER_CFLAGS) $(FUZZ_CFLAGS) -MMD -MP -c $< -o $@

# Lists of steps have a mutator of their own; commtap html has its page.
$(FUZZ_DIR)/fuzz_job $(FUZZ_DIR)/fuzz_import: $(FUZZ_DIR)/test/fuzz/mutate.o
$(FUZZ_DIR)/fuzz_job $(BUILD)/san/test/fuzz/replay_fuzz_job $(FUZZ_COVERAGE)/fuzz_job: $(PAGE_OBJECT)
$(FUZZ_TARGETS:%=$(FUZZ_DIR)/%): $(FUZZ_DIR)/%: $(FUZZ_DIR)/test/fuzz/%.o $(FUZZ_SOURCES:%.c=$(FUZZ_DIR)/%.o)
	$(FUZZ_CC) $(FUZZ_SANITIZERS) -fsanitize=fuzzer $(FUZZ_WRAP) -pthread $^ $(ANALYZER_LIBS) -o $@

# ---- replay ------------------------------------------------------------------------------------------------------

FUZZ_REPLAYS := $(FUZZ_TARGETS:%=$(BUILD)/san/test/fuzz/replay_%)

check-fuzz: $(FUZZ_REPLAYS)
	@for target in $(FUZZ_TARGETS); do \
	    UBSAN_OPTIONS=print_stacktrace=1 timeout 300 $(BUILD)/san/test/fuzz/replay_$$target $(FUZZ_KEPT)/$$target/* >/dev/null 2>$(BUILD)/san/replay.log || \
	        { tail -n 60 $(BUILD)/san/replay.log; exit 1; }; \
	    echo "$$target: $$(ls $(FUZZ_KEPT)/$$target | wc -l) inputs, no finding"; \
	done

$(FUZZ_REPLAYS): $(BUILD)/san/test/fuzz/replay_%: $(BUILD)/san/test/fuzz/%.o $(BUILD)/san/test/fuzz/replay.o $(FUZZ_HELPERS:%.c=$(BUILD)/san/%.o) \
    $(BUILD)/san/libstages.a
	$(CC) $(SAN_FLAGS) $(FUZZ_WRAP) -pthread $^ $(ANALYZER_LIBS) -o $@

# ---- coverage ----------------------------------------------------------------------------------------------------

FUZZ_COVERAGE_FLAGS := -O1 -g -fprofile-instr-generate -fcoverage-mapping
FUZZ_LLVM := $(patsubst clang%,%,$(notdir $(FUZZ_CC)))

fuzz-coverage: $(FUZZ_TARGETS:%=$(FUZZ_COVERAGE)/%)
	@for target in $(FUZZ_ONLY); do \
	    find $(FUZZ_DIR)/found/$$target $(FUZZ_KEPT)/$$target -type f | LLVM_PROFILE_FILE=$(FUZZ_COVERAGE)/$$target.%p.profraw \
	        xargs $(FUZZ_COVERAGE)/$$target >/dev/null 2>&1; \
	done; \
	llvm-profdata$(FUZZ_LLVM) merge $(FUZZ_COVERAGE)/*.profraw -o $(FUZZ_COVERAGE)/all.profdata && rm -f $(FUZZ_COVERAGE)/*.profraw
	@llvm-cov$(FUZZ_LLVM) report $(FUZZ_COVERAGE)/fuzz_job $(FUZZ_TARGETS:%=-object $(FUZZ_COVERAGE)/%) \
	    -instr-profile=$(FUZZ_COVERAGE)/all.profdata $(filter analyzer/%,$(FUZZ_SOURCES))

$(FUZZ_COVERAGE)/%.o: %.c
	@mkdir -p $(@D)
	$(FUZZ_CC) $(ANALYZER_CFLAGS) $(FUZZ_COVERAGE_FLAGS) -MMD -MP -c $< -o $@

$(FUZZ_TARGETS:%=$(FUZZ_COVERAGE)/%): $(FUZZ_COVERAGE)/%: $(FUZZ_COVERAGE)/test/fuzz/%.o $(FUZZ_COVERAGE)/test/fuzz/replay.o \
    $(FUZZ_SOURCES:%.c=$(FUZZ_COVERAGE)/%.o)
	$(FUZZ_CC) $(FUZZ_COVERAGE_FLAGS) $(FUZZ_WRAP) -pthread $^ $(ANALYZER_LIBS) -o $@
