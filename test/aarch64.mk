# SPDX-License-Identifier: Apache-2.0
#
# The library as it is on aarch64: cross-compiled with the stand-in of NCCL, two ranks under qemu-user, their dumps read
# here. A target of its own, for it compiles the library once more.
#
#   make check-aarch64

AARCH64 := $(BUILD)/aarch64

.PHONY: check-aarch64
check-aarch64: analyzer
	@$(MAKE) -s BUILD=$(AARCH64) CC=$(STACKS_CROSS)gcc shim standin $(AARCH64)/test/programs/nccl/exercise
	$(PYTHON) -m pytest -q -p no:cacheprovider test/aarch64
