/* SPDX-License-Identifier: Apache-2.0
 *
 * Parcels: what one process has gathered comes out of the bytes as it went in, or not at all.
 * Lives here: fields, arrays, tables; bytes that were cut short or damaged. Must not live here: what states are made of
 * (test_parcel_states.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/parcel.h"

struct pair_key {
    uint32_t from, to;
};

struct pair {
    struct pair_key key;
    uint64_t bytes;
};

HASH_TABLE_OF(pairs, struct pair, struct pair_key);

enum { KNOWN = 64 };

struct thing {
    uint64_t number;
    char letter;
    uint64_t known[KNOWN]; /* as many on both ends */
    uint32_t *list;
    size_t list_count;
    struct pair *array;
    size_t array_count, array_room;
    struct hash_table table;
};

static void thing_parcel(struct thing *thing, struct parcel *parcel) {
    parcel_field(parcel, &thing->number);
    parcel_field(parcel, &thing->letter);
    parcel_items(parcel, thing->known, KNOWN, sizeof *thing->known);
    parcel_list(parcel, thing->list, thing->list_count);
    parcel_array(parcel, thing->array, thing->array_count, thing->array_room);
    parcel_table(parcel, &thing->table, struct pair);
}

static void thing_free(struct thing *thing) {
    free(thing->list);
    free(thing->array);
    hash_table_free(&thing->table);
}

static void add_to_list(struct thing *thing, uint32_t number) {
    assert_true(grow_list(thing->list, thing->list_count));
    thing->list[thing->list_count++] = number;
}

static void add_to_array(struct thing *thing, uint32_t number) {
    assert_true(grow_by_one(thing->array, thing->array_count, thing->array_room));
    thing->array[thing->array_count++] = (struct pair){{number, number + 1}, number};
}

static void add_to_table(struct thing *thing, uint32_t number) {
    struct pair *pair = pairs_add(&thing->table, &(struct pair_key){number * 7919, number});
    assert_non_null(pair);
    pair->bytes += number;
}

static struct thing some_thing(uint32_t count) {
    struct thing thing = {.number = UINT64_MAX - count, .letter = 'x'};
    for (size_t i = 0; i < KNOWN; i++)
        thing.known[i] = i % 5 < 3 ? 0 : i;
    for (uint32_t i = 0; i < count; i++) {
        add_to_list(&thing, i * i);
        add_to_array(&thing, i);
        add_to_table(&thing, count - i);
    }
    return thing;
}

static void assert_same_things(const struct thing *a, const struct thing *b) {
    assert_true(a->number == b->number && a->letter == b->letter);
    assert_memory_equal(a->known, b->known, sizeof a->known);
    assert_int_equal(a->list_count, b->list_count);
    assert_int_equal(a->array_count, b->array_count);
    assert_int_equal(a->table.count, b->table.count);
    for (size_t i = 0; i < a->list_count; i++)
        assert_int_equal(a->list[i], b->list[i]);
    for (size_t i = 0; i < a->array_count; i++)
        assert_memory_equal(&a->array[i], &b->array[i], sizeof a->array[i]);
    for (size_t i = 0; i < a->table.count; i++)
        assert_memory_equal(&pairs_items(&a->table)[i], &pairs_items(&b->table)[i], sizeof(struct pair));
}

static struct parcel packed(struct thing *thing) {
    struct parcel parcel = parcel_to_pack();
    thing_parcel(thing, &parcel);
    parcel_seal(&parcel);
    assert_false(parcel.failed);
    return parcel;
}

/* Exactly as many bytes as are said, so that the sanitizer sees who reads beyond. */
static bool unpack(struct thing *thing, const unsigned char *bytes, size_t size) {
    unsigned char *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    if (size > 0)
        memcpy(copy, bytes, size);
    struct parcel parcel = parcel_to_unpack(copy, size);
    thing_parcel(thing, &parcel);
    bool done = parcel_is_used_up(&parcel);
    free(copy);
    return done;
}

static void what_was_packed_comes_out_and_can_go_on(void **state) {
    (void)state;
    static const uint32_t counts[] = {0, 1, 4, 5, 1000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct thing sent = some_thing(counts[i]), got = {0};
        for (size_t k = 0; k < KNOWN; k++)
            got.known[k] = 99;
        struct parcel parcel = packed(&sent);
        assert_true(unpack(&got, parcel.bytes, parcel.size));
        assert_same_things(&sent, &got);
        for (uint32_t more = 0; more < 9; more++) { /* arrays have the room that goes with their counts */
            add_to_list(&sent, more);
            add_to_list(&got, more);
            add_to_array(&sent, more);
            add_to_array(&got, more);
            add_to_table(&sent, more * 3);
            add_to_table(&got, more * 3);
        }
        assert_same_things(&sent, &got);
        parcel_free(&parcel);
        thing_free(&sent);
        thing_free(&got);
    }
}

static void what_was_there_gives_way(void **state) {
    (void)state;
    struct thing sent = some_thing(3), got = some_thing(700);
    struct parcel parcel = packed(&sent);
    assert_true(unpack(&got, parcel.bytes, parcel.size));
    assert_same_things(&sent, &got);
    parcel_free(&parcel);
    thing_free(&sent);
    thing_free(&got);
}

