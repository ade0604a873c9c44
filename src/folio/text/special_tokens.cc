#include "folio/text/special_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "folio/base/check.h"

namespace folio {
namespace {

constexpr size_t kListed = 20;  // names in a message

// Bytes that are frequent in prose, markup and code.
bool Frequent(char byte) {
  const auto c = static_cast<unsigned char>(byte);
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return c >= 0x80 || std::string_view(" \n\t\r.,;:!?'\"()[]{}<>/\\=-_+*&#").find(byte) !=
                          std::string_view::npos;
}

Error UnknownName(std::span<const SpecialToken> specials, const std::string& name) {
  std::string known;
  for (size_t i = 0; i < specials.size() && i < kListed; ++i) {
    known += (i > 0 ? ", " : "") + specials[i].text;
  }
  if (specials.size() > kListed) known += fmt::format(" and {} more", specials.size() - kListed);
  return UsageError(
      fmt::format("'{}' is not a special token", name),
      known.empty() ? "this tokenizer has no special tokens" : "this tokenizer has " + known);
}

void Mark(std::span<const SpecialToken> specials, const std::vector<std::string>& names,
          std::vector<bool>& marks) {
  for (const std::string& name : names) {
    const SpecialToken* found = FindSpecial(specials, name);
    if (found == nullptr) throw UnknownName(specials, name);
    marks[static_cast<size_t>(found - specials.data())] = true;
  }
}

}  // namespace

std::optional<int32_t> FindEndOfText(std::span<const SpecialToken> specials, std::string_view eos) {
  for (const std::string_view text :
       {kEndOfTextToken, std::string_view("<|end_of_text|>"), std::string_view("<|bos|>"), eos,
        std::string_view("</s>"), std::string_view("<eos>")}) {
    const SpecialToken* found = FindSpecial(specials, text);
    if (found != nullptr && !text.empty()) return found->id;
  }
  return std::nullopt;
}

const SpecialToken* FindSpecial(std::span<const SpecialToken> specials, std::string_view text) {
  const auto found = std::ranges::find(specials, text, &SpecialToken::text);
  return found == specials.end() ? nullptr : &*found;
}

std::vector<SpecialToken> NumberSpecials(std::span<const std::string> texts, int64_t first) {
  std::vector<SpecialToken> specials;
  for (const std::string& text : texts) {
    specials.push_back({text, static_cast<int32_t>(first + std::ssize(specials))});
  }
  return specials;
}

std::vector<std::string> Texts(std::span<const SpecialToken> specials,
                               std::span<const std::string> more) {
  std::vector<std::string> texts;
  for (const SpecialToken& special : specials) texts.push_back(special.text);
  texts.insert(texts.end(), more.begin(), more.end());
  return texts;
}

SpecialFinder::SpecialFinder(std::span<const SpecialToken> specials, const SpecialRule& rule)
    : rule_(rule) {
  std::vector<bool> allowed(specials.size(), rule.allow_all);
  std::vector<bool> disallowed(specials.size());
  Mark(specials, rule.allow, allowed);
  Mark(specials, rule.disallow, disallowed);
  for (size_t i = 0; i < specials.size(); ++i) {
    if (allowed[i]) allowed_.Add(specials[i]);
    if (rule.disallow_all ? !allowed[i] : disallowed[i]) disallowed_.Add(specials[i]);
  }
  allowed_.Prepare();
  disallowed_.Prepare();
}

void SpecialFinder::CheckDisallowed(std::string_view text, std::string_view where) const {
  const Match match = NextDisallowed(text, 0);
  if (match.token != nullptr) throw SpecialNotAllowed(*match.token, text, match.begin, {}, where);
}

size_t SpecialFinder::PartialSuffix(std::string_view text) const {
  return std::max(allowed_.PartialSuffix(text), disallowed_.PartialSuffix(text));
}

void SpecialFinder::Set::Prepare() {
  if (tokens_.empty()) return;
  std::ranges::sort(tokens_, {}, &SpecialToken::text);
  for (const SpecialToken* token : tokens_) {
    FOLIO_CHECK(!token->text.empty(), "a special token has a text");
    longest_ = std::max(longest_, token->text.size());
    begins_[static_cast<unsigned char>(token->text[0])] = true;
  }
  const std::string_view first = tokens_.front()->text, last = tokens_.back()->text;
  prefix_ = {first.begin(), std::ranges::mismatch(first, last).in1};
  const auto rare = std::ranges::find_if_not(prefix_, Frequent);
  rare_ = rare == prefix_.end() ? 0 : static_cast<size_t>(rare - prefix_.begin());
}

size_t SpecialFinder::Set::Candidate(std::string_view text, size_t at) const {
  if (prefix_.empty()) {
    while (at < text.size() && !begins_[static_cast<unsigned char>(text[at])]) ++at;
    return at;
  }
  while (text.size() - at > rare_) {
    const void* found =
        std::memchr(text.data() + at + rare_, prefix_[rare_], text.size() - at - rare_);
    if (found == nullptr) return text.size();
    at = static_cast<size_t>(static_cast<const char*>(found) - text.data()) - rare_;
    if (text[at] == prefix_[0]) return at;
    ++at;
  }
  return text.size();
}

SpecialFinder::Set::Walkthrough SpecialFinder::Set::WalkFrom(std::string_view text) const {
  // [low, high) are the tokens that begin with the bytes so far.
  Walkthrough walk;
  auto low = tokens_.begin();
  auto high = tokens_.end();
  for (size_t depth = 0;; ++depth) {
    if ((*low)->text.size() == depth) {
      walk.longest = *low;
      if (++low == high) return walk;
    }
    if (depth == text.size()) {
      walk.partial = true;
      return walk;
    }
    const auto byte_of = [&](const SpecialToken* token) {
      return static_cast<unsigned char>(token->text[depth]);
    };
    const auto byte = static_cast<unsigned char>(text[depth]);
    low = std::ranges::lower_bound(low, high, byte, {}, byte_of);
    high = std::ranges::upper_bound(low, high, byte, {}, byte_of);
    if (low == high) return walk;
  }
}

SpecialFinder::Match SpecialFinder::Set::Next(std::string_view text, size_t at) const {
  if (tokens_.empty() || at >= text.size()) return {};
  for (at = Candidate(text, at); at < text.size(); at = Candidate(text, at + 1)) {
    const Walkthrough walk = WalkFrom(text.substr(at));
    if (walk.longest != nullptr) return {at, walk.longest};
  }
  return {};
}

size_t SpecialFinder::Set::PartialSuffix(std::string_view text) const {
  if (tokens_.empty()) return 0;
  const size_t most = std::min(text.size(), longest_ - 1);
  for (size_t length = most; length > 0; --length) {
    const std::string_view suffix = text.substr(text.size() - length);
    if (begins_[static_cast<unsigned char>(suffix[0])] && WalkFrom(suffix).partial) return length;
  }
  return 0;
}

Error SpecialNotAllowed(const SpecialToken& token, std::string_view text, size_t at,
                        TextPosition position, std::string_view where) {
  position.Advance(text.substr(0, at));
  return InputError(fmt::format("{}:{}:{}: the text contains the special token {}", where,
                                position.line, position.column, token.text),
                    fmt::format("it would become token {}, which is not allowed here", token.id),
                    "allow special tokens, or encode it as ordinary text");
}

}  // namespace folio
