# SPDX-License-Identifier: Apache-2.0
#
# Plugins with an MPI of their own each, and the program that loads them (test/e2e/test_neighbours.py).

NEIGHBOURS := $(PROGRAMS)/neighbours
NEIGHBOUR_CFLAGS := $(PROGRAM_CFLAGS) -O2 -Wno-missing-prototypes
NEIGHBOUR_LIBRARY := $(NEIGHBOUR_CFLAGS) -fPIC -shared

# The stand-in is called through the linker, as from another file.
$(NEIGHBOURS)/libserial.so: test/programs/neighbours.c
	@mkdir -p $(@D)
	$(CC) $(NEIGHBOUR_LIBRARY) -DSERIAL -Wl,-soname,$(@F) $< -o $@
$(NEIGHBOURS)/serial.so: test/programs/neighbours.c $(NEIGHBOURS)/libserial.so
	$(CC) $(NEIGHBOUR_LIBRARY) -DSOLVER $^ -Wl,-rpath,'$$ORIGIN' -o $@
$(NEIGHBOURS)/own.so: test/programs/neighbours.c
	@mkdir -p $(@D)
	$(CC) $(NEIGHBOUR_LIBRARY) -DSOLVER -DSERIAL $< -o $@
$(NEIGHBOURS)/asking.so: test/programs/neighbours.c
	@mkdir -p $(@D)
	$(CC) $(NEIGHBOUR_LIBRARY) -DASKING $< -o $@
$(NEIGHBOURS)/host: test/programs/neighbours.c
	@mkdir -p $(@D)
	$(CC) $(NEIGHBOUR_CFLAGS) $< -o $@ -ldl
$(NEIGHBOURS)/namesake: test/programs/neighbours.c
	@mkdir -p $(@D)
	$(CC) $(NEIGHBOUR_CFLAGS) -DNAMESAKE -rdynamic $< -o $@ -ldl
$(MPIS:%=$(NEIGHBOURS)/%.so): $(NEIGHBOURS)/%.so: test/programs/neighbours.c
	@mkdir -p $(@D)
	mpicc.$* $(NEIGHBOUR_LIBRARY) -DLIBRARY $< -o $@

$(NEIGHBOURS)/unlinked.so: test/programs/neighbours.c
	@mkdir -p $(@D)
	$(CC) $(NEIGHBOUR_LIBRARY) -DUNLINKED $< -o $@
# Linked to two libraries with MPI's functions, of which the first answers.
BOTH_FIRST := -Wl,--no-as-needed -Wl,-rpath,'$$ORIGIN'
$(MPIS:%=$(NEIGHBOURS)/serial-before-%): $(NEIGHBOURS)/serial-before-%: test/programs/neighbours.c $(NEIGHBOURS)/libserial.so
	mpicc.$* $(NEIGHBOUR_CFLAGS) -DSOLVER -DPROGRAM $(BOTH_FIRST) $^ -o $@
TWO_MPIS := $(if $(word 2,$(MPIS)),openmpi-before-mpich mpich-before-openmpi)
$(NEIGHBOURS)/openmpi-before-mpich: SECOND := -lmpich
$(NEIGHBOURS)/mpich-before-openmpi: SECOND := -lmpi
$(TWO_MPIS:%=$(NEIGHBOURS)/%): $(NEIGHBOURS)/%: test/programs/neighbours.c
	@mkdir -p $(@D)
	mpicc.$(firstword $(subst -, ,$*)) $(NEIGHBOUR_CFLAGS) -DLIBRARY -DPROGRAM $(BOTH_FIRST) $< $(if $(filter mpich%,$*),-lmpich,-lmpi) $(SECOND) -o $@
$(NEIGHBOURS)/libearly.so: test/programs/neighbours.c
	@mkdir -p $(@D)
	$(CC) $(NEIGHBOUR_LIBRARY) -DEARLY -Wl,-z,initfirst -Wl,-soname,$(@F) $< -o $@
$(NEIGHBOURS)/environment: test/programs/neighbours.c $(NEIGHBOURS)/libearly.so
	$(CC) $(NEIGHBOUR_CFLAGS) -DENVIRONMENT $(BOTH_FIRST) $^ -o $@

.PHONY: programs-neighbours
programs-neighbours: $(NEIGHBOURS)/host $(NEIGHBOURS)/namesake $(NEIGHBOURS)/serial.so $(NEIGHBOURS)/own.so $(NEIGHBOURS)/asking.so $(MPIS:%=$(NEIGHBOURS)/%.so) \
	$(NEIGHBOURS)/environment $(MPIS:%=$(NEIGHBOURS)/serial-before-%) $(NEIGHBOURS)/unlinked.so $(TWO_MPIS:%=$(NEIGHBOURS)/%)
programs: programs-neighbours
