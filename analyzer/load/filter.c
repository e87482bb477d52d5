/* SPDX-License-Identifier: Apache-2.0
 *
 * The filters that all commands share.
 * Lives here: parsing and matching.
 * Must not live here: option tables, anything that walks a dump.
 */
#include "analyzer/load/filter.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/text.h"
#include "analyzer/load/call_table.h"
#include "analyzer/load/dump.h"

static bool parse_number(const char **text, int32_t *number) {
    if (!isdigit((unsigned char)**text))
        return false;
    errno = 0;
    char *end;
    long value = strtol(*text, &end, 10);
    if (errno != 0 || value > INT32_MAX)
        return false;
    *text = end;
    *number = (int32_t)value;
    return true;
}

int filter_set_ranks(struct filter *filter, const char *text) {
    size_t capacity = 1;
    for (const char *p = text; *p; p++)
        capacity += *p == ',';
    struct rank_range *ranks = calloc(capacity, sizeof *ranks);
    if (!ranks)
        return -2;
    size_t count = 0;
    for (;; text++) {
        struct rank_range range;
        if (!parse_number(&text, &range.first))
            break;
        range.last = range.first;
        if (*text == '-') {
            text++;
            if (!parse_number(&text, &range.last) || range.last < range.first)
                break;
        }
        ranks[count++] = range;
        if (*text == '\0') {
            free(filter->ranks);
            filter->ranks = ranks;
            filter->rank_count = count;
            return 0;
        }
        if (*text != ',')
            break;
    }
    free(ranks);
    return -1;
}

static int set_list(char **list, const char *text) {
    if (*text == '\0')
        return -1;
    char *copy = strdup(text);
    if (!copy)
        return -2;
    free(*list);
    *list = copy;
    return 0;
}

int filter_set_comm(struct filter *filter, const char *text) {
    return set_list(&filter->comm, text);
}

int filter_set_op(struct filter *filter, const char *text) {
    return set_list(&filter->op, text);
}

/* Digits and at most one letter. Returns false for anything else, and for 2^63 and more. */
static bool parse_bytes(const char **text, uint64_t *bytes) {
    static const char units[] = "KMGT";
    if (!isdigit((unsigned char)**text))
        return false;
    errno = 0;
    char *end;
    uint64_t value = strtoull(*text, &end, 10);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (errno != 0 || value > (uint64_t)INT64_MAX >> shift)
        return false;
    *bytes = value << shift;
    *text = end + (unit != NULL);
    return true;
}

int filter_set_sizes(struct filter *filter, const char *text) {
    uint64_t least = 0, most = INT64_MAX;
    bool from = parse_bytes(&text, &least), range = *text == '-';
    text += range;
    bool to = range && parse_bytes(&text, &most);
    if (*text != '\0' || (!from && !to) || most < least)
        return -1;
    filter->has_sizes = true;
    filter->least_bytes = least;
    filter->most_bytes = range ? most : least;
    return 0;
}

/* Short enough for any arithmetic. */
static int set_seconds(bool *has, int64_t *ns, const char *text) {
    double seconds;
    if (!text_seconds(text, 0, 999999999, &seconds))
        return -1;
    *has = true;
    *ns = llround(seconds * 1e9);
    return 0;
}

int filter_set_from(struct filter *filter, const char *text) {
    return set_seconds(&filter->has_from, &filter->from_ns, text);
}

int filter_set_to(struct filter *filter, const char *text) {
    return set_seconds(&filter->has_to, &filter->to_ns, text);
}

/* "7" or "3-9". What cannot be read leaves what was set. */
static int set_range(bool *has, uint32_t *first, uint32_t *last, const char *text) {
    int32_t from, to;
    if (!parse_number(&text, &from))
        return -1;
    to = from;
    if (*text == '-') {
        text++;
        if (!parse_number(&text, &to))
            return -1;
    }
    if (*text != '\0' || to < from)
        return -1;
    *has = true;
    *first = (uint32_t)from;
    *last = (uint32_t)to;
    return 0;
}

