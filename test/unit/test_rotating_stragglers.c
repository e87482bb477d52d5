/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that take turns in being slow: which collectives are sampled, and when turns are claimed.
 * Lives here: tables of made-up self times. Must not live here: whole jobs (test_workloads.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/stragglers/sampled_collectives.h"
#include "analyzer/base/significance.h"
#include "analyzer/stragglers/rotating_stragglers.h"
#include "test/scenes/scene.h"

/* ---- samples --------------------------------------------------------------------------------- */

/* What is kept is what was added, and nothing else of these segments. */
static void check_kept(const struct sampled_collectives *sampled, uint32_t from, uint32_t to) {
    for (uint32_t s = 0; s < sampled->count; s++) {
        const int64_t *times = sampled_collectives_segment(sampled, sampled->first + s);
        assert_non_null(times);
        for (uint32_t i = 0; i < SAMPLED_SEGMENT; i++) {
            uint32_t number = ((sampled->first + s) << sampled->thin) * SAMPLED_SEGMENT + i;
            assert_true(times[i] == (number >= from && number < to ? (int64_t)number * 3 : SAMPLED_NONE));
        }
    }
}

static void sampled_collectives_are_the_same_everywhere(void **state) {
    (void)state;
    enum { SEGMENTS = 4, END = 10000 };
    static const uint32_t starts[] = {0, 1, 63, 64, 777, 5000};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        struct sampled_collectives sampled;
        assert_true(sampled_collectives_init(&sampled, SEGMENTS));
        for (uint32_t number = starts[i]; number < END; number++)
            sampled_collectives_add(&sampled, number, (int64_t)number * 3);
        assert_in_range(sampled.count, SEGMENTS / 2, SEGMENTS);
        check_kept(&sampled, starts[i], END);
        sampled_collectives_thin(&sampled, 6); /* segments 0, 64, 128: numbers 0, 4096, 8192 on */
        assert_int_equal(sampled.thin, 6);
        assert_int_equal(sampled.count, starts[i] <= 63 ? 3 : starts[i] < 4096 ? 2 : 1);
        check_kept(&sampled, starts[i], END);
        assert_null(sampled_collectives_segment(&sampled, sampled.first + sampled.count));
        assert_true(sampled.first == 0 || !sampled_collectives_segment(&sampled, sampled.first - 1));
        sampled_collectives_free(&sampled);
    }
}

static void sampled_collectives_bear_gaps_and_damage(void **state) {
    (void)state;
    struct sampled_collectives sampled;
    assert_true(sampled_collectives_init(&sampled, 2));
    sampled_collectives_add(&sampled, 64 * 10 + 3, 5);
    sampled_collectives_add(&sampled, 7, 6); /* older than the first: left out */
    assert_int_equal(sampled.count, 1);
    sampled_collectives_add(&sampled, 64 * 11 + 1, 7);
    assert_int_equal(sampled.thin, 0);
    sampled_collectives_add(&sampled, UINT32_MAX, 8); /* of all between nothing was seen */
    assert_true(sampled.thin > 0 && sampled.count <= 2);
    for (uint32_t i = 0; i < 64; i++) {
        sampled_collectives_add(&sampled, i * 0x9e3779b9u, 9);
        assert_true(sampled.thin < 32 && sampled.count <= 2);
    }
    sampled_collectives_free(&sampled);
}

/* ---- tables ---------------------------------------------------------------------------------- */

enum tail { TAIL_GAUSS, TAIL_EXPONENTIAL, TAIL_TWO_VALUED };

struct made {
    enum tail tail;
    double noise;
    size_t rows, columns, period; /* collectives in a step: all of a step's rows have one slow rank */
    double factor;
    size_t at_once;   /* ranks slow at a time, or fewer where chance takes one twice ... */
    bool neighbours;  /* ... or just so many */
    size_t of, hosts; /* the slow ones are among the first `of` columns */
    size_t always;    /* one more rank, always slow, 0 = none */
    uint32_t classes; /* of columns in turn; rank class r has r + 1 times as much to do */
    double wander;    /* sd of each rank's own speed, which changes in some 20 rows */
    bool half;        /* nobody is slow in the second half */
    double often;     /* share of steps in which somebody is slow */
};

