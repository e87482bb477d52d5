# libFuzzer over the loader and the stages.
#
#   make fuzz                  a minute
#   make fuzz FUZZ_SECONDS=n

FUZZ_CC ?= clang-14
FUZZ_SECONDS ?= 60
FUZZ_DIR := $(BUILD)/fuzz
FUZZ_FLAGS := -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
FUZZ_SOURCES := test/fuzz/fuzz_load.c test/unit/dump_builder.c \
    $(wildcard analyzer/load/*.c analyzer/align/*.c analyzer/match/*.c analyzer/analyse/*.c analyzer/symbols/*.c)

.PHONY: fuzz
fuzz: $(FUZZ_DIR)/fuzz_load
	@mkdir -p $(FUZZ_DIR)/found
	$(FUZZ_DIR)/fuzz_load -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -rss_limit_mb=4096 -timeout=10 \
	    -print_final_stats=1 -artifact_prefix=$(FUZZ_DIR)/ $(FUZZ_DIR)/found

$(FUZZ_DIR)/fuzz_load: $(FUZZ_SOURCES) $(wildcard analyzer/*/*.h shim/format.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(ANALYZER_CFLAGS) $(FUZZ_FLAGS) $(FUZZ_SOURCES) $(ANALYZER_LIBS) -o $@
