# SPDX-License-Identifier: Apache-2.0
#
# The tests of the shim with several threads, built with the thread sanitizer.
#
#   make check-tsan
#
# What it may find, with reasons: unit_tsan.supp. GCC warns that the sanitizer does not follow fences. The shim's are for
# readers in other processes, which it cannot see anyway: between our own threads there are acquire and release.

TSAN := $(BUILD)/tsan
TSAN_FLAGS := -O1 -g -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan
TSAN_TESTS := test_threads test_fork_page test_heartbeat test_nvtx test_gpu_timing test_gpu_graphs test_nccl_plugin
TSAN_PROGRAMS := $(TSAN_TESTS:%=$(TSAN)/test/unit/%)
TSAN_HELPERS := $(patsubst %.c,$(TSAN)/%.o,test/unit/fake_gpu.c $(wildcard analyzer/archive/*.c analyzer/load/*.c analyzer/dumps/*.c analyzer/base/*.c))

.PHONY: check-tsan
# Where address spaces are too random for the sanitizer, they are made less so, if that is allowed here.
check-tsan: $(TSAN_PROGRAMS) $(TSAN)/probe
	@run=; $(TSAN)/probe 2>/dev/null || run="setarch -R"; \
	$$run $(TSAN)/probe 2>/dev/null || { echo "$@ is skipped, the sanitizer does not run on this kernel"; exit 0; }; \
	failed=; for program in $(TSAN_PROGRAMS); do echo "$$program"; \
	    TSAN_OPTIONS=suppressions=test/unit_tsan.supp:history_size=7 \
	        timeout 300 $$run $$program || failed="$$failed $$program"; \
	done; if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

$(TSAN)/probe:
	@mkdir -p $(@D)
	echo 'int main(void) { return 0; }' | $(CC) -fsanitize=thread -x c - -o $@

$(TSAN)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ANALYZER_CFLAGS) $(TSAN_FLAGS) -MMD -MP -c $< -o $@

$(TSAN)/libshim.a: $(UNIT_SHIM_SOURCES:%.c=$(TSAN)/%.o)
	@rm -f $@
	$(AR) rcs $@ $^

$(TSAN_PROGRAMS): %: %.o $(TSAN_HELPERS) $(TSAN)/libshim.a
	$(CC) $(TSAN_FLAGS) -pthread $^ -lcmocka -ldl -lm -lz $(if $(HAS_ZSTD),-lzstd) -o $@