static double draw(const struct made *made, uint64_t *random) {
    switch (made->tail) {
    case TAIL_EXPONENTIAL:
        return 1 - made->noise * log(1 - scene_uniform(random));
    case TAIL_TWO_VALUED:
        return scene_uniform(random) < 0.5 ? 1 : 1 + made->noise;
    default:
        return 1 + made->noise * scene_gauss(random);
    }
}

struct made_table {
    struct rotating_table table;
    int64_t *self_ns;
    uint32_t *class_of, *host_of, *numbers;
};

/* Every collective of a step has its own share of the work, the first most. */
static void make(struct made_table *made_table, const struct made *made, uint64_t seed) {
    uint64_t random = seed * 77777;
    bool *slow = calloc(made->columns, sizeof *slow);
    double *speed = calloc(made->columns, sizeof *speed);
    *made_table = (struct made_table){.self_ns = calloc(made->rows * made->columns, sizeof(int64_t)),
                                      .class_of = calloc(made->columns, sizeof(uint32_t)),
                                      .host_of = calloc(made->columns, sizeof(uint32_t)),
                                      .numbers = calloc(made->rows, sizeof(uint32_t))};
    for (size_t row = 0, first = 0; row < made->rows; row++) {
        made_table->numbers[row] = (uint32_t)row + 5;
        for (size_t c = 0; c < made->columns && row % made->period == 0; c++)
            slow[c] = false;
        if (row % made->period == 0 && (!made->half || row < made->rows / 2) && scene_uniform(&random) < made->often)
            for (size_t i = 0; i < made->at_once; i++) {
                first = made->neighbours && i > 0 ? first + 1 : scene_random(&random) % made->of;
                slow[first % made->of] = true;
            }
        for (size_t c = 0; c < made->columns; c++) {
            speed[c] = 0.95 * speed[c] + sqrt(1 - 0.95 * 0.95) * made->wander * scene_gauss(&random);
            double work = (row % made->period == 0 ? 4e6 : 1e6) * (double)(1 + c % made->classes) * draw(made, &random);
            double factor = slow[c] || (made->always && c == made->always) ? made->factor : 1;
            work *= factor * (1 + speed[c]);
            made_table->self_ns[row * made->columns + c] = work > 0 ? (int64_t)work : 0;
            made_table->class_of[c] = (uint32_t)(c % made->classes);
            made_table->host_of[c] = (uint32_t)(c * made->hosts / made->columns);
        }
    }
    made_table->table = (struct rotating_table){.rows = made->rows,
                                                .columns = made->columns,
                                                .self_ns = made_table->self_ns,
                                                .numbers = made_table->numbers,
                                                .class_of = made_table->class_of,
                                                .host_of = made_table->host_of,
                                                .host_count = made->hosts};
    free(slow);
    free(speed);
}

static void put_away(struct made_table *made_table) {
    free(made_table->self_ns);
    free(made_table->class_of);
    free(made_table->host_of);
    free(made_table->numbers);
}

static struct made standard(size_t columns) {
    return (struct made){.noise = 0.1,
                         .rows = 100,
                         .columns = columns,
                         .period = 1,
                         .factor = 1.5,
                         .at_once = 1,
                         .of = columns,
                         .hosts = 2,
                         .classes = 1,
                         .often = 1};
}

/* Of so many jobs, those in which turns are claimed. */
static unsigned claims(const struct made *made, unsigned jobs) {
    unsigned count = 0;
    for (unsigned seed = 1; seed <= jobs; seed++) {
        struct made_table table;
        struct rotating turns;
        make(&table, made, seed);
        assert_true(rotating_judge(&table.table, &turns));
        assert_true(turns.confidence == 0 || (turns.confidence >= CONFIDENCE_VERDICT && turns.confidence < 1));
        count += turns.confidence > 0;
        rotating_free(&turns);
        put_away(&table);
    }
    return count;
}

static void another_slow_rank_each_time_is_found(void **state) {
    (void)state;
    static const size_t columns[] = {4, 8, 64, 600};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct made made = standard(columns[i]);
        assert_int_equal(claims(&made, 10), 10);
        made.at_once = columns[i] / 32; /* several at once hide each other's lead */
        if (made.at_once > 1)
            assert_int_equal(claims(&made, 10), 10);
    }
}

