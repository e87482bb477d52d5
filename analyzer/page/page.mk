# SPDX-License-Identifier: Apache-2.0
#
# The page of commtap html: its parts, one file per view, and D3 become two pieces of HTML that lie in the program, before
# the data and behind them.
# Must not live here: tests of the page.

# Where the package node-d3 puts it. Without it everything else is built, and commtap html says what it lacks.
D3 ?= $(wildcard /usr/share/nodejs/d3/dist/d3.min.js)
PAGE := analyzer/page/browser
# In the order in which they run, what others use first; views in the order in which a page shows them.
PAGE_VIEWS := findings hang summary overview steps heat marey_path marey pipeline ranks rank links_graph links times \
    calls flame operations sizes memory coverage
PAGE_SCRIPTS := $(patsubst %,$(PAGE)/%.js,data format elements walk selection step_times order table $(PAGE_VIEWS:%=views/%) page)
PAGE_FORGOTTEN := $(filter-out $(PAGE_SCRIPTS),$(wildcard $(PAGE)/*.js $(PAGE)/views/*.js))
$(if $(PAGE_FORGOTTEN),$(error no place among PAGE_VIEWS: $(PAGE_FORGOTTEN)))
PAGE_STYLE := $(PAGE)/style.css
PAGE_OBJECT := $(if $(D3),$(BUILD)/analyzer/page/embedded.o)
PAGE_LACKS := $(if $(D3),,@echo "commtap html is left out: D3 is not here (Debian: node-d3); all else is built")

$(BUILD)/page/tail.html: $(PAGE_SCRIPTS) $(PAGE_STYLE) $(D3) scripts/assemble-page analyzer/page/page.mk
	@mkdir -p $(@D)
	scripts/assemble-page $(@D) $(D3) $(PAGE_STYLE) $(PAGE_SCRIPTS)

$(BUILD)/analyzer/page/embedded.o: analyzer/page/embedded.S $(BUILD)/page/tail.html
	@mkdir -p $(@D)
	$(CC) -I$(BUILD)/page -Wa,-I$(BUILD)/page -c $< -o $@
