# The stand-in for machines without a GPU: libcuda, libcudart and libnccl of our own in build/standin, which
# LD_LIBRARY_PATH can name. For tests only: never installed. test/standin/standin.h says what it offers.
#
#   make standin         builds them
#   make check-standin   tests the stand-in itself

STANDIN := $(BUILD)/standin
STANDIN_CFLAGS := $(COMMON_CFLAGS) -fPIC -fvisibility=hidden -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread
# The driver never goes away: streams' threads may run until the process ends.
STANDIN_LDFLAGS := -shared -pthread -Wl,-z,nodelete -Wl,-z,defs
STANDIN_CUDA_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/standin/driver/*.c))
STANDIN_LIBRARIES := $(STANDIN)/libcuda.so

.PHONY: standin check-standin
standin: $(STANDIN_LIBRARIES)

$(BUILD)/test/standin/%.o: test/standin/%.c
	@mkdir -p $(@D)
	$(CC) $(STANDIN_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(STANDIN)/libcuda.so.1: $(STANDIN_CUDA_OBJECTS) test/standin/driver/exports.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(STANDIN_LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,--version-script=test/standin/driver/exports.map \
	    $(STANDIN_CUDA_OBJECTS) -ldl -o $@

# What a linker looks for.
$(STANDIN)/libcuda.so: $(STANDIN)/libcuda.so.1
	ln -sf libcuda.so.1 $@

STANDIN_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard test/standin/test_*.c))

check-standin: $(STANDIN_TESTS)
	@failed=; for program in $(STANDIN_TESTS); do echo "$$program"; timeout 120 $$program || failed="$$failed $$program"; \
	done; if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

$(STANDIN_TESTS): $(BUILD)/%: $(BUILD)/%.o $(STANDIN_LIBRARIES)
	$(CC) $(CFLAGS) -pthread $< -L$(STANDIN) -Wl,-rpath,'$$ORIGIN/../../standin' -lcuda -lcmocka -o $@
