#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Encodes a text that comes in pieces, cut at any byte, with the ids of the whole text. Keeps only
// what is not decided yet: for text with spaces about a word; for tokenizers that encode texts as a
// whole all of it. Linear in the text, however it is divided. The tokenizer must outlive it.
class StreamingEncoder {
 public:
  // `where` names the text in errors.
  explicit StreamingEncoder(const Tokenizer& tokenizer, std::string where = "text",
                            const SpecialRule& rule = SpecialRule::Ordinary());

  // Appends the ids that are certain now; for a long word some only after it has doubled. Throws
  // like Tokenizer::Encode, but a disallowed special token when it is reached. Must not be used
  // after an exception.
  void Add(std::string_view piece, std::vector<int32_t>& ids);
  // Appends the remaining ids; the encoder can then begin another text.
  void Finish(std::vector<int32_t>& ids);

  // Bytes that are not encoded yet.
  size_t held() const { return held_.size() - begin_; }

 private:
  // Checks that no special token begins before held_[limit] and ends behind held_.
  void CheckDisallowed(size_t limit);
  // Encodes the special tokens that are certain, and the text before them. Returns the place up to
  // which held_ is then certainly ordinary text.
  size_t EncodeSpecials(size_t limit, std::vector<int32_t>& ids);
  // Encodes the decided part of the ordinary text up to held_[end], which more text follows.
  void EncodeDecided(size_t end, std::vector<int32_t>& ids);
  void EncodeAll(size_t end, std::vector<int32_t>& ids);
  bool MayDecideMore(std::string_view rest, size_t complete) const;
  // Drops held_ up to `end`, whose ids are written.
  void Consume(size_t end);
  void Compact();

  const Tokenizer& tokenizer_;
  std::string where_;
  SpecialFinder specials_;
  std::string held_;
  TextPosition position_;  // of held_[begin_]
  // Offsets in held_. Everything before begin_ is done.
  size_t begin_ = 0;
  size_t checked_ = 0;   // no disallowed special token begins before
  size_t searched_ = 0;  // no allowed one begins before
  size_t scanned_ = 0;   // FindCut has examined the text before
  size_t left_ = 0;      // bytes that the last EncodeDecided left over
};

// Turns tokens into text one by one, and never returns a part of a character: its beginning is held
// back until tokens complete it. Bytes that belong to no character become U+FFFD, one for each
// maximal ill-formed subpart, so that the output is always UTF-8 and equals ReplaceInvalidUtf8 of
// all the bytes. The tokenizer must outlive it.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Returns the text that can be shown after adding `id`, or a token's bytes; may be empty.
  std::string Add(int32_t id) { return Add(tokenizer_.TokenBytes(id)); }
  std::string Add(std::string_view bytes);
  // Returns the text that was held back; the decoder can then begin another text.
  std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
};

}  // namespace folio
