# SPDX-License-Identifier: Apache-2.0
#
# The NCCL demo: training on GPUs with a slow rank, on the stand-in GPU or, with DEMO_GPU=1, on the real ones here.
#
#   make demo-nccl

.PHONY: demo-nccl demo-nccl-run
$(BUILD)/test/programs/nccl/train: test/programs/nccl/train.c test/programs/network.h test/programs/nccl/unique_id.h \
    test/standin/nccl_api.h test/standin/cudart_api.h | standin
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O1 -g $(WARNINGS) -I. -pthread $< -o $@ -L$(STANDIN) -lnccl -lcudart -lm
programs: $(BUILD)/test/programs/nccl/train

DEMO_NCCL := $(BUILD)/demo-nccl
demo-nccl: export OMPI_ALLOW_RUN_AS_ROOT := 1
demo-nccl: export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
demo-nccl: export OMPI_MCA_rmaps_base_oversubscribe := 1
demo-nccl: export TRAIN_ID_FILE := $(abspath $(DEMO_NCCL).id)
DEMO_NCCL_LIBRARIES = $(if $(DEMO_GPU),,LD_LIBRARY_PATH=$(abspath $(STANDIN)):$$LD_LIBRARY_PATH)
demo-nccl: deps-demo
	@$(MAKE) -s --no-print-directory all $(BUILD)/test/programs/nccl/train
	@$(MAKE) --no-print-directory demo-nccl-run
demo-nccl-run:
	@rm -rf $(DEMO_NCCL) $(DEMO_NCCL).id
	$(DEMO_NCCL_LIBRARIES) $(BUILD)/commtap run -o $(DEMO_NCCL) -- \
	    mpirun$(DEMO_MPI) -n 4 $(BUILD)/test/programs/nccl/train --slow-rank 2 --slow-ms 8
	$(BUILD)/commtap report $(DEMO_NCCL)
