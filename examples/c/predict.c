/* Predicts with a trained Skip RNN, in C: reads OUT.safetensors of skiprnn-export and a CSV file (a line of numbers for
 * each step; the first line may be a header), and prints the likeliest class, its probability, the number of used steps
 * and of all steps.
 *
 *     predict MODEL.safetensors INPUT.csv
 *
 * It needs libskiprnn, the shared library in skiprnn_plugin/ops/native, but neither Python nor PyTorch. See README.md.
 */
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skiprnn.h"

static _Noreturn void fail(const char *what, const char *detail) {
    fprintf(stderr, "predict: error: %s: %s\n", what, detail);
    exit(2);
}

/* A value that is not what the program expected; of `got` the first line is shown. */
static _Noreturn void refuse(const char *what, const char *expected, const char *got) {
    fprintf(stderr, "predict: error: %s: expected %s, got %.*s\n", what, expected, (int)strcspn(got, "\n"), got);
    exit(2);
}

/* The same for what a line of a file holds. */
static _Noreturn void refuse_line(const char *path, long long line, const char *expected, const char *got) {
    fprintf(stderr, "predict: error: %s: line %lld: expected %s, got %s\n", path, line, expected, got);
    exit(2);
}

static void *allocate(size_t size) {
    /* skiprnn_pack wants 64-byte alignment */
    void *memory = aligned_alloc(64, (size + 64) / 64 * 64);
    if (!memory) fail("memory", "not enough");
    return memory;
}

/* ---- safetensors: 8 bytes with the size of the header, the header in JSON, the data ---- */

typedef struct {
    const char *path;
    char *header; /* ends with 0 */
    char *data;
    uint64_t data_size;
} Model;

static Model read_model(const char *path) {
    Model model = {path, NULL, NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file) fail(path, "can't be opened");
    uint64_t size;
    fseek(file, 0, SEEK_END);
    const long total = ftell(file);
    rewind(file);
    if (total < 8 || fread(&size, 8, 1, file) != 1 || size > (uint64_t)total - 8) fail(path, "not a safetensors file");
    model.header = allocate(size + 1);
    model.data_size = (uint64_t)total - 8 - size;
    model.data = allocate(model.data_size);
    if (fread(model.header, 1, size, file) != size || fread(model.data, 1, model.data_size, file) != model.data_size)
        fail(path, "can't be read");
    model.header[size] = 0;
    fclose(file);
    return model;
}

/* The text behind "NAME": in the header, or NULL. */
static const char *find_value(const Model *model, const char *name) {
    char key[80];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = strstr(model->header, key);
    return found ? found + strlen(key) : NULL;
}

/* A value of the metadata, which are all strings; of JSON's escapes it knows those of quotes, backslashes and lines. */
static const char *find_text(const Model *model, const char *name, char *text, size_t size) {
    const char *value = find_value(model, name);
    if (!value || *value != '"') fail(model->path, "not written by skiprnn-export");
    size_t length = 0;
    for (value++; *value != '"'; value++) {
        char next = *value;
        if (next == '\\') {
            next = *++value;
            if (next == 'n') next = '\n';
        }
        if (!next) fail(name, "the text has no end");
        if (length + 1 == size) fail(name, "the text is too long");
        text[length++] = next;
    }
    text[length] = 0;
    return text;
}

/* A size in the metadata. The limit keeps products of three sizes within 64 bits. */
static int64_t find_size(const Model *model, const char *name) {
    char text[256], *end;
    find_text(model, name, text, sizeof text);
    const long long size = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || size < 1 || size > 1000000)
        refuse(name, "an integer from 1 to 1000000", text);
    return size;
}

/* The metadata's threshold; strtod would accept spaces before it. */
static float find_threshold(const Model *model) {
    char text[256], *end;
    find_text(model, "threshold", text, sizeof text);
    const double threshold = strtod(text, &end);
    if (!isdigit((unsigned char)*text) || *end || !(threshold >= 0 && threshold < 1))
        refuse("threshold", "a probability in [0, 1)", text);
    return (float)threshold;
}

/* The numbers of a tensor of this many bytes, or NULL if the file has none of this name. */
static const void *find_tensor(const Model *model, const char *name, uint64_t bytes) {
    const char *value = find_value(model, name);
    if (!value) return NULL;
    unsigned long long begin, end;
    const char *offsets = strstr(value, "\"data_offsets\":[");
    if (!offsets || sscanf(offsets, "\"data_offsets\":[%llu,%llu]", &begin, &end) != 2 || begin > end ||
        end > model->data_size || end - begin != bytes)
        fail(name, "the tensor has the wrong size");
    return model->data + begin;
}

static const float *need_tensor(const Model *model, const char *name, int64_t count) {
    const float *tensor = find_tensor(model, name, (uint64_t)count * sizeof(float));
    if (!tensor) fail(name, "no such tensor");
    return tensor;
}

/* ---- CSV: a line for each step, of numbers separated by commas ---- */

