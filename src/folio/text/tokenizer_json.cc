#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

[[noreturn]] void Refuse(const std::string& path, const std::string& what, std::string cause) {
  throw InputError(fmt::format("{}: {}", path, what), std::move(cause),
                   "folio reads byte-level BPE tokenizers as GPT-2's: ByteLevel, with the split "
                   "pattern of gpt2, cl100k or o200k");
}

// The member, null if there is none.
const Json& Member(const Json& object, std::string_view key) {
  static const Json null;
  const Json* found = object.find(key);
  return found == nullptr ? null : *found;
}

bool IsTrue(const Json& object, std::string_view key) {
  return Member(object, key) == Json(true);
}

// The member, empty if there is none or it is no text.
std::string TextOf(const Json& section, std::string_view key) {
  const Json& text = Member(section, key);
  return text.is_string() ? text.text() : std::string();
}

std::string TypeOf(const Json& section) {
  return TextOf(section, "type");
}

// Returns whether a post processor leaves the ids alone: there is none, it only moves offsets
// (ByteLevel), or it is a template of a single text and nothing else, as transformers writes where
// there was none.
bool AddsNothing(const Json& post_processor) {
  const std::string type = TypeOf(post_processor);
  if (type != "TemplateProcessing") return IsDefault(post_processor) || type == "ByteLevel";
  const Json& single = Member(post_processor, "single");
  return single.is_array() && single.size() == 1 &&
         Member(Member(single[0], "Sequence"), "id") == Json("A");
}

// tokenizer.json without its two long members, which are read where they stand.
struct TokenizerJsonParts {
  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  // The file with an empty vocabulary and no merges in its model.
  Json rest;
  // The places where the object "vocab" and the array "merges" begin in the file, if its model has
  // such.
  size_t vocab = kNowhere;
  size_t merges = kNowhere;
  bool any_merges = false;
};

// Throws a kInput Error where `contents` is no JSON object; not all of it has been looked at.
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

// A spelling of one of our patterns, other than SplitPatternRegex, as tokenizers are published with
// it.
struct Spelling {
  SplitPattern pattern;
  // Leaves out `\s+$`: white space at the end of a text is cut behind its last line break.
  bool cuts_last_lines;
  std::string_view regex;
};

