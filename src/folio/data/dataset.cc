#include "folio/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string_view>

#include "folio/base/error.h"
#include "folio/base/hash.h"
#include "folio/base/strings.h"
#include "folio/io/byte_reader.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/io/pickle.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kPrepareHelp[] = "create it with `folio data prepare FILE... --out DIR`";

bool IsText(const Json& object, const char* key) {
  const Json* text = object.find(key);
  return text != nullptr && text->is_string();
}

// Small enough that a few such numbers can be added and multiplied by a width without overflow.
bool IsCount(const Json& object, const char* key) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 1024;
  const Json* count = object.find(key);
  return count != nullptr && count->is_number_unsigned() && count->get<uint64_t>() <= kMost;
}

// Reads members of dataset.json; errors name the member.
class Reader {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{16} << 20;  // some hundred thousand shards

  explicit Reader(const std::string& path)
      : path_(path), json_(ParseJson(ReadFile(path, kMostBytes), path)) {
    if (!json_.is_object()) Fail("an object", json_);
  }

  int64_t Count(const char* key) const {
    const Json& value = Member(key);
    if (!IsCount(json_, key)) Fail(fmt::format("\"{}\" to be a count", key), value);
    return value.get<int64_t>();
  }

  // A count that older data sets lack is 0.
  int64_t CountOr0(const char* key) const { return json_.contains(key) ? Count(key) : 0; }

  std::string Text(const char* key) const {
    const Json& value = Member(key);
    if (!value.is_string()) Fail(fmt::format("\"{}\" to be text", key), value);
    return value.get<std::string>();
  }

  TokenFormat Format() const {
    const std::string name = Text("format");
    if (const auto format = FindTokenFormat(name)) return *format;
    Fail("\"format\" to be \"folio\" or \"llmc\"", name);
  }

  // The files of one part.
  std::vector<TokenShard> Shards(const char* key) const {
    const Json& list = Member(key);
    if (!list.is_array() || list.empty()) Fail(fmt::format("\"{}\" to be a list", key), list);
    std::vector<TokenShard> shards;
    for (const Json& shard : list) {
      if (!shard.is_object() || !IsText(shard, "file") || !IsCount(shard, "tokens") ||
          !IsText(shard, "hash") || !IsFileName(shard["file"].get<std::string>())) {
        Fail(fmt::format("each of \"{}\" to have a file, tokens and a hash", key), shard);
      }
      shards.push_back({shard["file"].get<std::string>(), shard["tokens"].get<int64_t>(),
                        shard["hash"].get<std::string>()});
    }
    return shards;
  }

  std::optional<ChatData> Chat(int64_t vocab_size) const {
    const Json* chat = json_.find("chat");
    if (chat == nullptr) return {};
    const auto token = [&](const char* key, const Json* id) {
      if (id == nullptr || !id->is_number_unsigned() || id->get<double>() >= double(vocab_size)) {
        Fail(fmt::format("\"chat\" to have a token \"{}\"", key), *chat);
      }
      return id->get<int32_t>();
    };
    ChatData data;
    if (const Json* end = chat->find("end"); end != nullptr && !end->is_null()) {
      data.end = token("end", end);
    }
    const Json* answer = chat->find("answer");
    if (answer == nullptr) {
      if (!IsText(*chat, "train_hash") || !IsText(*chat, "val_hash")) {
        Fail("\"chat\" to have hashes", *chat);
      }
      data.train_hash = chat->at("train_hash").text();
      data.val_hash = chat->at("val_hash").text();
      return data;
    }
    // Older versions have one token, or a list of consecutive ones.
    data.marks.emplace();
    data.marks->border = token("border", chat->find("border"));
    data.marks->end = token("end", chat->find("end"));
    const Json list = answer->is_array() ? *answer : Json();
    if (list.empty()) data.marks->answer = {token("answer", answer)};
    for (const Json& one : list.is_array() ? list : Json::array()) {
      data.marks->answer.push_back(token("answer", &one));
    }
    return data;
  }

  TokenWidth Width() const {
    const std::string name = Text("dtype");
    for (const TokenWidth width : {TokenWidth::k16, TokenWidth::k32}) {
      if (name == TokenWidthName(width)) return width;
    }
    Fail("\"dtype\" to be \"uint16\" or \"uint32\"", name);
  }

