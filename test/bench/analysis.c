/* SPDX-License-Identifier: Apache-2.0
 *
 * How good and how fast the analysis is: clocks, stragglers, false alarms, links, steps, hangs, a gigabyte of dumps, a
 * trace for a viewer. Prints a markdown document beside the figures to reach. Must not live here: the jobs
 * (test/scenes), anything that the figures could be fitted to.
 *
 *   analysis COMMTAP DUMPS SCRATCH [JOBS]     the analyzer, test/bench/dumps, a directory for 1 GB; null jobs, 1000
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/align/estimate.h"
#include "test/scenes/mended.h"
#include "test/scenes/clocks.h"
#include "test/scenes/hang.h"
#include "test/scenes/trial.h"
#include "test/scenes/workload.h"

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static const char *met(bool yes) {
    return yes ? "yes" : "NO";
}

/* ---- clocks ---------------------------------------------------------------------------------- */

static void bench_clocks(void) {
    static const struct {
        const char *what;
        int straggler;
        double wander;
    } cases[] = {
        {"arrivals at random", -1, 0}, {"a host always 5 ms late", 5, 0}, {"clocks wander by 200 us", -1, 2e-4}};
    printf("## Clocks: 32 hosts, +-1 s, +-100 ppm, 1 %% outliers\n\n"
           "| scene | jobs | RMS us (worst job) | hosts beyond their bound | beyond their error | reached |\n"
           "|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum { JOBS = 5 };
        double rms = 0;
        unsigned violated = 0, beyond = 0;
        for (unsigned seed = 1; seed <= JOBS; seed++) {
            struct clock_scene scene = clock_scene_standard();
            struct clock_job *job = malloc(sizeof *job);
            scene.seed = seed;
            scene.straggler = cases[i].straggler;
            scene.wander = cases[i].wander;
            if (!job)
                exit(1);
            clock_scene_play(job, &scene);
            if (!clock_estimate(job->hosts, scene.hosts, &job->observations))
                exit(1);
            struct clock_verdict v = clock_scene_judge(job);
            rms = v.rms_us > rms ? v.rms_us : rms;
            violated += v.violated;
            beyond += v.beyond;
            clock_scene_free(job);
            free(job);
        }
        printf("| %s | %d | %.2f | %u | %u | %s |\n", cases[i].what, JOBS, rms, violated, beyond,
               cases[i].wander > 0 ? met(violated == 0) : met(rms <= 5 && violated == 0));
    }
    printf("\nTo reach: RMS <= 5 us, nobody beyond a bound (wandering clocks: no figure for RMS).\n\n");
    fflush(stdout);
}

/* ---- stragglers ------------------------------------------------------------------------------ */

static void print_result(const char *what, unsigned ranks, const char *plant, const struct workload_result *r,
                         bool planted) {
    unsigned names = r->named_right + r->named_wrong;
    printf("| %s | %u | %s | %u | ", what, ranks, plant, r->jobs);
    if (planted && names > 0)
        printf("%.3f | ", (double)r->named_right / names);
    else
        printf("- | ");
    if (planted)
        printf("%.3f | ", (double)r->found / r->jobs);
    else
        printf("- | ");
    printf("%u |\n", r->jobs_wrong);
    fflush(stdout);
}

static struct workload sized(enum workload_kind kind, unsigned ranks) {
    struct workload w = workload_standard(kind);
    w.ranks = ranks;
    w.ranks_per_host = ranks < 16 ? 4 : 8;
    w.outliers = 0.01;
    w.noise = 0.1;
    w.steps = ranks > 1000 ? 60 : 100;
    w.bytes = 65536;
    return w;
}

/* Larger jobs take longer: about as many rank-steps of each size, but some. */
static unsigned jobs_at(unsigned jobs_of_8, unsigned ranks) {
    unsigned jobs = jobs_of_8 * 8 / ranks, least = ranks > 1000 ? 3 : 10;
    return jobs < least ? least : jobs;
}

