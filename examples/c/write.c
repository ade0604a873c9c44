/* Goes on with a text, or answers a question, and shows the text as it comes; Ctrl-C ends it.
 *   cc write.c $(pkg-config --cflags --libs folio) -o write
 *   ./write runs/first "Once upon a time"
 *   ./write SmolLM2-135M-Instruct.gguf --ask "What is the capital of France?" */
#include <folio.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static folio_cancel *cancel;

static void Stop(int signal) {
  (void)signal;
  folio_cancel_request(cancel);
}

static int Show(void *user, const char *text, size_t length) {
  (void)user;
  fwrite(text, 1, length, stdout);
  fflush(stdout);
  return 0;
}

static int Fail(folio_error *error) {
  fprintf(stderr, "%s\n  %s\n  %s\n", folio_error_message(error), folio_error_cause(error),
          folio_error_help(error));
  folio_error_free(error);
  return 1;
}

int main(int argc, char **argv) {
  folio_error *error = NULL;
  folio_model *model = NULL;
  const int ask = argc == 4 && strcmp(argv[2], "--ask") == 0;
  if (argc != 3 && !ask) return fprintf(stderr, "usage: %s MODEL [--ask] TEXT\n", argv[0]), 2;
  const char *text = argv[argc - 1], *role = "user";
  cancel = folio_cancel_new();
  signal(SIGINT, Stop);

  if (folio_model_open(argv[1], NULL, NULL, &model, &error) != FOLIO_OK) return Fail(error);
  folio_buffer *ids = folio_buffer_new();
  const folio_status asked =
      ask ? folio_model_chat(model, &role, &text, 1, ids, &error)
          : folio_model_prompt(model, text, strlen(text), ids, &error);
  if (asked != FOLIO_OK) return Fail(error);

  folio_options *options = folio_options_new("generate");
  if (folio_options_set(options, "max_tokens", "200", &error) != FOLIO_OK ||
      (ask ? folio_options_set(options, "defaults", "chat", &error)
           : folio_options_set(options, "temperature", "0.8", &error)) != FOLIO_OK ||
      folio_options_set(options, "seed", "1", &error) != FOLIO_OK) {
    return Fail(error);
  }
  const folio_watch watch = {.size = sizeof(watch), .cancel = cancel};
  int32_t end = 0;
  if (folio_generate(model, folio_buffer_data(ids), folio_buffer_size(ids) / sizeof(int32_t),
                     options, Show, NULL, &watch, NULL, &end, &error) != FOLIO_OK) {
    return Fail(error);
  }
  printf("%s\n", end == FOLIO_END_CANCELLED ? " [stopped]" : "");
  folio_options_free(options);
  folio_buffer_free(ids);
  folio_model_free(model);
  folio_cancel_free(cancel);
  return 0;
}