  std::vector<DatasetInfo::Source> Sources() const {
    std::vector<DatasetInfo::Source> sources;
    const Json& list = Member("sources");
    if (!list.is_array()) Fail("\"sources\" to be a list", list);
    for (const Json& source : list) {
      if (!source.is_object() || !IsText(source, "path") || !IsCount(source, "bytes")) {
        Fail("each source to have a path and bytes", source);
      }
      sources.push_back({source["path"].get<std::string>(), source["bytes"].get<int64_t>()});
    }
    return sources;
  }

 private:
  const Json& Member(const char* key) const {
    const Json* found = json_.find(key);
    if (found == nullptr) Fail(fmt::format("a \"{}\"", key), nullptr);
    return *found;
  }

  [[noreturn]] void Fail(const std::string& expected, const Json& found) const {
    throw InputError(fmt::format("{}: not a description of a data set", path_),
                     fmt::format("expected {}, found {}", expected, found.dump().substr(0, 80)),
                     "prepare the data again");
  }

  std::string path_;
  Json json_;
};

DatasetInfo ReadDatasetInfo(const std::string& path) {
  const Reader reader(path);
  const int64_t version = reader.Count("format_version");
  if (version < 1 || version > DatasetInfo::kFormatVersion) {
    throw InputError(
        fmt::format("{}: format version {} is not supported", path, version),
        fmt::format("this version of folio reads versions 1 to {}", DatasetInfo::kFormatVersion),
        "prepare the data again with this version of folio");
  }
  DatasetInfo info;
  info.width = reader.Width();
  info.vocab_size = reader.Count("vocab_size");
  info.tokenizer_kind = reader.Text("tokenizer");
  info.tokenizer_hash = reader.Text("tokenizer_hash");
  info.train_tokens = reader.Count("train_tokens");
  info.val_tokens = reader.Count("val_tokens");
  info.sources = reader.Sources();
  if (version == 1) {
    info.train_shards = {{kTrainFile, info.train_tokens, ""}};
    info.val_shards = {{kValFile, info.val_tokens, ""}};
    return info;
  }
  info.format = reader.Format();
  info.special = reader.Text("special");
  info.chat = reader.Chat(info.vocab_size);
  info.documents = reader.Count("documents");
  info.text_bytes = reader.Count("text_bytes");
  info.val_blocks = reader.CountOr0("val_blocks");
  info.train_shards = reader.Shards("train");
  info.val_shards = reader.Shards("val");
  return info;
}

// Returns true for a token file of a part with another program's name: [ANY_]PART[_DIGITS].bin.
bool NamesPart(const std::string& file, std::string_view part) {
  const fs::path path(file);
  if (path.extension() != ".bin") return false;
  std::string stem = path.stem().string();
  const size_t digits = stem.find_last_not_of("0123456789") + 1;
  if (digits < stem.size() && digits > 0 && stem[digits - 1] == '_') stem.resize(digits - 1);
  return stem == part || stem.ends_with("_" + std::string(part));
}

// The token files of one part in a directory without dataset.json, sorted by name.
std::vector<TokenShard> FindShards(const std::string& dir, const char* file,
                                   std::string_view part) {
  std::error_code ignored;
  if (fs::is_regular_file(fs::path(dir) / file, ignored)) return {{file, 0, ""}};
  std::vector<TokenShard> shards;
  for (fs::directory_iterator it(dir, ignored), end; !ignored && it != end; it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (NamesPart(name, part)) shards.push_back({name, 0, ""});
  }
  std::ranges::sort(shards, {}, &TokenShard::file);
  return shards;
}

// Held-out tokens are named val, or else valid.
std::vector<TokenShard> FindValShards(const std::string& dir) {
  std::vector<TokenShard> shards = FindShards(dir, kValFile, "val");
  return shards.empty() ? FindShards(dir, kValidFile, "valid") : shards;
}

