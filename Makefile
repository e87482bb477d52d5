# commtap: the shim, the analyzer and their tests. `make help` lists the targets.
#
#   make demo     set up, build, run a small training job with a slow rank, print the report
#   make check    set up, build, run every test

CC ?= gcc
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Werror
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
VERSION := 0.1.0
BUILD := build

COMMON_CFLAGS := -std=c11 $(WARNINGS) -D_GNU_SOURCE -I. -DCOMMTAP_VERSION='"$(VERSION)"'

# What runs in every process below a preload lies together, or it costs a page fault for each place it lies in.
SHIM_AT_START := shim/intercept/absent.c shim/base/elf_symbol.c shim/base/linker.c shim/base/string_functions.c
SHIM_SOURCES := $(SHIM_AT_START) $(filter-out $(SHIM_AT_START),$(wildcard shim/*.c shim/*/*.c))
SHIM_OBJECTS := $(SHIM_SOURCES:%.c=$(BUILD)/%.o)
# initial-exec TLS: the library is only ever preloaded, so its one thread pointer is a single load away. They come behind
# CFLAGS: distributions ask for checks of the stack and for optimization at link time, which lose symbols' versions.
# Fields stored one by one are not to be read as vectors: such a read waits until all of the stores are done.
SHIM_CFLAGS := $(COMMON_CFLAGS) -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-stack-protector \
    -fno-omit-frame-pointer -U_FORTIFY_SOURCE -fno-lto -fno-tree-slp-vectorize
SHIM_OPTIMIZE ?= -O3
# Two segments, no protection change at start, none of the compiler's own constructors, no look-ups of our own names: the
# library is loaded into every process below a preload.
SHIM_LDFLAGS := -shared -Wl,--version-script=shim/exports.map -Wl,-z,nodelete -Wl,-z,lazy -Wl,-z,noexecstack \
    -Wl,-z,noseparate-code -Wl,-z,norelro -nostartfiles -Wl,-Bsymbolic-functions \
    -Wl,--no-undefined -Wl,-soname,libcommtap.so -Wl,-T,shim/layout.ld

