#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Encodes a text that comes in pieces cut anywhere, with the ids of the whole text. Keeps only what
// is not decided yet: in text with spaces a word or so; of tokenizers that encode texts as a whole
// all of it. Linear in the text, however it is cut. The tokenizer must outlive it.
class StreamingEncoder {
 public:
  // `where` names the text in errors.
  explicit StreamingEncoder(const Tokenizer& tokenizer, std::string where = "text",
                            const SpecialRule& rule = SpecialRule::Ordinary());

  // Appends the ids that are certain now; of a long word some only when it has doubled. Throws as
  // Tokenizer::Encode, but a disallowed special token where it is met. Not to be used after that.
  void Add(std::string_view piece, std::vector<int32_t>& ids);
  // The rest; the encoder can then begin another text.
  void Finish(std::vector<int32_t>& ids);

  // Bytes held back.
  size_t held() const { return held_.size() - begin_; }

 private:
  // No special token begins before held_[limit] and ends behind held_.
  void CheckDisallowed(size_t limit);
  // Encodes the special tokens that are certain, and what is before them. Returns the place up to
  // which held_ then is ordinary text for certain.
  size_t EncodeSpecials(size_t limit, std::vector<int32_t>& ids);
  // Encodes what is decided of the ordinary text up to held_[end], to be followed by more.
  void EncodeDecided(size_t end, std::vector<int32_t>& ids);
  void EncodeAll(size_t end, std::vector<int32_t>& ids);
  bool MayDecideMore(std::string_view rest, size_t complete) const;
  // Drops held_ up to `end`, of which the ids are out.
  void Consume(size_t end);
  void Compact();

  const Tokenizer& tokenizer_;
  std::string where_;
  SpecialFinder specials_;
  std::string held_;
  TextPosition position_;  // of held_[begin_]
  // Places in held_. What is before begin_ is done.
  size_t begin_ = 0;
  size_t checked_ = 0;   // no disallowed special token begins before
  size_t searched_ = 0;  // no allowed one begins before
  size_t scanned_ = 0;   // FindCut has seen what is before
  size_t left_ = 0;      // bytes that the last EncodeDecided left
};

// Turns tokens into text as they come, and never gives out part of a character: the beginning of
// one is held back until the tokens that complete it. Bytes that belong to no character become
// U+FFFD, one for each maximal ill-formed subpart, so that the output is always UTF-8 and, put
// together, the same as ReplaceInvalidUtf8 of all the bytes. The tokenizer must outlive it.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Returns what can be shown now that `id`, or tokens of these bytes, have come; may be empty.
  std::string Add(int32_t id) { return Add(tokenizer_.TokenBytes(id)); }
  std::string Add(std::string_view bytes);
  // Returns what was held back; the decoder can then begin another text.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

}  // namespace folio
