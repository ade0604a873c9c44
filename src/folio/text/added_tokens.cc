#include "folio/text/added_tokens.h"

#include <algorithm>

#include "folio/base/utf8.h"
#include "folio/text/nfc.h"
#include "folio/text/unicode.h"

namespace folio {
namespace {

size_t SpacesBefore(std::string_view text, size_t at) {
  while (at > 0 && IsSpaceAt(text, CharacterBefore(text, at))) at = CharacterBefore(text, at);
  return at;
}

size_t SpacesBehind(std::string_view text, size_t at) {
  while (at < text.size() && IsSpaceAt(text, at)) at += DecodeUtf8(text, at).length;
  return at;
}

bool IsNumeral(char32_t code) {
  char32_t at = 0;
  const std::span<const uint32_t> runs = NumeralRuns();
  for (size_t i = 0; i < runs.size(); i += 2) {
    at += runs[i];
    if (code < at) return false;
    at += runs[i + 1];
    if (code < at) return true;
  }
  return false;
}

// Returns true for a word character of regular expressions (\w): letters, marks, digits,
// connectors, and symbols that are letters in circles and squares.
bool IsWordAt(std::string_view text, size_t at) {
  const Utf8Char c = DecodeUtf8(text, at);
  if (c.status != Utf8Status::kValid) return false;
  const CharClass char_class = ClassOf(c.code);
  if (char_class == CharClass::kNumber) return !IsNumeral(c.code);
  constexpr std::u32string_view kJoining =
      U"_\u203F\u2040\u2054\uFE33\uFE34\uFE4D\uFE4E\uFE4F\uFF3F\u200C\u200D";
  const auto in = [&](char32_t first, char32_t last) { return c.code >= first && c.code <= last; };
  return IsLetter(char_class) || char_class == CharClass::kMark ||
         kJoining.find(c.code) != kJoining.npos || in(0x24B6, 0x24E9) || in(0x1F130, 0x1F149) ||
         in(0x1F150, 0x1F169) || in(0x1F170, 0x1F189);
}

}  // namespace

AddedTokens::AddedTokens(std::span<const AddedToken> tokens)
    : tokens_(tokens.begin(), tokens.end()) {
  std::ranges::sort(tokens_, {}, &AddedToken::id);
  for (const AddedToken& token : tokens_) {
    passes_[token.normalized].texts.push_back({token.text, token.id});
    longest_ = std::max(longest_, token.text.size());
  }
  for (Pass& pass : passes_) {
    if (pass.texts.empty()) continue;
    pass.finder = std::make_unique<SpecialFinder>(pass.texts, SpecialRule::Allow());
  }
}

std::vector<AddedTokens::Part> AddedTokens::Cut(std::string_view text, bool normalized,
                                                const Guard& guard) const {
  std::vector<Part> parts;
  const Pass& pass = passes_[normalized];
  size_t done = 0;
  size_t at = 0;
  while (pass.finder != nullptr) {
    const SpecialFinder::Match match = pass.finder->Next(text, at);
    if (match.token == nullptr) break;
    at = match.end();
    const AddedToken& token =
        *std::ranges::lower_bound(tokens_, match.token->id, {}, &AddedToken::id);
    const bool inside = (match.begin > 0 && IsWordAt(text, CharacterBefore(text, match.begin))) ||
                        (at < text.size() && IsWordAt(text, at));
    if (token.single_word && inside) continue;
    if (guard && !guard(token, match.begin, at)) {
      at = match.begin + 1;
      continue;
    }
    size_t begin = match.begin;
    if (token.left_strip) begin = std::max(done, SpacesBefore(text, begin));
    if (token.right_strip) at = SpacesBehind(text, at);
    if (done < begin) parts.push_back({done, begin, nullptr});
    parts.push_back({begin, at, &token});
    done = at;
  }
  if (done < text.size()) parts.push_back({done, text.size(), nullptr});
  return parts;
}

bool AddedTokens::MayCut(std::string_view text, size_t at) const {
  if (tokens_.empty()) return true;
  const size_t reach = longest_ - 1;
  if (at < reach || text.size() - at < reach) return false;
  const std::string_view around = text.substr(at - reach, 2 * reach);
  for (const Pass& pass : passes_) {
    for (const SpecialToken& token : pass.texts) {
      const size_t from = reach - std::min(reach, token.text.size() - 1);
      const size_t length = 2 * (token.text.size() - 1);
      if (around.substr(from, length).find(token.text) != around.npos) return false;
    }
  }
  return true;
}

}  // namespace folio
