#include "folio/text/tokenizer_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/json_parse.h"
#include "folio/text/byte_tokenizer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kAnyChar[] = R"([\s\S])";
constexpr char kUnknown[] = "<unk>";

// The printable character that GPT-2's byte alphabet gives a byte: its own where Latin-1 prints it,
// else the next free one from U+0100.
std::string ByteSymbol(int byte) {
  const auto own = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  char32_t code = static_cast<char32_t>(byte);
  if (!own(byte)) {
    code = 0x100;
    for (int b = 0; b < byte; ++b) code += own(b) ? 0 : 1;
  }
  std::string symbol;
  AppendUtf8(code, symbol);
  return symbol;
}

Json File(Json added_tokens, Json pre_tokenizer, Json decoder, Json model) {
  return {{"version", "1.0"},          {"truncation", nullptr},
          {"padding", nullptr},        {"added_tokens", std::move(added_tokens)},
          {"normalizer", nullptr},     {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr}, {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

Json ByteFile() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[ByteSymbol(byte)] = byte;
  vocab[kEndOfTextToken] = ByteTokenizer::kEndOfText;
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", false},
                           {"use_regex", false}};
  const Json end_of_text = {{"id", ByteTokenizer::kEndOfText},
                            {"content", kEndOfTextToken},
                            {"single_word", false},
                            {"lstrip", false},
                            {"rstrip", false},
                            {"normalized", false},
                            {"special", true}};
  return File(Json::array({end_of_text}), byte_level, byte_level,
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

Json CharFile(Json vocab) {
  return File(Json::array(),
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
                   "folio reads the character and byte tokenizers that it writes",
                   "prepare the data with --tokenizer char or --tokenizer bytes");
}

// What may be left out of a file, or be added by a newer writer of the format.
bool IsDefault(const Json& value) {
  return value.is_null() || value == Json(false) || value == Json("");
}

// True if `found` means the same as `expected`: members in any order, default ones also missing.
bool Same(const Json& found, const Json& expected) {
  if (!found.is_object() || !expected.is_object()) {
    return found == expected || (IsDefault(found) && IsDefault(expected));
  }
  for (const auto& [key, value] : expected.items()) {
    const auto other = found.find(key);
    if (other == found.end() ? !IsDefault(value) : !Same(*other, value)) return false;
  }
  for (const auto& [key, value] : found.items()) {
    if (!expected.contains(key) && !IsDefault(value)) return false;
  }
  return true;
}

std::string TypeOf(const Json& section) {
  if (section.is_object() && section.contains("type") && section["type"].is_string()) {
    return section["type"].get<std::string>();
  }
  return {};
}

// Refuses by name the first section that is not as `expected`.
void CheckSections(const Json& file, const Json& expected, const std::string& where) {
  for (const auto& [key, value] : expected.items()) {
    const auto found = file.find(key);
    if (found == file.end() ? IsDefault(value) : Same(*found, value)) continue;
    const std::string type = found == file.end() ? "" : TypeOf(*found);
    if (found == file.end()) Refuse(where, fmt::format("\"{}\" is missing", key));
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
    if (!id.is_number_integer() || id < 0 || id >= vocab.size()) {
      Refuse(where, fmt::format("the id {} of {} is not one of 0 to {}", id.dump(),
                                QuoteChar(c.code), vocab.size() - 1));
    }
    const size_t place = id.get<size_t>();
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

std::unique_ptr<Tokenizer> FromJson(Json file, const std::string& where) {
  if (!file.is_object() || !file.contains("model")) {
    Refuse(where, "not a tokenizer: it has no \"model\"");
  }
  Json& model = file["model"];
  const std::string type = TypeOf(model);
  if (type == "BPE") {
    if (model.contains("merges") && !model["merges"].empty()) {
      Refuse(where, "a BPE model with merges is not supported");
    }
    CheckSections(file, ByteFile(), where);
    return std::make_unique<ByteTokenizer>();
  }
  if (type == "WordLevel") {
    if (!model.contains("vocab") || !model["vocab"].is_object() || model["vocab"].empty()) {
      Refuse(where, "the model has no vocabulary");
    }
    auto tokenizer = std::make_unique<CharTokenizer>(Characters(model["vocab"], where));
    model["vocab"] = Json::object();  // all of it was checked
    CheckSections(file, CharFile(Json::object()), where);
    return tokenizer;
  }
  Refuse(where, fmt::format("model type '{}' is not supported", type));
}

}  // namespace

std::string CharTokenizerFile(const CharTokenizer& tokenizer) {
  Json vocab = Json::object();
  // The object is a list of pairs: going around its search for equal keys keeps this linear.
  auto& members = vocab.get_ref<Json::object_t&>();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    members.emplace_back(std::string(tokenizer.TokenBytes(id)), id);
  }
  return Printed(CharFile(std::move(vocab)));
}

std::string ByteTokenizerFile() {
  return Printed(ByteFile());
}

void Tokenizer::Save(const std::string& dir) const {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  if (const std::optional<int32_t> end = end_of_text()) {
    config["bos_token"] = config["eos_token"] = std::string(TokenBytes(*end));
  }
  WriteFileAtomically(fs::path(dir) / kTokenizerFile, FileContents());
  WriteFileAtomically(fs::path(dir) / kTokenizerConfigFile, Printed(config));
}

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& dir_or_file) {
  fs::path path(dir_or_file);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    path /= kTokenizerFile;
    if (!fs::exists(path, ignored)) {
      throw InputError(fmt::format("{}: no tokenizer here", dir_or_file),
                       fmt::format("{} is missing", kTokenizerFile),
                       "a model trained on tokens alone has none: put the tokenizer's file there");
    }
  }
  return FromJson(ParseJson(ReadFile(path), path.string()), path.string());
}

}  // namespace folio
