#include "folio/text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer_json_writer.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

[[noreturn]] void Refuse(const std::string& path, const std::string& what, std::string cause) {
  throw InputError(fmt::format("{}: {}", path, what), std::move(cause),
                   "supported are byte-level BPE tokenizers like GPT-2's: ByteLevel with a known "
                   "split pattern (folio explain tokenize)");
}

// The member, or null.
const Json& Member(const Json& object, std::string_view key) {
  static const Json null;
  const Json* found = object.find(key);
  return found == nullptr ? null : *found;
}

bool IsTrue(const Json& object, std::string_view key) {
  return Member(object, key) == Json(true);
}

// The member, empty if it is missing or no text.
std::string TextOf(const Json& section, std::string_view key) {
  const Json& text = Member(section, key);
  return text.is_string() ? text.text() : std::string();
}

std::string TypeOf(const Json& section) {
  return TextOf(section, "type");
}

// Returns true if a post processor leaves the ids unchanged: there is none, it only moves offsets
// (ByteLevel), or it is a template of a single text alone, which transformers writes if there was
// none.
bool AddsNothing(const Json& post_processor) {
  const std::string type = TypeOf(post_processor);
  if (type != "TemplateProcessing") return IsDefault(post_processor) || type == "ByteLevel";
  const Json& single = Member(post_processor, "single");
  return single.is_array() && single.size() == 1 &&
         Member(Member(single[0], "Sequence"), "id") == Json("A");
}

// tokenizer.json without its two long members, which are read in place.
struct TokenizerJsonParts {
  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  // The file with an empty vocabulary and no merges in its model.
  Json rest;
  // The places of the object "vocab" and the array "merges" in the file, if its model has them.
  size_t vocab = kNowhere;
  size_t merges = kNowhere;
  bool any_merges = false;
};

// Throws a kInput Error if `contents` is no JSON object; does not examine all of it.
TokenizerJsonParts SplitTokenizerJson(std::string_view contents, const std::string& path) {
  TokenizerJsonParts parts;
  parts.rest = Json::object();
  JsonReader reader(contents, TokenizerSource(path));
  const auto skip = [&] {
    const size_t begin = reader.at();
    reader.SkipValue();
    return begin;
  };
  reader.Object([&](const std::string& key) {
    Json& value = parts.rest.Add(key, nullptr);
    if (key != "model" || reader.Peek() != '{') {
      value = reader.Value();
      return;
    }
    value = Json::object();
    reader.Object([&](const std::string& member) {
      const char first = reader.Peek();
      if (member == "vocab" && first == '{') {
        parts.vocab = skip();
        value.Add(member, Json::object());
      } else if (member == "merges" && first == '[') {
        parts.merges = skip();
        parts.any_merges = JsonReader(contents, {}, parts.merges + 1).Peek() != ']';
        value.Add(member, Json::array());
      } else {
        value.Add(member, reader.Value());
      }
    });
  });
  reader.ExpectEnd();
  return parts;
}

SplitPattern ReadSplit(const Json& split, const std::string& path) {
  const Json& regex = Member(Member(split, "pattern"), "Regex");
  if (!regex.is_string()) {
    Refuse(path, "this \"pre_tokenizer\" is not supported", "its Split has no regular expression");
  }
  const std::string behavior = TextOf(split, "behavior");
  // These patterns match all text, so the two ways to keep the matches are the same.
  if (behavior != (IsTrue(split, "invert") ? "Removed" : "Isolated")) {
    Refuse(path, "this \"pre_tokenizer\" is not supported",
           fmt::format("its Split has the behavior '{}'; expected 'Isolated'", behavior));
  }
  if (const auto pattern = FindSplitRegex(regex.text())) return *pattern;
  Refuse(path, "this split pattern is not supported", fmt::format("found {}", regex.text()));
}

// The steps of a section, one or a Sequence of several, and their types separated by commas.
struct Steps {
  std::vector<const Json*> all;
  std::string types;

  const Json& operator[](size_t i) const { return *all[i]; }
};

Steps StepsOf(const Json& section, std::string_view list) {
  Steps steps;
  if (IsDefault(section)) return steps;
  if (TypeOf(section) == "Sequence") {
    const Json& listed = Member(section, list);
    for (size_t i = 0; listed.is_array() && i < listed.size(); ++i) {
      steps.all.push_back(&listed[i]);
    }
  } else {
    steps.all.push_back(&section);
  }
  for (const Json* step : steps.all)
    steps.types += (steps.types.empty() ? "" : ", ") + TypeOf(*step);
  return steps;
}

