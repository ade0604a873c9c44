#include "folio/formats/llmc.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/io/byte_reader.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/tensor_file.h"
#include "folio/model/config.h"
#include "folio/model_files/config_json.h"
#include "folio/model_files/families.h"
#include "folio/tensor/dtype.h"
#include "folio/text/bpe_tokenizer.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kLlmcTokenizerFile[] = "gpt2_tokenizer.bin";
using TokenizerHeader = std::array<int32_t, 256>;

constexpr int32_t kTokenizerMagic = 20240328, kVersion = 2, kVersionWithoutEnd = 1;
constexpr int32_t kGpt2End = 50256;
constexpr uint64_t kMaxBytes = uint64_t{8} << 20;

// The contents of such a file.
struct StoredTokens {
  std::vector<std::string_view> tokens = {};
  int32_t end = 0;    // of a text
  int32_t added = 0;  // special tokens beside that: the last ones

  bool special(size_t id) const {
    return std::cmp_equal(id, end) || id + static_cast<size_t>(added) >= tokens.size();
  }
  std::vector<std::string> TextsFrom(size_t id) const {
    return {tokens.begin() + id, tokens.end()};
  }
};

StoredTokens ReadStoredTokens(std::string_view bytes, const std::string& path) {
  ByteReader reader(std::as_bytes(std::span(bytes)),
                    fmt::format("{} is not a valid llm.c tokenizer", path));
  if (reader.Number<int32_t>() != kTokenizerMagic) reader.Fail("the magic number is wrong");
  const auto version = reader.Number<int32_t>();
  if (version != kVersion && version != kVersionWithoutEnd) {
    reader.Fail(fmt::format("version {} is not supported", version));
  }
  const auto count = reader.Number<int32_t>();
  StoredTokens stored{.end = reader.Number<int32_t>(), .added = reader.Number<int32_t>()};
  if (version == kVersionWithoutEnd) {
    stored.end = kGpt2End;
    stored.added = 0;
  }
  reader.Seek(sizeof(TokenizerHeader));
  if (count < 1 || stored.end < 0 || stored.end >= count || stored.added < 0 ||
      stored.added >= count || static_cast<size_t>(count) > reader.left()) {
    reader.Fail(fmt::format("{} tokens, end-of-text token {}, {} other special tokens", count,
                            stored.end, stored.added));
  }
  std::set<std::string_view> seen;
  for (int32_t id = 0; id < count; ++id) {
    const std::string_view token = reader.Text(reader.Number<uint8_t>());
    if (token.empty()) reader.Fail(fmt::format("token {} is empty", id));
    if (!seen.insert(token).second) reader.Fail(fmt::format("token {} appears twice", id));
    stored.tokens.push_back(token);
  }
  for (size_t id = 0; id < stored.tokens.size(); ++id) {
    if (stored.special(id) && FindInvalidUtf8(stored.tokens[id]) != std::string::npos) {
      reader.Fail(fmt::format("token {} is special, and not UTF-8", id));
    }
  }
  if (reader.left() != 0) reader.Fail(fmt::format("{} extra bytes", reader.left()));
  return stored;
}

// Returns null if the tokens are not those of a tokenizer of this kind; so do the two below.
std::unique_ptr<Tokenizer> AsBytes(const StoredTokens& stored) {
  constexpr size_t kBytes = ByteTokenizer::kEndOfText;
  const auto& tokens = stored.tokens;
  if (tokens.size() != kBytes + 1 + static_cast<size_t>(stored.added) ||
      stored.end != ByteTokenizer::kEndOfText || tokens[kBytes] != kEndOfTextToken) {
    return nullptr;
  }
  for (size_t id = 0; id < kBytes; ++id) {
    if (tokens[id] != std::string(1, static_cast<char>(id))) return nullptr;
  }
  return std::make_unique<ByteTokenizer>(stored.TextsFrom(kBytes + 1));
}

