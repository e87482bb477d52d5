/* SPDX-License-Identifier: Apache-2.0
 *
 * What all rooms of the analyzer stand on: hashes, hash tables, arrays that grow, medians, names that are near.
 * Lives here: each against reference values or a plain model, and in hostile use.
 * Must not live here: what the rooms make of them.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/base/parallel_role.h"
#include "analyzer/base/grow.h"
#include "analyzer/base/hash_table.h"
#include "analyzer/base/radix_sort.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/base/statistics.h"
#include "analyzer/base/text.h"

/* malloc gives NULL for what no machine has, instead of ending the test. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

enum { HUGE_SHIFT = 50 };
#define HUGE_ITEM ((size_t)1 << HUGE_SHIFT) /* bytes; sixteen of them can be counted and not allocated */

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

/* Made by CPython 3.11, whose bytes hash is SipHash-1-3: hash(bytes(range(n))) with PYTHONHASHSEED=12345, which makes
 * this key. */
static void keyed_hash_is_siphash_1_3(void **state) {
    (void)state;
    static const struct hash_seed seed = {{UINT64_C(0x25556dc46dc3dca0), UINT64_C(0xfc3ee4dbd06f6c90)}};
    static const struct {
        size_t bytes;
        uint64_t hash;
    } of[] = {{1, UINT64_C(0xddb5fc492fbdf63a)},  {3, UINT64_C(0x6925b9482f3a5127)},
              {8, UINT64_C(0x354edb093928c942)},  {15, UINT64_C(0xbe8dc664d017b99e)},
              {16, UINT64_C(0x2e932605ea370595)}, {20, UINT64_C(0x48338afd67208ffa)},
              {63, UINT64_C(0x171afa1ac779cd10)}};
    unsigned char data[64];
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        assert_true(hash_keyed(&seed, data, of[i].bytes) == of[i].hash);
}

