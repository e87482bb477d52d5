/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/documents/links_document.h"

#include "analyzer/findings/words.h"
#include "analyzer/render/escape.h"

bool links_of_session(struct link_table *links, const struct session *session, bool by_host) {
    return link_table_build(links,
                            &(struct link_sources){.clock = &session->clock,
                                                   .links = &session->analysis.links,
                                                   .waits = &session->analysis.waits.links,
                                                   .filter = &session->selection.filter},
                            by_host);
}

bool links_totals_complete(const struct session *session) {
    return !totals_lack(&session->job) && session->job.losses.of[LOSS_PEERS] == 0 && session->job.missing_count == 0;
}

json_t *links_document(const struct session *session, const struct link_table *links, const struct table *table) {
    return json_pack("{s:s, s:o, s:s, s:b, s:I, s:I, s:I, s:o, s:o}", "schema", "commtap.links/1", "run_id",
                     escape_json(session->job.dumps[0]->run_id), "by", links->by_host ? "host" : "rank",
                     "totals_complete", links_totals_complete(session), "messages_matched",
                     (json_int_t)session->analysis.totals.messages, "with_another_world",
                     (json_int_t)(links->with_another_world < INT64_MAX ? links->with_another_world : INT64_MAX),
                     "links_found", (json_int_t)links->count, "links", table_to_json(table), "left_out",
                     links_left_out_to_json(links));
}
