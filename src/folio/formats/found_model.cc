#include "folio/formats/found_model.h"

#include <algorithm>

#include "folio/io/model_dir.h"
#include "folio/tensor/dtype.h"
#include "folio/text/encodings.h"
#include "folio/text/tokenizer_file.h"

namespace folio {

std::vector<ListedTensor> ListTensors(const TensorFile& file) {
  std::vector<ListedTensor> listed;
  for (const TensorInfo& info : file.tensors()) {
    listed.push_back({info.name, std::string(DtypeName(info.dtype)), info.shape, info.bytes});
  }
  return listed;
}

std::unique_ptr<Tokenizer> FindGpt2Encoding() {
  const std::vector<std::string> files = TokenizerFiles("gpt2");
  const bool there = std::ranges::all_of(files, [](const auto& file) { return Exists(file); });
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