/* Two groups in which one each is slow: neither leads the other, both lead the rest. */
static void two_slow_ranks_each_time_are_found(void **state) {
    (void)state;
    static const size_t columns[] = {8, 10, 12, 16};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct made made = standard(columns[i]);
        made.factor = 5;
        made.at_once = 2;
        made.neighbours = true;
        assert_int_equal(claims(&made, 10), 10);
    }
}

/* What the others do says what noise is: they have to be three times as many as those that are slow. */
static void a_third_slow_each_time_is_no_turn(void **state) {
    (void)state;
    struct made made = standard(12);
    made.factor = 5;
    made.at_once = 4;
    made.neighbours = true;
    assert_int_equal(claims(&made, 10), 0);
    made.columns = made.of = 16;
    assert_int_equal(claims(&made, 10), 10);
}

static void sixteen_rows_are_enough(void **state) {
    (void)state;
    for (size_t rows = 15; rows <= 16; rows++) {
        struct made made = standard(8);
        made.factor = 5;
        made.rows = rows;
        made.often = 0.7;
        assert_int_equal(claims(&made, 100) > 0, rows == 16);
    }
}

/* In twenty rows some rank takes 10 ms longer than the others, in twenty `ms`: in so many rows one stands out. */
static size_t stood_out_with(double ms) {
    struct made_table table;
    struct rotating turns;
    struct made made = standard(8);
    made.rows = 300;
    made.noise = 0.01;
    made.often = 0;
    make(&table, &made, 5);
    for (size_t i = 0; i < 40; i++)
        table.self_ns[(7 * i + 3) * made.columns + i % made.columns] += (int64_t)((i % 2 ? 10 : ms) * 1e6);
    assert_true(rotating_judge(&table.table, &turns));
    assert_true(turns.confidence > 0);
    size_t stood_out = turns.stood_out;
    rotating_free(&turns);
    put_away(&table);
    return stood_out;
}

/* A tenth of what the costly rows have, some 0.9 ms here: noise of short rows is not what the sentence is about. */
static void rows_that_cost_little_are_not_counted(void **state) {
    (void)state;
    assert_int_equal(stood_out_with(1.3), 40);
    assert_int_equal(stood_out_with(0.7), 20);
}

static void what_it_costs_is_said(void **state) {
    (void)state;
    struct made made = standard(16);
    struct made_table table;
    struct rotating turns;
    uint32_t sum = 0;
    made.noise = 0.02;
    make(&table, &made, 3);
    assert_true(rotating_judge(&table.table, &turns));
    assert_true(turns.confidence > 0.99);
    assert_int_equal(turns.width, 1);
    assert_int_equal(turns.rows, 100);
    assert_in_range(turns.stood_out, 95, 100);
    assert_true(turns.ratio > 1.45 && turns.ratio < 1.55);
    /* half of 4 ms, less what noise costs anyway */
    assert_true(turns.extra_ns > 0.8 * 2e6 && turns.extra_ns <= 2e6);
    assert_true(turns.lead_ns > 0.9 * 2e6 && turns.lead_ns <= 2e6);
    assert_true(turns.most > 1.0 / 16 && turns.most < 0.25);
    for (size_t c = 0; c < 16; c++)
        sum += turns.times_slowest[c];
    assert_int_equal(sum, turns.stood_out);
    rotating_free(&turns);
    put_away(&table);
}

/* One in four standard deviations of a single collective's noise: the sum over a step tells, wherever it begins. */
static void steps_tell_more_than_single_collectives(void **state) {
    (void)state;
    struct made made = standard(16);
    made.noise = 0.15;
    made.factor = 1.25;
    made.rows = 1600;
    assert_int_equal(claims(&made, 10), 0);
    made.period = 16;
    assert_int_equal(claims(&made, 10), 10);
}

static void noise_is_no_turn(void **state) {
    (void)state;
    static const size_t columns[] = {4, 8, 64, 300};
    static const double noise[] = {[TAIL_GAUSS] = 0.2, [TAIL_EXPONENTIAL] = 0.5, [TAIL_TWO_VALUED] = 1};
    unsigned alarms = 0, jobs = 0;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        for (int tail = TAIL_GAUSS; tail <= TAIL_TWO_VALUED; tail++)
            for (size_t period = 1; period <= 4; period += 3) {
                struct made made = standard(columns[i]);
                unsigned played = columns[i] < 64 ? 60 : 10;
                made.tail = (enum tail)tail;
                made.noise = noise[tail];
                made.period = period;
                made.factor = 1;
                alarms += claims(&made, played);
                jobs += played;
            }
    assert_true(alarms * 100 <= jobs);
}