std::unique_ptr<Tokenizer> AsCharacters(const StoredTokens& stored) {
  std::vector<char32_t> characters;
  for (const std::string_view token : stored.tokens) {
    const char32_t code = OnlyCharacter(token);
    if (code == 0 || (!characters.empty() && code <= characters.back())) break;
    characters.push_back(code);
  }
  const size_t specials = stored.tokens.size() - characters.size();
  const bool ended = std::cmp_equal(stored.end, characters.size());
  if (characters.empty() || specials != static_cast<size_t>(stored.added) + (ended ? 1 : 0)) {
    return nullptr;
  }
  return std::make_unique<CharTokenizer>(characters, stored.TextsFrom(characters.size()));
}

std::unique_ptr<Tokenizer> AsBpe(const StoredTokens& stored, const std::string& path) {
  const size_t count = stored.tokens.size();
  BpeVocab vocab;
  ByteStrings ranked;
  size_t single = 0;
  for (size_t id = 0; id < count; ++id) {
    const std::string_view token = stored.tokens[id];
    const bool special = stored.special(id);
    vocab.tokens.Add(token);
    ranked.Add(special ? std::string_view() : token);
    if (special) vocab.specials.push_back({std::string(token), static_cast<int32_t>(id)});
    if (!special && token.size() == 1) ++single;
  }
  constexpr size_t kAllBytes = 256;
  if (single != kAllBytes) return nullptr;
  CheckBpeVocab(vocab, path);
  vocab.merges = MergesFromRanks(ranked, static_cast<int32_t>(count));
  vocab.whole_pretokens = vocab.merges.size() + kAllBytes + vocab.specials.size() < count;
  return std::make_unique<BpeTokenizer>(std::move(vocab));
}

std::unique_ptr<Tokenizer> ParseTokenizer(std::string_view bytes, const std::string& path) {
  const StoredTokens stored = ReadStoredTokens(bytes, path);
  if (auto tokenizer = AsBytes(stored)) return tokenizer;
  if (auto tokenizer = AsCharacters(stored)) return tokenizer;
  return AsBpe(stored, path);
}

// The token with which llm.c begins a text: the one that ends texts, or without such a token a line
// break, as in folio.
int32_t FirstToken(const Tokenizer& tokenizer) {
  if (tokenizer.end_of_text()) return *tokenizer.end_of_text();
  std::vector<int32_t> line_break;
  tokenizer.EncodePrefix("\n", line_break);
  return line_break.empty() ? 0 : line_break.front();
}

constexpr size_t kHeaderInts = 256, kHeaderBytes = kHeaderInts * sizeof(int32_t);
constexpr int32_t kMagic = 20240326, kFloat32 = 3, kBFloat16 = 5;
constexpr int64_t kPadding = 128;
constexpr int64_t kMaxTensors = 4096;  // so that a small file cannot ask for a large table

// The sizes that the header begins with.
constexpr std::array<std::pair<const char*, int64_t GptConfig::*>, 5> kSizes = {{
    {"n_positions", &GptConfig::n_positions},
    {"vocab_size", &GptConfig::vocab_size},
    {"n_layer", &GptConfig::n_layer},
    {"n_head", &GptConfig::n_head},
    {"n_embd", &GptConfig::n_embd},
}};

// The order of the parameters in the file, as indices in the list of a model with all biases: the
// first of its kind in the list, then those of the same kind in the other blocks.
std::vector<size_t> FileOrder(const ParamTable& table) {
  std::vector<size_t> first, order;
  for (size_t i = 0; i < table.params().size(); ++i) {
    const auto same = [&](const ParamInfo& other) {
      return other.module == table.params()[i].module && other.part == table.params()[i].part;
    };
    first.push_back(
        static_cast<size_t>(std::ranges::find_if(table.params(), same) - table.params().begin()));
    order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return first[i]; });
  return order;
}

class LlmcFile : public TensorFile {
 public:
  LlmcFile(const fs::path& path, Loading loading);

