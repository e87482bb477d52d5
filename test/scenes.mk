# How often the verdict is wrong: thousands of made-up jobs whose truth is known, through the whole analyzer.
#
#   make verdicts [JOBS=1000]     jobs per situation; a line per situation, then the sums

JOBS ?= 1000
VERDICTS := $(BUILD)/test/scenes/false_alarms
# A single job, as dumps in a directory.
PLAY := $(BUILD)/test/scenes/play

programs: $(PLAY)

.PHONY: verdicts
verdicts: $(VERDICTS)
	@$(VERDICTS) $(JOBS)

$(BUILD)/test/%.o: test/%.c
	@mkdir -p $(@D)
	$(CC) $(ANALYZER_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

SCENE_PROGRAMS := $(VERDICTS) $(PLAY)
SCENE_OBJECTS := $(filter-out $(SCENE_PROGRAMS:%=%.o),\
    $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/scenes/*.c) test/support/dump_builder.c test/support/page_builder.c))
$(SCENE_PROGRAMS): %: %.o $(SCENE_OBJECTS) $(filter-out $(BUILD)/analyzer/main.o,$(ANALYZER_OBJECTS))
	$(CC) $(CFLAGS) -pthread $^ $(ANALYZER_LIBS) -o $@
