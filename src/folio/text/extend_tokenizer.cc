#include "folio/text/extend_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "folio/base/utf8.h"

namespace folio {
namespace {

bool IsToken(const Tokenizer& tokenizer, std::string_view text) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.TokenBytes(id) == text) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<Tokenizer> WithSpecialTokens(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts) {
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i];
    if (text.empty() || FindInvalidUtf8(text) != std::string::npos) {
      throw UsageError(fmt::format("'{}' cannot be a special token", text));
    }
    if (IsToken(tokenizer, text) || std::ranges::count(texts.first(i), text) > 0) {
      throw UsageError(fmt::format("'{}' cannot be a new special token", text), "it is a token",
                       "choose texts that are no tokens yet");
    }
  }
  return tokenizer.WithSpecials(texts);
}

}  // namespace folio
