/* SPDX-License-Identifier: Apache-2.0
 *
 * COMMTAP_BUDGET: what commtap may take of the job's time, and which of its work is left out to stay within.
 * Work is shed in steps (enum shed_step), one after the other, while what commtap took exceeds the budget and what it
 * takes with the steps in force does, too; the last step is taken back when less than BUDGET_LOW of the budget is used.
 * So the share swings between the two, or stays below where nothing need be shed.
 * Lives here: the account and the decision. Must not live here: what a step leaves out, how the cost is measured
 * (intercept/own_cost.h).
 */
#ifndef COMMTAP_SHIM_RECORD_BUDGET_H
#define COMMTAP_SHIM_RECORD_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BUDGET_LOW = 80,      /* per cent of the budget: 20 % below what was set, the most that it may be missed by */
    BUDGET_SAMPLES = 8,   /* before a step is judged: less than this tells chance from cost badly */
    BUDGET_MEMORY_S = 60, /* what was taken longer ago counts half, and less: a quiet hour is no credit */
    BUDGET_DWELL_S = 1,   /* a step that was taken lasts so long at least */
};

/* What was taken since when. */
struct budget_account {
    uint64_t since, spent; /* ticks */
};

struct budget {
    uint32_t millionths;               /* of the time, 0: no limit */
    uint32_t shed;                     /* steps in force, bit i = enum shed_step i */
    uint64_t second;                   /* in ticks */
    struct budget_account whole, step; /* lately; since the steps changed */
    uint64_t changed;                  /* when that was */
    uint32_t samples;                  /* since then */
};

void budget_begin(struct budget *budget, uint32_t millionths, uint64_t second, uint64_t now);

/* commtap took another `spent` ticks, all up to `now`; `available`: steps that leave out anything in this process.
 * Returns whether the steps in force changed. */
bool budget_spend(struct budget *budget, uint64_t spent, uint64_t now, uint32_t available);

#endif
