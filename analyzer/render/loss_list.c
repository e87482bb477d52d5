/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recording lost, for `check` and `report`.
 * Lives here: its lines of text and its JSON object.
 * Must not live here: words and sums (load/losses).
 */
#include "analyzer/render/loss_list.h"

#include <inttypes.h>

void loss_list_print(FILE *stream, const struct loss_counts *counts, const char *indent) {
    for (int kind = 0; kind < LOSS_KINDS; kind++)
        if (counts->of[kind] > 0)
            fprintf(stream, "%slost: %" PRIu64 " %s\n", indent, counts->of[kind], loss_kinds[kind].text);
}

json_t *loss_list_to_json(const struct loss_counts *counts) {
    json_t *object = json_object();
    for (int kind = 0; kind < LOSS_KINDS; kind++)
        json_object_set_new(object, loss_kinds[kind].key, json_integer((json_int_t)counts->of[kind]));
    return object;
}
