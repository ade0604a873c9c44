#include "folio/text/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
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
#include "folio/text/chat_template.h"
#include "folio/text/gguf_tokenizer.h"
#include "folio/text/published_encodings.h"
#include "folio/text/special_tokens.h"
#include "folio/text/split.h"
#include "folio/text/tokenizer_json.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

struct MetaTokens {
  std::vector<char32_t> characters;
  std::vector<std::string> specials;

  size_t size() const { return characters.size() + specials.size(); }
  // Takes the next token; returns false if it cannot be one.
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

// Returns the tokens of itos, numbered 0, 1, ...; none if they are not, or are no tokens.
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

// A vocabulary and its merges, as a pair of file names.
struct FilePair {
  std::string_view vocab;
  std::string_view merges;
};
constexpr FilePair kFilePairs[] = {{kVocabFile, kMergesFile}, {"encoder.json", "vocab.bpe"}};

// transformers' settings beside a vocabulary and its merges that could change ids are refused.
void CheckTokenizerConfig(const fs::path& path) {
  if (!Exists(path)) return;
  const Json config = ParseJson(ReadFile(path, kMaxVocabFileBytes), path.string());
  for (const char* flag : {"add_prefix_space", "add_bos_token", "add_eos_token"}) {
    const Json* found = config.find(flag);
    if (found == nullptr || IsDefault(*found)) continue;
    throw InputError(fmt::format("{}: \"{}\" is not supported", path.string(), flag),
                     "it changes every text, which folio does not support",
                     "set it to false if the model was trained without it");
  }
}

std::unique_ptr<Tokenizer> FromPair(const fs::path& dir, const FilePair& pair) {
  for (const std::string_view name : {pair.vocab, pair.merges}) {
    if (Exists(dir / name)) continue;
    const std::string_view other = name == pair.vocab ? pair.merges : pair.vocab;
    throw InputError(fmt::format("{} is missing", (dir / name).string()),
                     fmt::format("{} needs it", other),
                     fmt::format("add the {} that was published with {}", name, other));
  }
  CheckTokenizerConfig(dir / kTokenizerConfigFile);
  const fs::path added = dir / kAddedTokensFile;
  return std::make_unique<BpeTokenizer>(
      ReadVocabAndMerges((dir / pair.vocab).string(), (dir / pair.merges).string(),
                         {.added_tokens = Exists(added) ? added.string() : ""}));
}

std::unique_ptr<Tokenizer> FromTiktoken(const fs::path& path, const std::string& encoding) {
  return std::make_unique<BpeTokenizer>(ReadTiktoken(path.string(), encoding));
}

std::unique_ptr<Tokenizer> FromGguf(const fs::path& path) {
  std::unique_ptr<Tokenizer> tokenizer = ReadGgufTokenizer(GgufFile(path));
  if (tokenizer != nullptr) return tokenizer;
  throw InputError(fmt::format("{}: no tokenizer found", path.string()),
                   "the file contains only a model", "give the tokenizer of the model");
}

// Tokenizer files that folio does not read.
struct OtherFile {
  std::string_view name;
  std::string_view what;
};
constexpr OtherFile kOtherFiles[] = {
    {"tokenizer.model", "a SentencePiece model"},
    {"spiece.model", "a SentencePiece model"},
    {"sentencepiece.bpe.model", "a SentencePiece model"},
    {"tekken.json", "a Mistral tokenizer"},
    {"vocab.txt", "a WordPiece vocabulary"},
    {"tokenizer.bin", "a llama2.c tokenizer"},
};

constexpr char kMakeTokenizerJson[] =
    "add the model's tokenizer.json: download it, or create it with transformers: "
    "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)";

// The .tiktoken files of published encodings in `dir`.
std::vector<fs::path> TiktokenFiles(const fs::path& dir) {
  std::vector<fs::path> found;
  for (const PublishedEncoding& encoding : PublishedEncodings()) {
    const fs::path path = dir / fmt::format("{}.tiktoken", encoding.name);
    if (Exists(path)) found.push_back(path);
  }
  return found;
}

// Only tokenizer.json says which ids surround a text: "add_bos_token" and "add_eos_token" of
// tokenizer_config.json have no effect beside it, as in transformers.
std::unique_ptr<Tokenizer> FromDirectory(const fs::path& dir) {
  if (const fs::path file = dir / kTokenizerFile; Exists(file)) {
    return TokenizerFromJson(ReadFile(file, kMaxVocabFileBytes), file.string());
  }
  for (const FilePair& pair : kFilePairs) {
    if (Exists(dir / pair.vocab) || Exists(dir / pair.merges)) {
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
        fmt::format("{}: several tokenizers found", dir.string()),
        fmt::format("{} and {}", ranks[0].filename().string(), ranks[1].filename().string()),
        "give the path of one of the files");
  }
  const fs::path meta = dir / kNanoGptMetaFile, pickled = dir / kNanochatTokenizerFile;
  if (Exists(meta)) return ReadNanoGptMeta(meta);
  if (Exists(pickled)) return ReadNanochatTokenizer(pickled);
  const std::string other = OtherTokenizerIn(dir);
  if (!other.empty())
    throw InputError(fmt::format("{}: no tokenizer found", dir.string()), "", other);
  throw InputError(
      fmt::format("{}: no tokenizer found", dir.string()),
      fmt::format("expected {}, or vocab.json and merges.txt, or encoder.json and vocab.bpe",
                  kTokenizerFile),
      "a model trained on tokens has none: add the tokenizer's file");
}

}  // namespace