constexpr Spelling kSpellings[] = {
    {SplitPattern::kGpt2, false,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kGpt2, false,
     R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)"},
    {SplitPattern::kCl100k, true,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kCl100k, true,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
};

std::optional<Spelling> FindSpelling(std::string_view regex) {
  for (const auto pattern : {SplitPattern::kGpt2, SplitPattern::kCl100k, SplitPattern::kO200k}) {
    if (regex == SplitPatternRegex(pattern)) return Spelling{pattern, false, regex};
  }
  for (const Spelling& spelling : kSpellings) {
    if (regex == spelling.regex) return spelling;
  }
  return std::nullopt;
}

Spelling ReadSplit(const Json& split, const std::string& path) {
  const Json& regex = Member(Member(split, "pattern"), "Regex");
  if (!regex.is_string()) {
    Refuse(path, "this \"pre_tokenizer\" is not supported", "its Split has no regular expression");
  }
  const std::string behavior = TextOf(split, "behavior");
  // All text matches these patterns, so the two ways to keep the matches are the same.
  if (behavior != (IsTrue(split, "invert") ? "Removed" : "Isolated")) {
    Refuse(path, "this \"pre_tokenizer\" is not supported",
           fmt::format("its Split has the behavior '{}'; expected 'Isolated'", behavior));
  }
  if (const auto spelling = FindSpelling(regex.text())) return *spelling;
  Refuse(path, "this split pattern is not supported", fmt::format("found {}", regex.text()));
}

Spelling ReadPreTokenizer(const Json& section, const std::string& path) {
  const std::string type = TypeOf(section);
  const Json* byte_level = &section;
  Spelling spelling = kSpellings[0];
  if (type == "Sequence") {
    const Json& steps = Member(section, "pretokenizers");
    const bool as_known = steps.is_array() && steps.size() == 2 && TypeOf(steps[0]) == "Split" &&
                          TypeOf(steps[1]) == "ByteLevel" &&
                          Member(steps[1], "use_regex") == Json(false);
    if (!as_known) {
      Refuse(path, "this \"pre_tokenizer\" is not supported",
             "expected a Sequence of Split and of ByteLevel with \"use_regex\": false");
    }
    spelling = ReadSplit(steps[0], path);
    byte_level = &steps[1];
  } else if (type != "ByteLevel") {
    Refuse(path,
           section.is_null() ? "\"pre_tokenizer\" is missing"
                             : fmt::format("pre_tokenizer type '{}' is not supported", type),
           "expected ByteLevel, or a Sequence of Split and ByteLevel");
  } else if (Member(section, "use_regex") == Json(false)) {
    Refuse(path, "this \"pre_tokenizer\" is not supported",
           "a ByteLevel with \"use_regex\": false does not split the text");
  }
  if (Member(*byte_level, "add_prefix_space") != Json(false)) {
    Refuse(path, "this \"pre_tokenizer\" is not supported",
           "\"add_prefix_space\" must be false: folio adds nothing to a text");
  }
  return spelling;
}

void CheckSections(const Json& file, const std::string& path) {
  for (const auto& [key, value] : file.items()) {
    if (key == "version" || key == "added_tokens" || key == "pre_tokenizer" || key == "model" ||
        IsDefault(value)) {
      continue;
    }
    if (key == "post_processor" && AddsNothing(value)) continue;
    const std::string type = TypeOf(value);
    if (key == "decoder" && type == "ByteLevel") continue;  // its flags mean nothing
    Refuse(path,
           type.empty() ? fmt::format("\"{}\" is not supported", key)
                        : fmt::format("{} type '{}' is not supported", key, type),
           key == "post_processor"
               ? "expected one that adds no tokens: folio adds nothing to a text"
           : key == "decoder" ? "expected ByteLevel"
                              : "expected none: it would change the ids");
  }
  if (Member(file, "decoder").is_null())
    Refuse(path, "\"decoder\" is missing", "expected ByteLevel");
}

// Returns "ignore_merges".
bool ReadModel(const Json& model, const std::string& path) {
  for (const auto& [key, value] : model.items()) {
    // All bytes are tokens, so nothing is ever unknown.
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

void AddSpecials(const Json& added, const std::string& path, VocabBuilder& builder) {
  if (added.is_null()) return;
  if (!added.is_array()) Refuse(path, "\"added_tokens\" is no array", "expected the added tokens");
  for (const Json& token : added) {
    const Json& content = Member(token, "content");
    const Json& id = Member(token, "id");
    if (!content.is_string() || content.text().empty() || !id.is_number_unsigned() ||
        id.get<uint64_t>() >= kMaxVocabIds) {
      Refuse(path, "this added token is not supported",
             fmt::format("expected \"content\" and an \"id\" below {}, found {}", kMaxVocabIds,
                         token.dump()));
    }
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
      if (!IsDefault(Member(token, flag))) {
        Refuse(path, fmt::format("\"{}\" is not supported", flag),
               fmt::format("the added token {} has it", content.dump()));
      }
    }
    if (!IsTrue(token, "special")) {
      Refuse(path, fmt::format("the added token {} is not supported", content.dump()),
             "it is not \"special\", and folio matches only special tokens as text");
    }
    builder.AddSpecial({content.text(), id.get<int32_t>()});
  }
}

// "a b", or ["a", "b"] since tokens may have spaces in them.
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

// Where the text ends in white space that holds a line break, a spelling that cuts behind the last
// one gives the same ids as ours if no token reaches across that place.
void CheckLastLines(const BpeVocab& vocab, const std::string& path) {
  constexpr std::string_view kSpaceBegins = "\t\v\f \xC2\xE1\xE2\xE3";
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    const std::string_view bytes = vocab.tokens[id];
    const size_t line_break = bytes.find_last_of("\r\n");
    if (line_break == bytes.npos || line_break + 1 == bytes.size() ||
        kSpaceBegins.find(bytes[line_break + 1]) == kSpaceBegins.npos) {
      continue;
    }
    Refuse(path, "this split pattern is not supported",
           fmt::format("with the token {} it differs from cl100k's at the end of a text", id));
  }
}

BpeVocab ReadBpeParts(const TokenizerJsonParts& parts, std::string_view contents,
                      const std::string& path) {
  const Json& file = parts.rest;
  CheckSections(file, path);
  const Spelling spelling = ReadPreTokenizer(Member(file, "pre_tokenizer"), path);
  const Json& model = Member(file, "model");
  if (parts.vocab == parts.kNowhere) Refuse(path, "the model has no vocabulary", "expected BPE");
  if (parts.merges == parts.kNowhere) Refuse(path, "the model has no merges", "expected BPE");
  const bool whole_pretokens = ReadModel(model, path);

  JsonReader vocab_reader(contents, TokenizerSource(path), parts.vocab);
  const NamedIds ids = ReadNamedIds(vocab_reader);
  VocabBuilder builder(ids, path, VocabBuilder::Specials::kDeclared);
  AddSpecials(Member(file, "added_tokens"), path, builder);
  JsonReader merges_reader(contents, TokenizerSource(path), parts.merges);
  AddMerges(merges_reader, builder);
  BpeVocab vocab = builder.Finish();
  vocab.pattern = spelling.pattern;
  vocab.whole_pretokens = whole_pretokens;
  if (spelling.cuts_last_lines) CheckLastLines(vocab, path);
  return vocab;
}

constexpr char kAnyChar[] = R"([\s\S])";
constexpr char kUnknown[] = "<unk>";

Json File(Json added_tokens, Json pre_tokenizer, Json decoder, Json model) {
  return {{"version", "1.0"},          {"truncation", nullptr},
          {"padding", nullptr},        {"added_tokens", std::move(added_tokens)},
          {"normalizer", nullptr},     {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr}, {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

Json AddedTokens(std::span<const SpecialToken> specials) {
  Json added = Json::array();
  for (const SpecialToken& special : specials) {
    added.push_back({{"id", special.id},
                     {"content", special.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return added;
}

Json ByteFile(std::span<const SpecialToken> specials) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocab[ByteNames({&c, 1})] = byte;
  }
  vocab[kEndOfTextToken] = ByteTokenizer::kEndOfText;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", false},
                           {"use_regex", false}};
  return File(AddedTokens(specials), byte_level, byte_level,
              {{"type", "BPE"},
               {"dropout", nullptr},
               {"unk_token", nullptr},
               {"continuing_subword_prefix", nullptr},
               {"end_of_word_suffix", nullptr},
               {"fuse_unk", false},
               {"byte_fallback", false},
               {"ignore_merges", false},
               {"vocab", std::move(vocab)},
               {"merges", Json::array()}});
}

Json CharFile(Json vocab, std::span<const SpecialToken> specials) {
  return File(AddedTokens(specials),
              {{"type", "Split"},
               {"pattern", {{"Regex", kAnyChar}}},
               {"behavior", "Isolated"},
               {"invert", false}},
              {{"type", "Fuse"}},
              {{"type", "WordLevel"}, {"vocab", std::move(vocab)}, {"unk_token", kUnknown}});
}

[[noreturn]] void RefusePlain(const std::string& where, const std::string& what) {
  throw InputError(fmt::format("{}: {}", where, what),
                   "of character and byte tokenizers folio reads those that it writes",
                   "prepare the data with --tokenizer char, bytes or a published encoding");
}

// True if `found` means the same as `expected`: members in any order, default ones also missing.
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

// Refuses by name the first section that is not as `expected`.
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
      RefusePlain(where, fmt::format("the token \"{}\" is not one character", text));
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

// The texts of the added tokens, whose ids must be first, first + 1, ...; what else they say is
// checked with the other sections.
std::vector<std::string> AddedTexts(const Json& file, int64_t first, const std::string& where) {
  std::vector<std::string> texts;
  const Json& added = Member(file, "added_tokens");
  if (!added.is_array()) return texts;
  for (const Json& token : added) {
    const Json& content = Member(token, "content");
    const int64_t expected = first + std::ssize(texts);
    if (!content.is_string() || content.text().empty() || Member(token, "id") != Json(expected)) {
      RefusePlain(where, fmt::format("the added token {} is not one with a text and the id {}",
                                     token.dump().substr(0, 80), expected));
    }
    if (std::ranges::find(texts, content.text()) != texts.end()) {
      RefusePlain(where, fmt::format("two added tokens are \"{}\"", content.text()));
    }
    texts.push_back(content.text());
  }
  return texts;
}

// The byte tokenizer is the BPE that neither splits nor merges.
bool IsByteTokenizer(const TokenizerJsonParts& parts) {
  const Json& pre_tokenizer = Member(parts.rest, "pre_tokenizer");
  return !parts.any_merges && TypeOf(pre_tokenizer) == "ByteLevel" &&
         Member(pre_tokenizer, "use_regex") == Json(false);
}

// Appends a JSON string; `text` is UTF-8.
void AppendQuoted(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<uint8_t>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string Quoted(std::string_view text) {
  std::string quoted;
  AppendQuoted(text, quoted);
  return quoted;
}

// Appends the members of the object from name to id, each behind `indent`.
void AppendVocab(const BpeVocab& vocab, std::string_view indent, std::string& out) {
  bool first = true;
  std::string name;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    const std::string_view bytes = vocab.tokens[id];
    if (bytes.empty()) continue;
    name.clear();
    if (const SpecialToken* special = FindSpecial(vocab.specials, id)) {
      name = special->text;
    } else {
      AppendByteNames(bytes, name);
    }
    if (!first) out += ',';
    first = false;
    out += indent;
    AppendQuoted(name, out);
    out += indent.empty() ? ":" : ": ";
    out += std::to_string(id);
  }
}

void AppendMerge(const BpeVocab& vocab, const BpeMerge& merge, std::string& out) {
  AppendByteNames(vocab.tokens[static_cast<size_t>(merge.left)], out);
  out += ' ';
  AppendByteNames(vocab.tokens[static_cast<size_t>(merge.right)], out);
}

std::string AddedTokens(const BpeVocab& vocab) {
  std::string tokens;
  for (const SpecialToken& token : vocab.specials) {
    tokens += fmt::format(R"({}
    {{
      "id": {},
      "content": {},
      "single_word": false,
      "lstrip": false,
      "rstrip": false,
      "normalized": false,
      "special": true
    }})",
                          tokens.empty() ? "" : ",", token.id, Quoted(token.text));
  }
  return tokens.empty() ? "[]" : fmt::format("[{}\n  ]", tokens);
}

std::string ByteLevel(bool use_regex) {
  return fmt::format(R"({{"type": "ByteLevel", "add_prefix_space": false, )"
                     R"("trim_offsets": false, "use_regex": {}}})",
                     use_regex);
}

std::string PreTokenizer(const BpeVocab& vocab) {
  if (vocab.pattern == SplitPattern::kGpt2) return ByteLevel(true);
  return fmt::format(R"({{
    "type": "Sequence",
    "pretokenizers": [
      {{
        "type": "Split",
        "pattern": {{"Regex": {}}},
        "behavior": "Isolated",
        "invert": false
      }},
      {}
    ]
  }})",
                     Quoted(SplitPatternRegex(vocab.pattern)), ByteLevel(false));
}

}  // namespace

