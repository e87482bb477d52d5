# SPDX-License-Identifier: Apache-2.0
#
# Python stacks; NVTX labels are in test_nvtx.c and test_nvtx.py.
#
#   make check-python   in every CPython that can be found (3.8 to 3.14): the shim's Python frames against traceback's;
#                       its table of their structures against their headers; the interpreter embedded, ended while a
#                       thread is in a call, started again. COMMTAP_TEST_PYTHONS: further ones, separated by colons
#   make bench-python   what reading them costs at 5, 15 and 40 frames, in $(PYTHON)

STACKS_PYTHON := $(BUILD)/test/stacks_python
STACKS_PYTHON_SOURCES := test/stacks_python/harness.c $(wildcard shim/stacks/python*.c) shim/base/elf_symbol.c shim/base/linker.c shim/base/pending_error.c shim/base/fork_page.c shim/base/os.c

STACKS_PYTHON_CFLAGS := $(COMMON_CFLAGS) $(CFLAGS) $(SHIM_OPTIMIZE) -pthread

.PHONY: check-python
check-python: $(STACKS_PYTHON)/harness.so $(STACKS_PYTHON)/embed
	$(PYTHON) test/stacks_python/run.py $(STACKS_PYTHON) $(CC) $(filter-out -std=%,$(COMMON_CFLAGS))

$(STACKS_PYTHON)/harness.so: $(STACKS_PYTHON_SOURCES) $(wildcard shim/*.h shim/*/*.h)
	@mkdir -p $(@D)
	$(CC) $(STACKS_PYTHON_CFLAGS) -fPIC -shared -fvisibility=hidden $(STACKS_PYTHON_SOURCES) -o $@

$(STACKS_PYTHON)/embed: test/stacks_python/embed.c $(STACKS_PYTHON_SOURCES) $(wildcard shim/*.h shim/*/*.h)
	@mkdir -p $(@D)
	$(CC) $(STACKS_PYTHON_CFLAGS) $(filter %.c,$^) -ldl -o $@

# Nanoseconds that Python's frames add to a recorded call.
.PHONY: bench-python
bench-python: $(STACKS_PYTHON)/harness.so
	$(PYTHON) test/stacks_python/compare.py $< --bench
