/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/path_parts.h"

#include "analyzer/page/columns.h"
#include "analyzer/page/text_list.h"

struct path_columns {
    json_t *dump, *begin, *length, *inside, *op, *site;
    struct text_list names, sites;
};

static void begin_columns(struct path_columns *columns) {
    *columns = (struct path_columns){json_array(), json_array(), json_array(), json_array(),
                                     json_array(), json_array(), {0},          {0}};
    text_list_begin(&columns->names);
    text_list_begin(&columns->sites);
}

static void append(struct path_columns *columns, const struct path_part *part, const struct match_directory *directory,
                   struct site_labels *labels, int64_t origin_ns) {
    const char *name = part->call != CALL_UNKNOWN ? directory->calls[part->call].name->name : "unknown call";
    const char *site = part->stack != STACK_NONE ? site_label(labels, part->dump, part->stack) : "(no call stack)";
    json_array_append_new(columns->dump, json_integer(part->dump));
    json_array_append_new(columns->begin, json_integer(part->from_ns - origin_ns));
    json_array_append_new(columns->length, json_integer(part->to_ns - part->from_ns));
    json_array_append_new(columns->inside, json_integer(part->inside));
    json_array_append_new(columns->op, text_list_number(&columns->names, name));
    json_array_append_new(columns->site, text_list_number(&columns->sites, site));
}

static json_t *hand_over(struct path_columns *columns) {
    json_t *object = json_object();
    columns_add(object, "dump", columns->dump);
    columns_add(object, "begin_ns", columns->begin);
    columns_add(object, "length_ns", columns->length);
    columns_add(object, "inside", columns->inside);
    columns_add(object, "op", columns->op);
    columns_add(object, "site", columns->site);
    return object;
}

json_t *path_parts_to_json(const struct delay_costs *costs, const struct match_directory *directory,
                           struct site_labels *labels, const struct path_window *window) {
    struct path_columns columns;
    uint64_t left_out = costs->parts_left_out;
    size_t kept = 0;
    begin_columns(&columns);
    for (size_t i = 0; i < costs->part_count; i++) {
        const struct path_part *part = &costs->parts[i];
        bool shown = part->to_ns - window->origin_ns > window->from_ns &&
                     part->from_ns - window->origin_ns < window->to_ns && kept < PATH_PARTS_MOST;
        kept += shown;
        left_out += !shown;
        if (shown)
            append(&columns, part, directory, labels, window->origin_ns);
    }
    json_t *json =
        json_pack("{s:s, s:I, s:I, s:I, s:O, s:O, s:o}", "schema", "commtap.page.path/1", "length_ns",
                  (json_int_t)costs->path_ns, "parts", (json_int_t)kept, "left_out", (json_int_t)left_out, "names",
                  columns.names.texts, "sites", columns.sites.texts, "columns", hand_over(&columns));
    bool no_memory = columns.names.no_memory || columns.sites.no_memory;
    text_list_free(&columns.names);
    text_list_free(&columns.sites);
    if (no_memory) {
        json_decref(json);
        return NULL;
    }
    return json;
}