std::string OtherTokenizerIn(const fs::path& dir) {
  for (const std::string_view read : {kTokenizerFile, kVocabFile, kMergesFile}) {
    if (Exists(dir / read)) return "";
  }
  const auto* const other = std::ranges::find_if(
      kOtherFiles, [&](const OtherFile& one) { return Exists(dir / one.name); });
  if (other == std::end(kOtherFiles)) return "";
  return fmt::format("{} is {}, which folio does not support; {}", other->name, other->what,
                     kMakeTokenizerJson);
}

std::unique_ptr<CharTokenizer> ReadNanoGptMeta(const std::filesystem::path& path) {
  const Json meta = ReadPlainPickle(path);
  const auto refuse = [&](const std::string& cause) {
    return InputError(fmt::format("{}: unsupported tokenizer", path.string()), cause,
                      "move it away, and give the tokenizer with --tokenizer");
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

namespace {

// The validated state of a pickled Encoding. Errors begin with `path`.
class EncodingState {
 public:
  EncodingState(const Pickle& pickle, std::string path)
      : pickle_(pickle), path_(std::move(path)), state_(StateOf(pickle.root())) {}

  SplitPattern Pattern() const {
    const std::string_view regex = Member("pat_str", PickleValue::Kind::kText).text;
    if (const std::optional<SplitPattern> pattern = FindTiktokenRegex(regex)) return *pattern;
    Fail(fmt::format("it splits text by {}", regex.substr(0, 200)));
  }

  // The bytes of each rank.
  std::vector<std::string_view> Ranks() const {
    const PickleValue& ranks = Member("mergeable_ranks", PickleValue::Kind::kDict);
    std::vector<std::string_view> tokens(ranks.items.size() / 2);
    for (const auto& [token, rank] : Entries(ranks)) {
      if (rank < 0 || rank >= std::ssize(tokens) || token.empty()) {
        Fail(fmt::format("a token of {} bytes has the rank {} of {}", token.size(), rank,
                         tokens.size()));
      }
      std::string_view& slot = tokens[static_cast<size_t>(rank)];
      if (!slot.empty()) Fail(fmt::format("two tokens have the rank {}", rank));
      slot = token;
    }
    return tokens;
  }

  // The special tokens behind the ranks, in order.
  std::vector<SpecialToken> Specials(size_t ranks) const {
    const PickleValue& specials = Member("special_tokens", PickleValue::Kind::kDict);
    std::vector<SpecialToken> tokens;
    for (const auto& [text, id] : Entries(specials)) {
      if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
        Fail(fmt::format("a special token has the id {}", id));
      }
      tokens.push_back({std::string(text), static_cast<int32_t>(id)});
    }
    std::ranges::sort(tokens, {}, &SpecialToken::id);
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (std::cmp_equal(tokens[i].id, ranks + i)) continue;
      Fail(fmt::format("special token {} has the id {} after {} ranks", i, tokens[i].id, ranks));
    }
    return tokens;
  }

 private:
  [[noreturn]] void Fail(std::string cause) const {
    throw InputError(fmt::format("{}: unsupported tokenizer", path_), std::move(cause),
                     "folio supports the tokenizer.pkl of nanochat's tok_train");
  }

  const PickleValue& StateOf(const PickleValue& root) const {
    using Kind = PickleValue::Kind;
    if (root.kind != Kind::kObject || root.items.size() < 3 ||
        pickle_[root.items[2]].kind != Kind::kDict) {
      Fail("expected a pickled tiktoken Encoding");
    }
    return pickle_[root.items[2]];
  }

  const PickleValue& Member(std::string_view name, PickleValue::Kind kind) const {
    for (size_t i = 0; i < state_.items.size(); i += 2) {
      const PickleValue& value = pickle_[state_.items[i + 1]];
      if (pickle_[state_.items[i]].text == name && value.kind == kind) return value;
    }
    Fail(fmt::format("its state has no {}", name));
  }

  std::vector<std::pair<std::string_view, int64_t>> Entries(const PickleValue& dict) const {
    std::vector<std::pair<std::string_view, int64_t>> entries;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const PickleValue &key = pickle_[dict.items[i]], &id = pickle_[dict.items[i + 1]];
      if (key.kind != PickleValue::Kind::kText || id.kind != PickleValue::Kind::kInt) {
        Fail("a token is not a string, or its id not a number");
      }
      entries.emplace_back(key.text, id.integer);
    }
    return entries;
  }

  const Pickle& pickle_;
  std::string path_;
  const PickleValue& state_;
};

}  // namespace

