/* SPDX-License-Identifier: Apache-2.0 */
#include "test/fuzz/staged.h"

enum { ROUNDS_MAX = 96, ACTIONS_MAX = 24, GROUP_ODD = 1 };

struct plan {
    const uint8_t *data;
    size_t size;
    unsigned ranks;
    bool gpu;
};

static struct action collective(const struct plan *plan, const struct fuzz_step *step, uint32_t group) {
    static const uint16_t mpi[] = {BUILDER_ALLREDUCE, BUILDER_BARRIER, BUILDER_ALLGATHER};
    static const uint16_t nccl[] = {BUILDER_NCCL_ALL_REDUCE, BUILDER_NCCL_ALL_GATHER, BUILDER_NCCL_ALL_REDUCE};
    uint64_t bytes = UINT64_C(1) << (step->y & 0x1f);
    return (struct action){.act = ACT_COLLECTIVE,
                           .call = plan->gpu ? nccl[step->what % 3] : mpi[step->what % 3],
                           .group = group,
                           .bytes = bytes};
}

/* Everybody sends to the one so many places on, and receives from the one so many before. */
static void exchange(const struct plan *plan, const struct fuzz_step *step, unsigned rank, struct script *script) {
    unsigned shift = 1 + (step->what & 7) % (plan->ranks > 1 ? plan->ranks - 1 : 1);
    struct action action = {.tag = step->what >> 3 & 3, .bytes = UINT64_C(1) << (step->y & 0x1f)};
    action.act = ACT_IRECEIVE;
    action.peer = (int32_t)((rank + plan->ranks - shift % plan->ranks) % plan->ranks);
    script_add(script, action);
    action.act = ACT_ISEND;
    action.peer = (int32_t)((rank + shift) % plan->ranks);
    script_add(script, action);
    script_add(script, (struct action){.act = ACT_WAIT_ALL});
}

/* Own work, the same for all but for those that are meant, in the rounds that are meant. */
static struct action work(const struct fuzz_step *step, unsigned rank, unsigned round) {
    bool slow = step->who >> rank & 1 && round % (1 + (step->what & 15)) == 0;
    int64_t ns = 1000 + step->x * INT64_C(16) + (slow ? step->y * INT64_C(64) : 0);
    return (struct action){.act = ACT_WORK, .ns = ns + (int64_t)((rank * 7 + round * 13) % 11 * (step->value & 0xff))};
}

static void write_round(void *context, unsigned rank, unsigned round, struct script *script) {
    const struct plan *plan = context;
    size_t count = step_count(plan->size);
    for (size_t i = 1; i < count && i < ACTIONS_MAX; i++) {
        struct fuzz_step step = step_at(plan->data, plan->size, i);
        switch (step.op % 5) {
        case 0:
            script_add(script, collective(plan, &step, 0));
            break;
        case 1:
            if (plan->gpu)
                script_add(script, collective(plan, &step, 0));
            else
                exchange(plan, &step, rank, script);
            break;
        case 2:
            script_add(script, work(&step, rank, round));
            break;
        case 3:
            if (rank % 2)
                script_add(script, collective(plan, &step, GROUP_ODD));
            break;
        default:
            if (plan->gpu)
                script_add(script, (struct action){.act = ACT_SYNC});
        }
    }
}

struct stage *staged_play(const uint8_t *data, size_t size, unsigned ranks, bool compact) {
    struct fuzz_step first = step_at(data, size, 0);
    struct plan plan = {.data = data, .size = size, .ranks = ranks, .gpu = first.what & 0x80};
    bool slow_link = first.who & 1 && ranks > 1;
    struct actor_rules rules = {
        .seed = first.value & 0xffff,
        .ranks = ranks,
        .ranks_per_host = first.y & 3,
        .latency = 1000 + (first.y >> 2 & 0xff) * 100.0,
        .bandwidth = 1 + (first.y >> 10),
        .slow_from = slow_link ? 0 : -1,
        .slow_to = slow_link ? (int)(1 + (first.who >> 1) % (ranks - 1)) : -1,
        .slow_link = slow_link ? 1.0 / (2 + (first.who >> 4)) : 1,
        .slow_hosts = {first.x & 1, first.x >> 1 & 1},
        .between_hosts = first.x >> 2 & 1,
        .hosts_per_switch = first.x >> 3 & 3,
        .switch_latency = (first.x >> 5 & 0xff) * 1000.0,
        .outliers = first.x >> 15 ? 0.05 : 0,
        .gpu = plan.gpu,
        .clocks = {.offset = first.x >> 14 & 1, .drift = first.x >> 13 & 1 ? 1e-5 : 0, .wander = 0, .realtime = 0.1},
        .ring_records = 256u << first.what % 4,
        .compact = compact,
    };
    struct stage *stage = stage_new(&rules);
    if (ranks > 1)
        stage_group(stage, "odd", 1, ranks / 2, 2);
    stage_play(stage, 8 + (unsigned)(first.value >> 16) % ROUNDS_MAX, write_round, &plan);
    return stage;
}
