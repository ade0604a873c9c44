#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "folio/data/conversation_table.h"
#include "folio/data/token_file.h"

namespace folio {

inline constexpr char kTrainFile[] = "train.bin";
inline constexpr char kValFile[] = "val.bin";
inline constexpr char kValidFile[] = "valid.bin";  // the name in other programs
inline constexpr char kDatasetFile[] = "dataset.json";
inline constexpr char kTrainAnswersFile[] = "train.answers";
inline constexpr char kValAnswersFile[] = "val.answers";

// The additional parts of a data set of conversations: a table for each part, train.answers and
// val.answers (data/conversation_table.h).
struct ChatData {
  std::optional<int32_t> end = {};      // the token that ends an answer, if there is one
  std::string train_hash, val_hash;     // HashHex of the tables' files
  std::optional<ChatMarks> marks = {};  // in data sets of older versions, instead of tables

  bool operator==(const ChatData&) const = default;
};

// The contents of dataset.json.
struct DatasetInfo {
  // Version 1 had one file for each part, and neither documents nor hashes.
  static constexpr int64_t kFormatVersion = 2;

  TokenWidth width = TokenWidth::k16;
  TokenFormat format = TokenFormat::kFolio;
  int64_t vocab_size = 0;      // 0: not known (a directory without dataset.json)
  std::string tokenizer_kind;  // "char", "bytes", "bpe"; empty if not known
  std::string tokenizer_hash;
  std::string special;  // how special tokens in the text were treated; empty if not known
  int64_t train_tokens = 0;
  int64_t val_tokens = 0;
  std::optional<ChatData> chat = {};  // for conversations
  int64_t documents = 0;              // 0: not known
  int64_t text_bytes = 0;             // of the documents; 0: not known
  int64_t val_blocks = 0;  // held-out blocks of the text: 1 means its end; 0: not known, or none
  struct Source {
    std::string path;
    int64_t bytes = 0;
  };
  std::vector<Source> sources;
  std::vector<TokenShard> train_shards;  // hashes are empty if not known
  std::vector<TokenShard> val_shards;

  // Where the held-out tokens come from: "64 blocks spread over the text"; "" if not known.
  std::string WhereHeldOut() const;
};

// Writes the tables of conversations into `dir`, and their hashes into `info`.
void WriteConversations(const std::string& dir, const ConversationTable& train,
                        const ConversationTable& val, DatasetInfo& info);

// Writes `dir`/dataset.json.
void WriteDatasetInfo(const std::string& dir, const DatasetInfo& info);

// True if `dir` holds a data set: a dataset.json, or token files of other programs.
bool IsDataset(const std::string& dir);

// A directory with dataset.json, the token files that it lists (train.bin and val.bin, or several
// of each) and the files of the tokenizer. A directory with token files alone is one too, with an
// unknown vocabulary: nanoGPT's train.bin and val.bin (or valid.bin), or llm.c's
// NAME_train_000001.bin ... and NAME_val_000000.bin. Their type is given by llm.c's header, or
// without one guessed by TokenWidthGuess: uint16, uint32 or int64. The meta.pkl of a nanoGPT data
// set gives the number of tokens, and the character of each.
class Dataset {
 public:
  // Throws a kInput Error if something is missing, or if counts and file sizes disagree. If the
  // directory does not give a vocabulary size, ids are checked against `vocab_size` (0: not at
  // all).
  explicit Dataset(const std::string& dir, int64_t vocab_size = 0);

  const std::string& dir() const { return dir_; }
  const DatasetInfo& info() const { return info_; }
  const TokenFile& train() const { return *train_; }
  const TokenFile& val() const { return *val_; }
  // The conversations of each part; empty for plain text.
  const ConversationTable& train_chats() const { return train_chats_; }
  const ConversationTable& val_chats() const { return val_chats_; }

  int64_t bytes() const;  // of all tokens
  // Returns true if dataset.json has hashes of the tokens.
  bool hashed() const { return !info_.train_shards.front().hash.empty(); }
  // Reads all tokens and throws a kInput Error if they do not match the hashes in dataset.json.
  // Returns false if it has none, or if `stop`, which is called now and then, returns true.
  bool Verify(const std::function<bool()>& stop = {}) const;

  // Describes what a directory of token files alone means for a run, the type that was assumed, and
  // the alternatives; "" if there is a dataset.json.
  std::string BareNote() const;

  // The directory or file to load the tokenizer from; throws a kInput Error if the data has none.
  std::string TokenizerPlace() const;

 private:
  std::string dir_;
  bool bare_ = false;
  DatasetInfo info_;
  std::optional<TokenFile> train_;
  std::optional<TokenFile> val_;
  ConversationTable train_chats_, val_chats_;
};

// Describes a data directory: a line for each fact, or one JSON object (`json`).
std::string DescribeDataset(const std::string& dir, const DatasetInfo& info, bool json);

}  // namespace folio
