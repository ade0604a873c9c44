/* Trains a small model of a text, then teaches it another text with LoRA; shows the loss as it falls.
 *   cc train.c $(pkg-config --cflags --libs folio) -o train
 *   ./train text.txt other.txt runs */
#include <folio.h>
#include <stdio.h>

static int ShowStep(void *user, int64_t step, double loss, double rate, double speed) {
  (void)user;
  (void)rate;
  if (step % 10 == 0) printf("step %4ld  loss %.3f  %.0f tokens/s\n", (long)step, loss, speed);
  return 0;
}

static int Fail(folio_error *error) {
  fprintf(stderr, "%s\n  %s\n  %s\n", folio_error_message(error), folio_error_cause(error),
          folio_error_help(error));
  folio_error_free(error);
  return 1;
}

/* Trains into `run` with settings, pairs of a name and a value up to NULL. */
static int Train(const char *text, const char *run, const char *const *settings) {
  folio_error *error = NULL;
  folio_options *options = folio_options_new("train");
  folio_watch watch = {.size = sizeof(watch), .step = ShowStep};
  folio_train *train = NULL;
  folio_buffer *result = folio_buffer_new();
  folio_status status = FOLIO_OK;
  for (; *settings != NULL && status == FOLIO_OK; settings += 2) {
    status = folio_options_set(options, settings[0], settings[1], &error);
  }
  if (status == FOLIO_OK) status = folio_train_new(&text, 1, run, options, &watch, &train, &error);
  if (status == FOLIO_OK) status = folio_train_run(train, &watch, result, &error);
  if (status == FOLIO_OK) printf("%s: %s\n", run, (const char *)folio_buffer_data(result));
  folio_buffer_free(result);
  folio_train_free(train);
  folio_options_free(options);
  return status == FOLIO_OK ? 0 : Fail(error);
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: %s TEXT OTHER DIRECTORY\n", argv[0]), 2;
  char base[4096], taught[4096];
  snprintf(base, sizeof(base), "%s/base", argv[3]);
  snprintf(taught, sizeof(taught), "%s/taught", argv[3]);
  const char *first[] = {"preset", "char-cpu", "data.tokenizer", "bytes", "train.max_steps",
                         "40",     "overwrite", "true",          NULL};
  const char *second[] = {"train.init", base,   "lora.rank", "4", "train.max_steps",
                          "20",         "overwrite", "true", NULL};
  return Train(argv[1], base, first) || Train(argv[2], taught, second);
}
