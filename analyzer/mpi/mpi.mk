# SPDX-License-Identifier: Apache-2.0
#
# commtap-mpi, once for each MPI that is here (MPIS), of the objects that commtap is made of.

MPI_SOURCES := $(wildcard analyzer/mpi/*.c)
COMMTAP_MPI := $(MPIS:%=$(BUILD)/commtap-mpi.%)

.PHONY: commtap-mpi
commtap-mpi: $(COMMTAP_MPI)
	$(if $(MPIS),,@echo 'commtap-mpi is left out: neither mpicc.openmpi nor mpicc.mpich is here')

define commtap_mpi_of
$(BUILD)/$(1)/%.o: %.c
	@mkdir -p $$(@D)
	mpicc.$(1) $$(ANALYZER_CFLAGS) $$(CFLAGS) -MMD -MP -c $$< -o $$@

$(BUILD)/commtap-mpi.$(1): $(MPI_SOURCES:%.c=$(BUILD)/$(1)/%.o) $$(filter-out $$(BUILD)/analyzer/main.o,$$(ANALYZER_OBJECTS)) $$(PAGE_OBJECT)
	mpicc.$(1) $$(CFLAGS) $$(LDFLAGS) -pthread $$^ $$(ANALYZER_LIBS) -o $$@
endef
$(foreach mpi,$(MPIS),$(eval $(call commtap_mpi_of,$(mpi))))