/* Twice the memory, with what it holds. */
static void *grow(void *memory, size_t size) {
    void *more = allocate(2 * size);
    memcpy(more, memory, size);
    free(memory);
    return more;
}

/* Reads a line, without its end, to `line`, which has `room` bytes and grows. Returns 0 at the end of the file. */
static int read_line(FILE *file, char **line, size_t *room) {
    size_t length = 0;
    int next;
    while ((next = getc(file)) != EOF && next != '\n') {
        if (length + 1 == *room) {
            *line = grow(*line, *room);
            *room *= 2;
        }
        (*line)[length++] = (char)(next ? next : '?'); /* a zero would end the text */
    }
    if (length && (*line)[length - 1] == '\r') length--;
    (*line)[length] = 0;
    return next != EOF || length;
}

/* Reads the number of a field, which ends at a comma or with the line. Returns 0 if it holds something else. */
static int read_number(const char *field, double *number) {
    char *end;
    *number = strtod(field, &end);
    const char hexadecimal = field[strcspn(field, "xX,")];
    if (end == field || hexadecimal == 'x' || hexadecimal == 'X') return 0;
    end += strspn(end, " \t");
    return !*end || *end == ',';
}

/* Whether a field says that a value is missing; that is not the name of a column. */
static int is_missing(const char *field) {
    const char *const words[] = {"", "na", "n/a", "nan", "null", "none", "-", "?"};
    field += strspn(field, " \t");
    size_t length = strcspn(field, ",");
    while (length && isspace((unsigned char)field[length - 1])) length--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t same = 0;
        while (same < length && tolower((unsigned char)field[same]) == words[i][same] && words[i][same]) same++;
        if (same == length && !words[i][same]) return 1;
    }
    return 0;
}

/* The next field of the line, or NULL. */
static const char *next_field(const char *field) {
    const char *comma = strchr(field, ',');
    return comma ? comma + 1 : NULL;
}

/* Whether a first line holds the names of columns: it has no number, and not only missing values. */
static int is_header(const char *line) {
    double number;
    int has_name = 0;
    for (const char *field = line; field; field = next_field(field)) {
        if (read_number(field, &number)) return 0;
        has_name |= !is_missing(field);
    }
    return has_name;
}

/* The steps of a file [steps, width], normalised as in training if mean and std are not NULL. */
static float *read_csv(const char *path, int64_t width, const double *mean, const double *std, int64_t *steps) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path, "can't be opened");
    size_t room = 256, count = 0, limit = 1024;
    char *line = allocate(room), wanted[64], got[64];
    float *x = allocate(limit * sizeof(float));
    int is_first = 1;
    for (long long at = 1; read_line(file, &line, &room); at++) {
        const char *text = at == 1 && strncmp(line, "\xEF\xBB\xBF", 3) == 0 ? line + 3 : line; /* a byte order mark */
        if (!*text) continue;
        const int skips = is_first && is_header(text);
        is_first = 0;
        if (skips) continue;
        int64_t fields = 0;
        for (const char *field = text; field; field = next_field(field), fields++) {
            double number;
            const size_t length = strcspn(field, ",");
            snprintf(got, sizeof got, "'%.*s'", (int)(length < 60 ? length : 60), field);
            if (!read_number(field, &number)) refuse_line(path, at, "a number", got);
            if (fields >= width) continue;
            float value = (float)number;
            if (mean && isfinite(value)) value = (float)(((double)value - mean[fields]) / std[fields]);
            if (!isfinite(value)) refuse_line(path, at, "finite numbers, also as float32 and normalised", got);
            if (count == limit) {
                x = grow(x, limit * sizeof(float));
                limit *= 2;
            }
            x[count++] = value;
        }
        if (fields != width) {
            snprintf(wanted, sizeof wanted, "%lld numbers", (long long)width);
            snprintf(got, sizeof got, "%lld", (long long)fields);
            refuse_line(path, at, wanted, got);
        }
    }
    if (ferror(file)) fail(path, "can't be read");
    if (count == 0) fail(path, "expected a line of numbers for each step, got none");
    free(line);
    fclose(file);
    *steps = (int64_t)count / width;
    return x;
}