int filter_set_steps(struct filter *filter, const char *text) {
    return set_range(&filter->has_steps, &filter->first_step, &filter->last_step, text);
}

int filter_set_epochs(struct filter *filter, const char *text) {
    return set_range(&filter->has_epochs, &filter->first_epoch, &filter->last_epoch, text);
}

void filter_free(struct filter *filter) {
    free(filter->ranks);
    free(filter->comm);
    free(filter->op);
    memset(filter, 0, sizeof *filter);
}

bool filter_is_timed(const struct filter *filter) {
    return filter->has_from || filter->has_to || filter->has_steps || filter->has_epochs;
}

bool filter_rank(const struct filter *filter, int32_t rank) {
    for (size_t i = 0; i < filter->rank_count; i++)
        if (rank >= filter->ranks[i].first && rank <= filter->ranks[i].last)
            return true;
    return filter->rank_count == 0;
}

/* Copies the next comma-separated item; items longer than the buffer match nothing. Returns false at the end. */
static bool next_item(const char **list, char *item, size_t capacity) {
    if (**list == '\0')
        return false;
    size_t length = strcspn(*list, ",");
    size_t kept = length < capacity ? length : 0;
    memcpy(item, *list, kept);
    item[kept] = '\0';
    *list += length;
    if (**list == ',')
        (*list)++;
    return true;
}

bool filter_comm(const struct filter *filter, uint64_t uid, const char *name) {
    if (!filter->comm)
        return true;
    char item[FILTER_ITEM];
    for (const char *list = filter->comm; next_item(&list, item, sizeof item);) {
        if (strlen(item) == 16 && strspn(item, "0123456789abcdefABCDEF") == 16 && strtoull(item, NULL, 16) == uid)
            return true;
        if (item[0] != '\0' && fnmatch(item, name, 0) == 0)
            return true;
    }
    return false;
}

static bool op_matches(const char *glob, const char *name) {
    if (fnmatch(glob, name, FNM_CASEFOLD) == 0)
        return true;
    const char *bare = strncmp(name, "MPI_", 4) == 0 || strncmp(name, "nccl", 4) == 0 ? name + 4 : name;
    return fnmatch(glob, bare, FNM_CASEFOLD) == 0;
}

bool filter_op(const struct filter *filter, const char *name) {
    if (!filter->op)
        return true;
    bool any_positive = false, wanted = false;
    char item[FILTER_ITEM];
    for (const char *list = filter->op; next_item(&list, item, sizeof item);) {
        if (item[0] == '!') {
            if (op_matches(item + 1, name))
                return false;
        } else {
            any_positive = true;
            wanted |= op_matches(item, name);
        }
    }
    return wanted || !any_positive;
}

/* Whether the pattern matches one of the dump's functions; else *like is one with the pattern's text in its name. */
static bool names_a_function(const char *pattern, const struct dump *dump, const char **like) {
    char within[FILTER_ITEM + 2];
    snprintf(within, sizeof within, "*%s*", pattern);
    *like = NULL;
    for (unsigned id = 0; id < CALL_TABLE_IDS; id++) {
        const struct call_name *call = dump_call(dump, (uint16_t)id);
        if (call && op_matches(pattern, call->name))
            return true;
        if (call && !*like && op_matches(within, call->name))
            *like = call->name;
    }
    return false;
}

bool filter_next_unknown_op(const char **list, const struct dump *dump, char item[FILTER_ITEM], const char **like) {
    while (next_item(list, item, FILTER_ITEM)) {
        const char *pattern = item + (item[0] == '!');
        if (*pattern && !names_a_function(pattern, dump, like))
            return true;
    }
    return false;
}

bool filter_bytes(const struct filter *filter, uint64_t bytes) {
    return !filter->has_sizes || (bytes >= filter->least_bytes && bytes <= filter->most_bytes);
}

bool filter_chooses_calls(const struct filter *filter) {
    return filter->comm || filter->op || filter->has_sizes;
}
