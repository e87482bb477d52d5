/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/render/what_if.h"

#include <math.h>

#include "analyzer/findings/findings_stragglers.h"
#include "analyzer/findings/words.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/wrapped_text.h"
#include "analyzer/render/units.h"

#define MATTERS   1.01
#define SAME_GAIN 0.03 /* what the replay itself is off by in jobs whose mended time is known */
enum { LINE = 512 };

static json_t *what_if_site_to_json(const struct straggler_analysis *analysis, const struct what_if_site *site) {
    const char *label = findings_what_if_site(analysis, site);
    int32_t rank = analysis->clock->dumps[site->dump]->header->rank;
    int64_t gpu = dump_gpu_number(analysis->clock->dumps[site->dump]);
    return json_pack("{s:o, s:o, s:o, s:o, s:f, s:f}", "site", label ? escape_json(label) : json_null(), "op",
                     escape_json(analysis->directory->calls[site->call].name->name), "slowest_rank",
                     rank >= 0 ? json_integer(rank) : json_null(), "slowest_gpu",
                     gpu >= 0 ? json_integer(gpu) : json_null(), "speedup", site->speedup, "longer_than_peers_seconds",
                     seconds_of(site->extra_ns));
}

json_t *what_if_to_json(const struct straggler_analysis *analysis) {
    const struct what_if *what_if = &analysis->what_if;
    if (!what_if->known)
        return json_null();
    json_t *sites = json_array();
    for (size_t i = 0; i < what_if->site_count; i++)
        json_array_append_new(sites, what_if_site_to_json(analysis, &what_if->sites[i]));
    bool shared = what_if->worst_workers_share >= 0;
    return json_pack("{s:f, s:f, s:o, s:o, s:o, s:f, s:b, s:o}", "slowdown", what_if->slowdown, "even_speedup",
                     analysis->even_speedup, "named_speedup",
                     analysis->named_speedup > 0 ? json_real(analysis->named_speedup) : json_null(),
                     "worst_workers_share", shared ? json_real(what_if->worst_workers_share) : json_null(),
                     "worst_workers", shared ? json_integer((json_int_t)what_if->worst_workers) : json_null(),
                     "covered_seconds", seconds_of(what_if->covered_ns), "partial", what_if->partial, "call_sites",
                     sites);
}

bool what_if_matters(const struct what_if *what_if) {
    return what_if->known && (what_if->slowdown >= MATTERS || what_if->site_count > 0);
}

static void print_sentence(FILE *stream, const char *text) {
    fputs("  ", stream);
    print_wrapped(stream, text, 2, 4);
}

/* The straggler whose slowness is that of this call site: mending either gives the same. NULL: nobody's. */
static const struct straggler *named_for(const struct straggler_analysis *analysis, const struct what_if_site *site) {
    for (size_t i = 0; i < analysis->straggler_count; i++) {
        const struct straggler *straggler = &analysis->stragglers[i];
        if (straggler->kind == STRAGGLER_RANK && straggler->dumps[0] == site->dump &&
            fabs(straggler->what_if_speedup / site->speedup - 1) < SAME_GAIN)
            return straggler;
    }
    return NULL;
}

/* Sites that are called the same: several ways through the program lead to one line of it. Equal labels are one string.
 */
static bool same_place(const struct straggler_analysis *analysis, const struct what_if_site *a,
                       const struct what_if_site *b) {
    return a->call == b->call && a->dump == b->dump &&
           findings_what_if_site(analysis, a) == findings_what_if_site(analysis, b);
}

/* How many of them there are from this one on; 0: one before it is the same, and gains more. */
static size_t count_ways(const struct straggler_analysis *analysis, size_t site) {
    const struct what_if_site *sites = analysis->what_if.sites;
    size_t ways = 0;
    for (size_t i = 0; i < analysis->what_if.site_count; i++)
        if (same_place(analysis, &sites[i], &sites[site])) {
            if (i < site)
                return 0;
            ways++;
        }
    return ways;
}

