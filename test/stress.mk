# A program that treats the shim badly: threads by the thousand, forks, exits and jumps at bad moments, other tools.
#
#   make check-stress

PYTHON ?= /usr/bin/python3
STRESS := $(BUILD)/test/stress
STRESS_MPIS := $(foreach m,openmpi mpich,$(if $(shell command -v mpicc.$(m)),$(m)))

.PHONY: check-stress
check-stress: all $(foreach m,$(STRESS_MPIS),$(STRESS)/stress.$(m) $(STRESS)/tool.$(m).so)
	$(PYTHON) -m pytest -q -p no:cacheprovider test/stress

$(STRESS)/stress.%: test/stress/stress.c
	@mkdir -p $(@D)
	mpicc.$* $(COMMON_CFLAGS) -Wno-stringop-overflow $(CFLAGS) -pthread $< -o $@

$(STRESS)/tool.%.so: test/stress/tool.c
	@mkdir -p $(@D)
	mpicc.$* $(COMMON_CFLAGS) $(CFLAGS) -fPIC -shared $< -o $@
