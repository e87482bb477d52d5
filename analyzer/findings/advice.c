/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/findings/advice.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/findings/words.h"

enum { STEPS_MIN = 4 };
#define INTERVAL_LEAST 0.01 /* of a step: a shorter interval is nobody's trouble, however it compares */

struct advice_limits advice_standard(void) {
    return (struct advice_limits){.interval = 20, .communication = 10, .receive = 10, .collective = 10, .link = 20};
}

bool advice_parse(const char *text, struct advice_limits *limits) {
    const struct {
        const char *name;
        double *value;
    } known[] = {{"interval", &limits->interval},
                 {"communication", &limits->communication},
                 {"receive", &limits->receive},
                 {"collective", &limits->collective},
                 {"link", &limits->link}};
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

/* A rank's steps, summed up: ns, NAN where one of them is not known. */
struct sums {
    uint64_t steps, sends;
    double length, interval, communication, receive, collective;
    double longest; /* interval: one pause is no habit, however long */
    double queued;  /* of the interval */
    uint8_t begins; /* all of them so (enum step_begin); STEP_BEGINS: one so, one otherwise */
};

static double ns_of(int64_t ns) {
    return ns == STEP_UNKNOWN ? NAN : (double)ns;
}

static struct sums sum_up_steps(const struct rank_steps *rank) {
    struct sums sums = {0};
    for (size_t i = 0; i < rank->count; i++) {
        const struct step *step = &rank->steps[i];
        sums.begins = i == 0 || step->begins == sums.begins ? step->begins : STEP_BEGINS;
        sums.steps++;
        sums.sends += step->sends;
        sums.length += (double)(step->end_ns - step->start_ns);
        sums.interval += ns_of(step->first_ns);
        if (ns_of(step->first_ns) > sums.longest)
            sums.longest = ns_of(step->first_ns);
        sums.queued += ns_of(step->queued_ns);
        sums.communication += ns_of(step->communication_alone_ns);
        sums.receive += ns_of(step->receive_alone_ns);
        sums.collective += ns_of(step->collective_alone_ns);
    }
    return sums;
}

/* Share of the steps of those ranks that know it, in per cent; 0 where none does. */
static double share_of_steps(const struct sums *sums, size_t count, size_t offset) {
    double part = 0, length = 0;
    for (size_t r = 0; r < count; r++) {
        double own = *(const double *)((const char *)&sums[r] + offset);
        if (sums[r].steps > 0 && !isnan(own)) {
            part += own;
            length += sums[r].length;
        }
    }
    return length > 0 ? 100 * part / length : 0;
}

/* How long the others' first operations were in their streams before they ran, on average; 0: none tells. */
static double queued_by_others(const struct sums *sums, size_t count, size_t late) {
    double queued = 0;
    size_t known = 0;
    for (size_t r = 0; r < count; r++)
        if (r != late && sums[r].steps > 0 && sums[r].begins == sums[late].begins && !isnan(sums[r].queued)) {
            queued += sums[r].queued / (double)sums[r].steps;
            known++;
        }
    return known > 0 ? queued / (double)known : 0;
}

/* Where the operation was in its stream for longer than those of the others, by most of what it came late, its host was
 * not what it waited for. A host that is late enqueues as long ahead of its GPU as the others do. */
static const char *cause_of_lateness(const struct steps *steps, const struct sums *sums, size_t late, double late_ns) {
    if (steps->ranks[late].device && isnan(sums[late].queued))
        return "When it was enqueued is not known: that is its host or its GPU.";
    double queued = sums[late].queued / (double)sums[late].steps;
    if (!isnan(queued) && 2 * (queued - queued_by_others(sums, steps->rank_count, late)) > late_ns)
        return "That is work on its GPU: the operation had been enqueued before.";
    return "That is data loading, its host, or work before the first operation.";
}

/* On average, without the longest one. Of a single step it is 0. */
static double usual_interval(const struct sums *sums) {
    return sums->steps > 1 ? (sums->interval - sums->longest) / (double)(sums->steps - 1) : 0;
}

/* What one of its GPU's times is known to. Of our own dumps the width of an anchor is about where the GPU's clock
 * stands on the host's, and intervals on it are exact; what another tool tells was seen when that looked: a flight
 * recorder's watchdog every 100 ms, alike in every step of a regular loop, so that no mean removes it. */
static double looked_every_ns(const struct dump *dump) {
    uint64_t widest = 0;
    for (uint32_t i = 0; dump->header->pid == 0 && i < dump->device_anchor_count; i++)
        widest = dump->device_anchors[i].width_ns > widest ? dump->device_anchors[i].width_ns : widest;
    return (double)widest;
}

/* Intervals of the ranks whose steps begin alike: of others one may hold work that another's does not. */
struct intervals {
    size_t ranks, slow, worst;
    double longest, others; /* of the worst one, and of the rest on average */
};

static struct intervals compare_intervals(const struct sums *sums, size_t count, unsigned begins, double limit) {
    struct intervals found = {0};
    double mean = 0, step = 0;
    for (size_t r = 0; r < count; r++) {
        if (sums[r].steps == 0 || sums[r].begins != begins)
            continue;
        mean += usual_interval(&sums[r]);
        step += sums[r].length / (double)sums[r].steps;
        found.ranks++;
    }
    if (found.ranks < 2)
        return found;
    mean /= (double)found.ranks;
    step /= (double)found.ranks;
    for (size_t r = 0; r < count; r++) {
        double own = usual_interval(&sums[r]);
        if (sums[r].steps == 0 || sums[r].begins != begins)
            continue;
        found.slow += own > mean * (1 + limit / 100) && own - mean > INTERVAL_LEAST * step;
        if (own > found.longest) {
            found.longest = own;
            found.worst = r;
        }
    }
    found.others = (mean * (double)found.ranks - found.longest) / (double)(found.ranks - 1);
    return found;
}

static void add_interval(struct findings *findings, const struct sums *sums, const struct steps *steps,
                         const struct job *job, const struct advice_limits *limits) {
    struct intervals worst = {0};
    for (unsigned begins = 0; begins <= STEP_BEGINS; begins++) {
        struct intervals found = compare_intervals(sums, steps->rank_count, begins, limits->interval);
        if (found.slow > 0 && found.longest - found.others > worst.longest - worst.others)
            worst = found;
    }
    if (worst.slow > 0 && worst.longest - worst.others > looked_every_ns(job->dumps[steps->ranks[worst.worst].dump]))
        findings_add(
            findings, FINDING_STEP_INTERVAL,
            "%s is late by %.2f ms per step on average: its first operation comes %.2f ms after the step's start, "
            "against %.2f ms of the others (late so: %zu of %zu %s). %s",
            dump_text(job->dumps[steps->ranks[worst.worst].dump]).text, (worst.longest - worst.others) / 1e6,
            worst.longest / 1e6, worst.others / 1e6, worst.slow, worst.ranks, job_gpus(job) > 0 ? "GPUs" : "ranks",
            cause_of_lateness(steps, sums, worst.worst, worst.longest - worst.others));
}

/* Of the rank's stage; of the rank alone where stages are not known. */
static double collective_share(const struct sums *sums, const struct steps *steps, const uint32_t *stage_of,
                               size_t rank) {
    uint32_t stage = stage_of[steps->ranks[rank].dump];
    double part = 0, length = 0;
    for (size_t r = 0; r < steps->rank_count; r++) {
        bool same = r == rank || (stage != 0 && stage_of[steps->ranks[r].dump] == stage);
        if (!same || sums[r].steps == 0 || isnan(sums[r].collective))
            continue;
        part += sums[r].collective;
        length += sums[r].length;
    }
    return length > 0 ? 100 * part / length : 0;
}

/* What a share of the worst holds: without sends it is of collectives alone. */
static bool has_sends(const struct sums *sums, const struct steps *steps, const uint32_t *stage_of, size_t worst) {
    uint32_t stage = stage_of[steps->ranks[worst].dump];
    bool sends = sums[worst].sends > 0;
    for (size_t r = 0; stage != 0 && r < steps->rank_count; r++)
        sends |= stage_of[steps->ranks[r].dump] == stage && sums[r].sends > 0;
    return sends;
}

/* The largest share, of all stages and ranks without one. */
static double worst_collective_share(const struct sums *sums, const struct steps *steps, const uint32_t *stage_of,
                                     size_t *worst) {
    double most = 0;
    for (size_t r = 0; r < steps->rank_count; r++) {
        double share = collective_share(sums, steps, stage_of, r);
        if (share > most) {
            most = share;
            *worst = r;
        }
    }
    return most;
}

static void add_shares(struct findings *findings, const struct sums *sums, const struct steps *steps,
                       const struct job *job, const uint32_t *stage_of, const struct advice_limits *limits) {
    double communication = share_of_steps(sums, steps->rank_count, offsetof(struct sums, communication));
    double receive = share_of_steps(sums, steps->rank_count, offsetof(struct sums, receive));
    if (communication > limits->communication)
        findings_add(findings, FINDING_STEP_COMMUNICATION,
                     "exposed communication takes %.0f %% of the steps (more than %.0f %% is worth a look): no "
                     "computation hides it.",
                     communication, limits->communication);
    if (receive > limits->receive)
        findings_add(findings, FINDING_STEP_RECEIVE,
                     "exposed receiving takes %.0f %% of the steps (more than %.0f %% is worth a look): no other "
                     "communication overlaps it, the stages of a pipeline wait for each other.",
                     receive, limits->receive);
    size_t worst = 0;
    double share = worst_collective_share(sums, steps, stage_of, &worst);
    if (share <= limits->collective || share <= 1.2 * communication)
        return;
    uint32_t stage = stage_of[steps->ranks[worst].dump];
    char who[32];
    snprintf(who, sizeof who, "stage %" PRIu32, stage);
    findings_add(findings, FINDING_STEP_COLLECTIVE, "%s has the most exposed %s: %.0f %% of its steps.",
                 stage ? who : dump_text(job->dumps[steps->ranks[worst].dump]).text,
                 has_sends(sums, steps, stage_of, worst) ? "communication other than receiving" : "collectives", share);
}

void advice_add(struct findings *findings, const struct steps *steps, const struct job *job, const uint32_t *stage_of,
                const struct advice_limits *limits) {
    if (steps->count < STEPS_MIN)
        return;
    struct sums *sums = calloc(steps->rank_count + 1, sizeof *sums);
    if (!sums) {
        findings->no_memory = true;
        return;
    }
    for (size_t r = 0; r < steps->rank_count; r++)
        sums[r] = sum_up_steps(&steps->ranks[r]);
    add_interval(findings, sums, steps, job, limits);
    add_shares(findings, sums, steps, job, stage_of, limits);
    free(sums);
}

void advice_add_links(struct findings *findings, const struct links *links, const struct advice_limits *limits) {
    size_t count, slow = 0;
    const struct link_bandwidth *worst = NULL;
    const struct common_clock *clock = links->clock;
    struct link_bandwidth *found = link_bandwidths(links, &count, &findings->no_memory);
    for (size_t i = 0; i < count; i++) {
        const struct link_bandwidth *link = &found[i];
        if (link->share * exp(2 * link->error) >= 1 - limits->link / 100)
            continue;
        slow++;
        if (!worst || link->share < worst->share)
            worst = link;
    }
    if (worst)
        findings_add(
            findings, FINDING_LINK_BANDWIDTH,
            "the bandwidth of %zu of %zu links is more than %.0f %% below the mean of links of their type, most "
            "of all from %s to %s: %.2f GB/s, %.0f %% below what links %s give "
            "%s of these sizes.",
            slow, count, limits->link, dump_text(clock->dumps[worst->from]).text,
            dump_text(clock->dumps[worst->to]).text, (double)worst->bytes / (double)worst->took_ns,
            100 * (1 - worst->share), worst->between_hosts ? "between hosts" : "within a host",
            worst->steps ? "steps of NCCL's proxies" : "messages");
    free(found);
}
