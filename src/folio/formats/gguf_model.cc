#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/formats/other_programs.h"
#include "folio/io/gguf.h"
#include "folio/model/families.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/bpe_vocab.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/tokenizer_file.h"
#include "folio/text/vocab_files.h"

namespace folio {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model", kPre = "tokenizer.ggml.pre";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens",
                           kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges",
                           kChatTemplate = "tokenizer.chat_template";
constexpr std::string_view kBpe = "gpt2", kLongestMatch = "rwkv", kNone = "no_vocab";
constexpr std::string_view kGpt2Pattern = "gpt-2";

enum TokenType : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

std::string PadName(size_t id) {
  return fmt::format("[PAD{}]", id);
}

[[noreturn]] void Refuse(
    const GgufFile& file, const std::string& what, std::string cause,
    std::string help =
        "folio reads GPT-2's byte-level BPE from GGUF; other tokenizers it takes "
        "from the model's Hugging Face directory") {
  throw InputError(fmt::format("{}: {}", file.path().string(), what), std::move(cause),
                   std::move(help));
}

// --- reading the tokenizer

// The tokens that stand for something, and which of them are special.
struct Listed {
  NamedIds ids = {};
  std::vector<SpecialToken> specials = {};
  bool typed = false;
};

std::vector<int32_t> ReadTypes(const GgufFile& file, size_t tokens) {
  std::vector<int32_t> types;
  types.reserve(std::min<size_t>(tokens, kMaxVocabIds));
  file.Integers(kTypesKey, [&](size_t i, int64_t type) {
    if (i < tokens) types.push_back(static_cast<int32_t>(std::clamp<int64_t>(type, 0, 99)));
  });
  if (!types.empty() && types.size() != tokens) {
    Refuse(file, "its tokenizer does not fit together",
           fmt::format("{} tokens, {} of them have a type", tokens, types.size()));
  }
  return types;
}

Listed ReadTokens(const GgufFile& file) {
  const uint64_t count = file.Count(kTokensKey);
  if (count == 0 || count > static_cast<uint64_t>(kMaxVocabIds)) {
    Refuse(file, "its tokenizer has no vocabulary",
           fmt::format("{} tokens, expected 1 to {}", count, kMaxVocabIds));
  }
  const std::vector<int32_t> types = ReadTypes(file, count);
  Listed listed{.typed = !types.empty()};
  size_t room = 0;
  file.Texts(kTokensKey, [&](size_t, std::string_view text) { room += text.size(); });
  if (room > kMaxVocabFileBytes) Refuse(file, "its vocabulary is too long", "");
  listed.ids.names = std::make_unique_for_overwrite<char[]>(room);
  listed.ids.entries.reserve(count);
  uint32_t used = 0;
  file.Texts(kTokensKey, [&](size_t id, std::string_view text) {
    const int32_t type = types.empty() ? kNormal : types[id];
    if (FindInvalidUtf8(text) != text.npos) {
      Refuse(file, fmt::format("token {} of its tokenizer is not UTF-8", id), "");
    }
    const bool pad = type == kUnused || (type == kUserDefined && text == PadName(id));
    if (pad) return;
    if (type == kControl) {
      if (text.empty()) Refuse(file, "a special token is empty", fmt::format("its id is {}", id));
      listed.specials.push_back({std::string(text), static_cast<int32_t>(id)});
    } else if (type != kNormal) {
      Refuse(file, fmt::format("the token '{}' is of a type that folio does not have", text),
             fmt::format("found {}, expected 1 (normal), 3 (control) or 5 (unused)", type));
    }
    std::ranges::copy(text, listed.ids.names.get() + used);
    const auto length = static_cast<uint32_t>(text.size());
    listed.ids.entries.push_back({used, length, static_cast<int32_t>(id)});
    used += length;
  });
  return listed;
}

bool IsByteVocab(const BpeVocab& vocab) {
  const ByteTokenizer bytes;
  const auto size = static_cast<size_t>(bytes.vocab_size());
  if (!vocab.merges.empty() || vocab.tokens.size() != size) return false;
  for (size_t id = 0; id < size; ++id) {
    if (vocab.tokens[id] != bytes.TokenBytes(static_cast<int32_t>(id))) return false;
  }
  return std::ranges::equal(vocab.specials, bytes.special_tokens());
}

std::unique_ptr<Tokenizer> ReadBpe(const GgufFile& file) {
  const std::string_view pattern = file.Text(kPre).value_or(kGpt2Pattern);
  // Files of the time before the key was invented, or converted by what did not know the tokenizer.
  if (pattern != kGpt2Pattern && pattern != "default") {
    Refuse(file, fmt::format("its split pattern \"{}\" is not supported", pattern),
           fmt::format("expected \"{}\"", kGpt2Pattern));
  }
  const Listed listed = ReadTokens(file);
  VocabBuilder builder(
      listed.ids, file.path().string(),
      listed.typed ? VocabBuilder::Specials::kDeclared : VocabBuilder::Specials::kUnmade);
  for (const SpecialToken& special : listed.specials) builder.AddSpecial(special);
  if (file.Count(kMerges) > static_cast<uint64_t>(kMaxMerges)) {
    Refuse(file, "its tokenizer has too many merges", "");
  }
  const bool merges = file.Texts(kMerges, [&](size_t rank, std::string_view text) {
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos ||
        FindInvalidUtf8(text) != text.npos) {
      Refuse(file, fmt::format("merge {} of its tokenizer is none", rank),
             fmt::format("expected two tokens with a space between, found '{}'",
                         ReplaceInvalidUtf8(text)));
    }
    builder.AddMerge(text.substr(0, space), text.substr(space + 1),
                     [&] { return fmt::format("{}: merge {}", file.path().string(), rank); });
  });
  if (!merges)
    Refuse(file, "its tokenizer has no merges", fmt::format("\"{}\" is missing", kMerges));
  BpeVocab vocab = builder.Finish();
  if (IsByteVocab(vocab)) return std::make_unique<ByteTokenizer>();
  return std::make_unique<BpeTokenizer>(std::move(vocab));
}

