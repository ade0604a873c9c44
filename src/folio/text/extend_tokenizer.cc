#include "folio/text/extend_tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/utf8.h"
#include "folio/text/bpe_tokenizer.h"

namespace folio {
namespace {

BpeVocab VocabOf(const Tokenizer& tokenizer) {
  if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer)) return bpe->vocab();
  if (tokenizer.kind() != "bytes") {
    throw UsageError(
        fmt::format("a tokenizer of kind {} takes no special tokens", tokenizer.kind()), {},
        "use --tokenizer bytes, or a byte-level BPE");
  }
  BpeVocab vocab;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    vocab.tokens.Add(tokenizer.TokenBytes(id));
  }
  const std::span<const SpecialToken> specials = tokenizer.special_tokens();
  vocab.specials.assign(specials.begin(), specials.end());
  return vocab;
}

}  // namespace

std::unique_ptr<Tokenizer> WithSpecialTokens(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts) {
  BpeVocab vocab = VocabOf(tokenizer);
  for (const std::string& text : texts) {
    if (text.empty() || FindInvalidUtf8(text) != std::string::npos) {
      throw UsageError(fmt::format("'{}' cannot be a special token", text));
    }
    vocab.specials.push_back({text, static_cast<int32_t>(vocab.tokens.size())});
    vocab.tokens.Add(text);
  }
  try {
    CheckBpeVocab(vocab, "special tokens");
  } catch (const Error& error) {
    throw UsageError(error.what(), error.cause(), "choose texts that are no tokens yet");
  }
  vocab.name.clear();  // no longer the published one
  return std::make_unique<BpeTokenizer>(std::move(vocab));
}

}  // namespace folio