// Finds the type of token files of other programs: from llm.c's header, or without one from their
// bytes. Throws a kInput Error for files that hold no tokens.
void FindEncoding(const fs::path& dir, DatasetInfo& info) {
  constexpr std::string_view kNumPy = "\x93NUMPY";
  std::optional<TokenWidth> said;
  TokenWidthGuess guess;
  for (const auto* shards : {&info.train_shards, &info.val_shards}) {
    for (const TokenShard& shard : *shards) {
      const std::string path = (dir / shard.file).string();
      const MappedFile file(path);
      if (AsText(file.bytes()).starts_with(kNumPy)) {
        throw InputError(fmt::format("{}: not a token file", path), "it is a NumPy array (.npy)",
                         "write only its bytes: array.astype(numpy.uint16).tofile(FILE)");
      }
      const std::optional<TokenWidth> header = ReadTokenHeader(file.bytes(), path);
      if (!header) guess.Add(file.bytes());
      if (header && !said) said = header;
    }
  }
  info.format = said ? TokenFormat::kLlmC : TokenFormat::kFolio;
  info.width = said ? *said : guess.width();
}

// The number of tokens in nanoGPT's meta.pkl.
int64_t VocabularyOf(const fs::path& meta) {
  const Json json = ReadPlainPickle(meta);
  const Json* size = json.find("vocab_size");
  if (size != nullptr && IsCount(json, "vocab_size")) {
    const auto tokens = size->get<int64_t>();
    if (tokens > 0 && tokens <= std::numeric_limits<int32_t>::max()) return tokens;
  }
  throw InputError(fmt::format("{}: the size of the vocabulary is missing", meta.string()),
                   "expected vocab_size, a number above 0",
                   "move the file away to train without a tokenizer");
}

void CheckCount(const std::string& path, int64_t said, int64_t found) {
  if (found == said) return;
  throw InputError(fmt::format("{}: wrong length", path),
                   fmt::format("{} gives {} tokens, the file has {}", kDatasetFile, said, found),
                   "the file was truncated or replaced; prepare the data again");
}

// Opens the files of one part. Their lengths must match dataset.json; without it (`bare`) the
// lengths are filled in.
TokenFile OpenPart(const std::string& dir, std::string_view part, const DatasetInfo& info,
                   std::vector<TokenShard>& shards, int64_t& tokens, bool bare) {
  const fs::path path(dir);
  std::vector<std::string> paths;
  for (const TokenShard& shard : shards) paths.push_back((path / shard.file).string());
  const std::string name =
      paths.size() == 1 ? paths[0] : (path / fmt::format("{}_*.bin", part)).string();
  TokenFile file(paths, name, info.width, info.vocab_size);
  for (size_t i = 0; i < shards.size(); ++i) {
    if (bare) shards[i].tokens = file.shard_tokens(i);
    CheckCount(paths[i], shards[i].tokens, file.shard_tokens(i));
  }
  if (bare) tokens = file.size();
  CheckCount(name, tokens, file.size());
  return file;
}

// Reads the conversations of one part.
ConversationTable OpenTable(const fs::path& path, const std::string& hash, const ChatData& chat,
                            const TokenFile& tokens) {
  if (chat.marks) return TableByMarks(tokens, *chat.marks);
  const MappedFile file(path.string());
  const std::string_view bytes = AsText(file.bytes());
  if (HashHex(bytes) != hash) {
    throw InputError(
        fmt::format("{}: the answers have changed since they were prepared", path.string()),
        fmt::format("their hash in {} is {}", kDatasetFile, hash),
        "copy the file again, or prepare the data again");
  }
  return ConversationTable::FromBytes(bytes, path.string(), tokens.size());
}

// Returns false if stopped.
bool VerifyPart(const TokenFile& file, const std::vector<TokenShard>& shards,
                const std::function<bool()>& stop) {
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string found = file.ShardHash(i, stop);
    if (found.empty()) return false;
    if (found == shards[i].hash) continue;
    throw InputError(
        fmt::format("{}: the tokens have changed since they were prepared", file.shard_path(i)),
        fmt::format("their hash in {} is {}, in the file {}", kDatasetFile, shards[i].hash, found),
        "copy the file again, or prepare the data again");
  }
  return true;
}

// The form in dataset.json.
Json ToJson(const std::vector<TokenShard>& shards) {
  Json json = Json::array();
  for (const TokenShard& shard : shards) {
    json.push_back({{"file", shard.file}, {"tokens", shard.tokens}, {"hash", shard.hash}});
  }
  return json;
}

Json ToJson(const std::vector<DatasetInfo::Source>& sources) {
  Json json = Json::array();
  for (const DatasetInfo::Source& source : sources) {
    json.push_back({{"path", source.path}, {"bytes", source.bytes}});
  }
  return json;
}

