/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in the program the critical path ran, and where the delays were that others waited for.
 * Lives here: the call sites of delay_costs.h merged over all ranks by name and function.
 * Must not live here: costs, names, printing.
 */
#ifndef COMMTAP_WAITS_CRITICAL_PATH_SITES_H
#define COMMTAP_WAITS_CRITICAL_PATH_SITES_H

#include "analyzer/waits/delay_costs.h"
#include "analyzer/symbols/site_labels.h"

/* Common to one site of one rank and to one site of all: ns, as in struct site_delay_costs. */
struct critical_path_sums {
    int64_t path_inside, path_before; /* of the critical path: in the call, and in own work that leads to it */
    int64_t delay_cost_inside, delay_cost_before;
};

struct critical_path_row {
    uint32_t dump;
    struct critical_path_sums sums;
};

struct critical_path_site {
    const char *where; /* a label: lives as long as the labels; NULL = not known, or too small to be named */
    const char *op;    /* the function, NULL likewise */
    struct critical_path_sums sums;
    const struct critical_path_row *rows; /* by dump: of each rank that has any; owned by struct critical_path_sites */
    size_t row_count;
};

struct critical_path_sites {
    struct critical_path_site *items; /* longest on the path first, then by what they caused, then by name */
    size_t count;
    struct critical_path_row *rows; /* private: what items[].rows points into */
    size_t row_count;
};

/* Sites below a ten-thousandth of the path and of all waits are put together in one without a name, so that their
 * symbols need not be read: the sums over all sites are those of `costs`. Returns false when memory is short; the
 * caller frees with critical_path_sites_free in every case. */
bool critical_path_sites_build(struct critical_path_sites *sites, const struct delay_costs *costs,
                               const struct match_directory *directory, struct symbols *symbols,
                               struct site_labels *labels);
void critical_path_sites_free(struct critical_path_sites *sites);

/* The rank on which a site was on the path longest, else that caused most there. NULL where it has no rows. */
const struct critical_path_row *critical_path_sites_most(const struct critical_path_site *site);

int64_t critical_path_sums_path(const struct critical_path_sums *sums);
int64_t critical_path_sums_delay_cost(const struct critical_path_sums *sums);

#endif