std::unique_ptr<Tokenizer> TokenizerFromJson(const std::string& contents,
                                             const std::string& where) {
  const TokenizerJsonParts parts = SplitTokenizerJson(contents, where);
  const Json* model = parts.rest.find("model");
  if (model == nullptr) RefusePlain(where, "not a tokenizer: it has no \"model\"");
  // The first writers of the format did not say that a model is BPE.
  const std::string type = TypeOf(*model);
  if (type == "BPE" || (type.empty() && parts.merges != parts.kNowhere)) {
    if (!IsByteTokenizer(parts)) {
      return std::make_unique<BpeTokenizer>(ReadBpeParts(parts, contents, where));
    }
    std::vector<std::string> specials = AddedTexts(parts.rest, ByteTokenizer::kEndOfText, where);
    if (!specials.empty()) specials.erase(specials.begin());  // the end of a text
    auto tokenizer = std::make_unique<ByteTokenizer>(specials);
    CheckSections(ParseJson(contents, where), ByteFile(tokenizer->special_tokens()), where);
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
    // All of the vocabulary was.
    CheckSections(parts.rest, CharFile(Json::object(), tokenizer->special_tokens()), where);
    return tokenizer;
  }
  RefusePlain(where, fmt::format("model type '{}' is not supported", type));
}

