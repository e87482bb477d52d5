# SPDX-License-Identifier: Apache-2.0
#
# How long diagnosing a large hang takes.
#
#   make bench-hangs [RANKS=16384]

RANKS ?= 16384
HANGS := $(BUILD)/test/bench/hangs

.PHONY: bench-hangs
bench-hangs: $(HANGS)
	@$(HANGS) $(RANKS)

$(HANGS): $(BUILD)/test/bench/hangs.o $(patsubst %.c,$(BUILD)/%.o,test/scenes/hang.c test/scenes/scene.c \
    test/unit/dump_builder.c) $(filter-out $(BUILD)/analyzer/main.o,$(ANALYZER_OBJECTS))
	$(CC) $(CFLAGS) -pthread $^ $(ANALYZER_LIBS) -o $@
