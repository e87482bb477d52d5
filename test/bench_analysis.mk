# SPDX-License-Identifier: Apache-2.0
#
# How good and how fast the analysis is, beside the figures to reach. Minutes, and a gigabyte below build/.
#
#   make bench-analysis [JOBS=1000]
#   make bench-page       a page of 1024 ranks in headless Chromium

BENCH_ANALYSIS := $(BUILD)/test/bench/analysis

.PHONY: bench-analysis bench-page
bench-analysis: all $(BENCH_ANALYSIS) $(BUILD)/test/bench/hangs $(BENCH)/dumps
	@$(BENCH_ANALYSIS) $(BUILD)/commtap $(BENCH)/dumps $(BENCH)/scratch $(JOBS)
	@echo '## Hangs at scale'
	@echo
	@$(HANGS) 16384

bench-page: all $(BENCH)/dumps
	@$(PYTHON) test/bench/page.py $(BENCH)/dumps $(BENCH)/page

$(BENCH_ANALYSIS): $(BUILD)/test/bench/analysis.o $(patsubst %.c,$(BUILD)/%.o,$(filter-out test/scenes/false_alarms.c test/scenes/play.c, \
    $(wildcard test/scenes/*.c)) test/support/dump_builder.c test/support/page_builder.c) $(filter-out $(BUILD)/analyzer/main.o,$(ANALYZER_OBJECTS))
	$(CC) $(CFLAGS) -pthread $^ $(ANALYZER_LIBS) -o $@
