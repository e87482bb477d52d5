# The stand-in's libnccl.so.2, beside its libcuda (standin.mk), and its tests.
#
#   make check-standin-nccl   the tests, seconds; part of check-standin
#
# No version script: the real library has none. -fwrapv: sums of integers wrap as on a GPU.

STANDIN ?= $(BUILD)/standin
STANDIN_NCCL_SOURCES := $(wildcard test/standin/nccl/*.c)
STANDIN_NCCL_OBJECTS := $(STANDIN_NCCL_SOURCES:%.c=$(BUILD)/%.o)
STANDIN_NCCL_TESTS := $(patsubst %.c,$(BUILD)/%,$(wildcard test/standin/test_nccl*.c))
STANDIN_NCCL_PLUGIN := $(BUILD)/test/standin/libnccl-profiler-recorder.so

.PHONY: check-standin-nccl
standin: $(STANDIN)/libnccl.so
check-standin: check-standin-nccl

$(BUILD)/test/standin/nccl/%.o: test/standin/nccl/%.c
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) -fPIC -fvisibility=hidden -fno-omit-frame-pointer -fwrapv -pthread $(CFLAGS) -MMD -MP -c $< -o $@

$(STANDIN)/libnccl.so.2: $(STANDIN_NCCL_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -shared -pthread -Wl,-z,nodelete -Wl,-z,defs -Wl,-soname,libnccl.so.2 $^ -ldl -lrt -lm -o $@

$(STANDIN)/libnccl.so: $(STANDIN)/libnccl.so.2
	ln -sf libnccl.so.2 $@

$(STANDIN_NCCL_PLUGIN): test/standin/plugin_recorder.c
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -MMD -MP -fPIC -shared -pthread $< -o $@

$(STANDIN_NCCL_TESTS): $(BUILD)/test/standin/%: test/standin/%.c test/standin/ranks.c $(STANDIN)/libnccl.so $(STANDIN)/libcuda.so
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -MMD -MP -pthread $(filter %.c,$^) -L$(STANDIN) -lnccl -lcuda -lcmocka -lm -o $@

check-standin-nccl: $(STANDIN_NCCL_TESTS) $(STANDIN_NCCL_PLUGIN)
	@for program in $(STANDIN_NCCL_TESTS); do \
	    echo "$$program"; LD_LIBRARY_PATH=$(STANDIN) STANDIN_TEST_PLUGIN=$(STANDIN_NCCL_PLUGIN) $$program || exit 1; done
