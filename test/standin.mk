# The stand-in for machines without a GPU: libcuda, libcudart and libnccl of our own in build/standin, which
# LD_LIBRARY_PATH can name. For tests only: never installed. test/standin/standin.h says what it offers.
#
#   make standin         builds them
#   make check-standin   tests the stand-in itself
#   make check-standin-threads   the driver's test under the thread sanitizer

STANDIN := $(BUILD)/standin
STANDIN_CFLAGS := $(COMMON_CFLAGS) -fPIC -fvisibility=hidden -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread
# The driver never goes away: streams' threads may run until the process ends.
STANDIN_LDFLAGS := -shared -pthread -Wl,-z,nodelete -Wl,-z,defs
STANDIN_CUDA_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/standin/driver/*.c))
STANDIN_CUDART_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/standin/runtime/*.c))
STANDIN_LIBRARIES := $(STANDIN)/libcuda.so $(STANDIN)/libcudart.so

.PHONY: standin check-standin check-standin-threads
standin: $(STANDIN_LIBRARIES)

$(BUILD)/test/standin/%.o: test/standin/%.c
	@mkdir -p $(@D)
	$(CC) $(STANDIN_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(STANDIN)/libcuda.so.1: $(STANDIN_CUDA_OBJECTS) test/standin/driver/exports.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(STANDIN_LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,--version-script=test/standin/driver/exports.map \
	    $(STANDIN_CUDA_OBJECTS) -ldl -o $@

$(STANDIN)/libcudart.so.13: $(STANDIN_CUDART_OBJECTS) test/standin/runtime/exports.map $(STANDIN)/libcuda.so
	$(CC) $(CFLAGS) $(STANDIN_LDFLAGS) -Wl,-soname,libcudart.so.13 \
	    -Wl,--version-script=test/standin/runtime/exports.map $(STANDIN_CUDART_OBJECTS) -L$(STANDIN) -lcuda \
	    -Wl,-rpath,'$$ORIGIN' -o $@

# What a linker looks for.
$(STANDIN)/libcudart.so: $(STANDIN)/libcudart.so.13
	ln -sf libcudart.so.13 $@

$(STANDIN)/libcuda.so: $(STANDIN)/libcuda.so.1
	ln -sf libcuda.so.1 $@

# Where CUDA's headers are, our declarations are compared with theirs and test_runtime is built with theirs too.
CUDA_INCLUDE ?= $(firstword $(patsubst %/cuda_runtime.h,%,$(wildcard $(CUDA_HOME)/include/cuda_runtime.h \
    /usr/local/cuda/include/cuda_runtime.h /usr/local/cuda-*/include/cuda_runtime.h)))
STANDIN_TEST_LIBRARIES := -L$(STANDIN) -Wl,-rpath,'$$ORIGIN/../../standin' -lcaller -lcudart -lcuda -lcmocka
STANDIN_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard test/standin/test_*.c))
ifneq ($(CUDA_INCLUDE),)
STANDIN_TESTS += $(BUILD)/test/standin/test_runtime_real
endif

check-standin: $(STANDIN_TESTS)
ifneq ($(CUDA_INCLUDE),)
	$(CC) $(COMMON_CFLAGS) -isystem $(CUDA_INCLUDE) -fsyntax-only test/standin/check_headers.c
else
	@echo "CUDA's headers are not here (CUDA_INCLUDE=): our declarations are not compared with them"
endif
	@failed=; for program in $(STANDIN_TESTS); do echo "$$program"; timeout 120 $$program || failed="$$failed $$program"; \
	done; if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

# What calls CUDA beside the test programs.
STANDIN_CALLER := $(BUILD)/test/standin/libcaller.so
$(STANDIN_CALLER): $(BUILD)/test/standin/caller.o $(STANDIN_LIBRARIES)
	$(CC) $(CFLAGS) -shared $< -L$(STANDIN) -lcudart -lcuda -o $@

$(BUILD)/test/standin/test_%: $(BUILD)/test/standin/test_%.o $(STANDIN_CALLER) $(STANDIN_LIBRARIES)
	$(CC) $(CFLAGS) -pthread $< -L$(@D) -Wl,-rpath,'$$ORIGIN' $(STANDIN_TEST_LIBRARIES) -o $@

$(BUILD)/test/standin/test_runtime_real.o: test/standin/test_runtime.c
	@mkdir -p $(@D)
	$(CC) $(STANDIN_CFLAGS) $(CFLAGS) -isystem $(CUDA_INCLUDE) -DREAL_HEADERS -MMD -MP -c $< -o $@

# Not part of check: some kernels' address spaces are too random for the sanitizer.
STANDIN_TSAN := $(BUILD)/tsan/test/standin/test_driver
check-standin-threads: $(STANDIN_TSAN)
	TSAN_OPTIONS=halt_on_error=1 timeout 120 $(STANDIN_TSAN)

$(STANDIN_TSAN): test/standin/test_driver.c $(wildcard test/standin/*.h test/standin/driver/*.[ch])
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) -O1 -g -fsanitize=thread -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread \
	    $(filter %.c,$^) -ldl -lcmocka -o $@