  const GptConfig& config() const { return config_; }

 private:
  int64_t ReadHeader(ByteReader& reader);

  GptConfig config_;
  Dtype dtype_ = Dtype::kF32;
};

// Returns the padded size of the vocabulary.
int64_t LlmcFile::ReadHeader(ByteReader& reader) {
  if (reader.Number<int32_t>() != kMagic) reader.Fail("the magic number is wrong");
  const auto version = reader.Number<int32_t>();
  if (version != kFloat32 && version != kBFloat16) {
    throw InputError(
        fmt::format("{}: unsupported version {} of llm.c's model files", path().string(), version),
        fmt::format("folio supports {} (float32) and {} (bfloat16)", kFloat32, kBFloat16),
        "export it again with a newer llm.c: python train_gpt2.py");
  }
  dtype_ = version == kFloat32 ? Dtype::kF32 : Dtype::kBF16;
  Json fields = {{"activation_function", "gelu_new"}};
  for (const auto& size : kSizes) fields[size.first] = reader.Number<int32_t>();
  for (const char* name : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) fields[name] = 0;
  config_ = GptConfigFromJson(fields.dump(), path().string());
  RequireBlocks(config_, kMaxTensors, path().string());
  const auto padded = reader.Number<int32_t>();
  if (padded < config_.vocab_size) {
    reader.Fail(fmt::format("vocabulary {}, padded to {}", config_.vocab_size, padded));
  }
  reader.Seek(kHeaderBytes);
  return padded;
}

LlmcFile::LlmcFile(const fs::path& path, Loading loading) : TensorFile(path) {
  ByteReader reader(Open(path, loading),
                    fmt::format("{} is not a valid llm.c model file", path.string()));
  const int64_t padded = ReadHeader(reader);
  const ParamTable table(config_);
  const auto size = static_cast<int64_t>(DtypeSize(dtype_));
  for (const size_t i : FileOrder(table)) {
    const ParamInfo& param = table.params()[i];
    const RowsInFiles whole =
        TensorsInFiles(Gpt2Family(), FileFormat::kLlmc, config_, param).front();
    TensorInfo info{.name = whole.name, .dtype = dtype_, .shape = whole.shape};
    info.bytes = static_cast<uint64_t>(param.shape.count() * size);
    info.data = reader.Bytes(info.bytes).data();
    if (i == 0) {
      reader.Bytes(static_cast<uint64_t>((padded - config_.vocab_size) * config_.n_embd * size));
    }
    Add(std::move(info));
  }
  if (reader.left() != 0) reader.Fail(fmt::format("{} extra bytes", reader.left()));
}

void WriteTokenizer(const fs::path& model, const Tokenizer& tokenizer) {
  const std::string bytes = LlmcTokenizerBytes(tokenizer);
  if (bytes.empty()) {
    throw InputError(
        fmt::format("llm.c's {} cannot store the tokenizer of this model", kLlmcTokenizerFile),
        fmt::format("it has {} tokens of kind {}; the file stores only the bytes of each token, up "
                    "to 255, which would give a different tokenizer",
                    tokenizer.vocab_size(), tokenizer.kind()),
        "convert to another format");
  }
  const fs::path path = model.parent_path() / kLlmcTokenizerFile;
  if (!Exists(path)) return WriteFileAtomically(path, bytes);
  std::error_code ignored;
  const bool same_size = fs::file_size(path, ignored) == bytes.size();
  if (same_size && ReadFile(path, bytes.size()) == bytes) return;
  throw InputError(fmt::format("{}: not replaced", path.string()),
                   "it is a different tokenizer, and that of this model has the same file name",
                   "write the model to another directory");
}

}  // namespace

std::unique_ptr<Tokenizer> ReadLlmcTokenizer(const std::filesystem::path& path) {
  return ParseTokenizer(ReadFile(path, kMaxBytes), path.string());
}