// What llama.cpp's "rwkv" writes for a character.
using Escape = std::pair<std::string_view, std::string_view>;
constexpr std::array<Escape, 4> kEscapes = {
    {{"\n", "\\n"}, {"\t", "\\t"}, {"\r", "\\r"}, {"\\", "\\\\"}}};

std::string Unescaped(std::string_view text) {
  const auto* const escape = std::ranges::find(kEscapes, text, &Escape::second);
  return std::string(escape == kEscapes.end() ? text : escape->first);
}

std::string Escaped(std::string_view character) {
  const auto* const escape = std::ranges::find(kEscapes, character, &Escape::first);
  return std::string(escape == kEscapes.end() ? character : escape->second);
}

std::unique_ptr<Tokenizer> ReadCharacters(const GgufFile& file) {
  const Listed listed = ReadTokens(file);
  std::vector<char32_t> characters;
  for (const NamedIds::Entry& entry : listed.ids.entries) {
    const std::string text = Unescaped(listed.ids.name(entry));
    const Utf8Char c = text.empty() ? Utf8Char{} : DecodeUtf8(text);
    const bool next = static_cast<size_t>(entry.id) == characters.size() &&
                      (characters.empty() || characters.back() < c.code);
    if (c.status != Utf8Status::kValid || c.length != text.size() || !next) {
      Refuse(file, "its tokenizer is not supported",
             fmt::format("of \"{}\" vocabularies folio reads those of single characters in the "
                         "order of Unicode; token {} is '{}'",
                         kLongestMatch, entry.id, text));
    }
    characters.push_back(c.code);
  }
  if (characters.empty()) Refuse(file, "its tokenizer has no tokens", "all are unused");
  return std::make_unique<CharTokenizer>(characters);
}

// --- writing the tokenizer

[[noreturn]] void RefuseToWrite(const std::string& what, std::string cause, std::string help) {
  throw InputError(fmt::format("GGUF cannot hold {}", what), std::move(cause), std::move(help));
}

// The vocabulary as it is written.
struct Written {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;

  void Add(std::string token, TokenType type) {
    tokens.push_back(std::move(token));
    types.push_back(type);
  }
};

// Ids that stand for nothing get names that no other token has.
void AddPads(int64_t vocab_size, std::string_view prefix, Written& written) {
  std::set<std::string, std::less<>> names(written.tokens.begin(), written.tokens.end());
  written.tokens.resize(static_cast<size_t>(vocab_size));
  written.types.resize(static_cast<size_t>(vocab_size), kUnused);
  for (size_t id = 0; id < written.tokens.size(); ++id) {
    if (written.types[id] != kUnused) continue;
    std::string name = fmt::format("{}{}", prefix, PadName(id));
    while (names.contains(name)) name += '_';
    written.tokens[id] = std::move(name);
  }
}