// Requires these members of a step: missing ones must be null, false or empty.
void Require(const Json& step, std::initializer_list<std::pair<std::string_view, Json>> members,
             const std::string& path) {
  for (const auto& [key, expected] : members) {
    const Json& found = Member(step, key);
    if (found == expected || (IsDefault(found) && IsDefault(expected))) continue;
    Refuse(path, fmt::format("this {} is not supported", TypeOf(step)),
           fmt::format("its \"{}\" is {}, expected {}", key, found.dump(), expected.dump()));
  }
}

const Json& PatternText(const Json& step) {
  return Member(Member(step, "pattern"), "String");
}

void ReadNormalizer(const Json& file, const std::string& path, BpeVocab& vocab) {
  const Steps steps = StepsOf(Member(file, "normalizer"), "normalizers");
  const bool spaced = !vocab.byte_tokens.empty();
  for (size_t i = 0; i < steps.all.size(); ++i) {
    const Json& step = steps[i];
    const std::string type = TypeOf(step);
    if (type == "NFC" && i == 0) {
      vocab.nfc = true;
    } else if (type == "Prepend" && spaced && TextOf(step, "prepend") == kSpaceMark &&
               vocab.space_prefix == SpacePrefix::kNever) {
      vocab.space_prefix = SpacePrefix::kEach;
    } else if (type != "Replace" || !spaced || PatternText(step) != Json(" ") ||
               TextOf(step, "content") != kSpaceMark || i + 1 < steps.all.size()) {
      Refuse(path, fmt::format("normalizer type '{}' is not supported", type),
             spaced ? "expected NFC, then Prepend of U+2581, then Replace of a space by it"
                    : "expected NFC or none: others would change the ids");
    }
  }
}

// For a vocabulary of characters: a Metaspace, a Split at spaces that replaces all, or nothing.
void ReadSpaces(const Json& file, const std::string& path, BpeVocab& vocab) {
  const Steps steps = StepsOf(Member(file, "pre_tokenizer"), "pretokenizers");
  const Steps before = StepsOf(Member(file, "normalizer"), "normalizers");
  const bool replaced = !before.all.empty() && TypeOf(*before.all.back()) == "Replace";
  vocab.pattern = SplitPattern::kWhole;
  if (steps.types == "Split" && replaced) {
    if (PatternText(steps[0]) == Json(" ")) return;
    Refuse(path, "this Split is not supported", "expected a Split at spaces");
  }
  if (steps.types.empty() && replaced) return;
  if (steps.types != "Metaspace") {
    Refuse(path, fmt::format("pre_tokenizer type '{}' is not supported", steps.types),
           "spaces must become U+2581: expected Metaspace, or a Replace before it");
  }
  const Json& step = steps[0];
  Require(step, {{"replacement", Json(std::string(kSpaceMark))}}, path);
  // Older writers wrote "add_prefix_space", and always split.
  const Json& scheme = Member(step, "prepend_scheme");
  const bool never = scheme == Json("never") || Member(step, "add_prefix_space") == Json(false);
  if (!never && vocab.space_prefix != SpacePrefix::kNever) {
    Refuse(path, "this Metaspace is not supported", "the normalizer already adds a space");
  }
  if (scheme == Json("first")) {
    vocab.space_prefix = SpacePrefix::kFirstUnlessThere;
  } else if (!never) {
    vocab.space_prefix = SpacePrefix::kEachUnlessThere;
    if (!scheme.is_null() && scheme != Json("always")) {
      Refuse(path, "this Metaspace is not supported", "its \"prepend_scheme\" is " + scheme.dump());
    }
  }
  if (Member(step, "split") != Json(false)) vocab.pattern = SplitPattern::kSpaces;
}