std::string LlmcTokenizerBytes(const Tokenizer& tokenizer) {
  const auto count = static_cast<int32_t>(tokenizer.vocab_size());
  const auto specials = static_cast<int32_t>(tokenizer.special_tokens().size());
  const int32_t added = tokenizer.end_of_text() ? specials - 1 : specials;
  const TokenizerHeader header = {kTokenizerMagic, kVersion, count, FirstToken(tokenizer), added};
  std::string bytes(reinterpret_cast<const char*>(header.data()), sizeof(header));
  for (int32_t id = 0; id < count; ++id) {
    const std::string_view token = tokenizer.TokenBytes(id);
    constexpr size_t kLongest = 255;
    if (token.empty() || token.size() > kLongest) return "";
    bytes += static_cast<char>(token.size());
    bytes += token;
  }
  try {
    const auto again = ParseTokenizer(bytes, kLlmcTokenizerFile);
    return again != nullptr && again->hash() == tokenizer.hash() ? bytes : "";
  } catch (const Error&) {  // for example a token that appears twice
    return "";
  }
}

bool IsLlmc(const fs::path& path) {
  std::string magic;
  AppendLittleEndian(magic, kMagic);
  return FileBeginsWith(path, magic);
}

FoundModel OpenLlmc(const fs::path& path, Loading loading) {
  const auto file = std::make_shared<const LlmcFile>(path, loading);
  FoundModel found{.model = FindParams(file->config(), file, Gpt2Family(), FileFormat::kLlmc,
                                       [](const TensorInfo&) {})};
  const fs::path tokenizer = path.parent_path() / kLlmcTokenizerFile;
  if (Exists(tokenizer)) found.tokenizer = ReadLlmcTokenizer(tokenizer);
  if (found.tokenizer == nullptr) {
    UseGpt2Encoding(found, "put llm.c's gpt2_tokenizer.bin beside the model");
  } else if (found.tokenizer->vocab_size() > file->config().vocab_size) {
    throw InputError(fmt::format("{}: the tokenizer belongs to another model", tokenizer.string()),
                     fmt::format("it has {} tokens, the model {}", found.tokenizer->vocab_size(),
                                 file->config().vocab_size),
                     "move one of them to another directory");
  }
  if (found.tokenizer != nullptr) {
    found.model.config.bos_token_id = found.model.config.eos_token_id =
        found.tokenizer->end_of_text();
  }
  return found;
}

void SaveLlmc(const fs::path& path, const ModelToSave& model) {
  const GptConfig& config = model.weights.config();
  RequireExpressed(config, FileFormat::kLlmc, "llm.c cannot run this model");
  const int64_t padded = CeilDiv(config.vocab_size, kPadding) * kPadding;
  std::array<int32_t, kHeaderInts> header = {kMagic,
                                             model.dtype == Dtype::kF32 ? kFloat32 : kBFloat16};
  size_t next = 2;
  for (const auto& size : kSizes) header[next++] = static_cast<int32_t>(config.*size.second);
  header[next] = static_cast<int32_t>(padded);
  AtomicFile file(path);
  file.Write(std::as_bytes(std::span(header)));
  const GptConfig described = WithBiases(config);
  std::vector<TensorToWrite> tensors =
      TensorsToWrite(model.weights, described, Gpt2Family(), FileFormat::kLlmc, model.dtype);
  for (const size_t i : FileOrder(ParamTable(described))) {
    tensors[i].dtype = model.dtype;  // norms and biases too
    EncodeTensor(tensors[i], [&](std::span<const std::byte> bytes) { file.Write(bytes); });
    if (i > 0) continue;
    const auto pad = static_cast<size_t>((padded - config.vocab_size) * config.n_embd);
    file.Write(std::string(pad * DtypeSize(model.dtype), '\0'));
  }
  if (model.tokenizer != nullptr) WriteTokenizer(fs::absolute(path), *model.tokenizer);
  file.Commit();
}

}  // namespace folio
