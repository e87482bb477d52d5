/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel training of a small network by gradient descent: the demo's job.
 * Lives here: the training loop, as a user would write it. Must not live here: anything
 * that knows of commtap.
 *
 *   train [--steps N] [--slow-rank R] [--slow-ms M] [--slow-step S] [--turns-ms T]
 *
 * Each rank draws its own samples of y = sin(x0) + x1 * x2, computes the gradient of a 3-32-1 network on its share of
 * the batch, averages it over the ranks (MPI_Allreduce) and takes a step. A slow rank sleeps M ms in every step;
 * with --turns-ms, another rank in each step sleeps T ms, as if its part of the data were longer.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "network.h"

struct options {
    int steps;
    int slow_rank;
    int slow_ms;
    int slow_step; /* the only one; negative: it is slow in all */
    int turns_ms;
};

/* One step of all ranks together; the mean squared error before it. */
static double train_step(struct model *model, double x[SAMPLES][INPUTS], const double y[SAMPLES], int ranks) {
    struct model gradient;
    double error = gradient_of(model, x, y, &gradient);
    MPI_Allreduce(MPI_IN_PLACE, &gradient, PARAMETERS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    descend(model, &gradient, ranks);
    return error / (SAMPLES * ranks);
}

static struct options parse(int argc, char **argv) {
    struct options options = {.steps = 200, .slow_rank = -1, .slow_ms = 10, .slow_step = -1};
    const struct {
        const char *name;
        int *value;
    } known[] = {{"--steps", &options.steps},
                 {"--slow-rank", &options.slow_rank},
                 {"--slow-ms", &options.slow_ms},
                 {"--slow-step", &options.slow_step},
                 {"--turns-ms", &options.turns_ms}};
    for (int i = 1; i < argc; i++) {
        int *value = NULL;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            if (strcmp(argv[i], known[k].name) == 0)
                value = known[k].value;
        if (!value || i + 1 == argc) {
            fprintf(stderr, "usage: train [--steps N] [--slow-rank R] [--slow-ms M] [--slow-step S] [--turns-ms T]\n");
            exit(2);
        }
        *value = atoi(argv[++i]);
    }
    return options;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    struct options options = parse(argc, argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    struct model model;
    if (rank == 0)
        model_init(&model);
    MPI_Bcast(&model, PARAMETERS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    random_state = 1000 + (unsigned long long)rank;
    static double x[SAMPLES][INPUTS], y[SAMPLES];
    draw_samples(x, y);

    double loss = 0.0;
    for (int step = 0; step < options.steps; step++) {
        sleep_ms(5); /* reading the next batch */
        if (rank == options.slow_rank && (options.slow_step < 0 || step == options.slow_step))
            sleep_ms(options.slow_ms);
        if (options.turns_ms > 0 && rank == step % ranks)
            sleep_ms(options.turns_ms);
        loss = train_step(&model, x, y, ranks);
        if (rank == 0 && (step % 50 == 0 || step + 1 == options.steps))
            printf("step %4d  loss %.6f\n", step, loss);
    }
    if (rank == 0)
        printf("final loss %a\n", loss);
    MPI_Finalize();
    return 0;
}
