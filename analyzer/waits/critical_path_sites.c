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

int64_t path_sums_path(const struct path_sums *sums) {
    return add_ns(sums->path_inside, sums->path_before);
}

int64_t path_sums_caused(const struct path_sums *sums) {
    return add_ns(sums->caused_inside, sums->caused_before);
}

static void add_sums(struct path_sums *to, const struct path_sums *from) {
    to->path_inside = add_ns(to->path_inside, from->path_inside);
    to->path_before = add_ns(to->path_before, from->path_before);
    to->caused_inside = add_ns(to->caused_inside, from->caused_inside);
    to->caused_before = add_ns(to->caused_before, from->caused_before);
}

/* A row of `causes` and what it is called. */
struct named {
    const char *where, *op;
    uint32_t dump;
    struct path_sums sums;
};

static bool matters(const struct causes *causes, const struct site_causes *site) {
    int64_t path = add_ns(site->path_inside_ns, site->path_before_ns);
    int64_t caused = add_ns(site->caused_inside_ns, site->caused_before_ns);
    return path > (causes->to_ns - causes->from_ns) / LEAST_SHARE || caused > causes->waits_ns / LEAST_SHARE;
}

static bool look_up(const struct causes *causes, struct symbols *symbols) {
    for (size_t i = 0; i < causes->site_count; i++)
        if (causes->sites[i].stack != STACK_NONE && matters(causes, &causes->sites[i]) &&
            !symbols_want(symbols, causes->sites[i].dump, causes->sites[i].stack))
            return false;
    return symbols_resolve(symbols);
}

static bool name_site(struct named *named, const struct causes *causes, const struct site_causes *site,
                      const struct match_directory *directory, struct site_labels *labels) {
    *named = (struct named){.dump = site->dump,
                            .sums = {.path_inside = site->path_inside_ns,
                                     .path_before = site->path_before_ns,
                                     .caused_inside = site->caused_inside_ns,
                                     .caused_before = site->caused_before_ns}};
    if (!matters(causes, site))
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
    const struct path_site *left = a, *right = b;
    int64_t left_path = path_sums_path(&left->sums), right_path = path_sums_path(&right->sums);
    int64_t left_caused = path_sums_caused(&left->sums), right_caused = path_sums_caused(&right->sums);
    if (left_path != right_path)
        return left_path > right_path ? -1 : 1;
    if (left_caused != right_caused)
        return left_caused > right_caused ? -1 : 1;
    int order = compare_texts(left->where, right->where);
    return order ? order : compare_texts(left->op, right->op);
}

/* `named` is sorted: what has one name is together, and of it what is one rank's. */
static void merge(struct path_sites *sites, const struct named *named, size_t count) {
    for (size_t i = 0; i < count; i++) {
        bool same_site = i > 0 && compare_names(&named[i - 1], &named[i]) == 0;
        if (!same_site)
            sites->items[sites->count++] =
                (struct path_site){.where = named[i].where, .op = named[i].op, .rows = &sites->rows[sites->row_count]};
        struct path_site *site = &sites->items[sites->count - 1];
        if (!same_site || named[i - 1].dump != named[i].dump) {
            sites->rows[sites->row_count++] = (struct path_row){.dump = named[i].dump};
            site->row_count++;
        }
        add_sums(&site->sums, &named[i].sums);
        add_sums(&sites->rows[sites->row_count - 1].sums, &named[i].sums);
    }
    if (sites->count > 0)
        qsort(sites->items, sites->count, sizeof *sites->items, compare_sites);
}

bool path_sites_build(struct path_sites *sites, const struct causes *causes, const struct match_directory *directory,
                      struct symbols *symbols, struct site_labels *labels) {
    size_t count = causes->site_count, room = count ? count : 1;
    *sites =
        (struct path_sites){.items = calloc(room, sizeof *sites->items), .rows = calloc(room, sizeof *sites->rows)};
    struct named *named = calloc(room, sizeof *named);
    bool done = sites->items && sites->rows && named && look_up(causes, symbols);
    for (size_t i = 0; done && i < count; i++)
        done = name_site(&named[i], causes, &causes->sites[i], directory, labels);
    if (done) {
        qsort(named, count, sizeof *named, compare_named);
        merge(sites, named, count);
    }
    free(named);
    return done;
}

void path_sites_free(struct path_sites *sites) {
    free(sites->items);
    free(sites->rows);
    *sites = (struct path_sites){0};
}

const struct path_row *path_sites_most(const struct path_site *site) {
    const struct path_row *most = NULL;
    for (size_t i = 0; i < site->row_count; i++) {
        const struct path_row *row = &site->rows[i];
        int64_t path = path_sums_path(&row->sums), best = most ? path_sums_path(&most->sums) : -1;
        if (path > best || (path == best && path_sums_caused(&row->sums) > path_sums_caused(&most->sums)))
            most = row;
    }
    return most;
}
