#include "folio/text/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/file.h"
#include "folio/io/gguf.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/pickle.h"
#include "folio/io/posix.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/chat_encoder.h"
#include "folio/text/encodings.h"
#include "folio/text/gguf_tokenizer.h"
#include "folio/text/special_tokens.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

struct MetaTokens {
  std::vector<char32_t> characters;
  std::vector<std::string> specials;

  size_t size() const { return characters.size() + specials.size(); }
  // Takes the next; false if it cannot be one.
  bool Take(const Json& text) {
    if (!text.is_string()) return false;
    const char32_t code = OnlyCharacter(text.text());
    if (code != 0) {
      const bool ascends = characters.empty() || characters.back() < code;
      characters.push_back(code);
      return ascends && specials.empty();
    }
    specials.push_back(text.text());
    return !characters.empty() && !text.text().empty() &&
           FindInvalidUtf8(text.text()) == std::string::npos &&
           std::ranges::count(specials, text.text()) == 1;
  }
};

// Returns the tokens of itos, which numbers them 0, 1, ...; none if it does not, or they are no
// tokens.
MetaTokens TokensOf(const Json* itos, const Json* specials) {
  MetaTokens tokens;
  if (itos == nullptr || !itos->is_object()) return {};
  for (const auto& [id, text] : itos->items()) {
    if (id != fmt::format("{}", tokens.size()) || !tokens.Take(text)) return {};
  }
  const Json expected = tokens.specials.size();
  return (specials == nullptr ? Json(0) : *specials) == expected ? tokens : MetaTokens{};
}

namespace fs = std::filesystem;

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

std::unique_ptr<Tokenizer> FromGguf(const fs::path& path) {
  std::unique_ptr<Tokenizer> tokenizer = ReadGgufTokenizer(GgufFile(path));
  if (tokenizer != nullptr) return tokenizer;
  throw InputError(fmt::format("{}: no tokenizer here", path.string()),
                   "the file has a model alone",
                   "name the tokenizer that the model was trained with");
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

// tokenizer.json alone says what stands around a text: "add_bos_token" and "add_eos_token" of
// tokenizer_config.json mean nothing beside it, as to transformers.
std::unique_ptr<Tokenizer> FromDirectory(const fs::path& dir) {
  std::error_code ignored;
  if (const fs::path file = dir / kTokenizerFile; fs::exists(file, ignored)) {
    return TokenizerFromJson(ReadFile(file, kMaxVocabFileBytes), file.string());
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

std::unique_ptr<CharTokenizer> ReadNanoGptMeta(const std::filesystem::path& path) {
  const Json meta = ReadPlainPickle(path);
  const auto refuse = [&](const std::string& cause) {
    return InputError(fmt::format("{}: not a tokenizer that folio knows", path.string()), cause,
                      "move it away, and name the tokenizer with --tokenizer");
  };
  if (!meta.is_object()) throw refuse("expected a dictionary");
  MetaTokens tokens = TokensOf(meta.find("itos"), meta.find("special_tokens"));
  if (tokens.characters.empty()) {
    throw refuse("expected itos, which numbers characters in ascending order");
  }
  const Json* size = meta.find("vocab_size");
  if (size == nullptr || *size != Json(tokens.size())) {
    throw refuse(fmt::format("vocab_size is {}, itos has {} characters",
                             size == nullptr ? "not there" : size->dump(), tokens.size()));
  }
  return std::make_unique<CharTokenizer>(std::move(tokens.characters), tokens.specials);
}

void Tokenizer::Save(const std::string& dir) const {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  if (const std::optional<int32_t> end = end_of_text()) {
    config["bos_token"] = config["eos_token"] = std::string(TokenBytes(*end));
  }
  if (const std::optional<ChatFormat> chat = FindChatFormat(*this)) {
    config["eos_token"] = std::string(TokenBytes(chat->end));
    config["chat_template"] = std::string(RoleTokenTemplate());
  } else if (const ChatSource& source = chat_source(); !source.text.empty()) {
    config["chat_template"] = source.text;
    if (!source.bos_token.empty()) config["bos_token"] = source.bos_token;
    if (!source.eos_token.empty()) config["eos_token"] = source.eos_token;
  }
  const GuardedDirectory inside(dir);
  WriteFileAtomically(fs::path(dir) / kTokenizerFile, FileContents());
  WriteFileAtomically(fs::path(dir) / kTokenizerConfigFile, config.dump(2) + "\n");
}

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& dir_or_file) {
  const fs::path path(dir_or_file);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    std::unique_ptr<Tokenizer> tokenizer = FromDirectory(path);
    tokenizer->set_chat_source(ReadChatSource(path));
    return tokenizer;
  }
  if (IsGguf(path)) return FromGguf(path);
  const std::string name = path.filename().string();
  if (path.extension() == ".tiktoken") return FromTiktoken(path, path.stem().string());
  if (path.extension() == ".pkl") return ReadNanoGptMeta(path);
  for (const FilePair& pair : kPairs) {
    if (name == pair.vocab || name == pair.merges) return FromPair(path.parent_path(), pair);
  }
  return TokenizerFromJson(ReadFile(path, kMaxVocabFileBytes), path.string());
}

}  // namespace folio
