/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel training of a small network by gradient descent: the demo's job.
 * Lives here: the model, its data and the training loop, as a user would write them. Must not live here: anything
 * that knows of commtap.
 *
 *   train [--steps N] [--slow-rank R] [--slow-ms M]
 *
 * Each rank draws its own samples of y = sin(x0) + x1 * x2, computes the gradient of a 3-32-1 network on its share of
 * the batch, averages it over the ranks (MPI_Allreduce) and takes a step. A slow rank sleeps M ms in every step.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INPUTS  3
#define HIDDEN  32
#define SAMPLES 256

struct model { /* also the gradient: only doubles, so that one Allreduce takes it */
    double w1[HIDDEN][INPUTS];
    double b1[HIDDEN];
    double w2[HIDDEN];
    double b2;
};
#define PARAMETERS ((int)(sizeof(struct model) / sizeof(double)))

struct options {
    int steps;
    int slow_rank;
    int slow_ms;
};

static unsigned long long random_state;

static double uniform(void) { /* in [-1, 1), the same on every machine */
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(random_state >> 11) / 4503599627370496.0 - 1.0;
}

static void sleep_ms(int ms) {
    struct timespec pause = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&pause, NULL);
}

static void model_init(struct model *model) {
    random_state = 42;
    double *parameter = (double *)model;
    for (int i = 0; i < PARAMETERS; i++)
        parameter[i] = 0.5 * uniform();
}

static void draw_samples(double x[SAMPLES][INPUTS], double y[SAMPLES]) {
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < INPUTS; k++)
            x[i][k] = uniform();
        y[i] = sin(x[i][0]) + x[i][1] * x[i][2];
    }
}

/* Adds one sample's gradient to `gradient`; its squared error. */
static double backpropagate(const struct model *model, const double *x, double y, struct model *gradient) {
    double hidden[HIDDEN], out = model->b2;
    for (int j = 0; j < HIDDEN; j++) {
        double sum = model->b1[j];
        for (int k = 0; k < INPUTS; k++)
            sum += model->w1[j][k] * x[k];
        hidden[j] = tanh(sum);
        out += model->w2[j] * hidden[j];
    }
    double error = out - y;
    gradient->b2 += error;
    for (int j = 0; j < HIDDEN; j++) {
        double back = error * model->w2[j] * (1.0 - hidden[j] * hidden[j]);
        gradient->w2[j] += error * hidden[j];
        gradient->b1[j] += back;
        for (int k = 0; k < INPUTS; k++)
            gradient->w1[j][k] += back * x[k];
    }
    return error * error;
}

/* One step of all ranks together; the mean squared error before it. */
static double train_step(struct model *model, double x[SAMPLES][INPUTS], const double y[SAMPLES], int ranks) {
    struct model gradient;
    double error = 0.0;
    memset(&gradient, 0, sizeof gradient);
    for (int i = 0; i < SAMPLES; i++)
        error += backpropagate(model, x[i], y[i], &gradient);
    MPI_Allreduce(MPI_IN_PLACE, &gradient, PARAMETERS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double *parameter = (double *)model;
    for (int i = 0; i < PARAMETERS; i++)
        parameter[i] -= 0.3 * ((double *)&gradient)[i] / (SAMPLES * ranks);
    return error / (SAMPLES * ranks);
}

static struct options parse(int argc, char **argv) {
    struct options options = {.steps = 200, .slow_rank = -1, .slow_ms = 10};
    const struct {
        const char *name;
        int *value;
    } known[] = {{"--steps", &options.steps}, {"--slow-rank", &options.slow_rank}, {"--slow-ms", &options.slow_ms}};
    for (int i = 1; i < argc; i++) {
        int *value = NULL;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            if (strcmp(argv[i], known[k].name) == 0)
                value = known[k].value;
        if (!value || i + 1 == argc) {
            fprintf(stderr, "usage: train [--steps N] [--slow-rank R] [--slow-ms M]\n");
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
        if (rank == options.slow_rank)
            sleep_ms(options.slow_ms);
        loss = train_step(&model, x, y, ranks);
        if (rank == 0 && (step % 50 == 0 || step + 1 == options.steps))
            printf("step %4d  loss %.6f\n", step, loss);
    }
    if (rank == 0)
        printf("final loss %a\n", loss);
    MPI_Finalize();
    return 0;
}
