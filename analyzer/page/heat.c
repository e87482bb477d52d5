/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/heat.h"

#include <stdlib.h>

bool heat_init(struct heat *heat, size_t ranks, int64_t span_ns) {
    size_t intervals = HEAT_CELLS_MOST / (ranks ? ranks : 1);
    if (intervals > HEAT_INTERVALS_MOST)
        intervals = HEAT_INTERVALS_MOST;
    if (intervals < HEAT_INTERVALS_LEAST)
        intervals = HEAT_INTERVALS_LEAST;
    *heat = (struct heat){.ranks = ranks, .intervals = intervals, .span_ns = span_ns > 0 ? span_ns : 1};
    heat->cells = calloc(ranks * intervals + 1, sizeof *heat->cells);
    return heat->cells != NULL;
}

void heat_free(struct heat *heat) {
    free(heat->cells);
}

static double interval_ns(const struct heat *heat) {
    return (double)heat->span_ns / (double)heat->intervals;
}

/* Adds the time from `from` to `to` to the intervals that it lies in. */
static void add_time(const struct heat *heat, size_t rank, int64_t from, int64_t to, bool waited) {
    if (from < 0)
        from = 0;
    if (to > heat->span_ns)
        to = heat->span_ns;
    if (from >= to)
        return;
    double each = interval_ns(heat);
    for (size_t i = (size_t)((double)from / each); i < heat->intervals; i++) {
        double begin = (double)i * each, end = begin + each;
        double inside = ((double)to < end ? (double)to : end) - ((double)from > begin ? (double)from : begin);
        struct heat_cell *cell = &heat->cells[rank * heat->intervals + i];
        if (inside <= 0)
            break;
        if (waited)
            cell->waited += (float)inside;
        else
            cell->communicated += (float)inside;
    }
}

void heat_add(struct heat *heat, const struct slice *slice) {
    add_time(heat, slice->dump, slice->begin, slice->end, false);
    if (slice->waited)
        add_time(heat, slice->dump, slice->wait_from, slice->wait_to, true);
}

static json_t *share_of(const struct heat *heat, float ns) {
    double percent = 100 * (double)ns / interval_ns(heat);
    return json_integer(percent > 100 ? 100 : (json_int_t)(percent + 0.5));
}

json_t *heat_to_json(const struct heat *heat) {
    json_t *waited = json_array(), *communicated = json_array();
    for (size_t i = 0; i < heat->ranks * heat->intervals; i++) {
        json_array_append_new(waited, share_of(heat, heat->cells[i].waited));
        json_array_append_new(communicated, share_of(heat, heat->cells[i].communicated));
    }
    return json_pack("{s:s, s:I, s:I, s:o, s:o}", "schema", "commtap.page.heat/1", "intervals",
                     (json_int_t)heat->intervals, "span_us", (json_int_t)(heat->span_ns / 1000), "waited_percent",
                     waited, "communicated_percent", communicated);
}