static void bench_sizes(unsigned jobs_of_8) {
    static const unsigned ranks[] = {8, 64, 512, 4096};
    static const double factors[] = {1.05, 1.1, 1.2, 1.5};
    printf("| job | ranks | planted | jobs | precision | recall | jobs that name others "
           "|\n|---|---|---|---|---|---|---|\n");
    for (size_t n = 0; n < sizeof ranks / sizeof *ranks; n++) {
        struct workload w = sized(WORKLOAD_DATA_PARALLEL, ranks[n]);
        unsigned jobs = jobs_at(jobs_of_8, ranks[n]);
        for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
            char plant[64];
            w.plant = PLANT_RANK;
            w.factor = factors[f];
            w.who = ranks[n] / 3;
            struct workload_result r = workload_try(&w, jobs, 1);
            snprintf(plant, sizeof plant, "a rank %.0f %% slower", 100 * (w.factor - 1));
            print_result(workload_name(w.kind), w.ranks, plant, &r, true);
        }
        w.plant = PLANT_HOST;
        w.factor = 1.2;
        w.who = 1;
        struct workload_result r = workload_try(&w, jobs, 1);
        if (ranks[n] > 8) /* half of the ranks slow is uneven work */
            print_result(workload_name(w.kind), w.ranks, "a host 20 % slower", &r, true);
    }
}

/* Precision: of all that is named, what is said to take turns. Whether it is told from noise depends on what noise
 * there is in a whole step: 10 % in each stretch of work is less where a step has many. */
static void bench_turns(unsigned jobs_of_8) {
    static const unsigned ranks[] = {8, 64, 512, 4096};
    static const double factors[] = {1.2, 1.5};
    struct workload_result all = {0};
    printf("\n## Ranks that take turns\n\n"
           "| job | ranks | planted | jobs | precision | recall | jobs that name others "
           "|\n|---|---|---|---|---|---|---|\n");
    for (size_t n = 0; n < sizeof ranks / sizeof *ranks; n++)
        for (int kind = 0; kind < WORKLOADS; kind++) {
            struct workload w = sized((enum workload_kind)kind, ranks[n]);
            unsigned jobs = jobs_at(jobs_of_8, ranks[n]);
            char plant[64];
            if (kind != WORKLOAD_DATA_PARALLEL && ranks[n] != 64)
                continue;
            if (kind == WORKLOAD_PIPELINE)
                w.stages = w.tensor = 4;
            w.plant = PLANT_ROTATING;
            for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
                w.factor = factors[f];
                struct workload_result r = workload_try(&w, jobs, 1);
                snprintf(plant, sizeof plant, "another rank %.0f %% slower each step", 100 * (w.factor - 1));
                print_result(workload_name(w.kind), w.ranks, plant, &r, true);
                all.jobs += r.jobs;
                all.jobs_wrong += r.jobs_wrong;
            }
            w.plant = PLANT_PAUSES;
            w.factor = 2;
            w.who = 40;
            struct workload_result r = workload_try(&w, jobs, 1);
            print_result(workload_name(w.kind), w.ranks, "every rank twice as long in every 40th step", &r, true);
            all.jobs += r.jobs;
            all.jobs_wrong += r.jobs_wrong;
        }
    printf("\nOf these, %u of %u jobs name a rank, host, role or link (at most 2 %%): %s\n\n", all.jobs_wrong, all.jobs,
           met(all.jobs_wrong * 50 <= all.jobs));
    fflush(stdout);
}

