#include "folio/text/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_names.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/encodings.h"
#include "folio/text/nanogpt_meta.h"
#include "folio/text/special_tokens.h"
#include "folio/text/vocab_builder.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

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

std::string Printed(const Json& json) {
  return json.dump(2) + "\n";
}

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
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
    const Json* other = found.find(key);
    if (other == nullptr ? !IsDefault(value) : !Same(*other, value)) return false;
  }
  for (const auto& [key, value] : found.items()) {
    if (!expected.contains(key) && !IsDefault(value)) return false;
  }
  return true;
}

// Refuses by name the first section that is not as `expected`.
void CheckSections(const Json& file, const Json& expected, const std::string& where) {
  for (const auto& [key, value] : expected.items()) {
    const Json* found = file.find(key);
    if (found == nullptr ? IsDefault(value) : Same(*found, value)) continue;
    if (found != nullptr && key == "post_processor" && AddsNothing(*found)) continue;
    if (found == nullptr) Refuse(where, fmt::format("\"{}\" is missing", key));
    const std::string type = TypeOf(*found);
    Refuse(where, type.empty() || type == TypeOf(value)
                      ? fmt::format("this \"{}\" is not supported", key)
                      : fmt::format("{} type '{}' is not supported", key, type));
  }
  for (const auto& [key, value] : file.items()) {
    if (!expected.contains(key) && !IsDefault(value)) {
      Refuse(where, fmt::format("\"{}\" is not supported", key));
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
      Refuse(where, fmt::format("the token \"{}\" is not one character", text));
    }
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocab.size()) {
      Refuse(where, fmt::format("the id {} of {} is not one of 0 to {}", id.dump(),
                                QuoteChar(c.code), vocab.size() - 1));
    }
    const size_t place = id.get<uint64_t>();
    if (taken[place]) Refuse(where, fmt::format("two tokens have the id {}", place));
    taken[place] = true;
    characters[place] = c.code;
  }
  for (size_t id = 1; id < characters.size(); ++id) {
    if (characters[id - 1] >= characters[id]) {
      Refuse(where, fmt::format("the ids of {} and {} are not in the order of Unicode",
                                QuoteChar(characters[id - 1]), QuoteChar(characters[id])));
    }
  }
  return characters;
}

// The texts of the added tokens, whose ids must be first, first + 1, ...; what else they say is
// checked with the other sections.
std::vector<std::string> AddedTexts(const Json& file, int64_t first, const std::string& where) {
  std::vector<std::string> texts;
  const Json* added = file.find("added_tokens");
  if (added == nullptr || !added->is_array()) return texts;
  for (const Json& token : *added) {
    const Json* content = token.is_object() ? token.find("content") : nullptr;
    const Json* id = token.is_object() ? token.find("id") : nullptr;
    const int64_t expected = first + std::ssize(texts);
    if (content == nullptr || !content->is_string() || content->text().empty() || id == nullptr ||
        *id != Json(expected)) {
      Refuse(where, fmt::format("the added token {} is not one with a text and the id {}",
                                token.dump().substr(0, 80), expected));
    }
    if (std::ranges::find(texts, content->text()) != texts.end()) {
      Refuse(where, fmt::format("two added tokens are \"{}\"", content->text()));
    }
    texts.push_back(content->text());
  }
  return texts;
}

// The byte tokenizer is the BPE that neither splits nor merges.
bool IsByteTokenizer(const TokenizerJsonParts& parts) {
  const Json* pre_tokenizer = parts.rest.find("pre_tokenizer");
  if (parts.any_merges || pre_tokenizer == nullptr) return false;
  const Json* use_regex = pre_tokenizer->find("use_regex");
  return TypeOf(*pre_tokenizer) == "ByteLevel" && use_regex != nullptr && *use_regex == Json(false);
}

std::unique_ptr<Tokenizer> FromContents(const std::string& contents, const std::string& where) {
  const TokenizerJsonParts parts = SplitTokenizerJson(contents, where);
  const Json* model = parts.rest.find("model");
  if (model == nullptr) Refuse(where, "not a tokenizer: it has no \"model\"");
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
    if (vocab.empty()) Refuse(where, "the model has no vocabulary");
    auto tokenizer = std::make_unique<CharTokenizer>(
        Characters(vocab, where), AddedTexts(parts.rest, std::ssize(vocab), where));
    // All of the vocabulary was.
    CheckSections(parts.rest, CharFile(Json::object(), tokenizer->special_tokens()), where);
    return tokenizer;
  }
  Refuse(where, fmt::format("model type '{}' is not supported", type));
}

// A vocabulary and its merges, as they are named together.
struct FilePair {
  std::string_view vocab;
  std::string_view merges;
};
constexpr FilePair kPairs[] = {{kVocabFile, kMergesFile}, {"encoder.json", "vocab.bpe"}};

// Settings that transformers keeps beside a vocabulary and its merges could change ids: such are
// refused.
void CheckTokenizerConfig(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const Json config = ParseJson(ReadFile(path, kMaxVocabFileBytes), path.string());
  for (const char* flag : {"add_prefix_space", "add_bos_token", "add_eos_token"}) {
    const Json* found = config.find(flag);
    if (found == nullptr || IsDefault(*found)) continue;
    throw InputError(fmt::format("{}: \"{}\" is not supported", path.string(), flag),
                     "it adds to every text, and folio adds nothing",
                     "set it to false if the model was trained without it");
  }
}

