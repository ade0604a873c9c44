/* Counts the tokens of files.
 *   cc tokenize.c $(pkg-config --cflags --libs folio) -o tokenize
 *   ./tokenize gpt2 *.txt        an encoding (folio tokenizer fetch gpt2), "bytes", or a tokenizer's path */
#include <folio.h>
#include <stdio.h>
#include <stdlib.h>

static int Fail(folio_error *error) {
  fprintf(stderr, "%s\n  %s\n  %s\n", folio_error_message(error), folio_error_cause(error),
          folio_error_help(error));
  folio_error_free(error);
  return 1;
}

static char *ReadAll(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t room = 0, got = 1;
  *length = 0;
  while (file != NULL && got > 0) {
    if (*length == room) {
      char *more = realloc(text, room = 2 * room + 65536);
      if (more == NULL) break;
      text = more;
    }
    got = fread(text + *length, 1, room - *length, file);
    *length += got;
  }
  if (file != NULL) fclose(file);
  return text;
}

int main(int argc, char **argv) {
  folio_error *error = NULL;
  folio_tokenizer *tokenizer = NULL;
  if (argc < 3) return fprintf(stderr, "usage: %s TOKENIZER FILE...\n", argv[0]), 2;
  if (folio_tokenizer_open(argv[1], &tokenizer, &error) != FOLIO_OK) return Fail(error);
  folio_buffer *ids = folio_buffer_new();
  int status = 0;
  for (int i = 2; i < argc && status == 0; ++i) {
    size_t length = 0;
    char *text = ReadAll(argv[i], &length);
    if (text == NULL) {
      fprintf(stderr, "%s: cannot be read\n", argv[i]);
      status = 1;
    } else if (folio_tokenizer_encode(tokenizer, text, length, FOLIO_SPECIAL_ORDINARY, NULL, ids,
                                      &error) != FOLIO_OK) {
      status = Fail(error);
    } else {
      const size_t tokens = folio_buffer_size(ids) / sizeof(int32_t);
      printf("%10zu bytes %10zu tokens  %s\n", length, tokens, argv[i]);
    }
    free(text);
  }
  folio_buffer_free(ids);
  folio_tokenizer_free(tokenizer);
  return status;
}
