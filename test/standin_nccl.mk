# The stand-in's libnccl.so.2, beside its libcuda (standin.mk), and its tests.
#
#   make check-standin-nccl   the tests, seconds; part of check-standin
#
# No version script: the real library has none. -fwrapv: sums of integers wrap as on a GPU.

STANDIN_NCCL_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard test/standin/nccl/*.c))
STANDIN_NCCL_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard test/standin/nccl_test/test_*.c))

STANDIN_NCCL_RECORDER := $(BUILD)/test/standin/nccl_test/recorder.so

.PHONY: check-standin-nccl
standin: $(STANDIN)/libnccl.so
check-standin: check-standin-nccl

$(BUILD)/test/standin/nccl/%.o: test/standin/nccl/%.c
	@mkdir -p $(@D)
	$(CC) $(STANDIN_CFLAGS) -fwrapv $(CFLAGS) -MMD -MP -c $< -o $@

$(STANDIN)/libnccl.so.2: $(STANDIN_NCCL_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(STANDIN_LDFLAGS) -Wl,-soname,libnccl.so.2 $^ -ldl -lrt -lm -o $@

$(STANDIN)/libnccl.so: $(STANDIN)/libnccl.so.2
	ln -sf libnccl.so.2 $@

# A profiler plugin, loaded by path.
$(STANDIN_NCCL_RECORDER): $(BUILD)/test/standin/nccl_test/recorder.o
	$(CC) $(CFLAGS) -shared -pthread $< -o $@

$(BUILD)/test/standin/nccl_test/test_plugin.o: STANDIN_CFLAGS += -DRECORDER_PATH='"$(abspath $(STANDIN_NCCL_RECORDER))"'

# Where the vendor's nccl.h is, the library's definitions are compiled against it, and a test program that was runs on
# the stand-in.
STANDIN_NCCL_HEADER := $(wildcard $(CUDA_INCLUDE)/nccl.h)
ifneq ($(STANDIN_NCCL_HEADER),)
STANDIN_NCCL_TESTS += $(BUILD)/test/standin/nccl_test/test_groups_real
check-standin-nccl: check-standin-nccl-headers
.PHONY: check-standin-nccl-headers
check-standin-nccl-headers:
	$(CC) $(STANDIN_CFLAGS) -DSTANDIN_REAL_NCCL -isystem $(CUDA_INCLUDE) -fsyntax-only $(wildcard test/standin/nccl/*.c)

$(BUILD)/test/standin/nccl_test/test_groups_real.o: test/standin/nccl_test/test_groups.c
	@mkdir -p $(@D)
	$(CC) $(STANDIN_CFLAGS) $(CFLAGS) -DSTANDIN_REAL_NCCL -isystem $(CUDA_INCLUDE) -MMD -MP -c $< -o $@
endif

$(STANDIN_NCCL_TESTS): %: %.o $(BUILD)/test/standin/nccl_test/ranks.o $(STANDIN)/libnccl.so $(STANDIN)/libcuda.so
	$(CC) $(CFLAGS) -pthread $(filter %.o,$^) -L$(STANDIN) -Wl,-rpath,'$$ORIGIN/../../../standin' -Wl,--export-dynamic -lnccl -lcuda \
	    -lcmocka -lm -o $@

check-standin-nccl: $(STANDIN_NCCL_TESTS) $(STANDIN_NCCL_RECORDER)
	@failed=; for program in $(STANDIN_NCCL_TESTS); do echo "$$program"; timeout 120 $$program || failed="$$failed $$program"; \
	done; if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi
