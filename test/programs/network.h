/* SPDX-License-Identifier: Apache-2.0
 *
 * A 3-32-1 network that learns y = sin(x0) + x1 * x2: what the training programs train.
 * Lives here: the model, its data, one sample's gradient. Must not live here: communication, the training loop.
 */
#ifndef COMMTAP_TEST_NETWORK_H
#define COMMTAP_TEST_NETWORK_H

#include <math.h>
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

/* The sum of all samples' gradients; returns the sum of their squared errors. */
static double gradient_of(const struct model *model, double x[SAMPLES][INPUTS], const double y[SAMPLES],
                          struct model *gradient) {
    double error = 0.0;
    memset(gradient, 0, sizeof *gradient);
    for (int i = 0; i < SAMPLES; i++)
        error += backpropagate(model, x[i], y[i], gradient);
    return error;
}

static void descend(struct model *model, const struct model *gradient, int ranks) {
    double *parameter = (double *)model;
    for (int i = 0; i < PARAMETERS; i++)
        parameter[i] -= 0.3 * ((const double *)gradient)[i] / (SAMPLES * ranks);
}

#endif
