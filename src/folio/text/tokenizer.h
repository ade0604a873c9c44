#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/text/special_tokens.h"

namespace folio {

// The chat templates (text/chat_template.h) that came with a tokenizer, not parsed yet.
struct ChatSource {
  std::string text = {};                       // "" if there is none
  std::string for_tools = {};                  // the template for conversations with tools, or ""
  std::string where = {};                      // where it was read, for errors
  std::string bos_token = {}, eos_token = {};  // texts of these tokens

  bool operator==(const ChatSource&) const = default;
};

// Returns true if `ids` begin with `beginning`, which may be empty.
bool BeginsWith(std::span<const int32_t> ids, std::span<const int32_t> beginning);

// Text to token ids and back. Ids are 0 .. vocab_size() - 1. Immutable: any number of threads may
// share one. Nothing is added to a text: no special tokens, and no leading space except by
// tokenizers of other programs that do so (whole_texts).
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "char", "bytes", "bpe"
  virtual int64_t vocab_size() const = 0;

  // Appends the ids of `text` up to the first thing that has no token; returns the number of
  // encoded bytes, text.size() if it is all of them. Text that looks like a special token is
  // ordinary text. Tokens that files add to a vocabulary without calling them special are part of
  // ordinary text.
  virtual size_t EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const = 0;

  // Like EncodePrefix, for the beginning of a longer text: stops at a place up to which the ids do
  // not depend on what follows, and from which the rest may be encoded separately. Returns that
  // place. It is not before any place that FindCut finds in `text` without an incomplete character
  // at its end, except when a character before it has no token.
  virtual size_t EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const = 0;

  // The first place in [at, text.size()) where the text can be divided: the joined ids of both
  // parts are those of the whole, whatever comes before and behind `text` if it begins and ends at
  // characters. `at` may be inside a character. text.size() if there is none.
  virtual size_t FindCut(std::string_view text, size_t at) const = 0;

  // True if a text must be encoded as a whole with its special tokens: by Encode, or by
  // EncodePrefix if it has no special tokens. Such tokenizers put a space before texts, or their
  // special tokens absorb the white space around them. FindCut finds nothing then.
  virtual bool whole_texts() const { return false; }

  // Ids before and behind a text, according to the tokenizer's file: usually the beginning of text.
  // Models expect those before it (WithBeginning); no other method adds any.
  virtual std::span<const int32_t> before() const { return {}; }
  virtual std::span<const int32_t> behind() const { return {}; }
  // Returns the ids with before() in front, unless they already begin with it.
  std::vector<int32_t> WithBeginning(std::vector<int32_t> ids) const;

  // True if encoding adds one space at the beginning, which DecodeText removes.
  virtual bool strips_space() const { return false; }

  // The bytes of one token; valid as long as the tokenizer. Throws a kInput Error if there is no
  // such id.
  virtual std::string_view TokenBytes(int32_t id) const = 0;

  // The token that separates texts and never results from encoding one.
  virtual std::optional<int32_t> end_of_text() const = 0;

  // Distinct, none of them empty. end_of_text() is among them.
  virtual std::span<const SpecialToken> special_tokens() const { return {}; }

  // The same tokenizer with more special tokens, whose ids follow the existing ones. REQUIRES: each
  // has a text, which no token has yet.
  virtual std::unique_ptr<Tokenizer> WithSpecials(std::span<const std::string> texts) const = 0;

  // The contents of tokenizer.json: equal for equal tokenizers; their hash is the identity.
  virtual std::string FileContents() const = 0;

  // Ids of the whole text, with special tokens as `rule` says: the leftmost, among several at one
  // place the longest; the text on either side is encoded separately. Throws a kInput Error for a
  // disallowed special token before encoding anything, and for text without a token, with the
  // character and its line and column in `where` ("prompt", a file).
  std::vector<int32_t> Encode(std::string_view text, std::string_view where = "text",
                              const SpecialRule& rule = SpecialRule::Raise()) const;
  // Returns true if an added token may be used where its text is at [begin, end) of a text; the
  // range is wider if that is not known to the byte.
  using TokenGuard =
      std::function<bool(std::string_view token, bool special, size_t begin, size_t end)>;
  // Appends the ids of the whole text like Encode with all special tokens allowed, except that a
  // token which the guard refuses is encoded as ordinary text.
  virtual void EncodeGuarded(std::string_view text, const TokenGuard& guard, std::string_view where,
                             std::vector<int32_t>& ids) const;
  // Encodes special tokens as ordinary text.
  std::vector<int32_t> EncodeOrdinary(std::string_view text, std::string_view where = "text") const;
  // Returns the number of ids of EncodeOrdinary.
  int64_t Count(std::string_view text, std::string_view where = "text") const;

  // The bytes of the tokens, which need not be UTF-8. Throws like TokenBytes.
  virtual std::string Decode(std::span<const int32_t> ids) const;
  // The text of the tokens, which is UTF-8: U+FFFD for each maximal ill-formed subpart.
  std::string DecodeText(std::span<const int32_t> ids) const;

  // The number of ids, from 0 on, that the tokenizer's model has: all by default, fewer for a model
  // whose embeddings have no rows for tokens that were added later. Encode and EncodeOrdinary throw
  // a kInput Error that names the token if a text would use another id; callers of the other ways
  // to encode call RequireKnown.
  int64_t known_tokens() const { return std::min(known_tokens_, vocab_size()); }
  void set_known_tokens(int64_t count) { known_tokens_ = count; }
  // Throws that Error if one of the ids is unknown.
  void RequireKnown(std::span<const int32_t> ids, std::string_view where) const;

  // HashHex of FileContents().
  std::string hash() const;

  // How the model with these tokens was trained to see conversations; Save writes it too.
  const ChatSource& chat_source() const { return chat_source_; }
  void set_chat_source(ChatSource source) { chat_source_ = std::move(source); }

  // Writes tokenizer.json and tokenizer_config.json into the existing directory `dir`: a tokenizer
  // that Hugging Face's libraries open with the same ids. A byte-level BPE also writes vocab.json
  // and merges.txt.
  virtual void Save(const std::string& dir) const;

 protected:
  void CheckId(int32_t id) const;
  // Encode without the check for disallowed tokens.
  virtual void EncodeAllowed(std::string_view text, const SpecialRule& rule,
                             std::vector<int32_t>& ids, std::string_view where) const;

 private:
  ChatSource chat_source_;
  int64_t known_tokens_ = std::numeric_limits<int64_t>::max();
};

// The text of the tokens and the place where each begins.
struct DecodedText {
  std::string text;           // UTF-8, as DecodeText
  std::vector<size_t> bytes;  // ids[i] begins at bytes[i] in Decode(ids)
  // In `text`, in characters; a token that begins inside a character has that character's place.
  std::vector<size_t> chars;
};
DecodedText DecodeWithOffsets(const Tokenizer& tokenizer, std::span<const int32_t> ids);

// The kInput Error for byte `at` of `text`, which the tokenizer cannot encode; `position` is where
// `text` begins in `where`.
Error CannotEncode(const Tokenizer& tokenizer, std::string_view text, size_t at,
                   TextPosition position, std::string_view where);

// Tokenizer::WithSpecials for texts from a user. Throws a kUsage Error if one is empty, not UTF-8,
// or a token already.
std::unique_ptr<Tokenizer> WithSpecialTokens(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts);

}  // namespace folio