void AddEnds(std::optional<int64_t> begin, std::optional<int64_t> end, GgufHeader& header) {
  if (begin) header.AddU32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*begin));
  if (end) header.AddU32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(*end));
  header.AddBool("tokenizer.ggml.add_bos_token", false);
}

// The tokens of a BPE vocabulary that begin and end a text. llama.cpp takes token 11 where it names
// none, so an id that nothing is made of stands in.
void AddBpeEnds(const Tokenizer& tokenizer, const GptConfig& config, const Written& written,
                GgufHeader& header) {
  std::optional<int64_t> end = config.eos_token_id;
  if (!end) end = tokenizer.end_of_text();
  if (!end) {
    const auto pad = std::ranges::find(written.types, kUnused);
    if (pad != written.types.end()) end = pad - written.types.begin();
  }
  if (!end) {
    RefuseToWrite("this tokenizer",
                  "it has no token that ends a text, and other programs take token 11 for it then",
                  "train with a tokenizer that has <|endoftext|>");
  }
  AddEnds(config.bos_token_id.value_or(*end), end, header);
}

void AddVocabulary(const Written& written, GgufHeader& header) {
  header.AddTexts(kTokensKey, written.tokens);
  header.AddI32s(kTypesKey, written.types);
}

// llama.cpp merges, and looks nothing up as a whole before.
void RequireMergesMakeAll(const BpeVocab& vocab) {
  if (!vocab.whole_pretokens) return;
  BpeVocab merging = vocab;
  merging.whole_pretokens = false;
  const BpeTokenizer whole(vocab), merged(std::move(merging));
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (whole.EncodeOrdinary(vocab.tokens[id]) == merged.EncodeOrdinary(vocab.tokens[id])) continue;
    RefuseToWrite("this tokenizer",
                  fmt::format("its token {} is made by no merges, which is all that other programs "
                              "do with GPT-2's pattern",
                              id),
                  "train with --tokenizer gpt2, bytes or one that folio trained");
  }
}

void AddBpe(const BpeTokenizer& tokenizer, const GptConfig& config, GgufHeader& header) {
  const BpeVocab& vocab = tokenizer.vocab();
  if (vocab.pattern != SplitPattern::kGpt2) {
    RefuseToWrite("this tokenizer",
                  "its split pattern is not GPT-2's, and other programs split by cl100k's and "
                  "o200k's a little otherwise",
                  "convert to hf, or train with --tokenizer gpt2, bytes or one that folio trained "
                  "with GPT-2's pattern");
  }
  RequireMergesMakeAll(vocab);
  Written written;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (const SpecialToken* special = FindSpecial(vocab.specials, id)) {
      written.Add(special->text, kControl);
    } else {
      written.Add(ByteNames(vocab.tokens[id]), vocab.tokens[id].empty() ? kUnused : kNormal);
    }
  }
  AddPads(config.vocab_size, "", written);
  const auto name = [&](int32_t id) { return ByteNames(vocab.tokens[static_cast<size_t>(id)]); };
  std::vector<std::string> merges;
  merges.reserve(vocab.merges.size());
  for (const BpeMerge& merge : vocab.merges) {
    merges.push_back(fmt::format("{} {}", name(merge.left), name(merge.right)));
  }
  header.AddText(kModel, kBpe);
  header.AddText(kPre, kGpt2Pattern);
  AddVocabulary(written, header);
  header.AddTexts(kMerges, merges);
  AddBpeEnds(tokenizer, config, written, header);
}

void AddBytes(const ByteTokenizer& tokenizer, const GptConfig& config, GgufHeader& header) {
  BpeVocab vocab;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    vocab.tokens.Add(tokenizer.TokenBytes(id));
  }
  vocab.specials.assign(tokenizer.special_tokens().begin(), tokenizer.special_tokens().end());
  AddBpe(BpeTokenizer(std::move(vocab)), config, header);
}

