// Counts the tokens of a text with a tokenizer: all that a program needs which only tokenizes.
#include <cstdio>
#include <string>

#include "folio/text/encodings.h"

int main(int, char** argv) {  // TOKENIZER TEXT
  const auto tokenizer = folio::OpenTokenizer(argv[1]);
  const auto ids = tokenizer->Encode(argv[2]);
  std::printf("%zu\n", ids.size());
  return tokenizer->DecodeText(ids) == argv[2] ? 0 : 1;
}
