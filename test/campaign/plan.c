// SPDX-License-Identifier: Apache-2.0
#include "test/campaign/plan.h"

#include <math.h>
#include <stdlib.h>

enum { PERIOD = 20, WARM_UP_STEPS = 10, PAUSE_ONE_IN = 60 };
static const double PI = 3.14159265358979323846;

const char *const fault_names[FAULT_COUNT] = {"none", "slow13",     "slow2", "slow5",   "rare",
                                              "half", "checkpoint", "two",   "receiver"};
const char *const noise_names[NOISE_COUNT] = {"gaussian", "pareto", "drift", "correlated", "pauses"};
const char *const trait_names[TRAIT_COUNT] = {"plain", "warm-up", "late start"};

// SplitMix64: the sequence is the same with every compiler and C library.
static uint64_t next_word(uint64_t *state) {
    uint64_t word = *state += 0x9e3779b97f4a7c15;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
}

// In (0, 1), never an end of it: logarithms and roots of it are finite.
static double uniform(uint64_t *state) {
    return ((double)(next_word(state) >> 12) + 0.5) / 4503599627370496.0;
}

static double between(uint64_t *state, double low, double high) {
    return low + (high - low) * uniform(state);
}

static int below(uint64_t *state, int count) {
    return (int)(uniform(state) * count);
}

static double gaussian(uint64_t *state) {
    double radius = sqrt(-2 * log(uniform(state)));
    return radius * cos(2 * PI * uniform(state));
}

// How many times as long as usual each computation takes: the same for all ranks on average, so that none is slower
// than another but by chance. A drift is common to all of them.
static void draw_noise(struct plan *plan, uint64_t *state, double strength) {
    double carried = gaussian(state);
    for (int i = 0; i < plan->base_count; i++) {
        double times = 1 + strength * gaussian(state);
        switch (plan->noise) {
        case NOISE_PARETO: // shape 2.5, mean 1, over a third of the work; its rare extremes are cut off at 20
            times = 0.67 + 0.33 * fmin(0.6 * pow(uniform(state), -1 / 2.5), 60);
            break;
        case NOISE_DRIFT:
            times *= 0.75 + 0.5 * i / plan->base_count;
            break;
        case NOISE_CORRELATED: // first-order autoregressive: runs of about five steps
            carried = 0.8 * carried + 0.6 * gaussian(state);
            times = 1 + strength * carried;
            break;
        case NOISE_PAUSES:
            times += uniform(state) < 1.0 / PAUSE_ONE_IN ? between(state, 5, 15) : 0;
            break;
        case NOISE_GAUSSIAN:
        default:
            break;
        }
        plan->base_us[i] = plan->step_us / plan->shape.segments * fmax(times, 0.2);
    }
}

// The first steps of all ranks, each so long that they together take longer than the rest.
static void prolong_warm_up(struct plan *plan) {
    int per_step = plan->base_count / plan->steps;
    double times = 1.2 * (plan->steps - WARM_UP_STEPS) / WARM_UP_STEPS;
    for (int i = 0; i < WARM_UP_STEPS * per_step; i++)
        plan->base_us[i] *= times;
}

static double factor_of(enum fault fault, uint64_t *state) {
    double drawn = between(state, 1.5, 2.5);
    static const double fixed[FAULT_COUNT] = {
        [FAULT_SLOW13] = 1.3, [FAULT_SLOW2] = 2, [FAULT_SLOW5] = 5, [FAULT_RARE] = 7, [FAULT_HALF] = 1.3};
    return fixed[fault] > 0 ? fixed[fault] : drawn;
}

static bool choose_victims(struct plan *plan, uint64_t *state) {
    int first = plan->shape.has_master ? 1 : 0, workers = plan->ranks - first;
    for (int i = 0; i < 2; i++)
        plan->factors[i] = factor_of(plan->fault, state);
    plan->victims[0] = first + below(state, workers);
    plan->victims[1] = first + (plan->victims[0] - first + 1 + below(state, workers - 1)) % workers;
    plan->victim_count = plan->fault == FAULT_NONE ? 0 : plan->fault == FAULT_TWO ? 2 : 1;
    if (plan->fault == FAULT_CHECKPOINT) {
        plan->victims[0] = 0;
        return true;
    }
    // Somebody must be left with whom a slow worker can be compared.
    return workers > plan->victim_count;
}

