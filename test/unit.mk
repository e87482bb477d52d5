# Unit tests (cmocka) of the analyzer's stages and of the tables, built with the address and undefined-behaviour
# sanitizers into build/san. Every test/unit/test_*.c is a program; other files there are helpers of all of them.
#
#   make check-unit

SAN := $(BUILD)/san
SAN_FLAGS := -O1 -g -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow -fno-omit-frame-pointer
SAN_LIBS := -lcmocka $(ANALYZER_LIBS)

# Not the library's own entry points: its constructor, and what interposes on dlsym, MPI and NCCL.
UNIT_SHIM_SOURCES := $(filter-out shim/library.c shim/intercept/absent.c shim/base/string_functions.c shim/intercept/resolve.c shim/wrap_dlsym.c shim/wrap_dlclose.c shim/wrap_mpi.c shim/wrap_nccl.c,$(wildcard shim/*.c shim/*/*.c))
UNIT_STAGES := $(filter-out analyzer/main.c,$(ANALYZER_SOURCES)) $(UNIT_SHIM_SOURCES)
UNIT_TESTS := $(wildcard test/unit/test_*.c)
UNIT_HELPERS := $(filter-out $(UNIT_TESTS),$(wildcard test/unit/*.c)) $(wildcard test/support/*.c test/scenes/*.c test/corpus/*.c)
UNIT_PROGRAMS := $(UNIT_TESTS:%.c=$(SAN)/%)

.PHONY: check-unit
check-unit: $(UNIT_PROGRAMS) $(SAN)/commtap
	@failed=; for program in $(UNIT_PROGRAMS); do echo "$$program"; \
	    COMMTAP_BINARY=$(SAN)/commtap $$program 2>&1 || failed="$$failed $$program"; done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

$(SAN)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ANALYZER_CFLAGS) $(SAN_FLAGS) -MMD -MP -c $< -o $@

# An archive, so that a test pulls in what it names and nothing else.
$(SAN)/libstages.a: $(UNIT_STAGES:%.c=$(SAN)/%.o)
	@rm -f $@
	$(AR) rcs $@ $^

$(SAN)/libhelpers.a: $(UNIT_HELPERS:%.c=$(SAN)/%.o)
	@rm -f $@
	$(AR) rcs $@ $^

$(SAN)/commtap: $(SAN)/analyzer/main.o $(SAN)/libstages.a
	$(CC) $(SAN_FLAGS) -pthread $^ $(ANALYZER_LIBS) -o $@

$(UNIT_PROGRAMS): $(SAN)/%: $(SAN)/%.o $(SAN)/libhelpers.a $(SAN)/libstages.a
	$(CC) $(SAN_FLAGS) -pthread $^ $(SAN_LIBS) -o $@

# Its walks go on in another process.
$(SAN)/test/unit/test_parcel_states: SAN_LIBS += -Wl,--wrap=match_run_among
