# commtap: the shim, the analyzer and their tests. `make help` lists the targets.
#
#   make demo     set up, build, run a small training job with a slow rank, print the report
#   make check    set up, build, run every test

CC ?= gcc
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Werror
PREFIX ?= /usr/local
VERSION := 0.1.0
BUILD := build

COMMON_CFLAGS := -std=c11 $(WARNINGS) -D_GNU_SOURCE -I. -DCOMMTAP_VERSION='"$(VERSION)"'

SHIM_SOURCES := $(wildcard shim/*.c)
SHIM_OBJECTS := $(SHIM_SOURCES:%.c=$(BUILD)/%.o)
# initial-exec TLS: the library is only ever preloaded, so its one thread pointer is a single load away.
SHIM_CFLAGS := $(COMMON_CFLAGS) -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-stack-protector \
    -fno-omit-frame-pointer -U_FORTIFY_SOURCE
SHIM_LDFLAGS := -shared -Wl,--version-script=shim/exports.map -Wl,-z,nodelete -Wl,-z,now -Wl,-z,noexecstack \
    -Wl,--no-undefined -Wl,-soname,libcommtap.so

ANALYZER_SOURCES := $(wildcard analyzer/*.c analyzer/*/*.c)
ANALYZER_OBJECTS := $(ANALYZER_SOURCES:%.c=$(BUILD)/%.o)
ANALYZER_CFLAGS := $(COMMON_CFLAGS) -pthread
ANALYZER_LIBS := -ljansson -lm

.PHONY: all shim analyzer
all: shim analyzer
shim: $(BUILD)/libcommtap.so
analyzer: $(BUILD)/commtap

$(BUILD)/shim/%.o: shim/%.c
	@mkdir -p $(@D)
	$(CC) $(SHIM_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libcommtap.so: $(SHIM_OBJECTS) shim/exports.map
	$(CC) $(CFLAGS) $(SHIM_OBJECTS) $(SHIM_LDFLAGS) -o $@

$(BUILD)/analyzer/%.o: analyzer/%.c
	@mkdir -p $(@D)
	$(CC) $(ANALYZER_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/commtap: $(ANALYZER_OBJECTS)
	$(CC) $(CFLAGS) -pthread $(ANALYZER_OBJECTS) $(ANALYZER_LIBS) -o $@

include $(wildcard test/*.mk)
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