// What a step takes on average (us): the slowest rank, or all ranks' work where they share the cores.
static double expected_step_us(const struct plan *plan, int cores) {
    double longest = 1, total = plan->ranks, share = 1;
    for (int i = 0; i < plan->victim_count && plan->fault != FAULT_CHECKPOINT; i++) {
        longest = fmax(longest, plan->factors[i]);
        total += plan->factors[i] - 1;
    }
    if (plan->fault == FAULT_RARE)
        share = 1.0 / PERIOD;
    if (plan->fault == FAULT_HALF)
        share = 0.5;
    double even = fmax(1, (double)plan->ranks / cores), faulty = fmax(longest, total / cores);
    double times = even * (1 - share) + faulty * share;
    if (plan->noise == NOISE_PAUSES)
        times += 10.0 * plan->ranks / PAUSE_ONE_IN;
    return plan->step_us * times + (plan->fault == FAULT_CHECKPOINT ? plan->checkpoint_us / PERIOD : 0);
}

static int choose_steps(const struct plan *plan, double target_us, int cores) {
    double room_us = plan->trait == TRAIT_WARM_UP ? target_us / 2.2 : target_us;
    int steps = (int)(room_us / expected_step_us(plan, cores));
    return (plan->trait == TRAIT_WARM_UP ? WARM_UP_STEPS : 0) + (steps < 40 ? 40 : steps);
}

bool plan_draw(struct plan *plan, uint64_t seed, int cores) {
    uint64_t state = seed;
    if (plan->ranks < 2)
        return false;
    plan->noise = (enum noise)below(&state, NOISE_COUNT);
    int lot = below(&state, 20);
    plan->trait = lot < 3 ? TRAIT_WARM_UP : lot < 6 ? TRAIT_LATE_START : TRAIT_PLAIN;
    plan->step_us = between(&state, 2000, 6000);
    plan->checkpoint_us = between(&state, 60000, 150000);
    plan->message_bytes = (int)(64 * pow(1024, uniform(&state)));
    double strength = between(&state, 0.03, 0.1);
    double target_us = between(&state, 1.5e6, 2.5e6), late_us = between(&state, 1e5, 3e5);
    plan->late_start_us = plan->trait == TRAIT_LATE_START && below(&state, plan->ranks) == plan->rank ? late_us : 0;
    if (!choose_victims(plan, &state))
        return false;
    plan->steps = choose_steps(plan, target_us, cores);

    uint64_t own = seed ^ (plan->shape.common_list ? 0 : (uint64_t)(plan->rank + 1) << 32);
    int lists = plan->shape.common_list ? plan->ranks - 1 : 1;
    plan->base_count = plan->steps * plan->shape.segments * lists;
    plan->base_us = calloc((size_t)plan->base_count, sizeof *plan->base_us);
    if (!plan->base_us)
        return false;
    if (plan->shape.has_master && plan->rank == 0)
        return true;
    draw_noise(plan, &own, strength);
    if (plan->trait == TRAIT_WARM_UP)
        prolong_warm_up(plan);
    return true;
}

double plan_extra_us(const struct plan *plan, int step, int index) {
    for (int i = 0; i < plan->victim_count; i++) {
        bool first_of_period = index % plan->shape.segments == 0 && step % PERIOD == PERIOD - 1;
        if (plan->victims[i] != plan->rank)
            continue;
        if (plan->fault == FAULT_CHECKPOINT)
            return first_of_period ? plan->checkpoint_us : 0;
        if (plan->fault == FAULT_RARE && step % PERIOD != PERIOD - 1)
            return 0;
        if (plan->fault == FAULT_HALF && step < plan->steps / 2)
            return 0;
        return plan->base_us[index] * (plan->factors[i] - 1);
    }
    return 0;
}
