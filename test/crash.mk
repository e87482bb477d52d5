# Kills a program under the real shim at random moments and checks what is left; then looks at what is there after each
# of its instructions.
#
#   make check-crash [KILLS=100] [SEED=n]

KILLS ?= 100
CRASH := $(BUILD)/test/crash
CRASH_MPICC := $(firstword $(foreach c,mpicc.mpich mpicc.openmpi mpicc,$(shell command -v $(c))))
CRASH_DIR := $(CRASH)/dumps

.PHONY: check-crash
ifeq ($(CRASH_MPICC),)
check-crash:
	@echo "check-crash is skipped, there is no MPI here"
else
check-crash: $(CRASH)/crash $(CRASH)/hammer $(BUILD)/libcommtap.so
	@rm -rf $(CRASH_DIR)
	$(CRASH)/crash $(abspath $(BUILD)/libcommtap.so) $(CRASH)/hammer $(KILLS) $(abspath $(CRASH_DIR)) $(SEED)

endif

$(CRASH)/hammer: test/crash/hammer.c test/crash/hammer.h
	@mkdir -p $(@D)
	$(CRASH_MPICC) $(COMMON_CFLAGS) -Wno-stringop-overflow $(CFLAGS) -pthread $< -o $@

$(CRASH)/crash: test/crash/crash.c test/crash/check.c test/crash/steps.c $(patsubst %.c,$(BUILD)/%.o,$(wildcard analyzer/archive/*.c analyzer/load/*.c analyzer/dumps/*.c analyzer/base/*.c))
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -MMD -MP -pthread $(filter %.c %.o,$^) -lm -lz $(if $(HAS_ZSTD),-lzstd) -o $@
