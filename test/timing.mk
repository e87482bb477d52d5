# GPU timing on the stand-in's driver: the library's engine with a door for tests, and one-process jobs.
# Must not live here: how the stand-in is built (standin.mk).

TIMING := $(BUILD)/test/timing

programs: $(TIMING)/scenes $(TIMING)/show

$(TIMING)/engine.o: test/timing/engine.c
	@mkdir -p $(@D)
	$(CC) $(SHIM_CFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

$(TIMING)/libengine.so: $(SHIM_OBJECTS) $(TIMING)/engine.o
	$(CC) $(CFLAGS) -shared -Wl,-z,nodelete -Wl,--no-undefined -Wl,-soname,libengine.so $^ -o $@

# libengine.so comes first: what it intercepts is then its own.
$(TIMING)/scenes: test/timing/scenes.c $(TIMING)/libengine.so $(BUILD)/standin/libcudart.so.13
	$(CC) $(COMMON_CFLAGS) -O1 -g -pthread $(filter %.c,$^) $(TIMING)/libengine.so $(BUILD)/standin/libcudart.so.13 \
	    $(BUILD)/standin/libcuda.so.1 \
	    '-Wl,-rpath,$$ORIGIN' -o $@

$(TIMING)/show: test/timing/show.c
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -MMD -MP $< -o $@

programs: $(TIMING)/ranks
$(TIMING)/ranks: test/timing/ranks.c | standin
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) -O1 -g -MMD -MP $< -o $@ -L$(BUILD)/standin -lnccl -lcudart
