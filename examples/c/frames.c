/* A loop that draws a picture every 16 ms, as a game does, and in what is left of each has its characters
 * speak: a step of the batch writes a token for each of them.
 *   cc frames.c $(pkg-config --cflags --libs folio) -o frames
 *   ./frames runs/first "The king said" "The queen said" */
#define _POSIX_C_SOURCE 199309L
#include <folio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMost = 8, kRoom = 4096 };

struct character {
  char said[kRoom];
  size_t length;
  int speaks;
};

static int Say(void *user, const char *text, size_t length) {
  struct character *who = user;
  if (who->length + length >= kRoom) return 1; /* enough said */
  memcpy(who->said + who->length, text, length);
  who->length += length;
  return 0;
}

static void Ended(void *user, int32_t end) {
  (void)end;
  ((struct character *)user)->speaks = 0;
}

static double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
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
  folio_batch *batch = NULL;
  static struct character characters[kMost];
  const int count = argc - 2;
  if (count < 1 || count > kMost) return fprintf(stderr, "usage: %s MODEL LINE...\n", argv[0]), 2;
  if (folio_model_open(argv[1], NULL, NULL, &model, &error) != FOLIO_OK) return Fail(error);
  folio_options *options = folio_options_new("generate");
  if (folio_options_set(options, "max_tokens", "60", &error) != FOLIO_OK ||
      folio_options_set(options, "seed", "3", &error) != FOLIO_OK ||
      folio_batch_new(model, count, &batch, &error) != FOLIO_OK) {
    return Fail(error);
  }
  folio_buffer *ids = folio_buffer_new();
  for (int i = 0; i < count; ++i) {
    const char *line = argv[2 + i];
    characters[i].speaks = 1;
    if (folio_model_prompt(model, line, strlen(line), ids, &error) != FOLIO_OK ||
        folio_batch_add(batch, folio_buffer_data(ids), folio_buffer_size(ids) / sizeof(int32_t),
                        options, Say, Ended, &characters[i], NULL, &error) != FOLIO_OK) {
      return Fail(error);
    }
  }
  int frames = 0, late = 0;
  int32_t more = 1;
  while (more != 0) {
    const double until = Milliseconds() + 16, last = until - 4; /* no step begins in the last 4 */
    while (more != 0 && Milliseconds() < last) {
      if (folio_batch_step(batch, &more, &error) != FOLIO_OK) return Fail(error);
    }
    /* Here the picture would be drawn. */
    const double left = until - Milliseconds();
    ++frames;
    late += left < 0;
    if (left > 0 && more != 0) {
      const struct timespec wait = {0, (long)(left * 1e6)};
      nanosleep(&wait, NULL);
    }
  }
  for (int i = 0; i < count; ++i) printf("%s%s\n", argv[2 + i], characters[i].said);
  fprintf(stderr, "%d frames, %d of them late\n", frames, late);
  folio_buffer_free(ids);
  folio_batch_free(batch);
  folio_options_free(options);
  folio_model_free(model);
  return 0;
}
