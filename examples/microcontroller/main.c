/* Reads recording.csv as a device would read its sensor, and prints the samples that the model asked for, its likeliest
 * class and the probability. It runs on a simulated microcontroller (see README.md) and on any computer. */
#include <stdio.h>

#include "model.h"

#ifndef MODEL_CLASSES
#error "main.c needs a model that predicts classes"
#endif

/* The next character that is not a space; it stays in the file. */
static int peek(FILE *file) {
    int next;
    do next = getc(file);
    while (next == ' ' || next == '\t' || next == '\r');
    return ungetc(next, file);
}

/* Reads the next line, the number of which becomes `line`. Returns 1 for a sample, 0 at the end of the file, and -1 for
 * anything else: a number that is not finite would stay in the model's state. */
static int read_sample(FILE *file, float *sample, long *line) {
    for (++*line; peek(file) == '\n'; ++*line) getc(file); /* empty lines */
    if (peek(file) == EOF) return 0;
    for (int i = 0; i < MODEL_INPUTS; i++) {
        if (i && (peek(file) != ',' || getc(file) == EOF || peek(file) == '\n')) return -1;
        if (fscanf(file, "%f", sample + i) != 1 || !isfinite(sample[i])) return -1;
    }
    if (peek(file) != EOF && getc(file) != '\n') return -1;
    return 1;
}

int main(void) {
    static model_state state;
    float sample[MODEL_INPUTS], probabilities[MODEL_OUTPUTS];
    long time = 0, wanted = 0, line = 0;
    int got;
    FILE *sensor = fopen("recording.csv", "r");
    if (!sensor) {
        printf("recording.csv can't be opened\n");
        return 1;
    }
    model_start(&state);
    for (; (got = read_sample(sensor, sample, &line)) == 1; time++) {
        if (time != wanted) continue; /* a device would sleep */
        const uint32_t wait = model_update(&state, sample);
        wanted = wait == MODEL_NEVER ? -1 : time + (long)wait;
        printf("%ld ", time);
    }
    if (time) printf("\n");
    if (got < 0 || time == 0) {
        printf("recording.csv: line %ld: expected %d finite numbers, separated by commas\n", line, MODEL_INPUTS);
        return 1;
    }
    model_predict(&state, probabilities);
    int best = 0;
    for (int j = 1; j < MODEL_OUTPUTS; j++)
        if (probabilities[j] > probabilities[best]) best = j;
    printf("%s\t%.6f\n", model_classes[best], (double)probabilities[best]);
    return 0;
}