/* SplitMix64 with seed 0 begins with these (Vigna's splitmix64.c). */
static void scrambled_numbers_are_those_of_splitmix64(void **state) {
    (void)state;
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    assert_true(hash_scramble(step) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(hash_scramble(2 * step) == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(hash_scramble(3 * step) == UINT64_C(0x06c45d188009454f));
}

static void fingerprints_depend_on_every_number_and_on_their_order(void **state) {
    (void)state;
    uint64_t one_two = hash_mix(hash_mix(0, 1), 2);
    assert_true(one_two == hash_mix(hash_mix(0, 1), 2));
    assert_true(one_two != hash_mix(hash_mix(0, 2), 1));
    assert_true(one_two != hash_mix(hash_mix(0, 1), 3));
    assert_true(one_two != hash_mix(hash_mix(4, 1), 2));
}

/* ---- hash tables ------------------------------------------------------------------------------------------------- */

struct pair_key {
    uint32_t from, to, size;
};

struct pair {
    struct pair_key key;
    uint64_t value;
};

HASH_TABLE_OF(pairs, struct pair, struct pair_key);

struct name {
    const char *key;
    int value;
};

HASH_TABLE_OF_TEXTS(names, struct name);

static struct pair_key key_of(uint32_t number) {
    return (struct pair_key){number, number / 7, number % 3};
}

static void an_empty_table_has_nothing(void **state) {
    (void)state;
    struct hash_table table = {0};
    struct pair_key key = key_of(1);
    assert_null(pairs_find(&table, &key));
    pairs_remove(&table, &key);
    assert_int_equal(table.count, 0);
    hash_table_free(&table);
    pairs_add(&table, &key);
    pairs_remove(&table, &key);
    assert_int_equal(table.count, 0);
    assert_null(pairs_find(&table, &key));
    hash_table_free(&table);
}

static void items_keep_the_order_in_which_they_came(void **state) {
    (void)state;
    struct hash_table one = {0}, other = {0};
    for (uint32_t i = 0; i < 5000; i++) {
        struct pair_key key = key_of(i * 2654435761u);
        struct pair *first = pairs_add(&one, &key), *second = pairs_add(&other, &key);
        assert_non_null(first);
        assert_int_equal(first->value, 0); /* new ones are all zero */
        first->value = second->value = i + 1;
        assert_ptr_equal(pairs_add(&one, &key), first); /* known ones are given back */
    }
    assert_int_equal(one.count, 5000);
    assert_memory_not_equal(&one.seed, &other.seed, sizeof one.seed); /* and yet: */
    for (uint32_t i = 0; i < 5000; i++) {
        struct pair_key key = key_of(i * 2654435761u);
        assert_int_equal(pairs_items(&one)[i].value, i + 1);
        assert_int_equal(pairs_items(&other)[i].value, i + 1);
        assert_int_equal(pairs_find(&one, &key)->value, i + 1);
    }
    hash_table_free(&one);
    hash_table_free(&other);
}

/* Adds and removes at random beside an array that says what should be there. */
static void a_table_does_what_an_array_would(void **state) {
    (void)state;
    enum { KEYS = 700, ROUNDS = 60000 };
    static uint64_t value_of[KEYS];
    struct hash_table table = {0};
    uint64_t random = 1;
    size_t count = 0;
    memset(value_of, 0, sizeof value_of);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        random = hash_scramble(random + round);
        uint32_t number = (uint32_t)(random % KEYS);
        struct pair_key key = key_of(number);
        struct pair *found = pairs_find(&table, &key);
        assert_int_equal(found ? found->value : 0, value_of[number]);
        if (random >> 40 & 1) {
            pairs_remove(&table, &key);
            count -= value_of[number] != 0;
            value_of[number] = 0;
        } else {
            count += value_of[number] == 0;
            pairs_add(&table, &key)->value = value_of[number] = round;
        }
        assert_int_equal(table.count, count);
    }
    assert_true(count > KEYS / 4);
    for (uint32_t i = 0; i < table.count; i++)
        assert_int_equal(pairs_items(&table)[i].value, value_of[pairs_items(&table)[i].key.from]);
    hash_table_free(&table);
}

enum { COLLIDING = 300, COLLIDING_BITS = 10 };

/* Keys whose hashes begin alike in that table, as somebody would prepare them who knew its seed. */
static void find_colliding(const struct hash_table *table, struct pair_key *keys) {
    size_t count = 0;
    for (uint32_t i = 0; count < COLLIDING; i++) {
        struct pair_key key = key_of(i);
        if (hash_table_hash(table, &key, sizeof key) % (1 << COLLIDING_BITS) == 0)
            keys[count++] = key;
    }
}

static size_t longest_run(const struct hash_table *table) {
    size_t longest = 0, run = 0;
    for (size_t i = 0; i < table->size; i++) {
        run = table->places[i] ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

static void colliding_keys_are_found_and_removed(void **state) {
    (void)state;
    static struct pair_key keys[COLLIDING];
    struct hash_table table = {0}, other = {0};
    pairs_add(&table, &(struct pair_key){UINT32_MAX, 0, 0});
    find_colliding(&table, keys);
    for (size_t i = 0; i < COLLIDING; i++) {
        pairs_add(&table, &keys[i])->value = i + 1;
        pairs_add(&other, &keys[i])->value = i + 1;
    }
    assert_true(table.size <= 1 << COLLIDING_BITS);
    assert_true(longest_run(&table) >= COLLIDING);    /* they do collide where the seed is known, */
    assert_true(longest_run(&other) < COLLIDING / 4); /* and nowhere else */
    for (size_t i = 0; i < COLLIDING; i += 2)
        pairs_remove(&table, &keys[i]);
    for (size_t i = 0; i < COLLIDING; i++) {
        const struct pair *found = pairs_find(&table, &keys[i]);
        assert_int_equal(found ? found->value : 0, i % 2 ? i + 1 : 0);
    }
    hash_table_free(&table);
    hash_table_free(&other);
}

static void a_table_that_cannot_grow_stays_as_it_is(void **state) {
    (void)state;
    struct hash_table table = {0};
    assert_false(hash_table_grow(&table, HUGE_ITEM));    /* memory */
    assert_false(hash_table_grow(&table, SIZE_MAX / 4)); /* bytes that cannot be counted */
    assert_int_equal(table.size, 0);
    for (uint32_t i = 0; i < 16; i++)
        pairs_add(&table, &(struct pair_key){i, 0, 0})->value = i + 1;
    assert_false(hash_table_grow(&table, HUGE_ITEM));
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(pairs_find(&table, &(struct pair_key){i, 0, 0})->value, i + 1);
    hash_table_free(&table);
    assert_true(hash_table_next_size(HASH_TABLE_MOST) == 2 * HASH_TABLE_MOST);
    assert_int_equal(hash_table_next_size(2 * HASH_TABLE_MOST), 0);
    struct hash_table full = {.count = HASH_TABLE_MOST, .size = 2 * HASH_TABLE_MOST};
    assert_false(hash_table_grow(&full, 1));
    assert_true(full.size == 2 * HASH_TABLE_MOST && !full.places);
}

static void a_cleared_table_is_empty_and_fills_again(void **state) {
    (void)state;
    struct hash_table table = {0};
    hash_table_clear(&table);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = round; i < 500; i++) {
            struct pair_key key = key_of(i);
            assert_null(pairs_find(&table, &key));
            pairs_add(&table, &key)->value = i + 1;
        }
        assert_int_equal(table.count, 500 - round);
        hash_table_clear(&table);
        assert_int_equal(table.count, 0);
    }
    hash_table_free(&table);
}

static void texts_are_compared_letter_by_letter(void **state) {
    (void)state;
    struct hash_table table = {0};
    char first[] = "ncclAllReduce", again[] = "ncclAllReduce";
    names_add(&table, first)->value = 1;
    names_add(&table, "ncclAllGather")->value = 2;
    names_add(&table, "")->value = 3;
    assert_int_equal(names_find(&table, again)->value, 1);
    assert_ptr_equal(names_find(&table, again)->key, first);
    assert_int_equal(names_find(&table, "")->value, 3);
    assert_null(names_find(&table, "ncclAllReduc"));
    names_remove(&table, again);
    assert_null(names_find(&table, first));
    assert_int_equal(names_find(&table, "ncclAllGather")->value, 2);
    hash_table_free(&table);
}

/* ---- arrays that grow -------------------------------------------------------------------------------------------- */

static void lists_grow_one_by_one(void **state) {
    (void)state;
    uint32_t *items = NULL;
    size_t count = 0, moves = 0;
    for (; count < 10000; count++) {
        const uint32_t *before = items;
        assert_true(grow_list(items, count));
        moves += items != before;
        items[count] = (uint32_t)count;
    }
    for (size_t i = 0; i < count; i++)
        assert_int_equal(items[i], i);
    assert_true(moves <= 13);               /* 4, 8, ... 16384: the room doubles */
    for (count = 3; count < 100; count++) { /* a list that has become shorter grows on */
        assert_true(grow_list(items, count));
        items[count] = 7;
    }
    assert_int_equal(items[2], 2);
    free(items);
}

static void room_is_made_for_as_many_as_wanted(void **state) {
    (void)state;
    char *items = NULL;
    size_t room = 0, nothing = 0;
    assert_true(grow_to(items, room, 1000));
    assert_true(room >= 1000 && room < 2000);
    memset(items, 'x', room);
    const char *before = items;
    assert_true(grow_to(items, room, 10));
    assert_ptr_equal(items, before);
    size_t count = room;
    assert_true(grow_by_one(items, count, room));
    assert_true(room > count);
    items[count] = 'y';
    assert_int_equal(items[count - 1], 'x');
    assert_true(grow_to(items, room, nothing));
    free(items);
}

struct huge {
    char bytes[HUGE_ITEM];
};

static void what_cannot_grow_stays_as_it_is(void **state) {
    (void)state;
    uint64_t *items = NULL;
    size_t room = 0;
    assert_true(grow_to(items, room, 8));
    items[7] = 42;
    uint64_t *before = items;
    size_t room_before = room;
    assert_false(grow_to(items, room, SIZE_MAX));         /* doubling runs over */
    assert_false(grow_to(items, room, SIZE_MAX / 8 + 1)); /* the bytes run over */
    assert_false(grow_to(items, room, HUGE_ITEM));        /* memory is short */
    assert_ptr_equal(items, before);
    assert_int_equal(room, room_before);
    assert_int_equal(items[7], 42);
    free(items);
    struct huge *none = NULL;
    size_t count = 0;
    assert_false(grow_list(none, count));
    assert_null(none);
    count = SIZE_MAX / 2 + 1;
    assert_false(grow_list(none, count));
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

/* The reference values are numpy 2.4's: median, and quantile with the methods "lower" and "higher". */
static const double sample[] = {3.25, -1.5, 0, 8.75, 2.5, 6.5, -7.125, 100, 4.5, 1.25};
enum { SAMPLE = sizeof sample / sizeof *sample };

static void medians_of_doubles_are_numpys(void **state) {
    (void)state;
    double values[SAMPLE];
    memcpy(values, sample, sizeof values);
    assert_true(median_double(values, SAMPLE) == 2.875);
    memcpy(values, sample, sizeof values);
    assert_true(median_low_double(values, SAMPLE) == 2.5);
    memcpy(values, sample, sizeof values);
    assert_true(median_high_double(values, SAMPLE) == 3.25);
    static const double odd[] = {3.25, -1.5, 0, 8.75, 2.5, 6.5, -7.125, 100, 4.5};
    enum { ODD = sizeof odd / sizeof *odd };
    memcpy(values, odd, sizeof odd);
    assert_true(median_double(values, ODD) == 3.25);
    memcpy(values, odd, sizeof odd);
    assert_true(median_low_double(values, ODD) == 3.25);
    memcpy(values, odd, sizeof odd);
    assert_true(median_high_double(values, ODD) == 3.25);
    memcpy(values, sample, sizeof values);
    assert_true(median_double(values, 1) == 3.25);
    memcpy(values, sample, sizeof values);
    assert_true(median_double(values, 2) == 0.875);
}

static void quantiles_are_numpys(void **state) {
    (void)state;
    double values[SAMPLE];
    memcpy(values, sample, sizeof values);
    qsort(values, SAMPLE, sizeof *values, compare_double);
    assert_true(quantile_low_double(values, SAMPLE, 0) == -7.125);
    assert_true(quantile_low_double(values, SAMPLE, 25) == 0);
    assert_true(quantile_low_double(values, SAMPLE, 60) == 3.25);
    assert_true(quantile_low_double(values, SAMPLE, 90) == 8.75);
    assert_true(quantile_low_double(values, SAMPLE, 100) == 100);
    assert_true(quantile_low_double(values, 1, 90) == -7.125);
}

/* scipy 1.17's median_abs_deviation, and the quantiles of its halfnorm. */
static void distances_from_the_median_are_scipys(void **state) {
    (void)state;
    double values[SAMPLE];
    memcpy(values, sample, sizeof values);
    distances_from(values, SAMPLE, median_double(values, SAMPLE));
    assert_true(median_double(values, SAMPLE) == 3.25);
    assert_true(values[0] >= 0 && values[0] <= values[1]); /* sorted by it */
    assert_float_equal(SD_OF_MEDIAN_DISTANCE, 1.482602218505602, 1e-4);
    assert_float_equal(NORMAL_DISTANCE_P60, 0.8416212335729143, 1e-4);
    assert_float_equal(NORMAL_DISTANCE_P90, 1.6448536269514722, 1e-3);
}

static void medians_of_integers_are_numpys_and_never_run_over(void **state) {
    (void)state;
    static const int64_t some[] = {5, -3, 9, 9, 2, -11, 7, 6};
    int64_t values[8];
    memcpy(values, some, sizeof values);
    assert_int_equal(median_int64(values, 8), 5); /* 5.5 */
    memcpy(values, some, sizeof values);
    assert_int_equal(median_low_int64(values, 8), 5);
    memcpy(values, some, sizeof values);
    assert_int_equal(median_high_int64(values, 8), 6);
    memcpy(values, some, sizeof values);
    assert_int_equal(median_int64(values, 7), 5);
    int64_t ends[2] = {INT64_MAX, INT64_MIN};
    assert_int_equal(median_int64(ends, 2), -1); /* half-way between them, -0.5 */
    int64_t high[2] = {INT64_MAX, INT64_MAX - 2};
    assert_int_equal(median_int64(high, 2), INT64_MAX - 1);
}

/* The same on every run. */
static uint64_t drawn(uint64_t number) {
    uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 27;
}

/* What is drawn for a list of one kind: of few values, of some digits, of all bits, about 0, all alike. */
static int64_t drawn_of(unsigned kind, uint64_t number) {
    uint64_t any = drawn(number);
    switch (kind) {
    case 0:
        return (int64_t)(any % 5);
    case 1:
        return (int64_t)(1000000000 + any % 3000000);
    case 2:
        return (int64_t)any;
    case 3:
        return (int64_t)(any % 70000) - 35000;
    default:
        return -17;
    }
}

enum { DRAWN_KINDS = 5, DRAWN_MOST = 10000 };
static const size_t drawn_counts[] = {1, 2, 3, 31, 32, 33, 100, 255, 256, 257, 258, 4095, 4096, DRAWN_MOST};
enum { DRAWN_COUNTS = sizeof drawn_counts / sizeof *drawn_counts };

static void the_middle_of_many_is_that_of_the_sorted(void **state) {
    (void)state;
    static int64_t sorted[DRAWN_MOST], unsorted[DRAWN_MOST];
    for (unsigned kind = 0; kind < DRAWN_KINDS; kind++)
        for (size_t c = 0; c < DRAWN_COUNTS; c++) {
            for (size_t i = 0; i < drawn_counts[c]; i++)
                sorted[i] = unsorted[i] = drawn_of(kind, i + c * DRAWN_MOST);
            assert_true(median_unsorted_int64(unsorted, drawn_counts[c]) == median_int64(sorted, drawn_counts[c]));
        }
    for (size_t i = 0; i < 1000; i++) /* half of them far from the others */
        unsorted[i] = i % 2 ? INT64_MAX : INT64_MIN;
    assert_true(median_unsorted_int64(unsorted, 1000) == -1);
}

static void numbers_are_sorted_and_equal_ones_stay_in_their_order(void **state) {
    (void)state;
    static struct sort_key keys[DRAWN_MOST], scratch[DRAWN_MOST];
    for (unsigned kind = 0; kind < DRAWN_KINDS; kind++)
        for (size_t c = 0; c < DRAWN_COUNTS; c++) {
            uint64_t sum = 0;
            for (size_t i = 0; i < drawn_counts[c]; i++)
                keys[i] = (struct sort_key){sort_value(drawn_of(kind, i)), (uint32_t)i};
            radix_sort(keys, scratch, drawn_counts[c]);
            for (size_t i = 0; i < drawn_counts[c]; i++) {
                assert_true(sort_number(keys[i].value) == drawn_of(kind, keys[i].index));
                assert_true(i == 0 || sort_number(keys[i - 1].value) < sort_number(keys[i].value) ||
                            (keys[i - 1].value == keys[i].value && keys[i - 1].index < keys[i].index));
                sum += keys[i].index;
            }
            assert_int_equal(sum, (uint64_t)drawn_counts[c] * (drawn_counts[c] - 1) / 2);
        }
}

static void orders_hold_at_the_ends(void **state) {
    (void)state;
    static const int32_t small[] = {INT32_MIN, -1, 0, INT32_MAX};
    static const int64_t whole[] = {INT64_MIN, -1, 0, INT64_MAX};
    static const uint64_t natural[] = {0, 1, INT64_MAX, UINT64_MAX};
    static const double real[] = {-1e300, -0.5, 0, 1e-300};
    static const char *const texts[] = {"", "a", "aa", "b"};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++) {
            int expected = (i > j) - (i < j);
            assert_int_equal(compare_int32(&small[i], &small[j]), expected);
            assert_int_equal(compare_int64(&whole[i], &whole[j]), expected);
            assert_int_equal(compare_uint64(&natural[i], &natural[j]), expected);
            assert_int_equal(compare_double(&real[i], &real[j]), expected);
            int order = compare_text(&texts[i], &texts[j]);
            assert_int_equal((order > 0) - (order < 0), expected);
        }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void near_names_are_found_far_ones_are_not(void **state) {
    (void)state;
    static const char *const names[] = {"report", "run", "summary"};
    assert_string_equal(nearest_name("sumary", names, 3), "summary");
    assert_string_equal(nearest_name("rpeort", names, 3), "report");
    assert_null(nearest_name("elephant", names, 3));
    assert_null(nearest_name("report", names, 0));
}

static void seconds_are_plain_numbers_within_bounds(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double seconds; /* -1: it is refused */
    } cases[] = {{"2", 2},    {"0.5", 0.5}, {".5", 0.5}, {"2.", 2},   {"10", 10},  {"0", -1},    {"10.1", -1},
                 {"", -1},    {".", -1},    {"-1", -1},  {"+1", -1},  {" 1", -1},  {"1 ", -1},   {"1e0", -1},
                 {"0x1", -1}, {"nan", -1},  {"1s", -1},  {"inf", -1}, {"1,5", -1}, {"1.2.3", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double seconds = -1;
        assert_int_equal(text_seconds(cases[i].text, 0.1, 10, &seconds), cases[i].seconds >= 0);
        assert_true(seconds == cases[i].seconds);
    }
}

/* A name from a command line may have any length, a known one of more than 64 letters is never meant. */
static void long_names_are_only_far(void **state) {
    (void)state;
    char endless[1000], known[66];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    memset(known, 'x', sizeof known);
    known[65] = '\0';
    const char *names[] = {known};
    assert_null(nearest_name(endless, names, 1));
    assert_null(nearest_name(known, names, 1));
    known[64] = '\0';
    assert_string_equal(nearest_name(known, names, 1), known);
    assert_string_equal(nearest_name(known + 1, names, 1), known);
}

static void names_of_process_groups_tell_the_layout(void **state) {
    (void)state;
    static const char *const names[][2] = {{"TENSOR_MODEL_PARALLEL_GROUP", "TP"},
                                           {"mesh_tp", "TP"},
                                           {"PIPELINE_MODEL_PARALLEL_GROUP", "PP"},
                                           {"pipeline, dp 1 tp 0", "PP"},
                                           {"data-parallel, pp 1 tp 0", "DP"},
                                           {"DATA_PARALLEL_GROUP_WITH_CP", "DP+CP"},
                                           {"tp0", "TP"},
                                           {"tensor/pipeline/data/context/expert/sequence", "TP+PP+DP+CP"},
                                           {"MPI_COMM_WORLD", ""},
                                           {"update", ""},
                                           {"http", ""},
                                           {", tp", ""},
                                           {"", ""}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char role[PARALLEL_ROLE_TEXT];
        parallel_role(role, names[i][0]);
        assert_string_equal(role, names[i][1]);
    }
}

/* ---- sharing work ------------------------------------------------------------------------------------------------ */

enum { TASKS = 500 };

static void count_task(void *context, size_t number) {
    __atomic_add_fetch(&((unsigned *)context)[number], 1, __ATOMIC_RELAXED);
}

static void share_again(void *context, size_t number) {
    side_by_side(3, TASKS / 10, count_task, (unsigned *)context + number * (TASKS / 10));
}

static void every_task_is_done_once_by_any_number_of_threads(void **state) {
    (void)state;
    static const unsigned threads[] = {0, 1, 2, 3, 8, SIDE_BY_SIDE_MOST, 100000};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (size_t count = 0; count <= TASKS; count += 1 + count * 3) {
            unsigned done[TASKS + 1] = {0};
            side_by_side(threads[t], count, count_task, done);
            for (size_t i = 0; i <= TASKS; i++)
                assert_int_equal(done[i], i < count);
        }
    unsigned done[TASKS] = {0};
    side_by_side(4, 10, share_again, done);
    for (size_t i = 0; i < TASKS; i++)
        assert_int_equal(done[i], 1);
}

/* Two tasks that each wait for the other one: they are at work at the same time. */
static void meet_the_other(void *context, size_t number) {
    bool *here = context;
    __atomic_store_n(&here[number], true, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&here[1 - number], __ATOMIC_ACQUIRE))
        sched_yield();
}

static void tasks_run_at_the_same_time(void **state) {
    (void)state;
    bool here[2] = {false, false};
    side_by_side(2, 2, meet_the_other, here);
    assert_true(here[0] && here[1]);
}

/* ---- crews ------------------------------------------------------------------------------------------------------- */

static void a_crew_does_every_task_of_every_set_once(void **state) {
    (void)state;
    static const unsigned threads[] = {0, 1, 2, 3, 8, SIDE_BY_SIDE_MOST, 100000};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct crew *crew = crew_begin(threads[t]);
        assert_true((crew != NULL) == (threads[t] > 1));
        for (size_t count = 0; count <= TASKS; count += 1 + count * 3) {
            unsigned done[TASKS + 1] = {0};
            crew_do(crew, count, count_task, done);
            for (size_t i = 0; i <= TASKS; i++)
                assert_int_equal(done[i], i < count);
        }
        crew_end(crew);
    }
}