void AddCharacters(const CharTokenizer& tokenizer, const GptConfig& config, GgufHeader& header) {
  constexpr char kHelp[] =
      "convert to hf, or train with --tokenizer bytes or one that folio trained";
  if (!tokenizer.special_tokens().empty()) {
    RefuseToWrite("this character tokenizer",
                  fmt::format("its longest match would take {} for text",
                              tokenizer.special_tokens().front().text),
                  kHelp);
  }
  Written written;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view character = tokenizer.TokenBytes(id);
    // llama.cpp never ends on a character it does not know whose first byte it does.
    if (character.size() > 1 || character == std::string_view("\0", 1)) {
      RefuseToWrite("this character tokenizer",
                    fmt::format("{} is not ASCII: programs that read GGUF fail on other characters "
                                "that begin with the same byte",
                                QuoteChar(DecodeUtf8(character).code)),
                    kHelp);
    }
    written.Add(Escaped(character), kNormal);
  }
  // 0xFF is in no text.
  AddPads(config.vocab_size, "\\xff", written);
  header.AddText(kModel, kLongestMatch);
  AddVocabulary(written, header);
  AddEnds(config.bos_token_id, config.eos_token_id, header);
}

// --- reading the model

constexpr FileFormat kFormat = FileFormat::kGguf;

std::string KeyOf(const Family& family, std::string_view name) {
  return fmt::format("{}.{}", family.gguf_architecture, name);
}

// A size of the model.
int64_t Size(const GgufFile& file, const std::string& key, int64_t most) {
  const std::optional<int64_t> size = file.Integer(key);
  if (size && *size >= 1 && *size <= most) return *size;
  Refuse(file, fmt::format("\"{}\" is {}", key, size ? "out of range" : "missing"),
         fmt::format("{}expected 1 to {}", size ? fmt::format("found {}, ", *size) : "", most),
         "convert the model again with a current program");
}

const Family& FamilyOf(const GgufFile& file) {
  const std::string_view architecture = file.Text("general.architecture").value_or("");
  const auto families = Families();
  const auto family = std::ranges::find_if(families, [&](const Family& one) {
    return (one.formats & Formats(kFormat)) != 0 && one.gguf_architecture == architecture;
  });
  if (family != families.end()) return *family;
  Refuse(file, fmt::format("a model of the architecture \"{}\"", architecture),
         fmt::format("folio runs \"{}\"", Gpt2Family().gguf_architecture), "give a GPT-2 model");
}

void RefuseForeign(const GgufFile& file) {
  if (file.foreign().empty()) return;
  const GgufFile::Foreign& tensor = file.foreign().front();
  Refuse(file, fmt::format("tensor \"{}\" is of type {}", tensor.name, tensor.type),
         "folio reads F32, F16, BF16, Q8_0 and Q4_0",
         "convert the original model to one of them, or requantise this file");
}

// Heads that share keys, or are of another size, would make another model of the same tensors.
void CheckHeads(const GgufFile& file, const Family& family, const GptConfig& config) {
  const int64_t D = config.head_size();
  for (const auto& [name, expected] :
       {std::pair{"attention.head_count_kv", config.n_head}, std::pair{"attention.key_length", D},
        std::pair{"attention.value_length", D}}) {
    const int64_t found = file.Integer(KeyOf(family, name)).value_or(expected);
    if (found == expected) continue;
    Refuse(file, fmt::format("\"{}\" is not supported", KeyOf(family, name)),
           fmt::format("found {}, GPT-2 has {}", found, expected), "");
  }
}

void ReadBiases(const GgufFile& file, const Family& family, GptConfig& config) {
  const auto has = [&](int64_t layer, std::string_view module) {
    return file.Find(NameInFiles(family, kFormat, layer, module, "bias")) != nullptr;
  };
  const bool attention = has(0, "attn.c_attn"), mlp = has(0, "mlp.c_fc"), norm = has(-1, "ln_f");
  config.bias = attention;
  if (mlp != attention) config.mlp_bias = mlp;
  if (norm != attention) config.layer_norm_bias = norm;
}