static void bench_kinds(unsigned jobs) {
    struct workload_result slow = {0};
    for (int kind = 1; kind < WORKLOADS; kind++) {
        struct workload w = sized((enum workload_kind)kind, 64);
        w.stages = kind == WORKLOAD_PIPELINE ? 4 : 1;
        w.tensor = kind == WORKLOAD_PIPELINE ? 4 : 1;
        w.plant = PLANT_RANK;
        w.who = 21;
        w.factor = 1.1;
        slow = workload_try(&w, jobs, 1);
        print_result(workload_name(w.kind), w.ranks, "a rank 10 % slower", &slow, true);
        w.plant = PLANT_HOST;
        w.who = 1;
        w.factor = 1.2;
        slow = workload_try(&w, jobs, 1);
        print_result(workload_name(w.kind), w.ranks, "a host 20 % slower", &slow, true);
        w.plant = PLANT_RANK_CLASS;
        w.who = 1;
        w.factor = 1.6;
        if (kind == WORKLOAD_PIPELINE) {
            slow = workload_try(&w, jobs, 1);
            print_result(workload_name(w.kind), w.ranks, "a stage with 60 % more work", &slow, true);
        }
    }
    struct workload w = sized(WORKLOAD_GPU, 64);
    w.plant = PLANT_LATE_HOST;
    w.who = 21;
    w.factor = 1.2;
    slow = workload_try(&w, jobs, 1);
    print_result(workload_name(w.kind), w.ranks, "a host that enqueues late", &slow, true);
}

static void bench_nobody(unsigned jobs) {
    unsigned alarms = 0, turns = 0, played = 0;
    for (int kind = 0; kind < WORKLOADS; kind++) {
        struct workload w = workload_standard((enum workload_kind)kind);
        w.outliers = 0.01;
        w.noise = 0.1;
        struct workload_result r = workload_try(&w, jobs / 2 / WORKLOADS, 5000);
        alarms += r.jobs_wrong;
        turns += r.rotating;
        played += r.jobs;
    }
    for (size_t i = 0; i < trial_count; i++) {
        if (trials[i].planted)
            continue;
        struct trial_result r = trial_run(&trials[i], jobs / 2 / 10, 5000);
        alarms += r.wrong;
        turns += r.rotating;
        played += jobs / 2 / 10;
    }
    printf("\nNobody slow (all kinds of jobs, and noise of many kinds): %u of %u jobs name somebody (%.2f %%; at most "
           "1 %%): %s. Of these, %u say that ranks take turns.\n\n",
           alarms, played, 100.0 * alarms / played, met(alarms * 100 <= played), turns);
}

static struct workload networked(enum workload_kind kind) {
    struct workload w = sized(kind, 64);
    w.ranks_per_host = 4;
    w.steps = 200;
    w.noise = 0.02;
    w.overlap = 0;
    w.bytes = 8 << 20;
    w.stages = kind == WORKLOAD_PIPELINE ? 4 : 1;
    w.tensor = kind == WORKLOAD_PIPELINE ? 4 : 1;
    return w;
}

static void print_links(const char *what, const struct workload_result *r, bool planted, bool groups) {
    printf("| %s | %u | ", what, r->jobs);
    if (planted)
        printf("%u | ", groups ? r->groups_right : r->found);
    else
        printf("- | ");
    printf("%u |\n", groups ? r->groups - r->groups_right : r->jobs_wrong);
    fflush(stdout);
}

