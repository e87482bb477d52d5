/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/nccl/nccl_launches.h"

#include "shim/gpu/finish.h"
#include "shim/gpu/kernel_times.h"
#include "shim/nccl/plugin.h"

/* On one rank no plugin is told anything. Elsewhere a launch without stamps is one too many, unless NCCL did not load
 * the plugin after all. */
static bool launched_by_stamps(const struct communicator *c, struct kernel_span *kernel,
                               const struct gpu_launch *launch) {
    if (!kernel_times_live() || nccl_communicator(c)->device < 0 || c->size == 1) {
        kernel_span_drop(kernel);
        return false;
    }
    if (kernel) {
        kernel_span_launch(kernel, nccl_communicator(c)->device, launch);
    } else if (plugin_is_used()) {
        count_loss(&recorder.header->losses.gpu_no_event);
    } else {
        kernel_times_give_up("NCCL did not load commtap as its profiler plugin");
        return false;
    }
    return true;
}

static void note_launch(const struct gpu_launch *launch, bool followed) {
    if (launch->flags & FLAG_CAPTURED)
        return;
    if (!followed)
        finish_unfollowed(launch);
    __atomic_store_n(&launch->progress->launched_op, launch->op, __ATOMIC_RELEASE);
}

void nccl_launched(struct communicator *c, struct gpu_span *span, struct kernel_span *kernel,
                   const struct gpu_launch *launch, bool in_progress) {
    bool timed = launched_by_stamps(c, kernel, launch);
    note_launch(launch, span || (timed && kernel));
    if (in_progress && span) {
        nccl_communicator(c)->launch = *launch;
        __atomic_store_n(&nccl_communicator(c)->launching, span, __ATOMIC_RELEASE);
        return;
    }
    gpu_span_end(span, launch);
    if (!timed && launch->collectives &&
        (nccl_communicator(c)->device < 0 || gpu.kernel || (launch->overlaps && !span)))
        nccl_progress_untimed(c->progress);
}

void nccl_drop_launching(struct communicator *c) {
    struct gpu_span *span = __atomic_exchange_n(&nccl_communicator(c)->launching, NULL, __ATOMIC_ACQ_REL);
    if (!span)
        return;
    gpu_span_drop(span);
    finish_unfollowed(&nccl_communicator(c)->launch);
    count_loss(&recorder.header->losses.gpu_no_event);
}
