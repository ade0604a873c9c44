#include "folio/text/tokenizer.h"

#include <fmt/format.h>

#include "folio/base/hash.h"

namespace folio {
namespace {

bool IsToken(const Tokenizer& tokenizer, std::string_view text) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.TokenBytes(id) == text) return true;
  }
  return false;
}

}  // namespace

bool BeginsWith(std::span<const int32_t> ids, std::span<const int32_t> beginning) {
  return ids.size() >= beginning.size() &&
         std::ranges::equal(ids.first(beginning.size()), beginning);
}

void Tokenizer::CheckId(int32_t id) const {
  if (id >= 0 && id < vocab_size()) return;
  throw InputError(fmt::format("token {} does not exist", id),
                   fmt::format("this {} tokenizer has tokens 0 to {}", kind(), vocab_size() - 1),
                   "use the tokenizer of the tokens");
}

void Tokenizer::RequireKnown(std::span<const int32_t> ids, std::string_view where) const {
  const int64_t known = known_tokens();
  if (known == vocab_size()) return;
  const auto other = std::ranges::find_if(ids, [&](int32_t id) { return id >= known; });
  if (other == ids.end()) return;
  throw InputError(
      fmt::format("{}: the model does not have the token \"{}\"", where,
                  ReplaceInvalidUtf8(TokenBytes(*other))),
      fmt::format("its id is {}; the tokenizer has {} tokens, but the model has only {} embeddings",
                  *other, vocab_size(), known),
      "remove it from the text");
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, std::string_view where,
                                       const SpecialRule& rule) const {
  SpecialFinder(special_tokens(), rule).CheckDisallowed(text, where);
  std::vector<int32_t> ids;
  EncodeAllowed(text, rule, ids, where);
  RequireKnown(ids, where);
  return ids;
}

void Tokenizer::EncodeAllowed(std::string_view text, const SpecialRule& rule,
                              std::vector<int32_t>& ids, std::string_view where) const {
  const SpecialFinder finder(special_tokens(), rule);
  for (size_t at = 0;;) {
    const SpecialFinder::Match special = finder.Next(text, at);
    const size_t end = special.token == nullptr ? text.size() : special.begin;
    const size_t done = at + EncodePrefix(text.substr(at, end - at), ids);
    if (done < end) throw CannotEncode(*this, text.substr(0, end), done, {}, where);
    if (special.token == nullptr) return;
    ids.push_back(special.token->id);
    at = special.end();
  }
}

void Tokenizer::EncodeGuarded(std::string_view text, const TokenGuard& guard,
                              std::string_view where, std::vector<int32_t>& ids) const {
  const SpecialFinder finder(special_tokens(), SpecialRule::Allow());
  size_t done = 0;
  for (size_t at = 0;;) {
    const SpecialFinder::Match special = finder.Next(text, at);
    const bool found = special.token != nullptr;
    if (found && !guard(special.token->text, true, special.begin, special.end())) {
      at = special.begin + 1;
      continue;
    }
    const size_t end = found ? special.begin : text.size();
    done += EncodePrefix(text.substr(done, end - done), ids);
    if (done < end) throw CannotEncode(*this, text.substr(0, end), done, {}, where);
    if (!found) return;
    ids.push_back(special.token->id);
    done = at = special.end();
  }
}

std::vector<int32_t> Tokenizer::WithBeginning(std::vector<int32_t> ids) const {
  if (!BeginsWith(ids, before())) ids.insert(ids.begin(), before().begin(), before().end());
  return ids;
}

std::vector<int32_t> Tokenizer::EncodeOrdinary(std::string_view text,
                                               std::string_view where) const {
  std::vector<int32_t> ids;
  const size_t done = EncodePrefix(text, ids);
  if (done < text.size()) throw CannotEncode(*this, text, done, {}, where);
  RequireKnown(ids, where);
  return ids;
}

int64_t Tokenizer::Count(std::string_view text, std::string_view where) const {
  constexpr size_t kGrain = size_t{1} << 17;  // the most bytes whose ids are kept
  int64_t count = 0;
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.size() - at > kGrain ? FindCut(text, at + kGrain) : text.size();
    ids.clear();
    const size_t done = at + EncodePrefix(text.substr(at, end - at), ids);
    if (done < end) throw CannotEncode(*this, text, done, {}, where);
    count += static_cast<int64_t>(ids.size());
    at = end;
  }
  return count;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids) const {
  std::string bytes;
  bytes.reserve(ids.size());
  for (const int32_t id : ids) bytes += TokenBytes(id);
  return bytes;
}

std::string Tokenizer::DecodeText(std::span<const int32_t> ids) const {
  const std::string bytes = Decode(ids);
  const bool strip = strips_space() && bytes.starts_with(' ');
  return ReplaceInvalidUtf8(std::string_view(bytes).substr(strip ? 1 : 0));
}

DecodedText DecodeWithOffsets(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  const std::string bytes = tokenizer.Decode(ids);
  DecodedText decoded;
  decoded.bytes.reserve(ids.size());
  decoded.chars.reserve(ids.size());
  // Character number `number` begins at byte `at` and ends where the next begins.
  size_t at = 0;
  size_t next = bytes.empty() ? 0 : DecodeUtf8(bytes).length;
  size_t number = 0;
  size_t begin = 0;
  for (const int32_t id : ids) {
    while (at < bytes.size() && begin >= next) {
      at = next;
      ++number;
      if (at < bytes.size()) next += DecodeUtf8(bytes, at).length;
    }
    decoded.bytes.push_back(begin);
    decoded.chars.push_back(number);
    begin += tokenizer.TokenBytes(id).size();
  }
  decoded.text = ReplaceInvalidUtf8(bytes);
  return decoded;
}

std::string Tokenizer::hash() const {
  return HashHex(FileContents());
}

Error CannotEncode(const Tokenizer& tokenizer, std::string_view text, size_t at,
                   TextPosition position, std::string_view where) {
  position.Advance(text.substr(0, at));
  const Utf8Char c = DecodeUtf8(text, at);
  if (c.status != Utf8Status::kValid) {
    return InputError(fmt::format("{}: not UTF-8 text", where),
                      fmt::format("the bytes at offset {} (line {}) are not a Unicode character",
                                  position.byte, position.line),
                      "use UTF-8 text");
  }
  return InputError(
      fmt::format("{}:{}:{}: no token for the character {}", where, position.line, position.column,
                  QuoteChar(c.code)),
      fmt::format("the {} tokenizer has {} tokens, none of them matches here", tokenizer.kind(),
                  tokenizer.vocab_size()),
      "remove the character, or train with a text that contains it or with --tokenizer bytes");
}

std::unique_ptr<Tokenizer> WithSpecialTokens(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts) {
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i];
    if (text.empty() || FindInvalidUtf8(text) != std::string::npos) {
      throw UsageError(fmt::format("'{}' cannot be a special token", text));
    }
    if (IsToken(tokenizer, text) || std::ranges::count(texts.first(i), text) > 0) {
      throw UsageError(fmt::format("'{}' cannot be a new special token", text), "it is a token",
                       "choose texts that are not tokens yet");
    }
  }
  std::unique_ptr<Tokenizer> more = tokenizer.WithSpecials(texts);
  more->set_chat_source(tokenizer.chat_source());
  return more;
}

}  // namespace folio
