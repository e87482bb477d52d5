/* SPDX-License-Identifier: Apache-2.0
 *
 * What MindSpore Insight's assistant would point at: shares of a step that are larger than they should be, links whose
 * bandwidth is below their like.
 * Lives here: its thresholds and their comparison with the job's steps and links.
 * Must not live here: finding steps (steps.h), comparing links (link_bandwidth.h), who is to blame.
 */
#ifndef COMMTAP_FINDINGS_ADVICE_H
#define COMMTAP_FINDINGS_ADVICE_H

#include "analyzer/findings/finding.h"
#include "analyzer/links/link_bandwidth.h"
#include "analyzer/steps/steps.h"

/* In per cent; the standard ones are the assistant's own. */
struct advice_limits {
    double interval;      /* a rank's step interval above the mean of all ranks: 20 */
    double communication; /* communication that nothing hides, of the steps: 10 */
    double receive;       /* receiving that no other communication overlaps, of the steps: 10 */
    double collective;    /* unhidden communication other than receiving, of the steps of a pipeline's
                             stage, or of a rank where stages are not known: 10 */
    double link;          /* a link's bandwidth below the mean of its type: 20 */
};

struct advice_limits advice_standard(void);
/* "interval=30,receive=5": changes the limits named. Returns false when it is not of that form. */
bool advice_parse(const char *text, struct advice_limits *limits);

/* Adds a finding for each limit that is exceeded. Steps of one rank, or none, say nothing about intervals. `stage_of`:
 * per dump, 0 = unknown (stragglers.h). */
void advice_add(struct findings *findings, const struct steps *steps, const struct job *job, const uint32_t *stage_of,
                const struct advice_limits *limits);
/* The same of links: those that are that far below beyond chance and what
 * such links differ by anyway (two standard deviations), the worst by name. */
void advice_add_links(struct findings *findings, const struct links *links, const struct advice_limits *limits);

#endif
