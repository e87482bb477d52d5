# SPDX-License-Identifier: Apache-2.0
#
# A job built with each sanitizer of each compiler, and a library that watches who calls the C library
# (test/e2e/test_checkers.py).

CHECKERS := $(BUILD)/test/programs/checkers
CHECKED_WITH := gcc-address gcc-thread gcc-undefined clang-address clang-thread clang-undefined clang-memory
define checked_by
$$(CHECKERS)/$(1)-%: test/programs/checked.c
	@mkdir -p $$(@D)
	OMPI_CC=$$(word 1,$$(subst -, ,$$*)) MPICH_CC=$$(word 1,$$(subst -, ,$$*)) mpicc.$(1) -std=c11 -D_GNU_SOURCE -O1 -g \
	    $$(WARNINGS) -pthread -fsanitize=$$(word 2,$$(subst -, ,$$*)) $$< -o $$@
programs-checkers: $$(CHECKED_WITH:%=$$(CHECKERS)/$(1)-%)
endef
$(foreach mpi,openmpi mpich,$(eval $(call checked_by,$(mpi))))

# a program without MPI, which MemorySanitizer stops in MPI_Init: it did not see what MPI initialises
$(CHECKERS)/absent-%: test/programs/absent.c
	@mkdir -p $(@D)
	$(word 1,$(subst -, ,$*)) -std=c11 -D_GNU_SOURCE -O1 -g $(WARNINGS) -fsanitize=$(word 2,$(subst -, ,$*)) $< -o $@ -ldl
programs-checkers: $(CHECKED_WITH:%=$(CHECKERS)/absent-%)

$(CHECKERS)/bystander.so: test/programs/bystander.c shim/base/tail_jump.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -g $(WARNINGS) -I. -fno-builtin -fPIC -shared $< -o $@ -ldl
$(CHECKERS)/empty.so:
	@mkdir -p $(@D)
	$(CC) -fPIC -shared -x c /dev/null -o $@

.PHONY: programs-checkers
programs-checkers: $(CHECKERS)/bystander.so $(CHECKERS)/empty.so
programs: programs-checkers
