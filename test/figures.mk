# SPDX-License-Identifier: Apache-2.0
#
# The size, branching and repetition of the functions, measured by lizard, which is fetched once by the hash in
# test/house/pins.txt; where it cannot be had, that is said and nothing is measured.
#
#   make check-figures   part of check-house

export LIZARD := $(abspath $(BUILD)/test/lizard)

.PHONY: check-figures
check-house: check-figures
check-figures: $(LIZARD)/lizard.py
	@if [ -s $< ]; then $(PYTHON) test/house/figures.py shim analyzer; \
	else echo "check-figures is skipped, lizard cannot be fetched here: $$(tail -n 1 $(LIZARD)/log)"; fi

# Tried again in the next run where it failed: the folder is then without it.
$(LIZARD)/lizard.py: test/house/pins.txt
	@mkdir -p $(@D)
	@$(PYTHON) -m pip --quiet --disable-pip-version-check --retries 1 install --no-deps --require-hashes --upgrade \
	    --root-user-action ignore --target $(@D) -r $< >$(@D)/log 2>&1 && touch $@ || rm -f $@