// 0 if it is not known.
double TokensPerByte(const DatasetInfo& info) {
  if (info.text_bytes == 0) return 0;
  return static_cast<double>(info.train_tokens + info.val_tokens) /
         static_cast<double>(info.text_bytes);
}

std::string DescribeJson(const std::string& dir, const DatasetInfo& info) {
  const Json json = {{"schema", 1},
                     {"dir", dir},
                     {"tokenizer", info.tokenizer_kind},
                     {"tokenizer_hash", info.tokenizer_hash},
                     {"vocab_size", info.vocab_size},
                     {"dtype", TokenWidthName(info.width)},
                     {"format", TokenFormatName(info.format)},
                     {"special", info.special},
                     {"train_tokens", info.train_tokens},
                     {"val_tokens", info.val_tokens},
                     {"val_blocks", info.val_blocks},
                     {"documents", info.documents},
                     {"text_bytes", info.text_bytes},
                     {"tokens_per_byte", TokensPerByte(info)},
                     {"train_shards", ToJson(info.train_shards)},
                     {"val_shards", ToJson(info.val_shards)},
                     {"sources", ToJson(info.sources)}};
  return json.dump(2) + "\n";
}

std::string DescribeShards(const std::vector<TokenShard>& shards) {
  if (shards.size() == 1) return shards.front().file;
  return fmt::format("{} of {} tokens, {} to {}", WithCommas(std::ssize(shards)),
                     WithCommas(shards.front().tokens), shards.front().file, shards.back().file);
}

}  // namespace

void WriteConversations(const std::string& dir, const ConversationTable& train,
                        const ConversationTable& val, DatasetInfo& info) {
  const auto write = [&](const char* file, const ConversationTable& table) {
    const std::string bytes = table.Bytes();
    WriteFileAtomically(fs::path(dir) / file, bytes);
    return HashHex(bytes);
  };
  const GuardedDirectory inside(dir);
  info.chat->train_hash = write(kTrainAnswersFile, train);
  info.chat->val_hash = write(kValAnswersFile, val);
}

void WriteDatasetInfo(const std::string& dir, const DatasetInfo& info) {
  Json json = {{"format_version", DatasetInfo::kFormatVersion},
               {"format", TokenFormatName(info.format)},
               {"dtype", TokenWidthName(info.width)},
               {"vocab_size", info.vocab_size},
               {"tokenizer", info.tokenizer_kind},
               {"tokenizer_hash", info.tokenizer_hash},
               {"special", info.special},
               {"train_tokens", info.train_tokens},
               {"val_tokens", info.val_tokens},
               {"documents", info.documents},
               {"text_bytes", info.text_bytes},
               {"val_blocks", info.val_blocks},
               {"train", ToJson(info.train_shards)},
               {"val", ToJson(info.val_shards)},
               {"sources", ToJson(info.sources)}};
  if (info.chat) {
    json["chat"] = {{"end", Json(info.chat->end)},
                    {"train_hash", info.chat->train_hash},
                    {"val_hash", info.chat->val_hash}};
  }
  const GuardedDirectory inside(dir);
  // A path that is not UTF-8 is written too: its invalid bytes become U+FFFD.
  WriteFileAtomically(fs::path(dir) / kDatasetFile, json.dump(2) + "\n");
}

std::string DatasetInfo::WhereHeldOut() const {
  if (val_tokens == 0 || val_blocks == 0) return "";
  if (val_blocks == 1) return chat ? "the end of the data" : "the end of the text";
  return fmt::format("{} {}", WithCommas(val_blocks),
                     chat ? "conversations spread over the data" : "blocks spread over the text");
}

bool IsDataset(const std::string& dir) {
  std::error_code ignored;
  return fs::is_regular_file(fs::path(dir) / kDatasetFile, ignored) ||
         (!FindShards(dir, kTrainFile, "train").empty() && !FindValShards(dir).empty());
}