/* Many short sets: a thread that comes late to one takes none of the next one's tasks for it. */
static void late_threads_mix_no_sets(void **state) {
    (void)state;
    enum { SETS = 2000, SHORT = 3 };
    struct crew *crew = crew_begin(4);
    for (unsigned set = 0; set < SETS; set++) {
        unsigned done[SHORT] = {0};
        crew_do(crew, SHORT, count_task, done);
        for (size_t i = 0; i < SHORT; i++)
            assert_int_equal(done[i], 1);
    }
    crew_end(crew);
}

static void a_crews_tasks_run_at_the_same_time(void **state) {
    (void)state;
    struct crew *crew = crew_begin(2);
    for (unsigned set = 0; set < 10; set++) {
        bool here[2] = {false, false};
        crew_do(crew, 2, meet_the_other, here);
        assert_true(here[0] && here[1]);
    }
    crew_end(crew);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_process_groups_tell_the_layout),
        cmocka_unit_test(keyed_hash_is_siphash_1_3),
        cmocka_unit_test(scrambled_numbers_are_those_of_splitmix64),
        cmocka_unit_test(fingerprints_depend_on_every_number_and_on_their_order),
        cmocka_unit_test(an_empty_table_has_nothing),
        cmocka_unit_test(items_keep_the_order_in_which_they_came),
        cmocka_unit_test(a_table_does_what_an_array_would),
        cmocka_unit_test(colliding_keys_are_found_and_removed),
        cmocka_unit_test(a_table_that_cannot_grow_stays_as_it_is),
        cmocka_unit_test(a_cleared_table_is_empty_and_fills_again),
        cmocka_unit_test(texts_are_compared_letter_by_letter),
        cmocka_unit_test(lists_grow_one_by_one),
        cmocka_unit_test(room_is_made_for_as_many_as_wanted),
        cmocka_unit_test(what_cannot_grow_stays_as_it_is),
        cmocka_unit_test(medians_of_doubles_are_numpys),
        cmocka_unit_test(quantiles_are_numpys),
        cmocka_unit_test(distances_from_the_median_are_scipys),
        cmocka_unit_test(medians_of_integers_are_numpys_and_never_run_over),
        cmocka_unit_test(the_middle_of_many_is_that_of_the_sorted),
        cmocka_unit_test(numbers_are_sorted_and_equal_ones_stay_in_their_order),
        cmocka_unit_test(orders_hold_at_the_ends),
        cmocka_unit_test(near_names_are_found_far_ones_are_not),
        cmocka_unit_test(long_names_are_only_far),
        cmocka_unit_test(seconds_are_plain_numbers_within_bounds),
        cmocka_unit_test(every_task_is_done_once_by_any_number_of_threads),
        cmocka_unit_test(tasks_run_at_the_same_time),
        cmocka_unit_test(a_crew_does_every_task_of_every_set_once),
        cmocka_unit_test(late_threads_mix_no_sets),
        cmocka_unit_test(a_crews_tasks_run_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