/* Four neighbours, non-blocking, one Waitall: what each message took is only known to be at most so much. */
static void bench_halo(unsigned jobs, unsigned *confused, unsigned *played) {
    static const struct {
        const char *what;
        enum plant plant;
        unsigned who, whom;
        double factor;
        unsigned hosts_per_switch;
    } scenes[] = {{"a link between ranks of two hosts, 50 % less bandwidth", PLANT_LINK, 3, 11, 0.5, 0},
                  {"... 30 % less", PLANT_LINK, 3, 11, 0.7, 0},
                  {"two hosts, 50 % less", PLANT_HOST_LINK, 4, 6, 0.5, 0},
                  {"... 30 % less", PLANT_HOST_LINK, 4, 6, 0.7, 0},
                  {"a host and all others, 50 % less", PLANT_NETWORK, 5, 0, 0.5, 0},
                  {"a slow rank, + 20 %", PLANT_RANK, 21, 0, 1.2, 0},
                  {"nothing", PLANT_NOBODY, 0, 0, 1, 0},
                  {"nothing; switches of 4 hosts, 100 us more between them", PLANT_NOBODY, 0, 0, 1, 4},
                  {"nothing; 2 switches of 8 hosts, 100 us more between them", PLANT_NOBODY, 0, 0, 1, 8}};
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct workload w = networked(WORKLOAD_STENCIL);
        w.plant = scenes[i].plant;
        w.who = scenes[i].who;
        w.whom = scenes[i].whom;
        w.factor = scenes[i].factor;
        w.hosts_per_switch = scenes[i].hosts_per_switch;
        w.switch_latency = 100000;
        struct workload_result r = workload_try(&w, jobs, 1);
        print_links(scenes[i].what, &r, w.plant != PLANT_NOBODY, false);
        *confused += r.jobs_wrong;
        *played += r.jobs;
    }
}

/* No messages worth speaking of: only groups of ranks tell. */
static void bench_groups(unsigned jobs, unsigned *confused, unsigned *played) {
    static const struct {
        const char *what;
        enum plant plant;
        unsigned who;
        double factor;
    } scenes[] = {{"collectives in groups: a host and all others, 50 % less", PLANT_NETWORK, 5, 0.5},
                  {"collectives in groups: a slow rank, + 20 %", PLANT_RANK, 21, 1.2},
                  {"collectives in groups: nothing", PLANT_NOBODY, 0, 1}};
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct workload w = networked(WORKLOAD_PIPELINE);
        w.plant = scenes[i].plant;
        w.who = scenes[i].who;
        w.factor = scenes[i].factor;
        struct workload_result r = workload_try(&w, jobs, 1);
        print_links(scenes[i].what, &r, w.plant == PLANT_NETWORK, true);
        *confused += r.jobs_wrong;
        *played += r.jobs;
    }
}

static void bench_links(unsigned jobs) {
    static const double factors[] = {0.7, 0.5};
    unsigned confused = 0, played = 0, found = 0;
    printf("## Slow links: 16 hosts of 4 ranks\n\n| planted | jobs | named (in groups: suspected) | jobs that name "
           "anything else |\n|---|---|---|---|\n");
    for (int kind = 0; kind < WORKLOADS; kind++)
        for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
            struct workload w = workload_standard((enum workload_kind)kind);
            w.outliers = 0.01;
            w.plant = PLANT_LINK;
            w.factor = factors[f];
            w.who = 3;
            w.whom = w.kind == WORKLOAD_PIPELINE ? 11 : 4;
            w.bytes = 8 << 20; /* large enough for the link to matter */
            struct workload_result r = workload_try(&w, jobs, 1);
            confused += r.jobs_wrong;
            found += r.found;
            played += r.jobs;
        }
    bench_halo(jobs, &confused, &played);
    bench_groups(jobs, &confused, &played);
    printf(
        "\nOf these and of links in all other kinds of jobs (named in %u of them), %u of %u name a rank or a host for "
        "a link (%.1f %%; at most 2 %%): %s\n\n",
        found, confused, played, 100.0 * confused / played, met(confused * 50 <= played));
    fflush(stdout);
}

/* ---- what if --------------------------------------------------------------------------------- */

struct deviation {
    unsigned jobs, named, within; /* within 10 % of the truth */
    double worst;
};

static void add_deviation(struct deviation *sum, const struct mended *mended) {
    sum->jobs++;
    if (mended->said == 0)
        return;
    double off = mended->said / mended->really - 1;
    off = off < 0 ? -off : off;
    sum->named++;
    sum->within += off <= 0.1;
    sum->worst = off > sum->worst ? off : sum->worst;
}

