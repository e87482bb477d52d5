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

$(HANGS): $(BUILD)/test/bench/hangs.o $(patsubst %.c,$(BUILD)/%.o,test/scenes/hang.c test/scenes/hang_nccl.c test/scenes/scene.c \
    test/support/dump_builder.c test/support/page_builder.c) $(filter-out $(BUILD)/analyzer/main.o,$(ANALYZER_OBJECTS))
	$(CC) $(CFLAGS) -pthread $^ $(ANALYZER_LIBS) -o $@

# The hangs of jobs that use NCCL alone, on the stand-in.
$(BUILD)/test/programs/nccl/hang: test/programs/nccl/hang.c test/programs/nccl/unique_id.h test/standin/nccl_api.h test/standin/cudart_api.h | standin
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -g $(WARNINGS) -I. -pthread $< -o $@ -L$(STANDIN) -lnccl -lcudart
programs: $(BUILD)/test/programs/nccl/hang