static void seldom_pauses_are_found(void **state) {
    (void)state;
    struct made made = standard(8);
    made.often = 0.15;
    made.factor = 2.5;
    assert_in_range(claims(&made, 30), 27, 30);
}

/* One rank every other time, two in turn, or always one of a host's: not everybody. */
static void turns_of_few_are_none(void **state) {
    (void)state;
    struct made made = standard(32);
    made.hosts = 4;
    for (made.of = 1; made.of <= 2; made.of++)
        assert_int_equal(claims(&made, 10), 0);
    made.of = 8; /* the first host */
    assert_int_equal(claims(&made, 10), 0);
    made.of = 32;
    assert_int_equal(claims(&made, 10), 10);
}

static void who_is_always_slow_takes_no_turn(void **state) {
    (void)state;
    struct made made = standard(16);
    made.at_once = 0;
    made.always = 5;
    assert_int_equal(claims(&made, 10), 0);
    made.at_once = 1; /* and hides none */
    assert_int_equal(claims(&made, 10), 10);
}

static void rank_classes_are_not_rotating(void **state) {
    (void)state;
    struct made made = standard(24);
    made.classes = 4;
    made.factor = 1;
    assert_true(claims(&made, 30) <= 1);
    /* the slowest is the one that stands out from its own rank class */
    struct made_table table;
    struct rotating turns;
    made.factor = 1.5;
    made.noise = 0.01;
    make(&table, &made, 4);
    assert_true(rotating_judge(&table.table, &turns));
    assert_in_range(turns.stood_out, 95, 100);
    rotating_free(&turns);
    put_away(&table);
}

/* Where speeds change slowly, few rows are independent of each other; a phase of the job that ends is another matter.
 */
static void speeds_that_change_are_no_turns(void **state) {
    (void)state;
    struct made made = standard(6);
    made.tail = TAIL_EXPONENTIAL;
    made.noise = 0.01;
    made.rows = 128;
    made.wander = 0.2;
    made.factor = 1;
    assert_true(claims(&made, 200) <= 2);
    made = standard(16);
    made.rows = 300;
    made.factor = 2;
    made.half = true;
    assert_int_equal(claims(&made, 10), 10);
}

static void few_ranks_or_collectives_prove_nothing(void **state) {
    (void)state;
    struct made made = standard(3);
    made.factor = 5;
    assert_int_equal(claims(&made, 5), 0);
    made = standard(8);
    made.factor = 5;
    made.rows = ROTATING_ROWS_MIN - 1;
    assert_int_equal(claims(&made, 5), 0);
    made.rows = 40; /* once in all, however long */
    made.factor = 100;
    made.often = 0.01;
    assert_int_equal(claims(&made, 40), 0);
}

/* ---- thresholds ------------------------------------------------------------------------------ */

/* Tables without chance: in every row the ranks lie as far apart as values of an exponential tail do on average, the
 * j-th of them TAIL / j above the next, but for the first, who leads the second by as many TAIL as the row says. Of an
 * odd number of ranks fewer than half are above the median in a row, so that nobody is slow all the while. */
enum { EXACT_COLUMNS = 9, EXACT_ROWS_MOST = 400, BASE = 10000000, TAIL = 100000 };

struct exact {
    size_t rows;
    double lead[EXACT_ROWS_MOST];
    uint32_t first[EXACT_ROWS_MOST]; /* column */
    size_t low;                      /* the first so many columns come last where they are not first */
};

/* In every EXACT_COLUMNS rows everybody takes every place once. */
static struct exact exact_of(size_t rows, double lead) {
    struct exact exact = {.rows = rows};
    for (size_t row = 0; row < rows; row++) {
        exact.lead[row] = lead;
        exact.first[row] = (uint32_t)(row * 4 % EXACT_COLUMNS);
    }
    return exact;
}

static void fill_row(const struct exact *exact, size_t row, int64_t *self_ns) {
    uint32_t order[EXACT_COLUMNS], count = 0;
    order[count++] = exact->first[row];
    for (int low = 0; low < 2; low++)
        for (uint32_t i = 0; i + 1 < EXACT_COLUMNS; i++) {
            size_t after = 1 + (i + row / EXACT_COLUMNS) % (EXACT_COLUMNS - 1);
            uint32_t column = (uint32_t)((exact->first[row] + after) % EXACT_COLUMNS);
            if ((column < exact->low) == low)
                order[count++] = column;
        }
    double time = BASE;
    for (uint32_t place = EXACT_COLUMNS; place-- > 0;) {
        self_ns[order[place]] = (int64_t)time;
        time += place > 1 ? (double)TAIL / place : exact->lead[row] * TAIL;
    }
}

