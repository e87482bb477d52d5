# SPDX-License-Identifier: Apache-2.0
#
# Python stacks and NVTX labels.
#
#   make check-python   the shim's Python frames against traceback's in every CPython that can be found (3.8 to 3.14),
#                       and its table of their structures against their headers; COMMTAP_TEST_PYTHONS: further ones,
#                       separated by colons

STACKS_PYTHON := $(BUILD)/test/stacks_python
STACKS_PYTHON_SOURCES := test/stacks_python/harness.c $(wildcard shim/stacks/python*.c) shim/elf_symbol.c shim/os.c

.PHONY: check-python
check-python: $(STACKS_PYTHON)/harness.so
	$(PYTHON) test/stacks_python/run.py $< $(STACKS_PYTHON) $(CC) $(filter-out -std=%,$(COMMON_CFLAGS))

$(STACKS_PYTHON)/harness.so: $(STACKS_PYTHON_SOURCES) $(wildcard shim/*.h shim/stacks/*.h)
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) $(SHIM_OPTIMIZE) -fPIC -shared -fvisibility=hidden $(STACKS_PYTHON_SOURCES) \
	    -pthread -o $@