SplitPattern ReadPreTokenizer(const Json& section, const std::string& path) {
  constexpr char kExpected[] =
      "expected ByteLevel, or a Sequence of Split or Digits and of ByteLevel";
  const Steps steps = StepsOf(section, "pretokenizers");
  if (steps.all.empty()) Refuse(path, "\"pre_tokenizer\" is missing", kExpected);
  const std::string& types = steps.types;
  if (types != "ByteLevel" && types != "Split, ByteLevel" && types != "Digits, ByteLevel") {
    Refuse(path, fmt::format("pre_tokenizer type '{}' is not supported", types), kExpected);
  }
  const Json& byte_level = *steps.all.back();
  const std::string first = TypeOf(steps[0]);
  if (Member(byte_level, "add_prefix_space") != Json(false)) {
    Refuse(path, "this \"pre_tokenizer\" is not supported", "\"add_prefix_space\" must be false");
  }
  const bool splits = Member(byte_level, "use_regex") != Json(false);
  if (splits != (first != "Split")) {
    Refuse(path, "this \"pre_tokenizer\" is not supported",
           splits ? "expected a ByteLevel with \"use_regex\": false after Split"
                  : "a ByteLevel with \"use_regex\": false does not split the text");
  }
  if (first == "Split") return ReadSplit(steps[0], path);
  if (first == "ByteLevel") return SplitPattern::kGpt2;
  Require(steps[0], {{"individual_digits", Json(true)}}, path);
  return SplitPattern::kSmolLm;
}

void ReadDecoder(const Json& file, const std::string& path, BpeVocab& vocab) {
  const Json& section = Member(file, "decoder");
  if (section.is_null()) Refuse(path, "\"decoder\" is missing", "expected ByteLevel");
  const Steps steps = StepsOf(section, "decoders");
  if (vocab.byte_tokens.empty()) {
    if (steps.types == "ByteLevel") return;  // its flags have no effect
    Refuse(path, fmt::format("decoder type '{}' is not supported", steps.types),
           "expected ByteLevel");
  }
  const std::string& types = steps.types;
  if (types != "Replace, ByteFallback, Fuse" && types != "Replace, ByteFallback, Fuse, Strip") {
    Refuse(path, fmt::format("decoder type '{}' is not supported", types),
           "expected Replace, ByteFallback, Fuse and optionally Strip");
  }
  if (PatternText(steps[0]) != Json(std::string(kSpaceMark))) {
    Refuse(path, "this decoder is not supported", "expected a Replace of U+2581");
  }
  Require(steps[0], {{"content", Json(" ")}}, path);
  if (steps.all.size() < 4) return;
  Require(steps[3], {{"content", Json(" ")}, {"start", Json(1)}, {"stop", Json(0)}}, path);
  vocab.strips_space = true;
}

// Reads the template among one or several post processors.
void ReadTemplate(const Json& file, const std::string& path, BpeVocab& vocab) {
  const Steps steps = StepsOf(Member(file, "post_processor"), "processors");
  bool found = false;
  for (const Json* step : steps.all) {
    if (TypeOf(*step) == "ByteLevel") continue;  // moves offsets
    const Json& single = Member(*step, "single");
    if (TypeOf(*step) != "TemplateProcessing" || !single.is_array() || found) {
      Refuse(path, fmt::format("post_processor type '{}' is not supported", TypeOf(*step)),
             "expected ByteLevel and one TemplateProcessing");
    }
    found = true;
    bool text = false;
    for (const Json& item : single) {
      const Json& sequence = Member(item, "Sequence");
      if (!sequence.is_null() && !text && Member(sequence, "id") == Json("A")) {
        text = true;
        continue;
      }
      const std::string name = TextOf(Member(item, "SpecialToken"), "id");
      const Json& ids = Member(Member(Member(*step, "special_tokens"), name), "ids");
      if (name.empty() || !ids.is_array()) {
        Refuse(path, "this 'TemplateProcessing' is not supported",
               fmt::format("expected the text once and special tokens, found {}", item.dump()));
      }
      for (const Json& id : ids) {
        if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocab.tokens.size()) {
          Refuse(path, "this 'TemplateProcessing' is not supported",
                 fmt::format("it names the token {}", id.dump()));
        }
        (text ? vocab.behind : vocab.before).push_back(id.get<int32_t>());
      }
    }
    if (!text) Refuse(path, "this 'TemplateProcessing' is not supported", "it omits the text");
  }
}

void CheckSections(const Json& file, const std::string& path) {
  for (const auto& [key, value] : file.items()) {
    const bool known = key == "version" || key == "added_tokens" || key == "pre_tokenizer" ||
                       key == "model" || key == "normalizer" || key == "post_processor" ||
                       key == "decoder";
    if (!known && !IsDefault(value)) {
      Refuse(path, fmt::format("\"{}\" is not supported", key),
             "expected none: it would change the ids");
    }
  }
}