static struct rotating judge_exact(const struct exact *exact) {
    static int64_t self_ns[EXACT_ROWS_MOST * EXACT_COLUMNS];
    static uint32_t numbers[EXACT_ROWS_MOST];
    static const uint32_t class_of[EXACT_COLUMNS], host_of[EXACT_COLUMNS] = {0, 1, 0, 1, 0, 1, 0, 1};
    struct rotating_table table = {.rows = exact->rows,
                                   .columns = EXACT_COLUMNS,
                                   .self_ns = self_ns,
                                   .numbers = numbers,
                                   .class_of = class_of,
                                   .host_of = host_of,
                                   .host_count = 2};
    struct rotating rotating, judged;
    for (size_t row = 0; row < exact->rows; row++) {
        numbers[row] = (uint32_t)row;
        fill_row(exact, row, self_ns + row * EXACT_COLUMNS);
    }
    assert_true(rotating_judge(&table, &rotating));
    judged = rotating;
    judged.times_slowest = NULL;
    rotating_free(&rotating);
    return judged;
}

static bool is_claimed(const struct exact *exact) {
    return judge_exact(exact).confidence >= CONFIDENCE_VERDICT;
}

/* A lead of 1.25 is what noise explains with its margin. A rank stands out from three times that on, which an
 * exponential tail reaches in one of twenty rows. */
static void who_stands_out_leads_by_three_times_the_noise(void **state) {
    (void)state;
    struct exact exact = exact_of(198, 3.4);
    uint64_t random = 1;
    size_t far = 0;
    for (size_t row = 0; row < exact.rows; row++)
        if (scene_uniform(&random) < 0.5) {
            exact.lead[row] = 4.1;
            far++;
        }
    struct rotating rotating = judge_exact(&exact);
    assert_true(rotating.confidence >= CONFIDENCE_VERDICT);
    assert_int_equal(rotating.stood_out, far);
}

/* So many in a hundred rows are led by one of the first `of` columns, in turn; these leads are `dearer` by that factor
 * beyond what noise explains. */
static struct exact led_by(size_t of, size_t percent, double dearer) {
    struct exact exact = exact_of(400, 1.25 + 6);
    uint32_t other = 0, own = 0;
    exact.low = of;
    for (size_t row = 0; row < exact.rows; row++)
        if (row * 37 % 100 < percent) {
            exact.first[row] = own++ % (uint32_t)of;
            exact.lead[row] = 1.25 + 6 * dearer;
        } else {
            exact.first[row] = (uint32_t)of + other++ % (EXACT_COLUMNS - (uint32_t)of);
        }
    return exact;
}

static void whoever_causes_more_than_half_takes_no_turns(void **state) {
    (void)state;
    struct exact all = led_by(1, 45, 1), most = led_by(1, 45, 1.4); /* 45 and 53 % of the excess */
    assert_true(is_claimed(&all));
    assert_false(is_claimed(&most));
}

/* Shares of 45, 45 and 10 % weigh as 2.4 ranks, four quarters as 4. */
static void turns_are_those_of_three_ranks_at_least(void **state) {
    (void)state;
    struct exact two = led_by(2, 90, 1), four = led_by(4, 100, 1);
    assert_false(is_claimed(&two));
    assert_true(is_claimed(&four));
}

/* Five of nine ranks are on one host: it may have up to seven ninths of the excess. */
static void a_host_may_have_more_than_its_share_but_not_all(void **state) {
    (void)state;
    struct exact some = exact_of(400, 8), most = some;
    for (size_t row = 0; row < some.rows; row++) { /* even columns are that host's */
        uint32_t here = (uint32_t)(row % 5 * 2), there = (uint32_t)(row % 4 * 2 + 1);
        some.first[row] = row * 37 % 100 < 70 ? here : there;
        most.first[row] = row * 37 % 100 < 85 ? here : there;
    }
    assert_true(is_claimed(&some));
    assert_false(is_claimed(&most));
}

