# What only a real GPU can show, as one command for a machine with one GPU, CUDA 13, PyTorch and no network; under ten
# minutes. Prints one line per item and leaves build/gpu/RESULTS.md.
#
#   make check-gpu            on the GPU here
#   make check-gpu-standin    the same items as far as the stand-in can show them: that the check itself works

GPU := $(BUILD)/gpu
GPU_STATIC_RUNTIME := $(firstword $(wildcard /usr/local/cuda/lib64/libcudart_static.a \
    /usr/local/cuda-13*/lib64/libcudart_static.a $(CUDA_HOME)/lib64/libcudart_static.a))

.PHONY: check-gpu check-gpu-standin
check-gpu: all $(GPU)/probe $(if $(GPU_STATIC_RUNTIME),$(GPU)/probe-static) $(BUILD)/test/timing/show
	$(PYTHON) test/gpu/check.py --build $(abspath $(BUILD))
check-gpu-standin: all $(GPU)/probe $(if $(GPU_STATIC_RUNTIME),$(GPU)/probe-static) $(BUILD)/test/timing/show
	$(PYTHON) test/gpu/check.py --build $(abspath $(BUILD)) --standin

# The names of the vendor's libraries come from the stand-in's; which ones are loaded the loader's path decides.
$(GPU)/probe: test/gpu/probe.c test/standin/cudart_api.h test/standin/nccl_api.h | standin
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -pthread $< -o $@ -L$(STANDIN) -lnccl -lcudart -lcuda -ldl

$(GPU)/probe-static: test/gpu/probe.c test/standin/cudart_api.h test/standin/nccl_api.h | standin
	@mkdir -p $(@D)
	$(CC) $(COMMON_CFLAGS) $(CFLAGS) -pthread $< -o $@ -L$(STANDIN) -lnccl $(GPU_STATIC_RUNTIME) -lcuda -ldl -lrt -lstdc++