// Returns the value of "ignore_merges".
bool ReadModel(const Json& model, const std::string& path) {
  for (const auto& [key, value] : model.items()) {
    // ReadUnknown reads the members about unknown tokens.
    if (key == "type" || key == "vocab" || key == "merges" || key == "unk_token" ||
        key == "fuse_unk" || key == "byte_fallback" || IsDefault(value)) {
      continue;
    }
    if (key == "ignore_merges" && value.is_boolean()) continue;
    if (key == "dropout" && value.is_number() && value == 0) continue;
    Refuse(path, fmt::format("\"{}\" is not supported", key),
           fmt::format("the model's \"{}\" is {}", key, value.dump()));
  }
  return IsTrue(model, "ignore_merges");
}

// True if one may begin inside of the other in a text.
bool MayOverlap(std::string_view a, std::string_view b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t length = std::min(a.size() - i, b.size());
    if (a.substr(i, length) == b.substr(0, length)) return true;
  }
  return false;
}

// If nothing changes a text before it is cut, `normalized` tokens only come after the others, which
// makes no difference unless they compete for parts of a text.
void LookForAllAtOnce(std::vector<AddedToken>& tokens) {
  constexpr size_t kMostPairs = 1 << 20;
  std::vector<std::string_view> waiting, others;
  for (const AddedToken& token : tokens) {
    (token.normalized ? waiting : others).push_back(token.text);
  }
  if (others.size() * waiting.size() > kMostPairs) return;
  for (const std::string_view a : waiting) {
    for (const std::string_view b : others) {
      if (MayOverlap(a, b) || MayOverlap(b, a)) return;
    }
  }
  for (AddedToken& token : tokens) token.normalized = false;
}

void ReadAdded(const Json& added, bool normalizes, const std::string& path, VocabBuilder& builder) {
  if (added.is_null()) return;
  if (!added.is_array())
    Refuse(path, "\"added_tokens\" is not an array", "expected the added tokens");
  std::vector<AddedToken> tokens;
  for (const Json& token : added) {
    const Json& content = Member(token, "content");
    const Json& id = Member(token, "id");
    if (!content.is_string() || content.text().empty() || !id.is_number_unsigned() ||
        id.get<uint64_t>() >= kMaxVocabIds) {
      Refuse(path, "this added token is not supported",
             fmt::format("expected \"content\" and an \"id\" below {}, found {}", kMaxVocabIds,
                         token.dump()));
    }
    tokens.push_back({.text = content.text(),
                      .id = id.get<int32_t>(),
                      .special = IsTrue(token, "special"),
                      .left_strip = IsTrue(token, "lstrip"),
                      .right_strip = IsTrue(token, "rstrip"),
                      .single_word = IsTrue(token, "single_word"),
                      .normalized = IsTrue(token, "normalized")});
  }
  if (!normalizes) LookForAllAtOnce(tokens);
  for (AddedToken& token : tokens) builder.AddAdded(std::move(token));
}

// "a b", or ["a", "b"] since tokens may contain spaces.
void AddMerges(JsonReader& reader, VocabBuilder& builder) {
  const auto buffer = std::make_unique_for_overwrite<char[]>(reader.left());
  reader.Expect('[');
  if (reader.Take(']')) return;
  do {
    const bool pair = reader.Take('[');
    reader.Peek();
    const size_t at = reader.at();
    const std::string_view left(buffer.get(), reader.String(buffer.get()));
    const auto where = [&] { return reader.Place(at); };
    if (pair) {
      reader.Expect(',');
      char* behind = buffer.get() + left.size();
      const std::string_view right(behind, reader.String(behind));
      reader.Expect(']');
      builder.AddMerge(left, right, where);
      continue;
    }
    const size_t space = left.find(' ');
    if (space == left.npos || left.find(' ', space + 1) != left.npos) {
      reader.Fail(at, "expected a merge: two tokens with a space between");
    }
    builder.AddMerge(left.substr(0, space), left.substr(space + 1), where);
  } while (reader.Take(','));
  reader.Expect(']');
}

// Reads how bytes without a token are treated, if there are any.
void ReadUnknown(const Json& model, const std::string& path, BpeVocab& vocab) {
  if (!vocab.partial) return;
  if (IsTrue(model, "byte_fallback")) {
    Refuse(path, "\"byte_fallback\" is not supported", "not all bytes are tokens of a ByteLevel");
  }
  vocab.fuse_unknown = IsTrue(model, "fuse_unk");
  const Json& unknown = Member(model, "unk_token");
  if (!unknown.is_string()) return;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (NameInFiles(vocab, static_cast<int32_t>(id)) == unknown.text())
      vocab.unknown = static_cast<int32_t>(id);
  }
  if (vocab.unknown < 0) Refuse(path, "\"unk_token\" is not a token", unknown.dump());
}

