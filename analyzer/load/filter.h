/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user asked to see: ranks, communicators, functions, sizes, a part of the time.
 * Lives here: parsing of the --rank, --comm, --op, --sizes, --from, --to, --step and --epoch values, matching of the
 * first four.
 * Must not live here: option tables, anything that walks a dump, what the times are on a rank's clock
 * (profile/scope.h).
 */
#ifndef COMMTAP_LOAD_FILTER_H
#define COMMTAP_LOAD_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dump;

enum { FILTER_ITEM = 256 }; /* bytes of one item of a list; longer ones match nothing */

struct rank_range {
    int32_t first, last; /* inclusive */
};

/* All zero lets everything pass. */
struct filter {
    struct rank_range *ranks;
    size_t rank_count;
    char *comm; /* comma-separated uids and name globs, NULL = all */
    char *op;   /* comma-separated globs, NULL = all */
    bool has_sizes;
    uint64_t least_bytes, most_bytes; /* inclusive; where has_sizes */
    bool has_from, has_to, has_steps, has_epochs;
    int64_t from_ns, to_ns;           /* since the start of the job; where has_from, has_to */
    uint32_t first_step, last_step;   /* inclusive; where has_steps */
    uint32_t first_epoch, last_epoch; /* inclusive; where has_epochs */
};

/* Each sets one part of a filter from its text. Returns 0, -1 when the text is malformed, -2 when memory is short. */
int filter_set_ranks(struct filter *filter, const char *text);
int filter_set_comm(struct filter *filter, const char *text);
int filter_set_op(struct filter *filter, const char *text);
/* "8", "4K-1M", "1M-" or "-64": bytes, with K, M, G, T for powers of 1024. */
int filter_set_sizes(struct filter *filter, const char *text);
/* Seconds: digits with at most one point, below 1e9. */
int filter_set_from(struct filter *filter, const char *text);
int filter_set_to(struct filter *filter, const char *text);
/* "7" or "3-9". */
int filter_set_steps(struct filter *filter, const char *text);
int filter_set_epochs(struct filter *filter, const char *text);
void filter_free(struct filter *filter);

/* True when it lets only a part of the job's time pass. */
bool filter_is_timed(const struct filter *filter);
bool filter_rank(const struct filter *filter, int32_t rank);
/* `uid` is compared with 16-digit hexadecimal items, `name` (may be "") with the others as case-sensitive globs. */
bool filter_comm(const struct filter *filter, uint64_t uid, const char *name);
/* `name` is the function's full name, as "MPI_Allreduce". */
bool filter_op(const struct filter *filter, const char *name);
/* The next of a list of such patterns (--op) that matches no function the dump knows, called or not, from *list on,
 * which moves behind it. *like: a function that has it within its name, NULL: none. False: there is no further one. */
bool filter_next_unknown_op(const char **list, const struct dump *dump, char item[FILTER_ITEM], const char **like);
/* A size that is not known (BYTES_UNKNOWN) lies in no range. */
bool filter_bytes(const struct filter *filter, uint64_t bytes);
/* Whether it leaves out anything by what a call is: its communicator, function or size. */
bool filter_chooses_calls(const struct filter *filter);

#endif
