#include "folio/formats/gpt2_encoding.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "folio/text/encodings.h"

namespace folio {

std::unique_ptr<Tokenizer> FindGpt2Encoding() {
  const std::vector<std::string> files = TokenizerFiles("gpt2");
  const bool there =
      std::ranges::all_of(files, [](const auto& file) { return std::filesystem::exists(file); });
  return there ? OpenTokenizer("gpt2") : nullptr;
}

void UseGpt2Encoding(FoundModel& found, const char* otherwise) {
  constexpr int64_t kTokens = 50257, kPadded = 50304;
  const int64_t V = found.model.config.vocab_size;
  if (V != kTokens && V != kPadded) {
    found.tokenizer_help = otherwise;
    return;
  }
  found.tokenizer = FindGpt2Encoding();
  if (found.tokenizer == nullptr) {
    found.tokenizer_help = "a vocabulary of this size is GPT-2's: folio tokenizer fetch gpt2";
  }
}

}  // namespace folio