/* Of all rows so many in a hundred have such a lead, the others that of noise: what they cost on average is nothing, or
 * hidden by how uneven it is. An exponential tail with its margin leads by 1.25 ln 100 = 5.8 in one of a hundred rows.
 */
static void rare_is_what_noise_does_once_in_a_hundred_rows(void **state) {
    (void)state;
    static const struct {
        unsigned percent;
        double lead;
        bool claimed;
    } cases[] = {{5, 6.1, true}, {6, 5.3, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exact exact = exact_of(400, 1.005);
        uint64_t random = 3;
        for (size_t row = 0; row < exact.rows; row += 100)
            for (unsigned n = 0; n < cases[i].percent;) {
                size_t at = row + scene_random(&random) % 100;
                n += exact.lead[at] < 2;
                exact.lead[at] = cases[i].lead;
            }
        assert_int_equal(is_claimed(&exact), cases[i].claimed);
    }
}

/* All rows lie far out, by more in some batches of 12 than in others; neighbours resemble each other by that much: 32
 * batches are worth 3.4 independent ones, which prove nothing, or 7.7. */
static void turns_need_five_independent_batches(void **state) {
    (void)state;
    const double pi = 3.14159265358979;
    static const struct {
        double zigzag;
        bool claimed;
    } cases[] = {{0, false}, {0.263, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exact exact = exact_of(384, 10);
        for (size_t row = 0; row < exact.rows; row++) {
            size_t batch = row / 12;
            exact.lead[row] += 2 * (sin(2 * pi * (double)batch / 8) + cases[i].zigzag * (batch % 2 ? 1 : -1));
        }
        assert_int_equal(is_claimed(&exact), cases[i].claimed);
    }
}

/* Turns in the first quarter of the run only are no drift. */
static void a_quarter_of_the_run_is_a_phase(void **state) {
    (void)state;
    struct exact exact = exact_of(384, 1);
    uint64_t random = 7;
    for (size_t row = 0; row < exact.rows; row++)
        exact.lead[row] += (row < 96 ? 6 : 0) + 0.1 * scene_uniform(&random);
    assert_true(is_claimed(&exact));
}

/* From 16 rows on turns can be claimed; fewer never are. */
static void sixteen_collectives_are_enough(void **state) {
    (void)state;
    for (size_t rows = 14; rows <= 18; rows += 2) {
        struct exact exact = exact_of(rows, 20);
        for (size_t row = 0; row < rows; row++)
            exact.lead[row] += 0.1 * (double)(row / 2 * 5 % 3);
        assert_int_equal(is_claimed(&exact), rows >= 16);
    }
}

/* What costs little on average but in every second collective adds up: neighbouring rows are looked at together. */
static void two_rows_are_a_batch(void **state) {
    (void)state;
    struct exact exact = exact_of(40, 0);
    uint64_t random = 11;
    for (size_t row = 0; row < exact.rows; row++)
        exact.lead[row] = (row % 2 ? 2.2 : 0.5) + 0.1 * scene_uniform(&random);
    assert_true(is_claimed(&exact));
}

/* ---- periods --------------------------------------------------------------------------------- */

enum { PERIOD_ROWS_MOST = 4000 };

/* Steps of `period` collectives, of which the first takes `first` times as long as the others. In each step another
 * rank takes a third longer in all of them, which single collectives are too noisy to show. */
struct stepped {
    size_t rows, period;
    double first;
    double steps_differ; /* all ranks' work in a step, at most by this share */
    double second_half;  /* what the second half of a step takes longer, as a share */
    double rows_differ;  /* all ranks' work in a row, at most by this share */
};

static struct rotating judge_steps(const struct stepped *stepped) {
    static int64_t self_ns[PERIOD_ROWS_MOST * EXACT_COLUMNS];
    static uint32_t numbers[PERIOD_ROWS_MOST];
    static const uint32_t class_of[EXACT_COLUMNS], host_of[EXACT_COLUMNS] = {0, 1, 0, 1, 0, 1, 0, 1};
    struct rotating_table table = {.rows = stepped->rows,
                                   .columns = EXACT_COLUMNS,
                                   .self_ns = self_ns,
                                   .numbers = numbers,
                                   .class_of = class_of,
                                   .host_of = host_of,
                                   .host_count = 2};
    uint64_t random = 5;
    double step = 1;
    struct rotating rotating, judged;
    for (size_t row = 0; row < stepped->rows; row++) {
        size_t place = row % stepped->period, slow = row / stepped->period * 4 % EXACT_COLUMNS;
        if (place == 0)
            step = 1 + stepped->steps_differ * (2 * scene_uniform(&random) - 1);
        double work = BASE * step * (place == 0 ? stepped->first : 1);
        work *= (1 + (2 * place < stepped->period ? 0 : stepped->second_half)) *
                (1 + stepped->rows_differ * (2 * scene_uniform(&random) - 1));
        for (size_t c = 0; c < EXACT_COLUMNS; c++)
            self_ns[row * EXACT_COLUMNS + c] =
                (int64_t)(work * (c == slow ? 1.33 : 1) * (1 + 0.2 * scene_gauss(&random)));
        numbers[row] = (uint32_t)row;
    }
    assert_true(rotating_judge(&table, &rotating));
    judged = rotating;
    judged.times_slowest = NULL;
    rotating_free(&rotating);
    return judged;
}

/* Steps of up to 64 collectives are found, longer ones are not. */
static void a_step_has_64_collectives_at_most(void **state) {
    (void)state;
    struct stepped stepped = {.rows = 48 * 40, .period = 48, .first = 8};
    assert_int_equal(judge_steps(&stepped).width, 48);
    stepped = (struct stepped){.rows = 100 * 40, .period = 100, .first = 8};
    assert_int_equal(judge_steps(&stepped).width, 0);
}

/* Where the work of steps differs by up to a third, times a step apart differ by 0.22 of their mean, and by 0.4 where
 * it differs by up to 0.6: that is no period. */
static void times_a_step_apart_are_nearly_alike(void **state) {
    (void)state;
    struct stepped stepped = {.rows = 16 * 100, .period = 16, .first = 8, .steps_differ = 0.33};
    assert_int_equal(judge_steps(&stepped).width, 16);
    stepped.steps_differ = 0.6;
    assert_int_equal(judge_steps(&stepped).width, 0);
}

/* Two halves that are nearly the same are one step, unless they differ by no more than steps do. */
static void a_step_of_two_like_halves_is_one(void **state) {
    (void)state;
    struct stepped stepped = {.rows = 16 * 100, .period = 16, .first = 1, .second_half = 0.3, .rows_differ = 0.1};
    assert_int_equal(judge_steps(&stepped).width, 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampled_collectives_are_the_same_everywhere),
        cmocka_unit_test(sampled_collectives_bear_gaps_and_damage),
        cmocka_unit_test(another_slow_rank_each_time_is_found),
        cmocka_unit_test(two_slow_ranks_each_time_are_found),
        cmocka_unit_test(a_third_slow_each_time_is_no_turn),
        cmocka_unit_test(sixteen_rows_are_enough),
        cmocka_unit_test(rows_that_cost_little_are_not_counted),
        cmocka_unit_test(what_it_costs_is_said),
        cmocka_unit_test(steps_tell_more_than_single_collectives),
        cmocka_unit_test(noise_is_no_turn),
        cmocka_unit_test(seldom_pauses_are_found),
        cmocka_unit_test(turns_of_few_are_none),
        cmocka_unit_test(who_is_always_slow_takes_no_turn),
        cmocka_unit_test(rank_classes_are_not_rotating),
        cmocka_unit_test(speeds_that_change_are_no_turns),
        cmocka_unit_test(few_ranks_or_collectives_prove_nothing),
        cmocka_unit_test(who_stands_out_leads_by_three_times_the_noise),
        cmocka_unit_test(whoever_causes_more_than_half_takes_no_turns),
        cmocka_unit_test(turns_are_those_of_three_ranks_at_least),
        cmocka_unit_test(a_host_may_have_more_than_its_share_but_not_all),
        cmocka_unit_test(rare_is_what_noise_does_once_in_a_hundred_rows),
        cmocka_unit_test(turns_need_five_independent_batches),
        cmocka_unit_test(a_quarter_of_the_run_is_a_phase),
        cmocka_unit_test(sixteen_collectives_are_enough),
        cmocka_unit_test(two_rows_are_a_batch),
        cmocka_unit_test(a_step_has_64_collectives_at_most),
        cmocka_unit_test(times_a_step_apart_are_nearly_alike),
        cmocka_unit_test(a_step_of_two_like_halves_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