std::unique_ptr<Tokenizer> FromPair(const fs::path& dir, const FilePair& pair) {
  for (const std::string_view name : {pair.vocab, pair.merges}) {
    std::error_code ignored;
    if (fs::exists(dir / name, ignored)) continue;
    const std::string_view other = name == pair.vocab ? pair.merges : pair.vocab;
    throw InputError(fmt::format("{} is missing", (dir / name).string()),
                     fmt::format("{} is of no use without it", other),
                     fmt::format("put the {} there that was published with {}", name, other));
  }
  CheckTokenizerConfig(dir / kTokenizerConfigFile);
  std::error_code ignored;
  const fs::path added = dir / kAddedTokensFile;
  return std::make_unique<BpeTokenizer>(
      ReadVocabAndMerges((dir / pair.vocab).string(), (dir / pair.merges).string(),
                         {.added_tokens = fs::exists(added, ignored) ? added.string() : ""}));
}

std::unique_ptr<Tokenizer> FromTiktoken(const fs::path& path, const std::string& encoding) {
  return std::make_unique<BpeTokenizer>(ReadTiktoken(path.string(), encoding));
}

// The .tiktoken files of published encodings in `dir`.
std::vector<fs::path> TiktokenFiles(const fs::path& dir) {
  std::vector<fs::path> found;
  for (const PublishedEncoding& encoding : PublishedEncodings()) {
    const fs::path path = dir / fmt::format("{}.tiktoken", encoding.name);
    std::error_code ignored;
    if (fs::exists(path, ignored)) found.push_back(path);
  }
  return found;
}

std::unique_ptr<Tokenizer> FromDirectory(const fs::path& dir) {
  std::error_code ignored;
  if (const fs::path file = dir / kTokenizerFile; fs::exists(file, ignored)) {
    return FromContents(ReadFile(file, kMaxVocabFileBytes), file.string());
  }
  for (const FilePair& pair : kPairs) {
    if (fs::exists(dir / pair.vocab, ignored) || fs::exists(dir / pair.merges, ignored)) {
      return FromPair(dir, pair);
    }
  }
  const std::vector<fs::path> ranks = TiktokenFiles(dir);
  if (ranks.size() == 1) {
    // p50k_edit has the file of p50k_base, in a directory of its own.
    const PublishedEncoding* named =
        FindPublishedEncoding(fs::path(dir / "").parent_path().filename().string());
    const bool own = named != nullptr && named->files[0].name == ranks[0].filename().string();
    return FromTiktoken(ranks[0], own ? std::string(named->name) : ranks[0].stem().string());
  }
  if (ranks.size() > 1) {
    throw InputError(
        fmt::format("{}: several tokenizers here", dir.string()),
        fmt::format("{} and {}", ranks[0].filename().string(), ranks[1].filename().string()),
        "give the path of one of the files");
  }
  const fs::path meta = dir / kNanoGptMetaFile;
  if (fs::exists(meta, ignored)) return ReadNanoGptMeta(meta);
  throw InputError(
      fmt::format("{}: no tokenizer here", dir.string()),
      fmt::format("expected {}, or vocab.json and merges.txt, or encoder.json and vocab.bpe",
                  kTokenizerFile),
      "a model trained on tokens alone has none: put the tokenizer's file there");
}

}  // namespace

std::string CharTokenizerFile(const CharTokenizer& tokenizer) {
  Json vocab = Json::object();
  for (int32_t id = 0; id < tokenizer.characters(); ++id) {
    vocab.Add(std::string(tokenizer.TokenBytes(id)), id);
  }
  return Printed(CharFile(std::move(vocab), tokenizer.special_tokens()));
}

std::string ByteTokenizerFile(std::span<const SpecialToken> specials) {
  return Printed(ByteFile(specials));
}

void Tokenizer::Save(const std::string& dir) const {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  if (const std::optional<int32_t> end = end_of_text()) {
    config["bos_token"] = config["eos_token"] = std::string(TokenBytes(*end));
  }
  if (const std::optional<ChatFormat> chat = FindChatFormat(*this)) {
    config["eos_token"] = std::string(TokenBytes(chat->end));
    config["chat_template"] = std::string(ChatTemplate());
  }
  const GuardedDirectory inside(dir);
  WriteFileAtomically(fs::path(dir) / kTokenizerFile, FileContents());
  WriteFileAtomically(fs::path(dir) / kTokenizerConfigFile, Printed(config));
}

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& dir_or_file) {
  const fs::path path(dir_or_file);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return FromDirectory(path);
  const std::string name = path.filename().string();
  if (path.extension() == ".tiktoken") return FromTiktoken(path, path.stem().string());
  if (path.extension() == ".pkl") return ReadNanoGptMeta(path);
  for (const FilePair& pair : kPairs) {
    if (name == pair.vocab || name == pair.merges) return FromPair(path.parent_path(), pair);
  }
  return FromContents(ReadFile(path, kMaxVocabFileBytes), path.string());
}

}  // namespace folio