void ReadKeys(const GgufFile& file, const Family& family, GptConfig& config) {
  const std::vector<Field> fields = config.Fields();
  for (const auto& [name, field_key, reading] : family.gguf_keys) {
    const std::string key = KeyOf(family, name);
    const Field& field = FieldOf(fields, field_key);
    if (reading == GgufKey::Reading::kNever) continue;
    if (reading == GgufKey::Reading::kOptional) {
      const auto number = file.Number(key);
      if (number) SetField(field, fmt::format("{}", *number), file.path().string());
      continue;
    }
    // Each block has its matrices, so that no more are counted than the file holds.
    const int64_t most = field_key == "n_layer" ? std::ssize(file.tensors()) : 1 << 30;
    SetField(field, fmt::format("{}", Size(file, key, most)), file.path().string());
  }
  if (config.n_inner == 4 * config.n_embd) config.n_inner.reset();
}

GptConfig ReadConfig(const GgufFile& file, const Family& family) {
  GptConfig config;
  try {
    ReadKeys(file, family, config);
    const TensorInfo& embeddings = file.Require(NameInFiles(family, kFormat, -1, "wte", "weight"));
    if (embeddings.shape.rank() != 2) {
      Refuse(file, fmt::format("tensor \"{}\" is no matrix", embeddings.name),
             fmt::format("its shape is {}", embeddings.shape.ToString()), "");
    }
    config.vocab_size = embeddings.shape[0];
    config.tie_word_embeddings = HeadIsTied(file, family, kFormat);
    ReadBiases(file, family, config);
    for (const Field& field : config.Fields()) {
      SetField(field, FieldText(field), file.path().string());
    }
    config.Validate(file.path().string());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInput) throw;
    throw InputError(error.what(), error.cause());
  }
  CheckHeads(file, family, config);
  return config;
}

// Ids that begin and end a text, unless they are of tokens that nothing is made of.
void ReadEnds(const GgufFile& file, const Tokenizer* tokenizer, GptConfig& config) {
  const int64_t ids = tokenizer == nullptr ? config.vocab_size : tokenizer->vocab_size();
  const auto read = [&](std::string_view key) {
    const std::optional<int64_t> id = file.Integer(key);
    return id && *id >= 0 && *id < ids ? id : std::nullopt;
  };
  config.bos_token_id = read("tokenizer.ggml.bos_token_id");
  config.eos_token_id = read("tokenizer.ggml.eos_token_id");
}

// --- writing the model

// The type of a whole file by its matrices, as llama.cpp numbers them.
uint32_t FileType(Dtype dtype) {
  using Type = std::pair<Dtype, uint32_t>;
  constexpr std::array<Type, 5> kTypes = {{{Dtype::kF32, 0},
                                           {Dtype::kF16, 1},
                                           {Dtype::kQ4_0, 2},
                                           {Dtype::kQ8_0, 7},
                                           {Dtype::kBF16, 32}}};
  const auto* const type = std::ranges::find(kTypes, dtype, &Type::first);
  FOLIO_CHECK(type != kTypes.end(), "GGUF holds no such dtype");
  return type->second;
}

void RequireWholeBlocks(const GptConfig& config, Dtype dtype) {
  const auto block = static_cast<int64_t>(DtypeBlock(dtype));
  for (const auto& [name, size] :
       {std::pair{"n_embd", config.n_embd}, std::pair{"n_inner", config.inner()}}) {
    if (size % block == 0) continue;
    throw InputError(fmt::format("this model cannot be written as {}", DtypeName(dtype)),
                     fmt::format("{} stores blocks of {} numbers, and {} is {}", DtypeName(dtype),
                                 block, name, size),
                     "choose f16 or bf16");
  }
}

void AddKeys(const Family& family, GptConfig config, GgufHeader& header) {
  config.n_inner = config.inner();
  const std::vector<Field> fields = config.Fields();
  for (const GgufKey& key : family.gguf_keys) {
    const Field& field = FieldOf(fields, key.field);
    const std::string name = KeyOf(family, key.key);
    if (const auto* number = std::get_if<double*>(&field.value)) {
      header.AddF32(name, static_cast<float>(**number));
    } else {
      header.AddU32(name, static_cast<uint32_t>(std::stoul(FieldText(field))));
    }
  }
}

GgufHeader MakeHeader(const std::string& name, const Family& family, const ModelToSave& model) {
  constexpr uint32_t kQuantization = 2;
  const GptConfig& config = model.weights.config();
  GgufHeader header;
  header.AddText("general.architecture", family.gguf_architecture);
  header.AddText("general.type", "model");
  header.AddText("general.name", name);
  header.AddU32("general.file_type", FileType(model.dtype));
  if (DtypeBlock(model.dtype) > 1) header.AddU32("general.quantization_version", kQuantization);
  AddKeys(family, config, header);
  AddGgufTokenizer(model.tokenizer, config, header);
  return header;
}

}  // namespace

