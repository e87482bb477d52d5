# How often the verdict is wrong: thousands of made-up jobs whose truth is known, through the whole analyzer.
#
#   make verdicts [JOBS=1000]     jobs per situation; a line per situation, then the sums

JOBS ?= 1000
VERDICTS := $(BUILD)/test/scenes/false_alarms

.PHONY: verdicts
verdicts: $(VERDICTS)
	@$(VERDICTS) $(JOBS)

$(BUILD)/test/%.o: test/%.c
	@mkdir -p $(@D)
	$(CC) $(ANALYZER_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(VERDICTS): $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/scenes/*.c) test/support/dump_builder.c test/support/page_builder.c) \
    $(filter-out $(BUILD)/analyzer/main.o,$(ANALYZER_OBJECTS))
	$(CC) $(CFLAGS) -pthread $^ $(ANALYZER_LIBS) -o $@
