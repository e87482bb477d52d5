/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/render/efficiencies_table.h"

#include "analyzer/render/table.h"
#include "analyzer/render/units.h"

#define ROW ((const struct efficiencies *)row)
#define VALUE(NAME, CELL)                                                                                              \
    static struct cell NAME(const void *row) { return CELL; }
#define SHARE(FIELD)   (ROW->FIELD > 0 ? cell_real(ROW->FIELD) : cell_unknown())
#define SECONDS(FIELD) (ROW->FIELD > 0 ? cell_real(seconds_of(ROW->FIELD)) : cell_unknown())
VALUE(parallel, SHARE(parallel))
VALUE(load_balance, SHARE(load_balance))
VALUE(communication, SHARE(communication))
VALUE(serialization, SHARE(serialization))
VALUE(transfer, SHARE(transfer))
VALUE(runtime, SECONDS(runtime_ns))
VALUE(useful_mean, SECONDS(useful_mean_ns))
VALUE(useful_most, SECONDS(useful_most_ns))
VALUE(ideal, SECONDS(ideal_runtime_ns))

/* clang-format off */
static const struct column columns[] = {
    {"parallel_efficiency", "parallel", LOOK_PERCENT, .value = parallel, .legend = "own work / run time"},
    {"load_balance", "load balance", LOOK_PERCENT, .value = load_balance, .legend = "mean / largest own work"},
    {"communication_efficiency", "communication", LOOK_PERCENT, .value = communication},
    {"serialization_efficiency", "serialization", LOOK_PERCENT, .value = serialization, .legend = "left by dependencies"},
    {"transfer_efficiency", "transfer", LOOK_PERCENT, .value = transfer, .legend = "left by the network"},
    {"runtime_seconds", NULL, LOOK_SECONDS, .value = runtime},
    {"useful_mean_seconds", NULL, LOOK_SECONDS, .value = useful_mean},
    {"useful_largest_seconds", NULL, LOOK_SECONDS, .value = useful_most},
    {"ideal_runtime_seconds", NULL, LOOK_SECONDS, .value = ideal},
    {NULL, NULL, .value = NULL},
};
/* clang-format on */

static const char *reason(enum efficiencies_missing missing) {
    static const char *const reasons[] = {
        [EFFICIENCIES_ALL_KNOWN] = NULL,
        [EFFICIENCIES_NO_TIME] = "no rank has time outside of communication on record",
        [EFFICIENCIES_NOT_LINKED] = "no call of one rank was matched with another's, so nothing can be replayed",
        [EFFICIENCIES_PARTIAL] = "there are too many events to replay the whole run on an ideal network"};
    return reasons[missing];
}

bool efficiencies_print(FILE *stream, const struct efficiencies *efficiencies, bool color) {
    struct table table = {columns, efficiencies, sizeof *efficiencies, 1};
    if (!table_print_text(stream, &table, color) || !table_print_legend(stream, &table))
        return false;
    if (efficiencies->missing != EFFICIENCIES_ALL_KNOWN)
        fprintf(stream, "not known: %s\n", reason(efficiencies->missing));
    return true;
}

json_t *efficiencies_to_json(const struct efficiencies *efficiencies) {
    struct table table = {columns, efficiencies, sizeof *efficiencies, 1};
    json_t *rows = table_to_json(&table), *object = json_incref(json_array_get(rows, 0));
    const char *why = reason(efficiencies->missing);
    json_decref(rows);
    json_object_set_new(object, "unknown_because", why ? json_string(why) : json_null());
    return object;
}
