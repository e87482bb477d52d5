/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/budget.h"

void budget_begin(struct budget *budget, uint32_t millionths, uint64_t second, uint64_t now) {
    *budget = (struct budget){
        .millionths = millionths, .second = second, .whole.since = now, .step.since = now, .changed = now};
}

static uint64_t passed(const struct budget_account *account, uint64_t now) {
    return now > account->since ? now - account->since : 0;
}

static void account_spend(struct budget_account *account, uint64_t spent, uint64_t now, uint64_t memory) {
    account->spent += spent;
    if (passed(account, now) <= memory)
        return;
    account->since = now - memory / 2;
    account->spent /= 2;
}

/* Was more spent than so many per cent of the budget? */
static bool exceeds(const struct budget *b, const struct budget_account *account, uint64_t now, uint32_t percent) {
    return (unsigned __int128)account->spent * 100000000u >
           (unsigned __int128)passed(account, now) * b->millionths * percent;
}

static bool change(struct budget *b, uint32_t shed, uint64_t now) {
    b->shed = shed;
    b->step = (struct budget_account){.since = now};
    b->changed = now;
    b->samples = 0;
    return true;
}

static uint32_t highest(uint32_t steps) {
    return 1u << (31 - __builtin_clz(steps));
}

bool budget_spend(struct budget *b, uint64_t spent, uint64_t now, uint32_t available) {
    uint64_t memory = BUDGET_MEMORY_S * b->second;
    uint32_t left = available & ~b->shed;
    if (b->millionths == 0)
        return false;
    account_spend(&b->whole, spent, now, memory);
    account_spend(&b->step, spent, now, memory);
    if (++b->samples < BUDGET_SAMPLES)
        return false;
    if (left && exceeds(b, &b->whole, now, 100) && exceeds(b, &b->step, now, 100))
        return change(b, b->shed | (left & -left), now);
    if (b->shed && !exceeds(b, &b->whole, now, BUDGET_LOW) && now - b->changed >= BUDGET_DWELL_S * b->second)
        return change(b, b->shed & ~highest(b->shed), now);
    return false;
}
