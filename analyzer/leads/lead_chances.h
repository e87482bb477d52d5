/* SPDX-License-Identifier: Apache-2.0
 *
 * The chance that leads come to as much where nobody is slow.
 * Lives here: the test. Must not live here: what it is asked of, and what comes of it (leads.h).
 */
#ifndef COMMTAP_LEADS_LEAD_CHANCES_H
#define COMMTAP_LEADS_LEAD_CHANCES_H

#include "analyzer/leads/lead_rows.h"

#define CHANCE_LOOKED_AT 0.05 /* what is likelier than a suspicion (CONFIDENCE_SUSPECT) is not looked at further */
/* Of a verdict at most, corrected for all tests: its confidence is 1 - 10 times that (significance.h). */
#define CHANCE_SURE 0.01

/* Whose leads are asked about. */
struct question {
    size_t column, partner; /* what either of them has; of a single rank the same twice */
    bool shared;            /* what it leads by together with any other one, not what it leads by alone */
    struct left_out out;    /* where it is measured how much rows resemble each other */
    bool exact;             /* not its bound alone: of a rank that nothing of the table chose */
};

struct lead_sums {
    double own, all, largest;
};

/* The sums over all rows, of leads that count. */
struct lead_sums sum_of_leads(const struct lead_rows *rows, const struct question *question);

/* The chance that the leads asked about sum to as much, each row for itself. Negative: no memory. */
double chance_of_sum(const struct lead_rows *rows, const struct question *question);

/* The same where rows may resemble each other: as many as count as one, and one more, are added up first. `scratch` has
 * room for all columns. Negative: no memory. */
double chance_of(struct lead_rows *apart, const struct question *question, double *scratch);

/* The chance that as many of the large leads are those asked about, however large each is: of a single one its share,
 * whatever small ones go with it. Large are leads half as large as those that make up most of what the ones asked about
 * sum to, and larger: *least becomes where that begins. Negative: no memory. */
double chance_of_large(const struct lead_rows *rows, const struct question *question, double *least);

/* What is likelier is not looked at further. Corrected for testing all ranks, a chance comes out as if it were as many
 * times larger as there are more ranks than such that lead at all, of which each row has two at most. */
double looked_at(const struct lead_rows *rows);

#endif