static void print_site(FILE *stream, const struct straggler_analysis *analysis, const struct what_if_site *site,
                       size_t ways) {
    const char *label = findings_what_if_site(analysis, site);
    const char *op = analysis->directory->calls[site->call].name->name;
    char text[LINE + 128], where[288], one_of[80] = "";
    const struct dump_text who = dump_text(analysis->clock->dumps[site->dump]);
    bool by_chance = analysis->judgement == JUDGED && !straggler_analysis_speaks_of(analysis, site->dump);
    snprintf(where, sizeof where, "%.60s%s%.200s", op, label ? " in " : "", label ? label : "");
    if (ways > 1)
        snprintf(one_of, sizeof one_of, "; of %zu ways to get there this one costs most", ways);
    const struct straggler *named = named_for(analysis, site);
    if (named)
        snprintf(text, sizeof text,
                 "%.2f times as fast if %s took as long as its peers; nearly all of that gain lies in its work "
                 "before %s",
                 named->what_if_speedup, who.text, where);
    else
        snprintf(text, sizeof text,
                 "%.2f times as fast if the work before %s took every rank as long as its peers (%s takes longest%s%s)",
                 site->speedup, where, who.text, by_chance ? ", but chance is not ruled out" : "", one_of);
    print_sentence(stream, text);
}

static double saved(double speedup) {
    return 1 - 1 / speedup;
}

/* Of what all alike would give, what the worst ranks alone give: as is measured against the mean and, of one rank, by
 * what is said of it where it is named, which comes down to its peers' median. */
static double worst_share(const struct straggler_analysis *analysis) {
    const struct what_if *what_if = &analysis->what_if;
    double alone = what_if->worst_workers_share * saved(what_if->slowdown);
    for (size_t i = 0; i < analysis->straggler_count && what_if->worst_workers == 1; i++)
        if (analysis->stragglers[i].kind == STRAGGLER_RANK)
            alone = fmax(alone, saved(analysis->stragglers[i].what_if_speedup));
    return fmin(1, alone / saved(fmax(analysis->even_speedup, what_if->slowdown)));
}

void what_if_print(FILE *stream, const struct straggler_analysis *analysis) {
    const struct what_if *what_if = &analysis->what_if;
    char text[LINE], of_that[128] = "", worst[32] = "rank alone";
    if (what_if->worst_workers > 1)
        snprintf(worst, sizeof worst, "%zu ranks", what_if->worst_workers);
    if (what_if->worst_workers_share >= 0)
        snprintf(of_that, sizeof of_that, "; of that gain, the worst %s would give %.0f %%%s", worst,
                 100 * worst_share(analysis),
                 straggler_analysis_clears_all(analysis) ? ", but chance is not ruled out" : "");
    /* a part can promise more than all at the mean do: what is mended comes down to the median */
    bool median = analysis->even_speedup > what_if->slowdown;
    snprintf(text, sizeof text, "%.2f times as fast if the same work and transfers took every rank the %s time%s",
             median ? analysis->even_speedup : what_if->slowdown, median ? "median" : "mean", of_that);
    print_sentence(stream, text);
    if (analysis->straggler_count > 1) {
        snprintf(text, sizeof text, "%.2f times as fast without all %zu that are named", analysis->named_speedup,
                 analysis->straggler_count);
        print_sentence(stream, text);
    }
    for (size_t i = 0; i < what_if->site_count; i++) {
        size_t ways = count_ways(analysis, i);
        if (ways > 0)
            print_site(stream, analysis, &what_if->sites[i], ways);
    }
    if (what_if->partial) {
        snprintf(text, sizeof text,
                 what_if->end_only ? "(from the last %.1f s only: there are too many events for all of it)"
                                   : "(from %.1f s only: of the rest, the records of some ranks are missing)",
                 seconds_of(what_if->covered_ns));
        print_sentence(stream, text);
    }
}