// Returns true if a vocabulary is of characters, like SentencePiece's.
bool IsOfCharacters(const Json& file, const Json& model) {
  const Steps steps = StepsOf(Member(file, "pre_tokenizer"), "pretokenizers");
  return IsTrue(model, "byte_fallback") && steps.types.find("ByteLevel") == std::string::npos;
}

BpeVocab ReadBpeParts(const TokenizerJsonParts& parts, std::string_view contents,
                      const std::string& path) {
  const Json& file = parts.rest;
  CheckSections(file, path);
  const Json& model = Member(file, "model");
  const bool of_characters = IsOfCharacters(file, model);
  const SplitPattern pattern =
      of_characters ? SplitPattern::kWhole : ReadPreTokenizer(Member(file, "pre_tokenizer"), path);
  if (parts.vocab == parts.kNowhere) Refuse(path, "the model has no vocabulary", "expected BPE");
  if (parts.merges == parts.kNowhere) Refuse(path, "the model has no merges", "expected BPE");
  const bool whole_pretokens = ReadModel(model, path);

  JsonReader vocab_reader(contents, TokenizerSource(path), parts.vocab);
  const NamedIds ids = ReadNamedIds(vocab_reader);
  VocabBuilder builder(
      ids, path, VocabBuilder::Specials::kDeclared,
      of_characters ? VocabBuilder::Spelling::kMarkedSpaces : VocabBuilder::Spelling::kByteNames);
  ReadAdded(Member(file, "added_tokens"), !IsDefault(Member(file, "normalizer")), path, builder);
  builder.LeaveOutMissingBytes();
  JsonReader merges_reader(contents, TokenizerSource(path), parts.merges);
  AddMerges(merges_reader, builder);
  BpeVocab vocab = builder.Finish();
  vocab.pattern = pattern;
  vocab.whole_pretokens = whole_pretokens;
  ReadUnknown(model, path, vocab);
  ReadNormalizer(file, path, vocab);
  if (of_characters) ReadSpaces(file, path, vocab);
  ReadDecoder(file, path, vocab);
  ReadTemplate(file, path, vocab);
  CheckBpeVocab(vocab, path);
  return vocab;
}

[[noreturn]] void RefusePlain(const std::string& where, const std::string& what) {
  throw InputError(fmt::format("{}: {}", where, what),
                   "only character and byte tokenizers written by folio are supported",
                   "prepare the data with --tokenizer char, bytes or a published encoding");
}

// True if `found` means the same as `expected`: members in any order, default ones may be missing.
bool Same(const Json& found, const Json& expected) {
  if (!found.is_object() || !expected.is_object()) {
    return found == expected || (IsDefault(found) && IsDefault(expected));
  }
  for (const auto& [key, value] : expected.items()) {
    if (!Same(Member(found, key), value)) return false;
  }
  for (const auto& [key, value] : found.items()) {
    if (!expected.contains(key) && !IsDefault(value)) return false;
  }
  return true;
}

// Refuses the first section that differs from `expected`, by name.
void CheckSections(const Json& file, const Json& expected, const std::string& where) {
  for (const auto& [key, value] : expected.items()) {
    const Json& found = Member(file, key);
    if (Same(found, value) || (key == "post_processor" && AddsNothing(found))) continue;
    if (!file.contains(key)) RefusePlain(where, fmt::format("\"{}\" is missing", key));
    const std::string type = TypeOf(found);
    RefusePlain(where, type.empty() || type == TypeOf(value)
                           ? fmt::format("this \"{}\" is not supported", key)
                           : fmt::format("{} type '{}' is not supported", key, type));
  }
  for (const auto& [key, value] : file.items()) {
    if (!expected.contains(key) && !IsDefault(value)) {
      RefusePlain(where, fmt::format("\"{}\" is not supported", key));
    }
  }
}

