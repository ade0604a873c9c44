#include "folio/text/bpe_symbols.h"

#include <map>
#include <string_view>
#include <utility>

#include "folio/base/utf8.h"

namespace folio {

BpeSymbols::BpeSymbols(const BpeVocab& vocab) : bytes(vocab.tokens), tokens(vocab.tokens.size()) {
  of_byte.fill(ByteIndex::kNone);
  merges.reserve(vocab.merges.size());
  ranks.reserve(vocab.merges.size());
  if (vocab.byte_tokens.empty()) {
    AddMissingBytes(vocab);
  } else {
    AddCharacters(vocab);
  }
  AddMerges(vocab);
}

int32_t BpeSymbols::Add(std::string_view symbol_bytes, const Ids& stands_for) {
  const auto symbol = static_cast<int32_t>(bytes.size());
  bytes.Add(symbol_bytes);
  others.push_back(stands_for);
  return symbol;
}

void BpeSymbols::AddMissingBytes(const BpeVocab& vocab) {
  for (size_t id = 0; id < tokens; ++id) {
    if (vocab.tokens[id].size() != 1) continue;
    of_byte[static_cast<unsigned char>(vocab.tokens[id][0])] = static_cast<int32_t>(id);
  }
  Ids missing;
  if (vocab.unknown >= 0) missing = {{vocab.unknown}, 1};
  for (size_t byte = 0; byte < of_byte.size(); ++byte) {
    const char c = static_cast<char>(byte);
    if (of_byte[byte] == ByteIndex::kNone) of_byte[byte] = Add({&c, 1}, missing);
  }
}

// A character of one byte is its own token if it has one; longer ones have a merge for each byte
// but the first.
void BpeSymbols::AddCharacters(const BpeVocab& vocab) {
  for (size_t byte = 0; byte < of_byte.size(); ++byte) of_byte[byte] = vocab.byte_tokens[byte];
  std::map<std::pair<int32_t, unsigned char>, int32_t> longer;  // of a symbol and one more byte
  for (size_t id = 0; id < tokens; ++id) {
    const std::string_view text = vocab.tokens[id];
    if (text.empty() || text.size() > 4 || FindSpecial(vocab.specials, id) != nullptr) continue;
    const Utf8Char c = DecodeUtf8(text);
    if (c.status != Utf8Status::kValid || c.length != text.size()) continue;
    const auto token = static_cast<int32_t>(id);
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    if (vocab.byte_tokens[byte(0)] == token) continue;
    if (text.size() == 1) {
      of_byte[byte(0)] = token;
      continue;
    }
    int32_t symbol = of_byte[byte(0)];
    for (size_t length = 2; length <= text.size(); ++length) {
      const auto [at, is_new] = longer.try_emplace({symbol, byte(length - 1)}, token);
      if (is_new) {
        if (length < text.size()) {
          Ids stands_for;
          for (size_t i = 0; i < length; ++i) {
            stands_for.ids[stands_for.count++] = vocab.byte_tokens[byte(i)];
          }
          at->second = Add(text.substr(0, length), stands_for);
        }
        ranks.push_back(static_cast<uint32_t>(merges.size()));
        merges.push_back({symbol, of_byte[byte(length - 1)], at->second});
      }
      symbol = at->second;
    }
  }
}

void BpeSymbols::AddMerges(const BpeVocab& vocab) {
  auto rank = static_cast<uint32_t>(merges.size());
  for (size_t i = 0; i < vocab.merges.size(); ++i) {
    const bool same =
        vocab.ranked_by_token && i > 0 && vocab.merges[i].merged == vocab.merges[i - 1].merged;
    if (i > 0 && !same) ++rank;
    merges.push_back(vocab.merges[i]);
    ranks.push_back(rank);
  }
}

}  // namespace folio
