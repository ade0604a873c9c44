#include "folio/text/encode_input.h"

#include <algorithm>
#include <string>
#include <utility>

#include "folio/base/error.h"
#include "folio/text/encode_parallel.h"
#include "folio/text/streaming.h"

namespace folio {
namespace {

constexpr size_t kChunk = kHeldBack;
constexpr size_t kPipePiece = size_t{1} << 16;
constexpr size_t kWindow = size_t{1} << 22;
// Texts this long are worth all threads each; shorter ones share them.
constexpr size_t kLongText = size_t{1} << 21;

// The last place in (begin, text.size()), as far as searching is worthwhile, where the text can be
// cut although more follows; or `begin`.
size_t LateCut(const Tokenizer& tokenizer, std::string_view text, size_t begin) {
  constexpr size_t kLongestChar = 4;  // the character behind the cut must be whole to be judged
  for (size_t back = size_t{1} << 12;; back *= 16) {
    const bool all = text.size() - begin <= back;
    const size_t from = all ? begin + 1 : text.size() - back;
    if (from >= text.size()) return begin;
    const size_t cut = tokenizer.FindCut(text, from);
    if (cut + kLongestChar <= text.size()) return cut;
    if (all) return begin;
  }
}

// Encodes the texts, of which each but the last has its special token behind it.
void EncodeBetweenSpecials(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                           std::span<const int32_t> specials, std::string_view where,
                           std::vector<int32_t>& ids) {
  const auto is_long = [&](size_t i) { return texts.size() == 1 || texts[i].size() >= kLongText; };
  size_t i = 0;
  const auto close = [&] {
    if (i < specials.size()) ids.push_back(specials[i]);
    ++i;
  };
  while (i < texts.size()) {
    size_t end = i;
    while (end < texts.size() && !is_long(end)) ++end;
    if (end == i) {
      EncodeParallel(tokenizer, texts[i], where, ids);
      close();
      continue;
    }
    for (const std::vector<int32_t>& some : EncodeBatch(tokenizer, texts.subspan(i, end - i))) {
      ids.insert(ids.end(), some.begin(), some.end());
      close();
    }
  }
}

void RequireNoDisallowed(const SpecialFinder& specials, ByteInput& input) {
  std::string window;
  TextPosition position;
  while (input.Read(window, kWindow) > 0) {
    CheckSpecials(specials, window, input.name(), position);
    const size_t done = window.size() - specials.PartialSuffix(window);
    position.Advance(std::string_view(window).substr(0, done));
    window.erase(0, done);
  }
}

// `held` was read already.
void EncodeStream(const Tokenizer& tokenizer, ByteInput& input, const SpecialRule& rule,
                  std::string held, size_t piece, const OnEncoded& on_encoded) {
  StreamingEncoder encoder(tokenizer, input.name(), rule);
  std::vector<int32_t> ids;
  do {
    encoder.Add(held, ids);
    on_encoded(held, ids);
    ids.clear();
    held.clear();
  } while (input.Read(held, piece) > 0);
  encoder.Finish(ids);
  on_encoded({}, ids);
}

void EncodeChunks(const Tokenizer& tokenizer, const SpecialFinder& specials, ByteInput& input,
                  std::string held, bool at_end, const OnEncoded& on_encoded) {
  std::vector<int32_t> ids;
  for (;;) {
    const size_t done = EncodeChunk(tokenizer, specials, held, at_end, input.name(), ids);
    on_encoded(std::string_view(held).substr(0, done), ids);
    if (at_end) return;
    ids.clear();
    held.erase(0, done);
    at_end = input.Read(held, std::max(kChunk, held.size())) == 0;
  }
}

}  // namespace

void CheckSpecials(const SpecialFinder& specials, std::string_view text, std::string_view where,
                   TextPosition position) {
  const SpecialFinder::Match match = specials.NextDisallowed(text, 0);
  if (match.token == nullptr) return;
  const Error error = SpecialNotAllowed(*match.token, text, match.begin, position, where);
  throw Error(error.kind(), error.what(), error.cause(),
              "--special allow encodes it as that token, --special ordinary as text");
}

size_t EncodeChunk(const Tokenizer& tokenizer, const SpecialFinder& specials, std::string_view text,
                   bool at_end, std::string_view where, std::vector<int32_t>& ids) {
  if (tokenizer.whole_texts()) {
    if (!at_end) return 0;
    const std::vector<int32_t> all = tokenizer.Encode(text, where, specials.rule());
    ids.insert(ids.end(), all.begin(), all.end());
    return text.size();
  }
  std::vector<std::string_view> texts;
  std::vector<int32_t> between;
  size_t at = 0;
  for (;;) {
    const SpecialFinder::Match match = specials.Next(text, at);
    if (match.token == nullptr) break;
    texts.push_back(text.substr(at, match.begin - at));
    between.push_back(match.token->id);
    at = match.end();
  }
  size_t end = text.size();
  if (!at_end) {
    end -= specials.PartialSuffix(text.substr(at));
    end = LateCut(tokenizer, text.substr(0, end), at);
  }
  texts.push_back(text.substr(at, end - at));
  EncodeBetweenSpecials(tokenizer, texts, between, where, ids);
  return end;
}

void EncodeInput(const Tokenizer& tokenizer, ByteInput& input, const SpecialRule& rule,
                 const OnEncoded& on_encoded) {
  const SpecialFinder specials(tokenizer.special_tokens(), rule);
  const OnEncoded on_known = [&](std::string_view text, std::span<const int32_t> ids) {
    tokenizer.RequireKnown(ids, input.name());
    on_encoded(text, ids);
  };
  // The beginning of a pipe is held back while it is checked for special tokens.
  const bool careful = rule.disallow_all && !specials.empty();
  std::string held;
  bool at_end = false;
  if (input.again() || careful) {
    while (!at_end && held.size() < kChunk) at_end = input.Read(held, kChunk - held.size()) == 0;
    if (careful) CheckSpecials(specials, held, input.name());
  }
  // If a text can hold characters without a token, the error names the place: chunks do not know
  // it.
  const bool any_text = tokenizer.kind() != "char";
  if (at_end || (input.again() && any_text)) {
    if (!at_end && careful) {
      input.Rewind();
      RequireNoDisallowed(specials, input);
      input.Rewind();
      held.clear();
      input.Read(held, kChunk);
    }
    EncodeChunks(tokenizer, specials, input, std::move(held), at_end, on_known);
  } else {
    EncodeStream(tokenizer, input, rule, std::move(held), input.again() ? kChunk : kPipePiece,
                 on_known);
  }
}

}  // namespace folio
