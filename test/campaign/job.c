// SPDX-License-Identifier: Apache-2.0
//
//   job KIND SEED FAULT [mended]
//
// A job after a real code whose truth comes from its own clocks. Each rank prints at its end what it computed and what
// the fault cost it; with CAMPAIGN_CLOCKS=DIR every single computation goes to a file there. CAMPAIGN_SPEED=N sets the
// turns per microsecond of the computing loop, so that a job can be run again with exactly the same work. A job that
// this number of ranks cannot have ends with 77 before it begins.
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/campaign/kinds.h"

enum { EXIT_NO_SUCH_JOB = 77, RENDEZVOUS_BYTES = 512 * 1024 };

static const struct kind kinds[] = {
    {"train", {.segments = 1}, false, train},
    {"gradients", {.segments = 2}, false, gradients},
    {"transpose", {.segments = 1}, false, transpose},
    {"mix", {.segments = 2}, false, mix},
    {"halo", {.segments = 1}, true, halo},
    {"pairs", {.segments = 1}, true, pairs},
    {"pipeline", {.segments = 1}, true, pipeline},
    {"rounds", {.segments = 1, .has_master = true}, false, rounds},
    {"on-demand", {.segments = 1, .has_master = true, .common_list = true}, false, on_demand},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

static const struct kind *find_kind(const char *name) {
    for (int i = 0; i < KIND_COUNT; i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

static bool find_fault(const char *name, enum fault *fault) {
    for (int i = 0; i < FAULT_COUNT; i++) {
        if (!strcmp(fault_names[i], name)) {
            *fault = (enum fault)i;
            return true;
        }
    }
    return false;
}

// One speed for all ranks: what they compute must not differ because one calibrated at a bad moment.
static double common_speed(int rank) {
    const char *given = getenv("CAMPAIGN_SPEED");
    double speed = given ? atof(given) : 0;
    if (speed > 0)
        return speed;
    if (rank == 0)
        speed = calibrate();
    MPI_Bcast(&speed, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return speed;
}

static bool make_room(struct job *job) {
    size_t bytes = (size_t)job->plan.message_bytes * (size_t)(job->plan.ranks < 2 ? 2 : job->plan.ranks);
    job->sent = calloc(1, bytes);
    job->received = calloc(1, bytes);
    job->done = calloc((size_t)job->plan.base_count, sizeof *job->done);
    return job->sent && job->received && job->done;
}

static void print_totals(const struct job *job, FILE *to, const char *kind, double wall_us) {
    const struct plan *plan = &job->plan;
    double planned = 0, base = 0, extra = 0;
    for (int i = 0; i < job->done_count; i++) {
        planned += job->done[i].planned_us;
        base += job->done[i].base_us;
        extra += job->done[i].extra_us;
    }
    fprintf(to,
            "{\"kind\": \"%s\", \"fault\": \"%s\", \"mended\": %s, \"noise\": \"%s\", \"trait\": \"%s\", \"ranks\": %d,"
            " \"rank\": %d, \"victims\": [",
            kind, fault_names[plan->fault], job->mended ? "true" : "false", noise_names[plan->noise],
            trait_names[plan->trait], plan->ranks, plan->rank);
    for (int i = 0; i < plan->victim_count; i++)
        fprintf(to, "%s%d", i ? ", " : "", plan->victims[i]);
    fprintf(to,
            "], \"steps\": %d, \"planned_seconds\": %.6f, \"work_seconds\": %.6f, \"fault_seconds\": %.6f,"
            " \"late_seconds\": %.6f, \"wall_seconds\": %.6f}\n",
            plan->steps, planned * 1e-6, (base + extra) * 1e-6, extra * 1e-6, plan->late_start_us * 1e-6,
            wall_us * 1e-6);
}

static bool write_clocks(const struct job *job, const char *folder, const char *kind, double wall_us) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%d", folder, job->plan.rank);
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return false;
    }
    print_totals(job, file, kind, wall_us);
    for (int i = 0; i < job->done_count; i++)
        fprintf(file, "%d %.1f %.1f %.1f\n", job->done[i].step, job->done[i].planned_us, job->done[i].base_us,
                job->done[i].extra_us);
    return !fclose(file);
}

static int run(const struct kind *kind, struct job *job, uint64_t seed) {
    MPI_Comm_size(MPI_COMM_WORLD, &job->plan.ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &job->plan.rank);
    double start = now_us();
    job->plan.shape = kind->shape;
    if (!plan_draw(&job->plan, seed, (int)sysconf(_SC_NPROCESSORS_ONLN)))
        return EXIT_NO_SUCH_JOB;
    if (job->plan.fault == FAULT_RECEIVER)
        job->plan.message_bytes = RENDEZVOUS_BYTES;
    if (!make_room(job))
        return 1;
    job->turns_per_us = common_speed(job->plan.rank);
    spin(job, job->plan.late_start_us);
    kind->run(job);
    double wall_us = now_us() - start;
    const char *folder = getenv("CAMPAIGN_CLOCKS");
    print_totals(job, stdout, kind->name, wall_us);
    return folder && !write_clocks(job, folder, kind->name, wall_us);
}

int main(int argc, char **argv) {
    struct job job = {0};
    if (argc == 2 && !strcmp(argv[1], "calibrate")) {
        printf("%.3f\n", calibrate());
        return 0;
    }
    const struct kind *kind = argc < 4 ? NULL : find_kind(argv[1]);
    if (!kind || !find_fault(argv[3], &job.plan.fault)) {
        fprintf(stderr, "usage: job KIND SEED FAULT [mended], or job calibrate\n");
        return 2;
    }
    if (job.plan.fault == FAULT_RECEIVER && !kind->late_receiver)
        return EXIT_NO_SUCH_JOB;
    job.mended = argc > 4 && !strcmp(argv[4], "mended");
    MPI_Init(&argc, &argv);
    int status = run(kind, &job, strtoull(argv[2], NULL, 10));
    free(job.plan.base_us);
    free(job.sent);
    free(job.received);
    free(job.done);
    MPI_Finalize();
    return status;
}
