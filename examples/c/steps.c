/* Trains a small model step by step, on batches made here, and writes with what it has learnt.
 *   cc steps.c $(pkg-config --cflags --libs folio) -o steps
 *   ./steps model */
#include <folio.h>
#include <stdio.h>
#include <stdlib.h>

enum { kSequences = 8, kContext = 32, kSteps = 400 };

static int Fail(folio_error* error) {
  fprintf(stderr, "%s\n  %s\n  %s\n", folio_error_message(error), folio_error_cause(error),
          folio_error_help(error));
  folio_error_free(error);
  return 1;
}

/* Sums, "17+25=42;", one after the other: `inputs` are bytes of them, `targets` the bytes that
 * follow. */
static void MakeBatch(int32_t* inputs, int32_t* targets) {
  char text[kContext + 16];
  for (int s = 0; s < kSequences; ++s) {
    int length = 0;
    while (length < kContext + 1) {
      const int a = rand() % 50, b = rand() % 50;
      length += snprintf(text + length, sizeof(text) - (size_t)length, "%d+%d=%d;", a, b, a + b);
    }
    for (int t = 0; t < kContext; ++t) {
      inputs[s * kContext + t] = text[t];
      targets[s * kContext + t] = text[t + 1];
    }
  }
}

static int WriteText(void* user, const char* text, size_t length) {
  (void)user;
  return fwrite(text, 1, length, stdout) == length ? 0 : 1;
}

int main(int argc, char** argv) {
  static const char* const kSettings[] = {
      "preset",        "char-cpu", "model.n_layer",     "2",   "train.batch_size",   "8",
      "train.context", "32",       "model.vocab_size",  "257", "train.warmup_steps", "5",
      "model.n_embd",  "64",       "model.n_positions", "32",  "train.max_steps",    "400"};
  if (argc != 2) return fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]), 2;
  folio_error* error = NULL;
  folio_status status = FOLIO_OK;
  folio_options* options = folio_options_new("train");
  folio_trainer* trainer = NULL;
  folio_tokenizer* bytes = NULL;
  folio_model* model = NULL;
  folio_buffer* prompt = folio_buffer_new();
  int32_t inputs[kSequences * kContext], targets[kSequences * kContext];
  for (size_t i = 0; i < sizeof(kSettings) / sizeof(*kSettings) && status == FOLIO_OK; i += 2) {
    status = folio_options_set(options, kSettings[i], kSettings[i + 1], &error);
  }
  if (status == FOLIO_OK) status = folio_trainer_new(options, NULL, &trainer, &error);
  for (int i = 0; i < kSteps && status == FOLIO_OK; ++i) {
    folio_step step = {0};
    step.size = sizeof(step);
    MakeBatch(inputs, targets);
    status =
        folio_trainer_step(trainer, inputs, targets, kSequences * kContext, NULL, &step, &error);
    if (status == FOLIO_OK && i % 50 == 49) printf("step %d  loss %.3f\n", i, step.loss);
  }
  if (status == FOLIO_OK) status = folio_tokenizer_open("bytes", &bytes, &error);
  if (status == FOLIO_OK) status = folio_trainer_save(trainer, argv[1], bytes, &error);
  if (status == FOLIO_OK) status = folio_trainer_model(trainer, bytes, &model, &error);
  if (status == FOLIO_OK) status = folio_model_prompt(model, "1+2=", 4, prompt, &error);
  if (status == FOLIO_OK) {
    status = folio_generate(model, folio_buffer_data(prompt),
                            folio_buffer_size(prompt) / sizeof(int32_t), NULL, WriteText, NULL,
                            NULL, NULL, NULL, &error);
    printf("\n");
  }
  folio_buffer_free(prompt);
  folio_model_free(model);
  folio_tokenizer_free(bytes);
  folio_trainer_free(trainer);
  folio_options_free(options);
  return status == FOLIO_OK ? 0 : Fail(error);
}