std::unique_ptr<Tokenizer> ReadGgufTokenizer(const GgufFile& file) {
  const std::string_view model = file.Text(kModel).value_or(kNone);
  if (model == kNone || model == "none") return nullptr;
  if (model == kBpe) return ReadBpe(file);
  if (model == kLongestMatch) return ReadCharacters(file);
  Refuse(file, fmt::format("its tokenizer \"{}\" is not supported", model),
         fmt::format("expected \"{}\"", kBpe));
}

void AddGgufTokenizer(const Tokenizer* tokenizer, const GptConfig& config, GgufHeader& header) {
  if (tokenizer == nullptr) {
    header.AddText(kModel, kNone);
    AddEnds(config.bos_token_id, config.eos_token_id, header);
  } else if (const auto* bpe = dynamic_cast<const BpeTokenizer*>(tokenizer)) {
    AddBpe(*bpe, config, header);
  } else if (const auto* bytes = dynamic_cast<const ByteTokenizer*>(tokenizer)) {
    AddBytes(*bytes, config, header);
  } else if (const auto* characters = dynamic_cast<const CharTokenizer*>(tokenizer)) {
    AddCharacters(*characters, config, header);
  } else {
    RefuseToWrite(fmt::format("a tokenizer of the kind {}", tokenizer->kind()), "", "");
  }
  if (tokenizer != nullptr && FindChatFormat(*tokenizer)) {
    header.AddText(kChatTemplate, RoleTokenTemplate());
  } else if (tokenizer != nullptr && !tokenizer->chat_source().text.empty()) {
    header.AddText(kChatTemplate, tokenizer->chat_source().text);
  }
}

// The template of conversations, with the tokens that the file names for it.
ChatSource ReadGgufChat(const GgufFile& file, const Tokenizer& tokenizer, const GptConfig& config) {
  const auto text = [&](std::optional<int64_t> id) {
    const bool known = id && *id < tokenizer.vocab_size();
    return known ? std::string(tokenizer.TokenBytes(static_cast<int32_t>(*id))) : std::string();
  };
  return {.text = std::string(file.Text(kChatTemplate).value_or("")),
          .where = file.path().string() + ": " + std::string(kChatTemplate),
          .bos_token = text(config.bos_token_id),
          .eos_token = text(config.eos_token_id)};
}

FoundModel OpenGgufModel(const std::filesystem::path& path, Loading loading) {
  const auto file = std::make_shared<const GgufFile>(path, loading);
  const Family& family = FamilyOf(*file);
  RefuseForeign(*file);
  GptConfig config = ReadConfig(*file, family);
  FoundModel found{.tokenizer = ReadGgufTokenizer(*file)};
  ReadEnds(*file, found.tokenizer.get(), config);
  if (found.tokenizer != nullptr) {
    found.tokenizer->set_chat_source(ReadGgufChat(*file, *found.tokenizer, config));
  }
  found.model = FindParams(config, file, family, kFormat, [&](const TensorInfo& info) {
    Refuse(*file, fmt::format("tensor \"{}\" is not part of the model", info.name),
           "GPT-2 has none of that name", "check what made the file");
  });
  return found;
}

void SaveGgufModel(const std::filesystem::path& path, const ModelToSave& model) {
  const GptConfig& config = model.weights.config();
  RequireExpressed(config, kFormat, "GGUF cannot hold this model");
  RequireWholeBlocks(config, model.dtype);
  const Family& family = FamilyFor(config, kFormat);
  const GgufHeader header = MakeHeader(ReplaceInvalidUtf8(path.stem().string()), family, model);
  const GptConfig described = family.all_biases ? WithBiases(config) : config;
  WriteGguf(path, header, TensorsToWrite(model.weights, described, family, kFormat, model.dtype));
}

std::vector<ListedTensor> ListGgufTensors(const std::filesystem::path& path) {
  const GgufFile file(path);
  std::vector<ListedTensor> listed = ListTensors(file);
  for (const GgufFile::Foreign& tensor : file.foreign()) {
    listed.push_back({tensor.name, std::string(tensor.type), tensor.shape, tensor.bytes});
  }
  return listed;
}

}  // namespace folio