BpeVocab ReadTokenizerJson(std::string_view contents, const std::string& path) {
  return ReadBpeParts(SplitTokenizerJson(contents, path), contents, path);
}

bool IsDefault(const Json& value) {
  return value.is_null() || value == Json(false) || value == Json("");
}

std::string CharTokenizerFile(const CharTokenizer& tokenizer) {
  Json vocab = Json::object();
  for (int32_t id = 0; id < tokenizer.characters(); ++id) {
    vocab.Add(std::string(tokenizer.TokenBytes(id)), id);
  }
  return CharFile(std::move(vocab), tokenizer.special_tokens()).dump(2) + "\n";
}

std::string ByteTokenizerFile(std::span<const SpecialToken> specials) {
  return ByteFile(specials).dump(2) + "\n";
}

std::string TokenizerJson(const BpeVocab& vocab) {
  std::string out;
  out.reserve(4096 + 8 * vocab.tokens.total_bytes() + 32 * vocab.tokens.size());
  out +=
      fmt::format(R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": {},
  "normalizer": null,
  "pre_tokenizer": {},
  "post_processor": null,
  "decoder": {},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": {},
    "vocab": {{)",
                  AddedTokens(vocab), PreTokenizer(vocab), ByteLevel(true), vocab.whole_pretokens);
  AppendVocab(vocab, "\n      ", out);
  out += "\n    },\n    \"merges\": [";
  std::string merge;
  for (size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    merge.clear();
    AppendMerge(vocab, vocab.merges[rank], merge);
    out += rank == 0 ? "\n      " : ",\n      ";
    AppendQuoted(merge, out);
  }
  out += vocab.merges.empty() ? "]\n  }\n}\n" : "\n    ]\n  }\n}\n";
  return out;
}

std::string VocabJson(const BpeVocab& vocab) {
  std::string out = "{";
  AppendVocab(vocab, "", out);
  return out + "}\n";
}

std::string MergesTxt(const BpeVocab& vocab) {
  std::string out = "#version: 0.2\n";
  for (const BpeMerge& merge : vocab.merges) {
    AppendMerge(vocab, merge, out);
    out += '\n';
  }
  return out;
}

}  // namespace folio