std::unique_ptr<Tokenizer> ReadNanochatTokenizer(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 1> kClasses = {"tiktoken.core.Encoding"};
  const std::string bytes = ReadFile(path, Pickle::kMaxBytes);
  const Pickle pickle(std::as_bytes(std::span(bytes)), path.string(), kClasses);
  const EncodingState state(pickle, path.string());
  const std::vector<std::string_view> ranks = state.Ranks();
  ByteStrings ranked;
  for (const std::string_view token : ranks) ranked.Add(token);
  BpeVocab vocab =
      VocabOfRanks(ranked, {.pattern = state.Pattern(), .specials = state.Specials(ranks.size())},
                   path.string());
  ChatSource chat{.text = OpenChatTemplate("nanochat")->source(), .where = "the template nanochat"};
  for (const SpecialToken& special : vocab.specials) {
    if (special.text == "<|bos|>") {
      vocab.before = {special.id};
      chat.bos_token = special.text;
    }
    if (special.text == "<|assistant_end|>") chat.eos_token = special.text;
  }
  auto tokenizer = std::make_unique<BpeTokenizer>(std::move(vocab));
  if (!chat.bos_token.empty() && !chat.eos_token.empty()) {
    tokenizer->set_chat_source(std::move(chat));
  }
  return tokenizer;
}

void Tokenizer::Save(const std::string& dir) const {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false}};
  if (const std::optional<int32_t> end = end_of_text()) {
    for (const char* key : {"eos_token", "bos_token"}) config[key] = std::string(TokenBytes(*end));
  }
  if (const std::optional<ChatFormat> chat = FindChatFormat(*this)) {
    config["eos_token"] = std::string(TokenBytes(chat->end));
    config["chat_template"] = std::string(RoleTokenTemplate());
  } else {
    const ChatSource& source = chat_source();
    if (!source.bos_token.empty()) config["bos_token"] = source.bos_token;
    if (!source.eos_token.empty()) config["eos_token"] = source.eos_token;
    if (!source.text.empty()) config["chat_template"] = source.text;
    if (!source.for_tools.empty()) {
      config["chat_template"] =
          Json::array({Json{{"name", "default"}, {"template", source.text}},
                       Json{{"name", "tool_use"}, {"template", source.for_tools}}});
    }
  }
  const GuardedDirectory inside(dir);
  WriteFileAtomically(fs::path(dir) / kTokenizerFile, FileContents());
  WriteFileAtomically(fs::path(dir) / kTokenizerConfigFile, config.dump(2) + "\n");
}

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& dir_or_file) {
  const fs::path path(dir_or_file);
  if (IsDirectory(path)) {
    std::unique_ptr<Tokenizer> tokenizer = FromDirectory(path);
    if (ChatSource source = ReadChatSource(path); source != ChatSource()) {
      tokenizer->set_chat_source(std::move(source));
    }
    return tokenizer;
  }
  if (IsGguf(path)) return FromGguf(path);
  const std::string name = path.filename().string();
  if (path.extension() == ".tiktoken") return FromTiktoken(path, path.stem().string());
  if (name == kNanochatTokenizerFile) return ReadNanochatTokenizer(path);
  if (path.extension() == ".pkl") return ReadNanoGptMeta(path);
  for (const FilePair& pair : kFilePairs) {
    if (name == pair.vocab || name == pair.merges) return FromPair(path.parent_path(), pair);
  }
  const auto* const other = std::ranges::find(kOtherFiles, name, &OtherFile::name);
  if (other != std::end(kOtherFiles)) {
    throw InputError(
        fmt::format("{}: {}, which folio does not support", path.string(), other->what), "",
        kMakeTokenizerJson);
  }
  return TokenizerFromJson(ReadFile(path, kMaxVocabFileBytes), path.string());
}

}  // namespace folio
