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

namespace folio {

// A token that stands for itself and is never made of others: <|endoftext|>.
struct SpecialToken {
  std::string text;
  int32_t id = 0;

  bool operator==(const SpecialToken&) const = default;
};

// A rule says what is done where the text contains a special token's text; the semantics are
// tiktoken's.
struct SpecialRule {
  bool allow_all = false;
  std::vector<std::string> allow = {};  // these become their token
  // Special tokens that are not allowed and are disallowed make the text an error; the others are
  // text.
  bool disallow_all = true;
  std::vector<std::string> disallow = {};

  static SpecialRule Raise() { return {}; }
  static SpecialRule Allow() { return {.allow_all = true}; }
  static SpecialRule Ordinary() { return {.disallow_all = false}; }
  // "raise", "allow" or "ordinary".
  static SpecialRule Named(std::string_view name) {
    if (name == "allow") return Allow();
    return name == "ordinary" ? Ordinary() : Raise();
  }
};

// The chat templates (text/chat_template.h) that came with a tokenizer, not looked at yet.
struct ChatSource {
  std::string text = {};                       // "" if there is none
  std::string for_tools = {};                  // the one for conversations with tools, or ""
  std::string where = {};                      // it was read, for errors
  std::string bos_token = {}, eos_token = {};  // texts of the tokens that it calls so

  bool operator==(const ChatSource&) const = default;
};

// Returns whether `ids` begin with `beginning`, as all do with an empty one.
bool BeginsWith(std::span<const int32_t> ids, std::span<const int32_t> beginning);

// Text to token ids and back. Ids are 0 .. vocab_size() - 1. Immutable once made: any number of
// threads may use one. Nothing is added to a text: no special tokens, and no leading space but by
// tokenizers of other programs that do (whole_texts).
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view kind() const = 0;  // "char", "bytes", "bpe"
  virtual int64_t vocab_size() const = 0;

  // Appends the ids of `text` up to the first thing it has no token for; returns how many bytes
  // that was, text.size() if all of it. What looks like a special token is ordinary text. Tokens
  // that files add to a vocabulary and do not call special are part of ordinary text.
  virtual size_t EncodePrefix(std::string_view text, std::vector<int32_t>& ids) const = 0;

  // Encodes as EncodePrefix does, for the beginning of a longer text: stops at a place up to which
  // the ids are the same whatever follows, and at which the rest may be encoded by itself. Returns
  // that place. That is no earlier than any place that FindCut finds in `text` without an
  // incomplete character at its end, but for a character before it that there is no token for.
  virtual size_t EncodeDecided(std::string_view text, std::vector<int32_t>& ids) const = 0;

  // The first place in [at, text.size()) where the text can be cut: the ids of both parts, one
  // after the other, are those of the whole, whatever stands before and behind `text` if it begins
  // and ends at characters. `at` may be inside a character. text.size() if there is none.
  virtual size_t FindCut(std::string_view text, size_t at) const = 0;

  // True if a text is only encoded right as a whole, with its special tokens: by Encode, or by
  // EncodePrefix where no special token is looked for. Such tokenizers put a space before texts, or
  // their special tokens take white space around them. FindCut finds nothing then.
  virtual bool whole_texts() const { return false; }

  // Ids that stand before and behind a text, as the tokenizer's file says: the beginning of text,
  // mostly. Models are to see those before it (WithBeginning); no other method adds any.
  virtual std::span<const int32_t> before() const { return {}; }
  virtual std::span<const int32_t> behind() const { return {}; }
  // Returns the ids with before() in front, unless they begin with that already.
  std::vector<int32_t> WithBeginning(std::vector<int32_t> ids) const;

  // True if one space at the beginning of decoded text is not part of it, as encoding puts one
  // there. DecodeText leaves it out.
  virtual bool strips_space() const { return false; }

  // The bytes of one token; valid as long as the tokenizer. Throws a kInput Error if there is no
  // such id.
  virtual std::string_view TokenBytes(int32_t id) const = 0;

  // The token that stands between texts and never comes from encoding one.
  virtual std::optional<int32_t> end_of_text() const = 0;

  // Distinct, none of them empty. end_of_text() is among them.
  virtual std::span<const SpecialToken> special_tokens() const { return {}; }

  // The same with more special tokens, whose ids follow its own. REQUIRES: each has a text, which
  // is no token's yet.
  virtual std::unique_ptr<Tokenizer> WithSpecials(std::span<const std::string> texts) const = 0;

