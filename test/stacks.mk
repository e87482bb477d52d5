# Call stacks: every frame against glibc's backtrace(), on more than 100000 stacks of all kinds.
#
#   make check-stacks
#   make check-stacks-aarch64    the same, cross-compiled and run by qemu-user

STACKS := $(BUILD)/test/stacks
STACKS_CROSS ?= aarch64-linux-gnu-
STACKS_QEMU ?= qemu-aarch64 -L /usr/aarch64-linux-gnu
STACKS_CFLAGS := -std=c11 $(WARNINGS) -D_GNU_SOURCE -I. -g
STACKS_LEVELS := 0 1 2 3
# not what interposes on dlsym and MPI
STACKS_SHIM_SOURCES := $(filter-out shim/library.c shim/intercept/resolve.c shim/wrap_dlsym.c shim/wrap_dlclose.c shim/wrap_mpi.c shim/wrap_nccl.c,$(SHIM_SOURCES))

.PHONY: check-stacks check-stacks-aarch64
check-stacks: $(STACKS)/native/check
	$(STACKS)/native/check $(STACKS)/native

# The same under qemu; what throws is left out: a C compiler is all that is needed of the cross tools.
check-stacks-aarch64: $(STACKS)/aarch64/check
	$(STACKS_QEMU) $(STACKS)/aarch64/check $(STACKS)/aarch64

# $(1) = folder, $(2) = prefix of the compilers, $(3) = what throws, $(4) = options of check.c
define stack_check_of
$$(STACKS_LEVELS:%=$(STACKS)/$(1)/frames_%_fp.o): $(STACKS)/$(1)/frames_%_fp.o: test/stacks/frames.c
	@mkdir -p $$(@D)
	$(2)gcc $$(STACKS_CFLAGS) -O$$* -fno-omit-frame-pointer -DSTEPS=frames_$$*_fp -MMD -MP -c $$< -o $$@
$$(STACKS_LEVELS:%=$(STACKS)/$(1)/frames_%.o): $(STACKS)/$(1)/frames_%.o: test/stacks/frames.c
	@mkdir -p $$(@D)
	$(2)gcc $$(STACKS_CFLAGS) -O$$* -fomit-frame-pointer -DSTEPS=frames_$$* -MMD -MP -c $$< -o $$@
$(STACKS)/$(1)/silent_fp.o: test/stacks/silent.c
	@mkdir -p $$(@D)
	$(2)gcc $$(STACKS_CFLAGS) -O1 -fno-asynchronous-unwind-tables -fno-omit-frame-pointer -DSTEP_NAME=silent_fp -c $$< -o $$@
$(STACKS)/$(1)/silent.o: test/stacks/silent.c
	@mkdir -p $$(@D)
	$(2)gcc $$(STACKS_CFLAGS) -O1 -fno-asynchronous-unwind-tables -fomit-frame-pointer -DSTEP_NAME=silent -c $$< -o $$@
$(STACKS)/$(1)/throwing.o: test/stacks/throwing.cc
	@mkdir -p $$(@D)
	$(2)g++ $$(WARNINGS) -I. -g -O2 -MMD -MP -c $$< -o $$@
$(STACKS)/$(1)/plugin1.so $(STACKS)/$(1)/plugin2.so: $(STACKS)/$(1)/plugin%.so: test/stacks/plugin.c
	@mkdir -p $$(@D)
	$(2)gcc $$(STACKS_CFLAGS) -O2 -fPIC -shared -DVARIANT=$$* -MMD -MP $$< -o $$@
$(STACKS)/$(1)/check.o: test/stacks/check.c
	@mkdir -p $$(@D)
	$(2)gcc $$(STACKS_CFLAGS) -O2 $(4) -MMD -MP -c $$< -o $$@
$(STACKS)/$(1)/shim/%.o: shim/%.c
	@mkdir -p $$(@D)
	$(2)gcc $$(SHIM_CFLAGS) $$(CFLAGS) $$(SHIM_OPTIMIZE) -MMD -MP -c $$< -o $$@
$(STACKS)/$(1)/librecorder.a: $$(STACKS_SHIM_SOURCES:%.c=$(STACKS)/$(1)/%.o)
	@rm -f $$@
	$(2)ar rcs $$@ $$^
$(STACKS)/$(1)/check: $$(STACKS_LEVELS:%=$(STACKS)/$(1)/frames_%.o) $$(STACKS_LEVELS:%=$(STACKS)/$(1)/frames_%_fp.o) \
    $(STACKS)/$(1)/check.o $(STACKS)/$(1)/silent.o $(STACKS)/$(1)/silent_fp.o $(3) \
    $(STACKS)/$(1)/librecorder.a $(STACKS)/$(1)/plugin1.so $(STACKS)/$(1)/plugin2.so
	$(2)gcc $$(filter %.o,$$^) $$(filter %.a,$$^) -pthread -ldl $(if $(3),-lstdc++) -o $$@
endef
$(eval $(call stack_check_of,native,,$(STACKS)/native/throwing.o,-DTHROWING))
$(eval $(call stack_check_of,aarch64,$(STACKS_CROSS)))
