/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of advice.h.
 */
#include "analyzer/analyse/advice.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/analyse/findings_gpu.h"

enum { STEPS_MIN = 4 };
#define INTERVAL_LEAST 0.01 /* of a step: a shorter interval is nobody's trouble, however it compares */

struct advice_limits advice_standard(void) {
    return (struct advice_limits){.interval = 20, .communication = 10, .receive = 10, .collective = 10};
}

bool advice_parse(const char *text, struct advice_limits *limits) {
    const struct {
        const char *name;
        double *value;
    } known[] = {{"interval", &limits->interval},
                 {"communication", &limits->communication},
                 {"receive", &limits->receive},
                 {"collective", &limits->collective}};
    while (*text) {
        size_t length = strcspn(text, "=");
        double *value = NULL;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strlen(known[i].name) == length && strncmp(known[i].name, text, length) == 0)
                value = known[i].value;
        if (!value || text[length] != '=' || text[length + 1] < '0' || text[length + 1] > '9')
            return false;
        char *end;
        *value = strtod(text + length + 1, &end);
        if (*end != '\0' && *end != ',')
            return false;
        text = *end ? end + 1 : end;
    }
    return true;
}

/* A rank's steps, summed up. */
struct sums {
    uint64_t steps;
    double length, interval, communication, receive, collective; /* ns */
    bool collective_known;
};

static struct sums sum_up(const struct rank_steps *rank) {
    struct sums sums = {.collective_known = true};
    for (size_t i = 0; i < rank->count; i++) {
        const struct step *step = &rank->steps[i];
        sums.steps++;
        sums.length += (double)(step->end_ns - step->start_ns);
        sums.interval += (double)step->first_ns;
        sums.communication += (double)step->communication_alone_ns;
        sums.receive += (double)step->receive_alone_ns;
        sums.collective_known &= step->collective_alone_ns != STEP_UNKNOWN;
        if (sums.collective_known)
            sums.collective += (double)step->collective_alone_ns;
    }
    return sums;
}

static void add_interval(struct findings *findings, const struct sums *sums, const struct steps *steps,
                         const struct job *job, const struct advice_limits *limits) {
    double mean = 0, step = 0;
    size_t ranks = 0, worst = 0, slow = 0;
    for (size_t r = 0; r < steps->rank_count; r++) {
        if (sums[r].steps == 0)
            continue;
        mean += sums[r].interval / (double)sums[r].steps;
        step += sums[r].length / (double)sums[r].steps;
        ranks++;
    }
    if (ranks < 2)
        return;
    mean /= (double)ranks;
    step /= (double)ranks;
    double most = mean * (1 + limits->interval / 100);
    for (size_t r = 0; r < steps->rank_count; r++) {
        double own = sums[r].steps ? sums[r].interval / (double)sums[r].steps : 0;
        slow += own > most && own - mean > INTERVAL_LEAST * step;
        if (own > (sums[worst].steps ? sums[worst].interval / (double)sums[worst].steps : 0))
            worst = r;
    }
    if (slow > 0)
        findings_add(
            findings, FINDING_STEP_INTERVAL,
            "steps begin late on %zu of %zu ranks, most of all on rank %" PRId32 ": %.2f ms before its first "
            "operation, %.2f ms on average. That is data loading, its host, or work before the first operation.",
            slow, ranks, job->dumps[steps->ranks[worst].dump]->header->rank,
            sums[worst].interval / (double)sums[worst].steps / 1e6, mean / 1e6);
}

static void add_shares(struct findings *findings, const struct sums *sums, const struct steps *steps,
                       const struct job *job, const struct advice_limits *limits) {
    double length = 0, communication = 0, receive = 0, worst_share = 0;
    size_t worst = 0;
    for (size_t r = 0; r < steps->rank_count; r++) {
        length += sums[r].length;
        communication += sums[r].communication;
        receive += sums[r].receive;
        double share = sums[r].collective_known && sums[r].length > 0 ? sums[r].collective / sums[r].length : 0;
        if (share > worst_share) {
            worst_share = share;
            worst = r;
        }
    }
    if (length <= 0)
        return;
    if (communication * 100 > length * limits->communication)
        findings_add(findings, FINDING_STEP_COMMUNICATION,
                     "communication that nothing hides takes %.0f %% of the steps (more than %.0f %% is worth a look).",
                     100 * communication / length, limits->communication);
    if (receive * 100 > length * limits->receive)
        findings_add(findings, FINDING_STEP_RECEIVE,
                     "receiving that nothing overlaps takes %.0f %% of the steps (more than %.0f %% is worth a look): "
                     "the stages of a pipeline wait for each other.",
                     100 * receive / length, limits->receive);
    if (worst_share * 100 > limits->collective && worst_share * length > 1.2 * communication)
        findings_add(findings, FINDING_STEP_COLLECTIVE,
                     "rank %" PRId32 " spends %.0f %% of its steps in collectives that nothing hides, the most of all.",
                     job->dumps[steps->ranks[worst].dump]->header->rank, 100 * worst_share);
}

void advice_add(struct findings *findings, const struct steps *steps, const struct job *job,
                const struct advice_limits *limits) {
    if (steps->count < STEPS_MIN)
        return;
    struct sums *sums = calloc(steps->rank_count + 1, sizeof *sums);
    if (!sums) {
        findings->no_memory = true;
        return;
    }
    for (size_t r = 0; r < steps->rank_count; r++)
        sums[r] = sum_up(&steps->ranks[r]);
    add_interval(findings, sums, steps, job, limits);
    add_shares(findings, sums, steps, job, limits);
    free(sums);
}