Dataset::Dataset(const std::string& dir, int64_t vocab_size) : dir_(dir) {
  RequireDirectory(dir, "the data directory");
  if (!IsDataset(dir)) {
    throw InputError(fmt::format("{}: no data set found", dir),
                     fmt::format("expected {}, {} (or {}) and {}", kTrainFile, kValFile, kValidFile,
                                 kDatasetFile),
                     kPrepareHelp);
  }
  const fs::path path(dir);
  bare_ = !fs::exists(path / kDatasetFile);
  if (bare_) {
    std::error_code ignored;
    const fs::path meta = path / kNanoGptMetaFile;
    const bool known = fs::exists(meta, ignored);
    info_.vocab_size = known ? VocabularyOf(meta) : vocab_size;
    if (known) info_.tokenizer_kind = "char";
    info_.train_shards = FindShards(dir, kTrainFile, "train");
    info_.val_shards = FindValShards(dir);
    FindEncoding(path, info_);
  } else {
    info_ = ReadDatasetInfo((path / kDatasetFile).string());
  }
  train_ = OpenPart(dir, "train", info_, info_.train_shards, info_.train_tokens, bare_);
  val_ = OpenPart(dir, "val", info_, info_.val_shards, info_.val_tokens, bare_);
  if (!info_.chat) return;
  train_chats_ = OpenTable(path / kTrainAnswersFile, info_.chat->train_hash, *info_.chat, *train_);
  val_chats_ = OpenTable(path / kValAnswersFile, info_.chat->val_hash, *info_.chat, *val_);
}

int64_t Dataset::bytes() const {
  return (train_->size() + val_->size()) * static_cast<int64_t>(info_.width);
}

bool Dataset::Verify(const std::function<bool()>& stop) const {
  return hashed() && VerifyPart(*train_, info_.train_shards, stop) &&
         VerifyPart(*val_, info_.val_shards, stop);
}

std::string Dataset::BareNote() const {
  if (!bare_) return "";
  const std::string taken = fmt::format(
      "The token type is {}, {}", TokenWidthName(info_.width),
      info_.format == TokenFormat::kLlmC ? "from llm.c's header" : "guessed from the bytes");
  if (!info_.tokenizer_kind.empty()) {
    return fmt::format("{}: the tokens are the characters of nanoGPT's {}. {}", dir_,
                       kNanoGptMetaFile, taken);
  }
  return fmt::format(
      "{}: token files without a tokenizer: the trained model will have none either, and needs "
      "--ids, or --tokenizer NAME|DIR for text. {}",
      dir_, taken);
}

std::string Dataset::TokenizerPlace() const {
  std::error_code ignored;
  if (bare_ && !info_.tokenizer_kind.empty()) return fs::path(dir_) / kNanoGptMetaFile;
  if (fs::exists(fs::path(dir_) / "tokenizer.json", ignored)) return dir_;
  throw InputError(fmt::format("{}: the data has no tokenizer", dir_),
                   bare_
                       ? "the directory contains only token files, like those of nanoGPT and llm.c"
                       : "tokenizer.json is missing",
                   fmt::format("add the tokenizer.json of the tokens, or {}", kPrepareHelp));
}

std::string DescribeDataset(const std::string& dir, const DatasetInfo& info, bool json) {
  if (json) return DescribeJson(dir, info);
  const bool known = info.vocab_size > 0;
  const std::string where = info.WhereHeldOut();
  std::string text = fmt::format(
      "directory     {}\n"
      "tokenizer     {}\n"
      "vocabulary    {}\n"
      "train tokens  {}\n"
      "val tokens    {}{}\n"
      "stored as     {}{}\n"
      "train files   {}\n"
      "val files     {}\n",
      dir, known ? info.tokenizer_kind : "unknown", known ? WithCommas(info.vocab_size) : "unknown",
      WithCommas(info.train_tokens), WithCommas(info.val_tokens), where.empty() ? "" : ": " + where,
      TokenWidthName(info.width), info.format == TokenFormat::kLlmC ? " with llm.c's header" : "",
      DescribeShards(info.train_shards), DescribeShards(info.val_shards));
  if (info.text_bytes > 0) {
    text += fmt::format("text          {} in {} document{}, {:.3f} tokens per byte\n",
                        HumanBytes(info.text_bytes), WithCommas(info.documents),
                        info.documents == 1 ? "" : "s", TokensPerByte(info));
  }
  for (const auto& source : info.sources) {
    text += fmt::format("source        {} ({})\n", source.path, HumanBytes(source.bytes));
  }
  return text;
}

}  // namespace folio
