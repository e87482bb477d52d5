/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/render/finding_list.h"

#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"
#include "analyzer/render/wrapped_text.h"

json_t *findings_coverage_to_json(const struct coverage *coverage, enum evidence evidence) {
    bool events = evidence == EVIDENCE_EVENTS, timed = events && coverage->known;
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:o}", "evidence", evidence_name(evidence), "kept",
                     events ? json_string(kept_name(coverage->kept)) : json_null(), "events_share",
                     events ? json_real(coverage_share(coverage)) : json_null(), "from_seconds",
                     timed ? json_real(seconds_of(coverage->from_ns)) : json_null(), "to_seconds",
                     timed ? json_real(seconds_of(coverage->to_ns)) : json_null(), "ranks_seen",
                     (json_int_t)coverage->ranks_seen, "ranks_expected",
                     coverage->ranks_expected > 0 ? json_integer(coverage->ranks_expected) : json_null());
}

json_t *findings_to_json(const struct findings *findings) {
    json_t *array = json_array();
    for (size_t i = 0; array && i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        json_t *item = json_pack("{s:s, s:s, s:o, s:o}", "severity", severity_name(finding->severity), "code",
                                 finding->code, "text", escape_json(finding->text), "coverage",
                                 findings_coverage_to_json(&findings->coverage, finding->evidence));
        if (json_array_append_new(array, item) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

void findings_print(FILE *stream, const struct findings *findings, bool color) {
    static const struct {
        const char *word, *start;
    } looks[] = {[SEVERITY_INFO] = {"info", "\033[2m"},
                 [SEVERITY_WARNING] = {"warning", "\033[1;33m"},
                 [SEVERITY_ERROR] = {"error", "\033[1;31m"}};
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        fprintf(stream, "%s%-7s%s  ", color ? looks[finding->severity].start : "", looks[finding->severity].word,
                color ? "\033[0m" : "");
        print_wrapped(stream, finding->text, 9, 9);
    }
}