  // The contents of tokenizer.json: the same for the same tokenizer, so that its hash is its
  // identity.
  virtual std::string FileContents() const = 0;

  // Ids of the whole text, in which `rule` says what becomes of special tokens: the leftmost, of
  // several that begin there the longest; the text on either side is encoded by itself. A special
  // token that is disallowed is a kInput Error, raised before anything is encoded. What the
  // tokenizer has no token for is a kInput Error that names the character and its line and column
  // in `where` ("prompt", a file).
  std::vector<int32_t> Encode(std::string_view text, std::string_view where = "text",
                              const SpecialRule& rule = SpecialRule::Raise()) const;
  // Decides whether a token of a file's list may be that where its text stands in [begin, end) of a
  // text; the range is wider where that is not known to the byte.
  using TokenGuard =
      std::function<bool(std::string_view token, bool special, size_t begin, size_t end)>;
  // Appends the ids of the whole text as Encode with all special tokens allowed, but that no token
  // is made whole where the guard says no: the text of such is ordinary.
  virtual void EncodeGuarded(std::string_view text, const TokenGuard& guard, std::string_view where,
                             std::vector<int32_t>& ids) const;
  // Special tokens are ordinary text.
  std::vector<int32_t> EncodeOrdinary(std::string_view text, std::string_view where = "text") const;
  // Returns how many ids EncodeOrdinary returns.
  int64_t Count(std::string_view text, std::string_view where = "text") const;

  // The bytes of the tokens, which need not be UTF-8. Throws like TokenBytes.
  virtual std::string Decode(std::span<const int32_t> ids) const;
  // The text of them, which is UTF-8: U+FFFD for each maximal ill-formed subpart.
  std::string DecodeText(std::span<const int32_t> ids) const;

  // How many ids, from 0 on, the model that the tokenizer is of has: all, unless somebody said
  // fewer, as of a model whose embeddings have no rows for tokens that were added later. Encode and
  // EncodeOrdinary throw a kInput Error that names the token where a text becomes another id; who
  // calls the other ways to encode asks RequireKnown.
  int64_t known_tokens() const { return std::min(known_tokens_, vocab_size()); }
  void set_known_tokens(int64_t count) { known_tokens_ = count; }
  // Throws that Error if one of the ids is such.
  void RequireKnown(std::span<const int32_t> ids, std::string_view where) const;

  // HashHex of FileContents().
  std::string hash() const;

  // How the model with these tokens was taught to see conversations; Save writes it too.
  const ChatSource& chat_source() const { return chat_source_; }
  void set_chat_source(ChatSource source) { chat_source_ = std::move(source); }

  // Writes tokenizer.json and tokenizer_config.json into the existing directory `dir`: a tokenizer
  // that Hugging Face's libraries open with the same ids. A byte-level BPE also writes vocab.json
  // and merges.txt.
  virtual void Save(const std::string& dir) const;

 protected:
  void CheckId(int32_t id) const;
  // Encode without a look at what is disallowed.
  virtual void EncodeAllowed(std::string_view text, const SpecialRule& rule,
                             std::vector<int32_t>& ids, std::string_view where) const;

 private:
  ChatSource chat_source_;
  int64_t known_tokens_ = std::numeric_limits<int64_t>::max();
};

// The text of the tokens and where each begins in it.
struct DecodedText {
  std::string text;           // UTF-8, as DecodeText
  std::vector<size_t> bytes;  // of ids[i]: offset in Decode(ids)
  // And in `text`, in characters; a token that begins inside a character has that character's.
  std::vector<size_t> chars;
};
DecodedText DecodeWithOffsets(const Tokenizer& tokenizer, std::span<const int32_t> ids);

// The kInput Error for the thing at byte `at` of `text`, which the tokenizer cannot encode;
// `position` is where `text` begins in `where`.
Error CannotEncode(const Tokenizer& tokenizer, std::string_view text, size_t at,
                   TextPosition position, std::string_view where);

// Reads a tokenizer from a directory (tokenizer.json, or vocab.json and merges.txt, or encoder.json
// and vocab.bpe, or nanoGPT's meta.pkl) or from one of these files, a GGUF file (of any size: its
// header alone is read) or a .tiktoken file named for its encoding. What is in a file and not
// supported is a kInput Error that names it.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& dir_or_file);

}  // namespace folio
