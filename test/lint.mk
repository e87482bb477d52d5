# SPDX-License-Identifier: Apache-2.0
#
# What tools say about the sources without running them.
#
#   make check-page   eslint over the scripts of the page (.eslintrc.json there: mistakes, sizes, format)
#   make fmt-check    are all files as clang-format leaves them
#   make check-tidy   clang-tidy, with the checks that .clang-tidy lists
#   make check-fanalyzer   GCC's own analyzer, over the shim: in the analyzer, which hands memory on inside of structs, GCC
#                          12 takes that for leaks
#
# Formats and warnings differ between versions of the tools: others than Debian 12's are not run. A source is looked at
# anew once its object is, so what is unchanged is not looked at twice.

LINT_SOURCES := $(SHIM_SOURCES) $(ANALYZER_SOURCES)
LINT_VERSION := 14
# As far as finds something in seconds: a tenth of the paths that the analyzer follows without being told.
LINT_EFFORT := -Xclang -analyzer-config -Xclang max-nodes=20000
# One wrapper is like the other: their paths are not followed hundreds of times.
LINT_WRAPPERS := shim/wrap_mpi.c shim/wrap_nccl.c
LINT_WITHOUT_PATHS := $(LINT_WRAPPERS:.c=)
# Nor where following them gives false alarms, because what excludes a path stands in another function: that an array is
# there whenever its count is not 0, that a place in a table was found, that a weak function is there with its key.
LINT_WITHOUT_PATHS += shim/intercept/nvtx $(addprefix analyzer/,align/estimate align/fit cli/options cli/watch \
    commands/cmd_check commands/cmd_run diagnose/desync elastic/batch import/trace_stacks job/job match/channel match/wildcards profile/scope profile/summary_build \
    profile/summary_deepspeed replay/replay_order replay/what_if stragglers/rank_classes symbols/elf_file waits/critical_path_sites)
# Ends the recipe where $(1) is another version.
lint_version = $(1) --version 2>/dev/null | grep -q 'version $(LINT_VERSION)\.' || \
    { echo "$@ is skipped, $(1) $(LINT_VERSION) is not here"; exit 0; }

# NODE_PATH: Debian's modules are there, whichever node runs.
eslint = NODE_PATH=/usr/share/nodejs eslint -f unix --ext .js $(1) $(PAGE)

.PHONY: fmt-check check-tidy check-fanalyzer check-page
check-page:
	@$(call eslint)
fmt-check:
	@$(call lint_version,clang-format); clang-format --dry-run -Werror $(FORMATTED)

check-tidy:
	+@$(call lint_version,clang-tidy); $(MAKE) --no-print-directory $(patsubst %.c,$(BUILD)/tidy/%.ok,$(LINT_SOURCES) $(LINT_MPI_SOURCES))

# $(1): flags of this source's own.
define tidy
@mkdir -p $(@D)
@clang-tidy --quiet --warnings-as-errors='*' --header-filter='(^|/)(shim|analyzer)/' \
    $(if $(filter $*,$(LINT_WITHOUT_PATHS)),--checks='-clang-analyzer-*') $*.c -- $(COMMON_CFLAGS) $(1) $(LINT_EFFORT) \
    >$@.log 2>&1 || { grep -v '^Suppressed\|warnings generated\|^Use -' $@.log; exit 1; }
@touch $@
endef

$(BUILD)/tidy/%.ok: $(BUILD)/%.o .clang-tidy
	$(call tidy)

# What knows MPI is looked at with one MPI's header, where there is any.
LINT_MPI := $(firstword $(MPIS))
LINT_MPI_SOURCES := $(if $(LINT_MPI),$(MPI_SOURCES))
$(LINT_MPI_SOURCES:%.c=$(BUILD)/tidy/%.ok): $(BUILD)/tidy/%.ok: $(BUILD)/$(LINT_MPI)/%.o .clang-tidy
	$(call tidy,$(filter -I%,$(shell mpicc.$(LINT_MPI) -show)))

check-fanalyzer:
	+@[ "$$($(CC) -dumpversion)" = 12 ] || { echo "$@ is skipped, $(CC) is not GCC 12"; exit 0; }; \
	$(MAKE) --no-print-directory $(patsubst %.c,$(BUILD)/fanalyzer/%.ok,$(filter-out $(LINT_WRAPPERS),$(SHIM_SOURCES)))

$(BUILD)/fanalyzer/%.ok: $(BUILD)/%.o
	@mkdir -p $(@D)
	@$(CC) $(COMMON_CFLAGS) -O1 -fanalyzer -c $*.c -o /dev/null
	@touch $@
