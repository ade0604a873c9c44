#include "folio/text/streaming.h"

#include <algorithm>
#include <utility>

#include "folio/base/utf8.h"

namespace folio {
namespace {

constexpr size_t kShort = 64;  // bytes that may be scanned again with each piece

}  // namespace

StreamingEncoder::StreamingEncoder(const Tokenizer& tokenizer, std::string where,
                                   const SpecialRule& rule)
    : tokenizer_(tokenizer),
      where_(std::move(where)),
      specials_(tokenizer.special_tokens(), rule) {}

void StreamingEncoder::Add(std::string_view piece, std::vector<int32_t>& ids) {
  held_.append(piece);
  const std::string_view rest = std::string_view(held_).substr(begin_);
  const size_t limit = held_.size() - specials_.PartialSuffix(rest);
  CheckDisallowed(limit);
  if (tokenizer_.whole_texts()) return;
  EncodeDecided(EncodeSpecials(limit, ids), ids);
  Compact();
}

void StreamingEncoder::Finish(std::vector<int32_t>& ids) {
  if (tokenizer_.whole_texts()) {
    const std::vector<int32_t> all = tokenizer_.Encode(held_, where_, specials_.rule());
    ids.insert(ids.end(), all.begin(), all.end());
  } else {
    EncodeAll(EncodeSpecials(held_.size(), ids), ids);
  }
  held_.clear();
  position_ = {};
  begin_ = checked_ = searched_ = scanned_ = left_ = 0;
}

void StreamingEncoder::CheckDisallowed(size_t limit) {
  const SpecialFinder::Match match = specials_.NextDisallowed(held_, checked_);
  if (match.token != nullptr) {
    throw SpecialNotAllowed(*match.token, std::string_view(held_).substr(begin_),
                            match.begin - begin_, position_, where_);
  }
  checked_ = limit;
}

size_t StreamingEncoder::EncodeSpecials(size_t limit, std::vector<int32_t>& ids) {
  for (;;) {
    const SpecialFinder::Match match = specials_.Next(held_, searched_);
    if (match.token == nullptr) {
      searched_ = std::max(searched_, limit);
      return limit;
    }
    searched_ = match.begin;
    // A token that begins before or inside of the match may be longer.
    if (match.end() > limit) return std::min(limit, match.begin);
    EncodeAll(match.begin, ids);
    ids.push_back(match.token->id);
    Consume(match.end());
    searched_ = begin_;
    left_ = 0;
  }
}

void StreamingEncoder::EncodeAll(size_t end, std::vector<int32_t>& ids) {
  const std::string_view text = std::string_view(held_).substr(begin_, end - begin_);
  const size_t done = tokenizer_.EncodePrefix(text, ids);
  if (done < text.size()) throw CannotEncode(tokenizer_, text, done, position_, where_);
  Consume(end);
}

void StreamingEncoder::EncodeDecided(size_t end, std::vector<int32_t>& ids) {
  const std::string_view rest = std::string_view(held_).substr(begin_, end - begin_);
  const size_t complete = CompleteUtf8Prefix(rest);
  const bool try_now = MayDecideMore(rest, complete);
  scanned_ = begin_ + complete;
  if (!try_now) return;
  const size_t done = tokenizer_.EncodeDecided(rest, ids);
  if (done < complete) {
    // Not decided yet, or a character without a token.
    const size_t before = ids.size();
    const std::string_view character = rest.substr(done, DecodeUtf8(rest, done).length);
    if (tokenizer_.EncodePrefix(character, ids) == 0) {
      throw CannotEncode(tokenizer_, rest, done, position_, where_);
    }
    ids.resize(before);
  }
  left_ = rest.size() - done;
  Consume(begin_ + done);
}

// The remaining text is scanned again only after as much new text, so that a word without end costs
// at most twice its length, or when the new text has a cut, before which nothing remains then.
bool StreamingEncoder::MayDecideMore(std::string_view rest, size_t complete) const {
  if (rest.empty()) return false;
  if (rest.size() <= kShort || rest.size() / 2 >= left_) return true;
  const size_t from = std::max(scanned_, begin_ + 1) - begin_;
  return tokenizer_.FindCut(rest.substr(0, complete), from) < complete;
}

void StreamingEncoder::Consume(size_t end) {
  position_.Advance(std::string_view(held_).substr(begin_, end - begin_));
  begin_ = end;
}

// Only if at least half is done: each byte is then moved at most once for each byte dropped.
void StreamingEncoder::Compact() {
  if (begin_ < held_.size() - begin_) return;
  held_.erase(0, begin_);
  for (size_t* place : {&checked_, &searched_, &scanned_}) *place -= std::min(*place, begin_);
  begin_ = 0;
}

std::string StreamingDecoder::Add(std::string_view bytes) {
  held_ += bytes;
  const size_t complete = CompleteUtf8Prefix(held_);
  std::string text = ReplaceInvalidUtf8(std::string_view(held_).substr(0, complete));
  held_.erase(0, complete);
  return text;
}

std::string StreamingDecoder::Flush() {
  return ReplaceInvalidUtf8(std::exchange(held_, {}));
}

}  // namespace folio
