# SPDX-License-Identifier: Apache-2.0
#
# Programs that refer weakly and strongly to functions which are not there, linked in every way (test/e2e/test_references.py).
# Each also against either MPI: where it has some of the functions.

REFERENCES := $(BUILD)/test/programs/references
REFERENCE_CFLAGS := -std=c11 -D_GNU_SOURCE -O1 -g $(WARNINGS) -Wl,--no-as-needed
REFERENCE_MPIS := none $(MPIS)
REFERENCE_LINKS := pie-lazy pie-now nopie-lazy nopie-now

REFERENCE_LINK_pie-lazy := -fPIE -pie -Wl,-z,lazy
REFERENCE_LINK_pie-now := -fPIE -pie -Wl,-z,now
REFERENCE_LINK_nopie-lazy := -fno-pie -no-pie -Wl,-z,lazy
REFERENCE_LINK_nopie-now := -fno-pie -no-pie -Wl,-z,now
# kept by the linker though nothing refers to it strongly: --no-as-needed
reference_mpi = $(if $(filter none,$(1)),,$(shell mpicc.$(1) -show | tr ' ' '\n' | grep '^-L') -l$(if $(filter mpich,$(1)),mpich,mpi))

# Linked to a library that has the function; the one found at run time has lost it.
$(REFERENCES)/has/libanswer.so:
	@mkdir -p $(@D)
	echo 'int MPI_Comm_iflush_buffer(void) { return 42; }' | $(CC) -fPIC -shared -x c - -o $@ -Wl,-soname,libanswer.so
$(REFERENCES)/lacks/libanswer.so:
	@mkdir -p $(@D)
	$(CC) -fPIC -shared -x c /dev/null -o $@ -Wl,-soname,libanswer.so

define references_of
$$(REFERENCES)/$(1)/needed.so: test/programs/references.c
	@mkdir -p $$(@D)
	$$(CC) $$(REFERENCE_CFLAGS) -DNEEDED -fPIC -shared $$< -o $$@ -ldl $$(call reference_mpi,$(1))
$$(REFERENCES)/$(1)/opened.so: test/programs/references.c
	@mkdir -p $$(@D)
	$$(CC) $$(REFERENCE_CFLAGS) -DOPENED -fPIC -shared $$< -o $$@ -ldl $$(call reference_mpi,$(1))
$$(REFERENCES)/$(1)/opened-strong.so: test/programs/references.c
	@mkdir -p $$(@D)
	$$(CC) $$(REFERENCE_CFLAGS) -DOPENED -DSTRONG -fPIC -shared $$< -o $$@ -ldl $$(call reference_mpi,$(1))
$$(REFERENCES)/$(1)/%: test/programs/references.c $$(REFERENCES)/$(1)/needed.so
	$$(CC) $$(REFERENCE_CFLAGS) $$(REFERENCE_LINK_$$*) $$^ -o $$@ -Wl,-rpath,'$$$$ORIGIN' -ldl $$(call reference_mpi,$(1))
$$(REFERENCES)/$(1)/strong-%: test/programs/references.c $$(REFERENCES)/has/libanswer.so $$(REFERENCES)/lacks/libanswer.so
	@mkdir -p $$(@D)
	$$(CC) $$(REFERENCE_CFLAGS) -DSTRONG $$(REFERENCE_LINK_$$*) $$(wordlist 1,2,$$^) -o $$@ \
	    -Wl,-rpath,'$$$$ORIGIN/../lacks' -ldl $$(call reference_mpi,$(1))
programs-references: $$(REFERENCE_LINKS:%=$$(REFERENCES)/$(1)/%) $$(REFERENCE_LINKS:%=$$(REFERENCES)/$(1)/strong-%) \
    $$(REFERENCES)/$(1)/opened.so $$(REFERENCES)/$(1)/opened-strong.so
endef
$(foreach mpi,$(REFERENCE_MPIS),$(eval $(call references_of,$(mpi))))

.PHONY: programs-references
programs: programs-references
