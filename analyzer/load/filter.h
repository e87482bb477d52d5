/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user asked to see: ranks, communicators, functions.
 * Lives here: parsing and matching of the --rank, --comm and --op values.
 * Must not live here: option tables, anything that walks a dump.
 */
#ifndef COMMTAP_LOAD_FILTER_H
#define COMMTAP_LOAD_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rank_range {
    int32_t first, last; /* inclusive */
};

/* All zero lets everything pass. */
struct filter {
    struct rank_range *ranks;
    size_t rank_count;
    char *comm; /* comma-separated uids and name globs, NULL = all */
    char *op;   /* comma-separated globs, NULL = all */
};

/* Each sets one part of a filter from its text. Returns 0, -1 when the text is malformed, -2 when memory is short. */
int filter_set_ranks(struct filter *filter, const char *text);
int filter_set_comm(struct filter *filter, const char *text);
int filter_set_op(struct filter *filter, const char *text);
void filter_free(struct filter *filter);

bool filter_rank(const struct filter *filter, int32_t rank);
/* `uid` is compared with 16-digit hexadecimal items, `name` (may be "") with the others as case-sensitive globs. */
bool filter_comm(const struct filter *filter, uint64_t uid, const char *name);
/* `name` is the function's full name, as "MPI_Allreduce". */
bool filter_op(const struct filter *filter, const char *name);

#endif