int main(int argc, char **argv) {
    if (argc != 3) fail("usage", "predict MODEL.safetensors INPUT.csv");
    const Model model = read_model(argv[1]);
    char text[65536];
    if (strcmp(find_text(&model, "format_version", text, sizeof text), "1")) refuse("format_version", "1", text);
    if (strcmp(find_text(&model, "predicts", text, sizeof text), "classes") ||
        strcmp(find_text(&model, "per_step", text, sizeof text), "false"))
        fail(argv[1], "expected a model that predicts one class for a sequence");

    const char *const cells[] = {"lstm", "gru", "gru_reset_before", "rnn"};
    const int64_t gates[] = {4, 3, 3, 1};
    int64_t cell = 0;
    find_text(&model, "cell", text, sizeof text);
    while (cell < 4 && strcmp(text, cells[cell])) cell++;
    if (cell == 4) refuse("cell", "lstm, gru, gru_reset_before or rnn", text);
    const skiprnn_shape shape = {cell, find_size(&model, "num_layers"), find_size(&model, "input_size"),
                                 find_size(&model, "hidden_size"), SKIPRNN_FLOAT32};
    const int64_t hidden = shape.hidden, layers = shape.layers, outputs = find_size(&model, "output_size");

    /* the weights, in the kernels' layout */
    const float **weights = allocate((size_t)(4 * layers) * sizeof(float *));
    for (int64_t layer = 0; layer < layers; layer++) {
        const int64_t rows = gates[cell] * hidden;
        const int64_t sizes[] = {rows * (layer ? hidden : shape.input), rows * hidden, rows, rows};
        const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
        for (int kind = 0; kind < 4; kind++) {
            snprintf(text, sizeof text, "%s_l%d", names[kind], (int)layer);
            weights[4 * layer + kind] = need_tensor(&model, text, sizes[kind]);
        }
    }
    uint64_t known = 0;
    float *packed = allocate((size_t)skiprnn_packed_size(&shape, SKIPRNN_FORWARD) * sizeof(float));
    skiprnn_pack(&shape, weights, SKIPRNN_FORWARD, 1, packed, &known);

    /* the input */
    const double *mean = find_tensor(&model, "mean", (uint64_t)shape.input * sizeof(double));
    const double *std = find_tensor(&model, "std", (uint64_t)shape.input * sizeof(double));
    if (!mean != !std) refuse(argv[1], "mean and std, or neither", mean ? "mean alone" : "std alone");
    int64_t steps;
    const float *x = read_csv(argv[2], shape.input, mean, std, &steps);

    /* the gate; a model without one updates at every step */
    find_text(&model, "gate_layers", text, sizeof text);
    int64_t *gate_layers = allocate((strlen(text) + 1) * sizeof(int64_t)), gate_count = 0;
    uint8_t *schedule = NULL;
    for (char *next = text; *text; next++) {
        const char *digits = next;
        const int64_t layer = strtoll(digits, &next, 10);
        if (!isdigit((unsigned char)*digits) || layer >= layers || (*next && *next != ','))
            refuse("gate_layers", "numbers of layers from 0 on, separated by commas", text);
        gate_layers[gate_count++] = layer;
        if (!*next) break;
    }
    if (gate_count == 0) {
        schedule = allocate((size_t)steps);
        memset(schedule, 1, (size_t)steps);
    }

    const skiprnn_problem problem = {
        .shape = shape,
        .batch = 1,
        .steps = steps,
        .last_only = 1,
        .threads = 1,
        .x = x,
        .x_batch_stride = steps * shape.input,
        .x_step_stride = shape.input,
        .packed = packed,
        .h = need_tensor(&model, "initial_h", layers * hidden),
        .c = cell == SKIPRNN_LSTM ? need_tensor(&model, "initial_c", layers * hidden) : NULL,
        .gate_weight = gate_count ? need_tensor(&model, "update_weight", gate_count * hidden) : NULL,
        .gate_bias = gate_count ? need_tensor(&model, "update_bias", 1) : NULL,
        .gate_count = gate_count,
        .gate_layers = gate_layers,
        .schedule = schedule,
        .threshold = find_threshold(&model),
    };
    const size_t state_size = (size_t)(layers * hidden) * sizeof(float);
    float p, acc;
    const skiprnn_result result = {
        .output = allocate((size_t)hidden * sizeof(float)),
        .h = allocate(state_size),
        .c = cell == SKIPRNN_LSTM ? allocate(state_size) : NULL,
        .p = &p,
        .acc = &acc,
        .updates = allocate((size_t)steps * sizeof(float)),
    };
    if (skiprnn_forward(&problem, &result, NULL) != SKIPRNN_OK) fail("memory", "not enough");

    /* the linear head and the softmax */
    const float *head = need_tensor(&model, "head_weight", outputs * hidden);
    const float *bias = need_tensor(&model, "head_bias", outputs);
    double *scores = allocate((size_t)outputs * sizeof(double)), sum = 0;
    int64_t best = 0, used = 0;
    for (int64_t j = 0; j < outputs; j++) {
        scores[j] = bias[j];
        for (int64_t i = 0; i < hidden; i++) scores[j] += head[j * hidden + i] * result.output[i];
        if (scores[j] > scores[best]) best = j;
    }
    for (int64_t j = 0; j < outputs; j++) sum += exp(scores[j] - scores[best]);
    for (int64_t t = 0; t < steps; t++) used += result.updates[t] > 0;
    const char *class_name = find_text(&model, "classes", text, sizeof text);
    int64_t class_count = 1;
    for (const char *next = class_name; (next = strchr(next, '\n')); next++) class_count++;
    if (class_count != outputs) fail("classes", "too few or too many");
    for (int64_t j = 0; j < best; j++) class_name = strchr(class_name, '\n') + 1;
    printf("%.*s\t%.6f\t%d\t%d\n", (int)strcspn(class_name, "\n"), class_name, 1 / sum, (int)used, (int)steps);
    return 0;
}