static void zeros_travel_as_their_number(void **state) {
    (void)state;
    enum { MANY = 100000 };
    uint64_t *items = calloc(MANY, sizeof *items), *got = malloc(MANY * sizeof *got);
    assert_true(items && got);
    items[77777] = 1;
    struct parcel sent = parcel_to_pack();
    parcel_items(&sent, items, MANY, sizeof *items);
    parcel_seal(&sent);
    assert_in_range(sent.size, 1, 128);
    struct parcel parcel = parcel_to_unpack(sent.bytes, sent.size);
    parcel_items(&parcel, got, MANY, sizeof *got);
    assert_true(parcel_is_used_up(&parcel));
    assert_memory_equal(items, got, MANY * sizeof *items);
    parcel_free(&sent);
    free(items);
    free(got);
}

static void bytes_cut_short_or_damaged_fail(void **state) {
    (void)state;
    struct thing sent = some_thing(6);
    struct parcel parcel = packed(&sent);
    for (size_t size = 0; size < parcel.size; size++) {
        struct thing got = {0};
        assert_false(unpack(&got, parcel.bytes, size));
        thing_free(&got);
    }
    for (size_t at = 0; at < parcel.size; at++) {
        struct thing got = {0};
        parcel.bytes[at] ^= (unsigned char)(1 << at % 8);
        assert_false(unpack(&got, parcel.bytes, parcel.size));
        parcel.bytes[at] ^= (unsigned char)(1 << at % 8);
        assert_true(got.list == NULL && got.table.count == 0);
        thing_free(&got);
    }
    parcel_free(&parcel);
    thing_free(&sent);
}

/* Sealed again: who sends anything with the right checksum can make nobody read beyond the end, nor take a count for
 * what it says. */
static void sealed_nonsense_fails_too(void **state) {
    (void)state;
    struct thing sent = some_thing(6);
    struct parcel whole = packed(&sent);
    size_t body = whole.size - sizeof(uint64_t);
    for (size_t at = 0; at < body; at++) {
        struct thing got = {0};
        struct parcel forged = parcel_to_pack();
        parcel_bytes(&forged, whole.bytes, body);
        forged.bytes[at] ^= 0xff;
        parcel_seal(&forged);
        (void)unpack(&got, forged.bytes, forged.size); /* may succeed: a number was another one */
        thing_free(&got);
        forged.size = at;
        parcel_seal(&forged);
        got = (struct thing){0};
        assert_false(unpack(&got, forged.bytes, forged.size));
        thing_free(&got);
        parcel_free(&forged);
    }
    parcel_free(&whole);
    thing_free(&sent);
}

static void counts_beyond_all_bounds_allocate_nothing(void **state) {
    (void)state;
    size_t counts[] = {2, SIZE_MAX, SIZE_MAX / sizeof(struct pair) + 2, (size_t)1 << 40};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct pair one = {{1, 2}, 3};
        struct parcel sent = parcel_to_pack();
        parcel_field(&sent, &counts[i]);
        parcel_field(&sent, &one);
        parcel_seal(&sent);
        struct pair *list = NULL;
        size_t count = 0;
        struct hash_table table = {0};
        struct parcel parcel = parcel_to_unpack(sent.bytes, sent.size);
        parcel_list(&parcel, list, count);
        assert_true(parcel.failed && !list && count == 0);
        parcel = parcel_to_unpack(sent.bytes, sent.size);
        parcel_table(&parcel, &table, struct pair);
        assert_true(parcel.failed && table.count == 0);
        parcel_free(&sent);
    }
}

static void keys_that_come_twice_fail(void **state) {
    (void)state;
    struct pair twice[2] = {{{1, 2}, 3}, {{1, 2}, 4}};
    struct pair *list = twice;
    size_t count = 2;
    struct parcel sent = parcel_to_pack();
    parcel_list(&sent, list, count);
    parcel_seal(&sent);
    struct hash_table table = {0};
    struct parcel parcel = parcel_to_unpack(sent.bytes, sent.size);
    parcel_table(&parcel, &table, struct pair);
    assert_true(parcel.failed);
    hash_table_free(&table);
    parcel_free(&sent);
}

static void what_is_left_over_is_seen(void **state) {
    (void)state;
    struct parcel sent = parcel_to_pack();
    uint32_t number = 5, got = 0;
    parcel_field(&sent, &number);
    parcel_field(&sent, &number);
    parcel_seal(&sent);
    struct parcel parcel = parcel_to_unpack(sent.bytes, sent.size);
    parcel_field(&parcel, &got);
    assert_int_equal(got, 5);
    assert_false(parcel_is_used_up(&parcel));
    parcel_field(&parcel, &got);
    assert_true(parcel_is_used_up(&parcel));
    parcel_field(&parcel, &got);
    assert_false(parcel_is_used_up(&parcel));
    parcel_free(&sent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_comes_out_and_can_go_on),
        cmocka_unit_test(what_was_there_gives_way),
        cmocka_unit_test(zeros_travel_as_their_number),
        cmocka_unit_test(bytes_cut_short_or_damaged_fail),
        cmocka_unit_test(sealed_nonsense_fails_too),
        cmocka_unit_test(counts_beyond_all_bounds_allocate_nothing),
        cmocka_unit_test(keys_that_come_twice_fail),
        cmocka_unit_test(what_is_left_over_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