// The characters of a WordLevel vocabulary, by id. It must map single characters to 0 .. V-1 in
// ascending order.
std::vector<char32_t> Characters(const Json& vocab, const std::string& where) {
  std::vector<char32_t> characters(vocab.size());
  std::vector<bool> taken(vocab.size());
  for (const auto& [text, id] : vocab.items()) {
    const Utf8Char c = text.empty() ? Utf8Char{} : DecodeUtf8(text);
    if (c.status != Utf8Status::kValid || c.length != text.size()) {
      RefusePlain(where, fmt::format("a WordLevel tokenizer of words is not supported: the token "
                                     "\"{}\" is not one character",
                                     text));
    }
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocab.size()) {
      RefusePlain(where, fmt::format("the id {} of {} is not one of 0 to {}", id.dump(),
                                     QuoteChar(c.code), vocab.size() - 1));
    }
    const size_t place = id.get<uint64_t>();
    if (taken[place]) RefusePlain(where, fmt::format("two tokens have the id {}", place));
    taken[place] = true;
    characters[place] = c.code;
  }
  for (size_t id = 1; id < characters.size(); ++id) {
    if (characters[id - 1] >= characters[id]) {
      RefusePlain(where, fmt::format("the ids of {} and {} are not in the order of Unicode",
                                     QuoteChar(characters[id - 1]), QuoteChar(characters[id])));
    }
  }
  return characters;
}

// The texts of the added tokens, whose ids must be first, first + 1, ...; their other members are
// checked with the other sections.
std::vector<std::string> AddedTexts(const Json& file, int64_t first, const std::string& where) {
  std::vector<std::string> texts;
  const Json& added = Member(file, "added_tokens");
  if (!added.is_array()) return texts;
  for (const Json& token : added) {
    const Json& content = Member(token, "content");
    const int64_t expected = first + std::ssize(texts);
    if (!content.is_string() || content.text().empty() || Member(token, "id") != Json(expected)) {
      RefusePlain(where, fmt::format("the added token {} has no text or not the id {}",
                                     token.dump().substr(0, 80), expected));
    }
    if (std::ranges::find(texts, content.text()) != texts.end()) {
      RefusePlain(where, fmt::format("two added tokens are \"{}\"", content.text()));
    }
    texts.push_back(content.text());
  }
  return texts;
}

// The byte tokenizer is a BPE without split and merges.
bool IsByteTokenizer(const TokenizerJsonParts& parts) {
  const Json& pre_tokenizer = Member(parts.rest, "pre_tokenizer");
  return !parts.any_merges && TypeOf(pre_tokenizer) == "ByteLevel" &&
         Member(pre_tokenizer, "use_regex") == Json(false);
}

}  // namespace

std::unique_ptr<Tokenizer> TokenizerFromJson(const std::string& contents,
                                             const std::string& where) {
  const TokenizerJsonParts parts = SplitTokenizerJson(contents, where);
  const Json* model = parts.rest.find("model");
  if (model == nullptr) RefusePlain(where, "not a tokenizer: it has no \"model\"");
  // Early writers of the format did not write that a model is BPE.
  const std::string type = TypeOf(*model);
  if (type == "BPE" || (type.empty() && parts.merges != parts.kNowhere)) {
    if (!IsByteTokenizer(parts)) {
      return std::make_unique<BpeTokenizer>(ReadBpeParts(parts, contents, where));
    }
    std::vector<std::string> specials = AddedTexts(parts.rest, ByteTokenizer::kEndOfText, where);
    if (!specials.empty()) specials.erase(specials.begin());  // the end of a text
    auto tokenizer = std::make_unique<ByteTokenizer>(specials);
    CheckSections(ParseJson(contents, where), ByteTokenizerJson(tokenizer->special_tokens()),
                  where);
    return tokenizer;
  }
  if (type == "WordLevel") {
    Json vocab;
    if (parts.vocab != parts.kNowhere) {
      vocab = JsonReader(contents, TokenizerSource(where), parts.vocab).Value();
    }
    if (vocab.empty()) RefusePlain(where, "the model has no vocabulary");
    auto tokenizer = std::make_unique<CharTokenizer>(
        Characters(vocab, where), AddedTexts(parts.rest, std::ssize(vocab), where));
    // All of the vocabulary was checked.
    CheckSections(parts.rest, CharTokenizerJson(Json::object(), tokenizer->special_tokens()),
                  where);
    return tokenizer;
  }
  throw InputError(fmt::format("{}: model type '{}' is not supported", where, type),
                   "supported are BPE of bytes (GPT-2) and of characters (SentencePiece)",
                   "use a model with a BPE tokenizer");
}

bool IsDefault(const Json& value) {
  return value.is_null() || value == Json(false) || value == Json("");
}

}  // namespace folio
