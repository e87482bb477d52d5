# SPDX-License-Identifier: Apache-2.0
#
# Whom reports name in real MPI jobs whose truth comes from their own clocks, and what mending is said to give
# beside the job run without its fault. Hours on two processors, and only of use where nothing else runs: it stops on a
# load average above the number of cores + 1. It goes on with --from; dumps of wrong verdicts stay in
# build/test/campaign/results/wrong.
#
#   make campaign [CAMPAIGN_FLAGS='--null 300 --each 60 --seed 1 --only rare --from 120 --any-load']

CAMPAIGN := $(BUILD)/test/campaign
CAMPAIGN_SOURCES := $(wildcard test/campaign/*.c)
CAMPAIGN_FLAGS ?=

.PHONY: campaign campaign-jobs
campaign: all campaign-jobs
	@$(PYTHON) test/campaign/campaign.py $(BUILD) $(CAMPAIGN_FLAGS)
campaign-jobs: $(MPIS:%=$(CAMPAIGN)/%/job)

$(CAMPAIGN)/%/job: $(CAMPAIGN_SOURCES) $(wildcard test/campaign/*.h)
	@mkdir -p $(@D)
	mpicc.$* -std=c11 -D_GNU_SOURCE -O1 -g $(WARNINGS) -Wno-stringop-overflow -I. $(CAMPAIGN_SOURCES) -o $@ -lm