static void bench_what_if(unsigned jobs) {
    static const struct {
        const char *name;
        enum plant plant;
        unsigned who;
    } plants[] = {
        {"rank", PLANT_RANK, 3}, {"host", PLANT_HOST, 1}, {"stage", PLANT_RANK_CLASS, 1}, {"turns", PLANT_ROTATING, 0}};
    struct deviation all = {0};
    printf("## What if: said of a job, and true of the same job without what is planted in it\n\n"
           "| planted, 20 and 50 %% slow | jobs | named | within 10 %% | furthest off |\n|---|---|---|---|---|\n");
    for (size_t p = 0; p < sizeof plants / sizeof *plants; p++) {
        struct deviation sum = {0};
        for (int kind = 0; kind < WORKLOADS; kind++)
            for (unsigned i = 0; i < 2 * jobs && (plants[p].plant != PLANT_RANK_CLASS || kind == WORKLOAD_PIPELINE);
                 i++) {
                struct workload w = workload_standard((enum workload_kind)kind);
                w.ranks = 16;
                w.ranks_per_host = 4;
                w.plant = plants[p].plant;
                w.who = plants[p].who;
                w.factor = i % 2 ? 1.5 : 1.2;
                w.seed = 9000 + i;
                struct mended mended = mended_try(&w);
                add_deviation(&sum, &mended);
            }
        printf("| %s | %u | %u | %u | %.1f %% |\n", plants[p].name, sum.jobs, sum.named, sum.within, 100 * sum.worst);
        all.named += sum.named;
        all.within += sum.within;
    }
    printf("\nWithin 10 %% of the truth: %u of %u: %s\n\n", all.within, all.named, met(all.within == all.named));
    fflush(stdout);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void bench_steps(unsigned streams) {
    unsigned all = 0, exact = 0;
    printf("## Steps in whole dumps\n\n| job | jobs | all ranks exact |\n|---|---|---|\n");
    for (int kind = 0; kind < WORKLOADS; kind++) {
        unsigned right = 0;
        for (unsigned i = 0; i < streams; i++) {
            struct workload w = workload_standard((enum workload_kind)kind);
            w.seed = 100 + i;
            w.steps = 30 + 3 * i;
            w.pieces = 1 + (i * 7) % 32;
            w.evaluation = i % 3 ? 7 + i : 0;
            right += workload_steps_are_exact(&w);
        }
        printf("| %s | %u | %u |\n", workload_name((enum workload_kind)kind), streams, right);
        fflush(stdout);
        all += streams;
        exact += right;
    }
    printf("\nTogether %.1f %% (at least 95 %%): %s\n\n", 100.0 * exact / all, met(exact * 100 >= all * 95));
}

/* ---- hangs ----------------------------------------------------------------------------------- */

static bool names_the_guilty(const struct hang_job *job, const struct diagnosis *diagnosis) {
    bool named[64] = {false};
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        if (diagnosis->world.parties[diagnosis->culprits[i].party].rank < 64)
            named[diagnosis->world.parties[diagnosis->culprits[i].party].rank] = true;
    for (unsigned r = 0; r < job->ranks; r++)
        if (job->guilty[r] && !named[r])
            return false;
    return true;
}

static void bench_hangs(unsigned seeds) {
    unsigned right = 0, false_deadlocks = 0, all = 0;
    for (int fault = FAULT_NONE; fault < FAULTS; fault++)
        for (unsigned seed = 0; seed < seeds; seed++, all++) {
            const struct hang_scene scene = {.seed = 9000 + seed * 100 + (unsigned)fault,
                                             .ranks = 4 + seed % 13,
                                             .before = seed % 5 * 40,
                                             .after = 30,
                                             .fault = (enum fault)fault,
                                             .ring_records = 16};
            struct hang_job made;
            struct job job;
            struct diagnosis diagnosis;
            hang_open(&made, &scene);
            if (job_select(&job, &made.set, NULL, NULL) != 0 ||
                !diagnose(&diagnosis, &job, &(struct diagnose_request){.states = made.states, .settled = true}))
                exit(1);
            right += diagnosis.verdict == made.verdict && names_the_guilty(&made, &diagnosis);
            false_deadlocks += diagnosis.verdict == VERDICT_DEADLOCK && made.verdict != VERDICT_DEADLOCK;
            diagnosis_free(&diagnosis);
            job_free(&job);
            hang_close(&made);
        }
    printf("## Hangs, rings of 16 records\n\n%u of %u single faults right, verdict and culprits (all): %s. False "
           "deadlocks: "
           "%u (none): %s\n\n",
           right, all, met(right == all), false_deadlocks, met(false_deadlocks == 0));
    fflush(stdout);
}

/* ---- speed ----------------------------------------------------------------------------------- */

/* Runs a command with stdout in `output`; seconds, and processor seconds; ends the program when it fails. */
static double run(char *const *command, const char *output, double *processor, long *rss_kib) {
    double begun = now();
    pid_t child = fork();
    if (child == 0) {
        int fd = open(output, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
            _exit(127);
        execv(command[0], command);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
        fprintf(stderr, "analysis: %s failed\n", command[0]);
        exit(1);
    }
    *processor = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 + (double)usage.ru_stime.tv_sec +
                 (double)usage.ru_stime.tv_usec / 1e6;
    *rss_kib = usage.ru_maxrss;
    return now() - begun;
}

static bool same_contents(const char *a, const char *b) {
    FILE *left = fopen(a, "r"), *right = fopen(b, "r");
    bool same = left && right;
    for (int c = 0; same && c != EOF;)
        same = (c = getc(left)) == getc(right);
    if (left)
        fclose(left);
    if (right)
        fclose(right);
    return same;
}

static uint64_t size_of(const char *directory, bool remove) {
    uint64_t bytes = 0;
    DIR *open = opendir(directory);
    for (struct dirent *entry; open && (entry = readdir(open)) != NULL;) {
        struct stat stat;
        if (entry->d_name[0] == '.' || fstatat(dirfd(open), entry->d_name, &stat, 0) != 0)
            continue;
        bytes += (uint64_t)stat.st_size;
        if (remove)
            unlinkat(dirfd(open), entry->d_name, 0);
    }
    if (open)
        closedir(open);
    return bytes;
}

static void bench_speed(char *commtap, char *dumps, const char *scratch) {
    char directory[4000], output[3][4096];
    double processor;
    long rss;
    snprintf(directory, sizeof directory, "%s/gigabyte", scratch);
    mkdir(scratch, 0700);
    mkdir(directory, 0700);
    for (int i = 0; i < 3; i++)
        snprintf(output[i], sizeof output[i], "%s/report.%d", scratch, i);
    run((char *[]){dumps, directory, "64", "262144", NULL}, output[0], &processor, &rss);
    double gigabytes = (double)size_of(directory, false) / 1e9;
    printf("## Speed: report on %.2f GB of dumps, %ld processors\n\n"
           "| threads | seconds | processor seconds | peak resident MiB, mapped dumps included |\n|---|---|---|---|\n",
           gigabytes, sysconf(_SC_NPROCESSORS_ONLN));
    double seconds[3];
    for (int i = 0; i < 3; i++) { /* the first time warms the page cache */
        char threads[2] = {i == 1 ? '1' : '2', 0};
        seconds[i] = run((char *[]){commtap, "report", "--format", "json", "--threads", threads, directory, NULL},
                         output[i], &processor, &rss);
        if (i > 0)
            printf("| %s | %.2f | %.2f | %ld |\n", threads, seconds[i], processor, rss / 1024);
    }
    printf("\n%.2f s per GB with 2 threads (at most 5): %s. Output of 1 and 2 threads byte-identical: %s\n\n",
           seconds[2] / gigabytes, met(seconds[2] <= 5 * gigabytes), met(same_contents(output[1], output[2])));
    size_of(directory, true);
    rmdir(directory);
    for (int i = 0; i < 3; i++)
        unlink(output[i]);
}

/* Ten steps of 4096 ranks with 8.4 million records, of which the walk reads all. */
static void bench_timeline(char *commtap, char *dumps, const char *scratch) {
    char directory[4000], trace[4096], said[4096];
    double processor;
    long rss;
    struct stat stat_of;
    mkdir(scratch, 0700);
    snprintf(directory, sizeof directory, "%s/timeline", scratch);
    snprintf(trace, sizeof trace, "%s/trace", scratch);
    snprintf(said, sizeof said, "%s/said", scratch);
    mkdir(directory, 0700);
    run((char *[]){dumps, directory, "4096", "2048", NULL}, said, &processor, &rss);
    double seconds = 0;
    for (int i = 0; i < 2; i++) /* the first time warms the page cache */
        seconds = run((char *[]){commtap, "timeline", "--step", "10-19", "-o", trace, directory, NULL}, said,
                      &processor, &rss);
    if (stat(trace, &stat_of) != 0)
        exit(1);
    printf("## Timeline: 10 steps of 4096 ranks with 2048 records each\n\n%.2f s (at most 10), %.2f s of processor "
           "time, %.0f MB: %s\n\n",
           seconds, processor, (double)stat_of.st_size / 1e6, met(seconds <= 10));
    size_of(directory, true);
    rmdir(directory);
    unlink(trace);
    unlink(said);
}

/* A page of 4936 ranks with 10.1 million records, all of which the walks read. */
static void bench_html(char *commtap, char *dumps, const char *scratch) {
    char directory[4000], page[4096], said[4096];
    double processor, seconds = 0;
    long rss;
    struct stat stat_of;
    mkdir(scratch, 0700);
    snprintf(directory, sizeof directory, "%s/html", scratch);
    snprintf(page, sizeof page, "%s/page.html", scratch);
    snprintf(said, sizeof said, "%s/said", scratch);
    mkdir(directory, 0700);
    run((char *[]){dumps, directory, "4936", "2048", NULL}, said, &processor, &rss);
    for (int i = 0; i < 2; i++) /* the first time warms the page cache */
        seconds = run((char *[]){commtap, "html", "-o", page, directory, NULL}, said, &processor, &rss);
    if (stat(page, &stat_of) != 0)
        exit(1);
    printf("## Page: 4936 ranks with 2048 records each, 10.1 million\n\n%.2f s (at most 20), %.2f s of processor time, "
           "%ld MiB at the peak with the mapped dumps, %.0f MB: %s\n\n",
           seconds, processor, rss / 1024, (double)stat_of.st_size / 1e6, met(seconds <= 20));
    size_of(directory, true);
    rmdir(directory);
    unlink(page);
    unlink(said);
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: analysis COMMTAP DUMPS SCRATCH [JOBS]\n");
        return 2;
    }
    unsigned jobs = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 1000;
    unsigned some = jobs / 20 > 1 ? jobs / 20 : 1;
    bench_clocks();
    printf("## Stragglers: 10 %% noise, clocks off by a second and 100 ppm, 1 %% outliers\n\n");
    bench_sizes(jobs / 10);
    bench_kinds(some / 2 + 1);
    printf("\nTo reach from 10 %% up: precision >= 0.99, recall >= 0.98.\n");
    bench_nobody(jobs);
    bench_turns(jobs / 10);
    bench_links(some / 2 + 1);
    bench_what_if(some / 4 + 1);
    bench_steps(some);
    bench_hangs(some);
    bench_speed(argv[1], argv[2], argv[3]);
    bench_timeline(argv[1], argv[2], argv[3]);
    bench_html(argv[1], argv[2], argv[3]);
    return 0;
}
