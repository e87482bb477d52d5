// SPDX-License-Identifier: Apache-2.0
//
// What every rank of a made-up job computes in every step, drawn from a seed: noise, traits, the planted fault.
// Must not live here: MPI, clocks, how a kind of job communicates.
#ifndef COMMTAP_TEST_CAMPAIGN_PLAN_H
#define COMMTAP_TEST_CAMPAIGN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum fault {
    FAULT_NONE,
    FAULT_SLOW13,     // 1.3 times as long throughout
    FAULT_SLOW2,      // 2 times
    FAULT_SLOW5,      // 5 times
    FAULT_RARE,       // 7 times in every 20th step
    FAULT_HALF,       // 1.3 times in the second half
    FAULT_CHECKPOINT, // rank 0 writes 60 to 150 ms in every 20th step
    FAULT_TWO,        // two ranks, 1.5 to 2.5 times each
    FAULT_RECEIVER,   // computes on between what it sends and its receives, while the senders wait
    FAULT_COUNT,
};

enum noise { NOISE_GAUSSIAN, NOISE_PARETO, NOISE_DRIFT, NOISE_CORRELATED, NOISE_PAUSES, NOISE_COUNT };
enum trait { TRAIT_PLAIN, TRAIT_WARM_UP, TRAIT_LATE_START, TRAIT_COUNT };

extern const char *const fault_names[FAULT_COUNT];
extern const char *const noise_names[NOISE_COUNT];
extern const char *const trait_names[TRAIT_COUNT];

// What the kind of job asks of the plan.
struct shape {
    int segments;     // computations per step, one before each communication
    bool has_master;  // rank 0 hands out work and does none
    bool common_list; // the work is one list that the workers share, not one per rank
};

struct plan {
    enum fault fault;
    enum noise noise;
    enum trait trait;
    struct shape shape;
    int ranks, rank, steps;
    int victims[2], victim_count;
    double factors[2];    // how many times as long a victim takes
    double step_us;       // what a step takes without noise, all of its segments together
    double checkpoint_us; // what a checkpoint takes
    double late_start_us; // what this rank computes before its first step
    int message_bytes;
    int base_count;
    double *base_us; // per computation of this rank, or of the common list
};

// Fills plan from the seed; every rank draws the same but for its own noise. cores: how many the ranks share.
// False where memory is short or the job has too few ranks for this fault.
bool plan_draw(struct plan *plan, uint64_t seed, int cores);

// What the fault adds to computation number index, which belongs to that step (us).
double plan_extra_us(const struct plan *plan, int step, int index);

#endif
