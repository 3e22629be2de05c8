/* Reads recording.csv as a device would read its sensor, and prints the samples that the model asked for, its likeliest
 * class and the probability. It runs on a simulated microcontroller (see README.md) and on any computer. */
#include <stdio.h>

#include "model.h"

int main(void) {
    static model_state state;
    float sample[MODEL_INPUTS], probabilities[MODEL_OUTPUTS];
    long time = 0, wanted = 0;
    FILE *sensor = fopen("recording.csv", "r");
    if (!sensor) {
        printf("recording.csv can't be opened\n");
        return 1;
    }
    model_start(&state);
    for (;; time++) {
        for (int i = 0; i < MODEL_INPUTS; i++)
            if (fscanf(sensor, i ? ",%f" : "%f", sample + i) != 1) goto end;
        if (time != wanted) continue; /* a device would sleep */
        const uint32_t wait = model_update(&state, sample);
        wanted = wait == MODEL_NEVER ? -1 : time + (long)wait;
        printf("%ld ", time);
    }
end:
    if (time == 0 || !feof(sensor)) {
        printf("recording.csv: expected lines of %d numbers separated by commas\n", MODEL_INPUTS);
        return 1;
    }
    model_predict(&state, probabilities);
    int best = 0;
    for (int j = 1; j < MODEL_OUTPUTS; j++)
        if (probabilities[j] > probabilities[best]) best = j;
    printf("\n%s\t%.6f\n", model_classes[best], (double)probabilities[best]);
    return 0;
}
