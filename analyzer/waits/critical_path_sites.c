/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging call sites of the critical path by name.
 * Lives here: sums and their order.
 * Must not live here: names.
 */
#include "analyzer/waits/critical_path_sites.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/ns.h"

enum { LEAST_SHARE = 10000 };

int64_t critical_path_sums_path(const struct critical_path_sums *sums) {
    return add_ns(sums->path_inside, sums->path_before);
}

int64_t critical_path_sums_delay_cost(const struct critical_path_sums *sums) {
    return add_ns(sums->delay_cost_inside, sums->delay_cost_before);
}

static void add_sums(struct critical_path_sums *to, const struct critical_path_sums *from) {
    to->path_inside = add_ns(to->path_inside, from->path_inside);
    to->path_before = add_ns(to->path_before, from->path_before);
    to->delay_cost_inside = add_ns(to->delay_cost_inside, from->delay_cost_inside);
    to->delay_cost_before = add_ns(to->delay_cost_before, from->delay_cost_before);
}

/* A row of `costs` and what it is called. */
struct named {
    const char *where, *op;
    uint32_t dump;
    struct critical_path_sums sums;
};

static bool path_site_matters(const struct delay_costs *costs, const struct site_delay_costs *site) {
    int64_t path = add_ns(site->path_inside_ns, site->path_before_ns);
    int64_t caused = add_ns(site->delay_cost_inside_ns, site->delay_cost_before_ns);
    return path > (costs->to_ns - costs->from_ns) / LEAST_SHARE || caused > costs->waits_ns / LEAST_SHARE;
}

static bool look_up_sites(const struct delay_costs *costs, struct symbols *symbols) {
    for (size_t i = 0; i < costs->site_count; i++)
        if (costs->sites[i].stack != STACK_NONE && path_site_matters(costs, &costs->sites[i]) &&
            !symbols_want(symbols, costs->sites[i].dump, costs->sites[i].stack))
            return false;
    return symbols_resolve(symbols);
}

static bool name_site(struct named *named, const struct delay_costs *costs, const struct site_delay_costs *site,
                      const struct match_directory *directory, struct site_labels *labels) {
    *named = (struct named){.dump = site->dump,
                            .sums = {.path_inside = site->path_inside_ns,
                                     .path_before = site->path_before_ns,
                                     .delay_cost_inside = site->delay_cost_inside_ns,
                                     .delay_cost_before = site->delay_cost_before_ns}};
    if (!path_site_matters(costs, site))
        return true;
    if (site->call != CALL_UNKNOWN)
        named->op = directory->calls[site->call].name->name;
    if (site->stack != STACK_NONE)
        named->where = site_label(labels, site->dump, site->stack);
    return site->stack == STACK_NONE || named->where;
}

static int compare_texts(const char *a, const char *b) {
    if (!a || !b)
        return (a != NULL) - (b != NULL);
    return strcmp(a, b);
}

static int compare_names(const struct named *a, const struct named *b) {
    int order = compare_texts(a->where, b->where);
    return order ? order : compare_texts(a->op, b->op);
}

static int compare_named(const void *a, const void *b) {
    const struct named *left = a, *right = b;
    int order = compare_names(left, right);
    return order ? order : (left->dump > right->dump) - (left->dump < right->dump);
}

static int compare_sites(const void *a, const void *b) {
    const struct critical_path_site *left = a, *right = b;
    int64_t left_path = critical_path_sums_path(&left->sums), right_path = critical_path_sums_path(&right->sums);
    int64_t left_caused = critical_path_sums_delay_cost(&left->sums),
            right_caused = critical_path_sums_delay_cost(&right->sums);
    if (left_path != right_path)
        return left_path > right_path ? -1 : 1;
    if (left_caused != right_caused)
        return left_caused > right_caused ? -1 : 1;
    int order = compare_texts(left->where, right->where);
    return order ? order : compare_texts(left->op, right->op);
}

/* `named` is sorted: what has one name is together, and of it what is one rank's. */
static void merge_sites(struct critical_path_sites *sites, const struct named *named, size_t count) {
    for (size_t i = 0; i < count; i++) {
        bool same_site = i > 0 && compare_names(&named[i - 1], &named[i]) == 0;
        if (!same_site)
            sites->items[sites->count++] = (struct critical_path_site){
                .where = named[i].where, .op = named[i].op, .rows = &sites->rows[sites->row_count]};
        struct critical_path_site *site = &sites->items[sites->count - 1];
        if (!same_site || named[i - 1].dump != named[i].dump) {
            sites->rows[sites->row_count++] = (struct critical_path_row){.dump = named[i].dump};
            site->row_count++;
        }
        add_sums(&site->sums, &named[i].sums);
        add_sums(&sites->rows[sites->row_count - 1].sums, &named[i].sums);
    }
    if (sites->count > 0)
        qsort(sites->items, sites->count, sizeof *sites->items, compare_sites);
}

bool critical_path_sites_build(struct critical_path_sites *sites, const struct delay_costs *costs,
                               const struct match_directory *directory, struct symbols *symbols,
                               struct site_labels *labels) {
    size_t count = costs->site_count, room = count ? count : 1;
    *sites = (struct critical_path_sites){.items = calloc(room, sizeof *sites->items),
                                          .rows = calloc(room, sizeof *sites->rows)};
    struct named *named = calloc(room, sizeof *named);
    bool done = sites->items && sites->rows && named && look_up_sites(costs, symbols);
    for (size_t i = 0; done && i < count; i++)
        done = name_site(&named[i], costs, &costs->sites[i], directory, labels);
    if (done) {
        qsort(named, count, sizeof *named, compare_named);
        merge_sites(sites, named, count);
    }
    free(named);
    return done;
}

void critical_path_sites_free(struct critical_path_sites *sites) {
    free(sites->items);
    free(sites->rows);
    *sites = (struct critical_path_sites){0};
}

const struct critical_path_row *critical_path_sites_most(const struct critical_path_site *site) {
    const struct critical_path_row *most = NULL;
    for (size_t i = 0; i < site->row_count; i++) {
        const struct critical_path_row *row = &site->rows[i];
        int64_t path = critical_path_sums_path(&row->sums), best = most ? critical_path_sums_path(&most->sums) : -1;
        if (path > best ||
            (path == best && critical_path_sums_delay_cost(&row->sums) > critical_path_sums_delay_cost(&most->sums)))
            most = row;
    }
    return most;
}
