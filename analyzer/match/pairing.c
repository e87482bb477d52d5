/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/pairing.h"

#include <stdlib.h>

struct started {
    struct channel_key key;
    struct channel *channel; /* NULL: memory was short */
};

HASH_TABLE_OF(started_channels, struct started, struct channel_key);

bool pairing_init(struct pairing *pairing, const struct match_directory *directory, const struct match_sink *sink,
                  void *state, unsigned workers) {
    size_t count = directory->communicator_count;
    uint64_t interval = (uint64_t)directory->dump_count * HALVES_PER_DUMP;
    interval = interval > HALVES_INTERVAL ? interval : HALVES_INTERVAL;
    *pairing = (struct pairing){.owner = {.workers = workers, .directory = directory, .sink = sink, .state = state},
                                .channels = calloc(count ? count : 1, sizeof *pairing->channels)};
    pairing->owner.totals = &pairing->totals;
    messages_init(&pairing->messages, interval);
    messages_init(&pairing->sent, interval);
    messages_init(&pairing->needs, interval);
    for (size_t i = 0; pairing->channels && i < count; i++)
        channel_init(&pairing->channels[i], &directory->communicators[i]);
    return pairing->channels != NULL;
}

void pairing_free(struct pairing *pairing) {
    size_t count = pairing->channels ? pairing->owner.directory->communicator_count : 0;
    for (size_t i = 0; i < count; i++)
        channel_free(&pairing->channels[i]);
    for (size_t i = 0; i < pairing->started.count; i++) {
        struct channel *channel = started_channels_items(&pairing->started)[i].channel;
        if (channel)
            channel_free(channel);
        free(channel);
    }
    messages_free(&pairing->messages, &pairing->totals);
    messages_free(&pairing->sent, &pairing->ignored);
    messages_free(&pairing->needs, &pairing->ignored);
    hash_table_free(&pairing->started);
    free(pairing->channels);
    pairing->channels = NULL;
}

/* NULL when memory is short. */
static struct channel *find_channel(struct pairing *pairing, const struct channel_key *key) {
    if (!key->started)
        return &pairing->channels[key->communicator];
    struct started *started = started_channels_add(&pairing->started, key);
    if (started && !started->channel && (started->channel = malloc(sizeof *started->channel))) {
        channel_init(started->channel, &pairing->owner.directory->communicators[key->communicator]);
        started->channel->started = true;
        started->channel->start_of = key->start_of;
    }
    return started ? started->channel : NULL;
}

static bool take_part(struct pairing *pairing, const struct channel_arrival *part) {
    struct channel *channel = find_channel(pairing, &part->channel);
    if (!channel)
        return false;
    channel_pass(channel, part->newest);
    return channel_arrive(channel, &pairing->owner, part);
}

static bool take_passed(struct pairing *pairing, const struct channel_passed *passed) {
    struct channel *channel = find_channel(pairing, &passed->channel);
    if (channel)
        channel_pass(channel, passed->newest);
    return channel != NULL;
}

/* What is no message of the sink's, or one that it has had. */
static bool take_other(struct pairing *pairing, struct messages *messages, const struct message_half *half,
                       void (*hand_out)(void *state, const struct match_message *message)) {
    const struct match_sink other = {.message = hand_out};
    return messages_arrive(messages, half, &other, pairing->owner.state, &pairing->ignored);
}

static bool take_arrival(struct pairing *pairing, const struct arrival *arrival) {
    const void *item = arrival + 1;
    switch ((enum arrival_kind)arrival->kind) {
    case ARRIVAL_PART:
        return take_part(pairing, item);
    case ARRIVAL_PASSED:
        return take_passed(pairing, item);
    case ARRIVAL_HALF:
        return messages_arrive(&pairing->messages, item, pairing->owner.sink, pairing->owner.state, &pairing->totals);
    case ARRIVAL_NEED:
        return take_other(pairing, &pairing->needs, item, pairing->owner.sink->epoch);
    case ARRIVAL_SENT:
        return take_other(pairing, &pairing->sent, item, pairing->owner.sink->sent);
    }
    return true;
}

void pairing_take(struct pairing *pairing, const struct arrival_batch *batch) {
    const struct arrival *arrival = NULL;
    while (!pairing->no_memory && (arrival = arrival_next(batch, arrival)) != NULL)
        pairing->no_memory = !take_arrival(pairing, arrival);
    pairing->walked += batch->taken;
    messages_walked(&pairing->messages, pairing->walked, &pairing->totals);
    messages_walked(&pairing->sent, pairing->walked, &pairing->ignored);
    messages_walked(&pairing->needs, pairing->walked, &pairing->ignored);
}

void pairing_close(struct pairing *pairing) {
    for (size_t i = 0; i < pairing->owner.directory->communicator_count; i++)
        channel_close(&pairing->channels[i], &pairing->owner);
    for (size_t i = 0; i < pairing->started.count; i++)
        if (started_channels_items(&pairing->started)[i].channel)
            channel_close(started_channels_items(&pairing->started)[i].channel, &pairing->owner);
}
