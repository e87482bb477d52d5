# libFuzzer over the loader and the stages, and over the commands.
#
#   make fuzz                  half a minute each
#   make fuzz FUZZ_SECONDS=n

FUZZ_CC ?= clang-14
FUZZ_SECONDS ?= 60
FUZZ_DIR := $(BUILD)/fuzz
FUZZ_FLAGS := -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
FUZZ_TARGETS := fuzz_load fuzz_commands
FUZZ_SHARED := test/fuzz/sound.c test/unit/dump_builder.c $(filter-out analyzer/main.c,$(ANALYZER_SOURCES))

# The commands write to both standard streams; libFuzzer and the sanitizers keep theirs.
.PHONY: fuzz
fuzz: $(FUZZ_TARGETS:%=$(FUZZ_DIR)/%)
	@for target in $(FUZZ_TARGETS); do \
	    mkdir -p $(FUZZ_DIR)/found/$$target; \
	    $(FUZZ_DIR)/$$target -max_total_time=$$(($(FUZZ_SECONDS) / 2)) -max_len=1201 -len_control=0 -rss_limit_mb=4096 -timeout=10 \
	        -close_fd_mask=3 -print_final_stats=1 -artifact_prefix=$(FUZZ_DIR)/ $(FUZZ_DIR)/found/$$target || exit 1; \
	done

$(FUZZ_TARGETS:%=$(FUZZ_DIR)/%): $(FUZZ_DIR)/%: test/fuzz/%.c $(FUZZ_SHARED) $(wildcard test/fuzz/*.h analyzer/*.h analyzer/*/*.h shim/format.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(ANALYZER_CFLAGS) $(FUZZ_FLAGS) $< $(FUZZ_SHARED) $(ANALYZER_LIBS) -o $@