ANALYZER_SOURCES := $(filter-out analyzer/mpi/%,$(wildcard analyzer/*.c analyzer/*/*.c))
ANALYZER_OBJECTS := $(ANALYZER_SOURCES:%.c=$(BUILD)/%.o)
include analyzer/page/page.mk
ANALYZER_CFLAGS := $(COMMON_CFLAGS) -pthread
# libdw reads source lines. libiberty demangles C++ and Rust: a static C library whose output can be cut off, where
# __cxa_demangle would need C++'s runtime and memory without bound for a hostile name. zlib reads compressed traces and
# makes checksums.
ANALYZER_LIBS := -ljansson -lz -ldw -liberty -ldl -lm
# Zstandard where it is here: without it dumps can neither be packed nor unpacked, and that is said.
HAS_ZSTD := $(shell printf '\043include <zstd.h>\n' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
# SQLite where it is here: without it everything else is built, and commtap export says what it lacks.
HAS_SQLITE := $(shell printf '\043include <sqlite3.h>\n' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
ANALYZER_LIBS += $(if $(HAS_SQLITE),-lsqlite3) $(if $(HAS_ZSTD),-lzstd)

.DEFAULT_GOAL := all
.PHONY: all shim analyzer check clean fmt fmt-check install help
all: shim analyzer commtap-mpi
shim: $(BUILD)/libcommtap.so
analyzer: $(BUILD)/commtap

$(BUILD)/shim/%.o: shim/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(SHIM_CFLAGS) $(SHIM_OPTIMIZE) -MMD -MP -c $< -o $@

$(BUILD)/libcommtap.so: $(SHIM_OBJECTS) shim/exports.map shim/layout.ld
	$(CC) $(CFLAGS) $(SHIM_OBJECTS) $(SHIM_LDFLAGS) -o $@

$(BUILD)/analyzer/%.o: analyzer/%.c
	@mkdir -p $(@D)
	$(CC) $(ANALYZER_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/commtap: $(ANALYZER_OBJECTS) $(PAGE_OBJECT)
	$(CC) $(CFLAGS) $(LDFLAGS) -pthread $(ANALYZER_OBJECTS) $(PAGE_OBJECT) $(ANALYZER_LIBS) -o $@
	$(PAGE_LACKS)

# Programs are built for the MPIs that are here; tests that need another one say so.
MPIS := $(foreach m,openmpi mpich,$(if $(shell command -v mpicc.$(m)),$(m)))

include analyzer/mpi/mpi.mk
include $(wildcard test/*.mk)

# Every test, set-up included; `deps` comes first also under -j. What takes the same whatever else runs comes first, side
# by side; what looks at times comes after, one by one.
check: deps
	$(MAKE) $(SIDE_BY_SIDE) all
	$(MAKE) $(SIDE_BY_SIDE) --output-sync=target $(CHECKS_SIDE_BY_SIDE:%=if-here/%)
	$(call if_here,clang libclang-rt-14-dev,check-fuzzers)
	$(call if_here,libcmocka-dev,check-standin)
	$(call if_here,g++,check-stacks)
	$(call if_here,gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user,check-stacks-aarch64)
	$(MAKE) $(SIDE_BY_SIDE) check-crash
	$(call if_here,python3-pytest,check-stress)
	$(call if_here,python3,check-python)
	$(call if_here,python3-pytest,check-e2e)

# As many jobs as there are processors, where the caller did not say how many.
SIDE_BY_SIDE = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))
# Makes $(2) where there is what the packages $(1) bring, says so and goes on where there is not.
if_here = +@if absent=$$(scripts/install-deps --has $(1)); then $(MAKE) $(SIDE_BY_SIDE) $(2); \
    else echo "$(2) is skipped, $$absent"; fi

# None builds what another one builds; the replays of check-fuzz are linked to what check-unit has built.
CHECKS_SIDE_BY_SIDE := check-unit check-fuzz check-tsan check-tidy check-fanalyzer check-clang check-house check-calls check-page fmt-check fuzz-build
.PHONY: $(CHECKS_SIDE_BY_SIDE:%=if-here/%)
if-here/check-unit:
	$(call if_here,libcmocka-dev,check-unit)
if-here/check-fuzz: if-here/check-unit
	+@$(MAKE) check-fuzz
if-here/check-tsan:
	$(call if_here,libcmocka-dev,check-tsan)
if-here/check-tidy:
	$(call if_here,clang-tidy,check-tidy)
if-here/check-fanalyzer:
	+@$(MAKE) check-fanalyzer
if-here/check-clang:
	$(call if_here,clang,check-clang)
if-here/check-house:
	$(call if_here,python3-pytest binutils,check-house)
if-here/check-calls:
	$(call if_here,python3,check-calls)
if-here/check-page:
	$(call if_here,eslint node-v8-compile-cache,check-page)
if-here/fmt-check:
	$(call if_here,clang-format,fmt-check)
if-here/fuzz-build:
	$(call if_here,clang libclang-rt-14-dev,fuzz-build)

FORMATTED := $(shell git ls-files '*.c' '*.h' 2>/dev/null)
fmt:
	clang-format -i $(FORMATTED)
	-$(call eslint,--fix)

# The documents, and the files that they point to.
PAPERS := README.md CHANGELOG.md CONTRIBUTING.md LICENSE $(wildcard doc/*.md doc/pictures/*.png) doc/commtap.schema.json doc/grafana-dashboard.json shim/format.h analyzer/archive/archive.h analyzer/archive/rows.h \
    shim/CALLS.md test/bench/RESULTS.md packaging/commtap.conf $(wildcard packaging/slurm/*)
# Of the dump format, as pkg-config is to tell it: FORMAT_MAJOR.FORMAT_MINOR.
FORMAT = $(shell sed -n 's/^\#define FORMAT_M[AI][JN]OR  *\([0-9]*\)u.*/\1/p' shim/format.h | paste -s -d .)
# $(1) below the installation's prefix is made of the template $(2).
filled_in = sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@FORMAT@|$(FORMAT)|' $(2) > $(DESTDIR)$(PREFIX)/$(1) && \
    chmod 644 $(DESTDIR)$(PREFIX)/$(1)
install: all
	install -D -m 755 $(BUILD)/commtap $(DESTDIR)$(PREFIX)/bin/commtap
	for program in $(COMMTAP_MPI:$(BUILD)/%=%); do \
	    install -D -m 755 $(BUILD)/$$program $(DESTDIR)$(PREFIX)/bin/$$program || exit 1; done
	install -D -m 755 $(BUILD)/libcommtap.so $(DESTDIR)$(LIBDIR)/libcommtap.so
	install -D -m 755 scripts/commtap-collect $(DESTDIR)$(PREFIX)/bin/commtap-collect
	install -D -m 644 shim/format.h $(DESTDIR)$(PREFIX)/include/commtap/format.h
	install -d $(DESTDIR)$(PREFIX)/share/commtap $(DESTDIR)$(PREFIX)/share/pkgconfig
	$(call filled_in,share/commtap/modulefile,scripts/modulefile)
	$(call filled_in,share/pkgconfig/commtap-format.pc,packaging/commtap-format.pc.in)
	for paper in $(PAPERS); do install -D -m 644 $$paper $(DESTDIR)$(PREFIX)/share/doc/commtap/$$paper || exit 1; done
	install -D -m 644 doc/commtap.schema.json $(DESTDIR)$(PREFIX)/share/commtap/commtap.schema.json
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man7
	for page in $$($(BUILD)/commtap --man); do \
	    $(BUILD)/commtap --man $$page > $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$$page || exit 1; done
	for place in bash:bash-completion/completions/commtap zsh:zsh/site-functions/_commtap \
	    fish:fish/vendor_completions.d/commtap.fish; do \
	    file=$(DESTDIR)$(PREFIX)/share/$${place#*:}; \
	    install -d $${file%/*} && $(BUILD)/commtap --completion $${place%%:*} > $$file || exit 1; done

# Packages, made from the tree as it is (packaging/). None is part of check: they need tools that building does not.
DIST := $(BUILD)/commtap-$(VERSION).tar.gz
.PHONY: dist deb rpm
dist:
	@mkdir -p $(BUILD)
	git ls-files -z | tar -c -z --null --transform 's|^|commtap-$(VERSION)/|' -f $(DIST) -T -
deb: dist
	rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb && tar -x -C $(BUILD)/deb -f $(DIST)
	cp -r packaging/debian $(BUILD)/deb/commtap-$(VERSION)/debian
	cd $(BUILD)/deb/commtap-$(VERSION) && dpkg-buildpackage -b -us -uc -j$(shell nproc)
	lintian --fail-on error,warning $(BUILD)/deb/*.changes
# --nodeps: what a distribution calls its packages, the compiler tells by itself.
rpm: dist
	rm -rf $(BUILD)/rpm && mkdir -p $(BUILD)/rpm
	rpmbuild -bb --nodeps -D '_topdir $(abspath $(BUILD))/rpm' -D '_sourcedir $(abspath $(BUILD))' packaging/commtap.spec

clean:
	rm -rf $(BUILD)

help:
	@echo 'demo         set up what it needs, build, run a small training job with a slow rank, print the report'
	@echo 'check        set up, build, run every test'
	@echo 'check-unit   unit tests, with the address and undefined-behaviour sanitizers'
	@echo 'check-e2e    end-to-end tests: real jobs, every command; make programs builds what they run'
	@echo 'check-house  what includes what, the stages, the papers; check-figures is part of it'
	@echo 'check-calls  the table of calls against the MPI and NCCL headers here; calls-doc writes shim/CALLS.md'
	@echo 'check-page   the scripts of commtap html, by eslint: mistakes and format; fmt mends the format'
	@echo 'check-figures functions of the shim and the analyzer over the limits of size and branching, and repetitions'
	@echo 'check-tsan   what threads of the shim share, under the thread sanitizer'
	@echo 'check-fuzzers a minute of every fuzzer, side by side (FUZZ_SECONDS)'
	@echo 'check-tidy   clang-tidy, with the checks that .clang-tidy lists'
	@echo 'check-fanalyzer the analyzer of GCC, over the shim'
	@echo 'check-gpu    what only a real GPU can show, on the one here'
	@echo 'check-mpi4py the test suites of mpi4py 3.1 and 4.1 on five MPIs, with and without commtap; hours'
	@echo 'check-fr-trace findings about flight recorders beside those of PyTorch'"'"'s own fr_trace'
	@echo 'check-nccl-wheels functions that the NCCL wheels on the package index export beside the table of calls'
	@echo 'check-aarch64 the library as it is on aarch64, cross-compiled and run by qemu-user'
	@echo 'check-elastic elastic batch sizes beside those of DeepSpeed'"'"'s own code'
	@echo 'check-duckdb the ten questions to an SQLite export, asked by DuckDB from PyPI'
	@echo 'check-hta    GPU figures of PyTorch traces beside those of Holistic Trace Analysis (HTA_DATA)'
	@echo 'check-slurm  commtap under a real Slurm of two nodes on this host, as root'
	@echo 'check-torchrun commtap under the torchrun of PyTorch from PyPI: restarts, agents, one that is lost'
	@echo 'all          build libcommtap.so and commtap into $(BUILD)/'
	@echo 'bench        what commtap costs, measured here'
	@echo 'bench-report the analyzer alone: a gigabyte, one thread and two, up to 100,000 ranks'
	@echo 'bench-analysis how good and how fast the analysis is, beside the figures to reach'
	@echo 'campaign     whom reports name in hundreds of real MPI jobs whose truth their own clocks tell (CAMPAIGN_FLAGS)'
	@echo 'check-python the Python frames of a stack against traceback, in every CPython found here'
	@echo 'check-filesystems jobs on full file systems of all kinds, RUNS=100 times each'
	@echo 'fuzz         commands and importers against damaged jobs and traces, for a minute (FUZZ_SECONDS)'
	@echo 'install      below PREFIX ($(PREFIX)), honours DESTDIR'
	@echo 'dist         $(DIST): the sources, as packages are built of them'
	@echo 'deb          a Debian package in $(BUILD)/deb, which lintian has looked at; rpm: an RPM in $(BUILD)/rpm'
	@echo 'fmt          clang-format everything; fmt-check says what it would change'
	@echo 'coverage     lines of the shim and the analyzer that the tests reach, per folder'
-include $(shell find $(BUILD) -name '*.d' -type f 2>/dev/null)
