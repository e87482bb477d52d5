/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/participants.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/base/parallel_role.h"
#include "analyzer/render/escape.h"

struct named_communicator {
    uint64_t key;
    uint32_t number;
};

HASH_TABLE_OF(named_communicators, struct named_communicator, uint64_t);

static json_t *communicator_to_json(const struct dump_communicator *communicator) {
    char uid[17], role[PARALLEL_ROLE_TEXT];
    snprintf(uid, sizeof uid, "%016" PRIx64, communicator->definition->uid);
    parallel_role(role, communicator->name);
    return json_pack("{s:s, s:o, s:I, s:o}", "uid", uid, "name", escape_json(communicator->name), "size",
                     (json_int_t)communicator->definition->size, "role", role[0] ? json_string(role) : json_null());
}

static json_t *groups_of(const struct dump *dump, struct hash_table *numbers, json_t *communicators) {
    json_t *groups = json_array();
    for (uint32_t i = 0; i < dump->communicator_count && json_array_size(groups) < PARTICIPANT_GROUPS_MOST; i++) {
        const struct dump_communicator *communicator = dump_communicator(dump, i);
        if (!communicator || !communicator->definition || !communicator->name[0])
            continue;
        uint64_t uid = communicator->definition->uid;
        struct named_communicator *item = named_communicators_find(numbers, &uid);
        if (!item && numbers->count < PARTICIPANT_NAMES_MOST) {
            uint32_t number = (uint32_t)numbers->count;
            item = named_communicators_add(numbers, &uid);
            if (item) {
                item->number = number;
                json_array_append_new(communicators, communicator_to_json(communicator));
            }
        }
        if (item)
            json_array_append_new(groups, json_pack("{s:I, s:I}", "communicator", (json_int_t)item->number, "place",
                                                    (json_int_t)communicator->definition->my_rank));
    }
    return groups;
}

static json_t *text_of(const char *text, size_t room) {
    char copy[80];
    snprintf(copy, sizeof copy, "%.*s", (int)strnlen(text, room), text);
    return copy[0] ? escape_json(copy) : json_null();
}

static json_t *devices_of(const struct dump *dump) {
    json_t *devices = json_array();
    for (uint32_t i = 0; i < dump->device_count && i < PARTICIPANT_GROUPS_MOST; i++) {
        const struct device_state *device = &dump->devices[i];
        if (device->version > 0)
            json_array_append_new(devices, json_pack("{s:I, s:o, s:o}", "ordinal", (json_int_t)device->ordinal, "name",
                                                     text_of(device->name, sizeof device->name), "bus",
                                                     text_of(device->bus, sizeof device->bus)));
    }
    return devices;
}

bool participants_add(json_t *object, const struct job *job, const uint32_t *stage_of) {
    json_t *dumps = json_array(), *communicators = json_array();
    struct hash_table numbers = {0};
    for (size_t d = 0; d < job->count; d++) {
        const struct dump *dump = job->dumps[d];
        json_array_append_new(dumps,
                              json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "rank", (json_int_t)dump->header->rank, "gpu",
                                        dump_gpu(dump) ? json_integer(dump_gpu_number(dump)) : json_null(), "host",
                                        escape_json(dump->host), "stage",
                                        stage_of[d] > 0 ? json_integer(stage_of[d]) : json_null(), "devices",
                                        devices_of(dump), "groups", groups_of(dump, &numbers, communicators)));
    }
    hash_table_free(&numbers);
    return json_object_set_new(object, "dumps", dumps) == 0 &&
           json_object_set_new(object, "communicators", communicators) == 0;
}
