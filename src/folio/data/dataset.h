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
inline constexpr char kValidFile[] = "valid.bin";  // what others call it
inline constexpr char kDatasetFile[] = "dataset.json";
inline constexpr char kTrainAnswersFile[] = "train.answers";
inline constexpr char kValAnswersFile[] = "val.answers";

// What a data set of conversations has beside the tokens: a table of each part, train.answers and
// val.answers (data/conversation_table.h).
struct ChatData {
  std::optional<int32_t> end = {};      // the token that ends an answer, where there is one
  std::string train_hash, val_hash;     // HashHex of the tables' files
  std::optional<ChatMarks> marks = {};  // in data sets of earlier versions, instead of tables

  bool operator==(const ChatData&) const = default;
};

// The contents of dataset.json.
struct DatasetInfo {
  // Version 1 had one file for each part and knew neither documents nor hashes.
  static constexpr int64_t kFormatVersion = 2;

  TokenWidth width = TokenWidth::k16;
  TokenFormat format = TokenFormat::kFolio;
  int64_t vocab_size = 0;      // 0: not known (a directory without dataset.json)
  std::string tokenizer_kind;  // "char", "bytes", "bpe"; empty if not known
  std::string tokenizer_hash;
  std::string special;  // what became of special tokens in the text; empty if not known
  int64_t train_tokens = 0;
  int64_t val_tokens = 0;
  std::optional<ChatData> chat = {};  // of conversations
  int64_t documents = 0;              // 0: not known
  int64_t text_bytes = 0;             // of the documents; 0: not known
  int64_t val_blocks = 0;  // of the text that are held out: 1 is its end; 0: not known, or none
  struct Source {
    std::string path;
    int64_t bytes = 0;
  };
  std::vector<Source> sources;
  std::vector<TokenShard> train_shards;  // hashes empty if not known
  std::vector<TokenShard> val_shards;

  // Which text the held-out tokens are of, for people: "64 blocks spread over the text"; "" where
  // nobody knows.
  std::string WhereHeldOut() const;
};

// Writes the tables of conversations into `dir`, and says in `info` what they hash to.
void WriteConversations(const std::string& dir, const ConversationTable& train,
                        const ConversationTable& val, DatasetInfo& info);

// Writes `dir`/dataset.json.
void WriteDatasetInfo(const std::string& dir, const DatasetInfo& info);

// True if `dir` holds a data set: a dataset.json, or token files as others write them.
bool IsDataset(const std::string& dir);

// A directory with dataset.json, the files of tokens that it lists (train.bin and val.bin, or
// several of each) and the files of the tokenizer. A directory with nothing but token files is one
// too, with an unknown vocabulary: nanoGPT's train.bin and val.bin (or valid.bin), or llm.c's
// NAME_train_000001.bin ... and NAME_val_000000.bin. Their type is what llm.c's header says, or
// without one uint16, uint32 or int64 as TokenWidthGuess takes their bytes for. The meta.pkl of a
// data set of nanoGPT's says how many tokens there are, and which character each is.
class Dataset {
 public:
  // Throws a kInput Error if something is missing, or if counts and file sizes disagree. Where the
  // directory does not say, ids are checked against `vocab_size` (0: not at all).
  explicit Dataset(const std::string& dir, int64_t vocab_size = 0);

  const std::string& dir() const { return dir_; }
  const DatasetInfo& info() const { return info_; }
  const TokenFile& train() const { return *train_; }
  const TokenFile& val() const { return *val_; }
  // The conversations of each part; empty for texts.
  const ConversationTable& train_chats() const { return train_chats_; }
  const ConversationTable& val_chats() const { return val_chats_; }

  int64_t bytes() const;  // of the tokens
  // Returns whether dataset.json has their hashes.
  bool hashed() const { return !info_.train_shards.front().hash.empty(); }
  // Reads all tokens and throws a kInput Error if they are not those whose hashes dataset.json has.
  // Returns false if it has none, or if `stop`, which is asked now and then, wants no more.
  bool Verify(const std::function<bool()>& stop = {}) const;

  // Says, for people, what a directory of nothing but token files means for a run, what type they
  // were taken for, and what can be done; "" where there is a dataset.json.
  std::string BareNote() const;

  // The directory or file to load the tokenizer from; throws a kInput Error if the data came
  // without one.
  std::string TokenizerPlace() const;

 private:
  std::string dir_;
  bool bare_ = false;
  DatasetInfo info_;
  std::optional<TokenFile> train_;
  std::optional<TokenFile> val_;
  ConversationTable train_chats_, val_chats_;
};

// Describes what a data directory holds: a line for each fact, or one JSON object (`json`).
std::string DescribeDataset(const std::string& dir, const DatasetInfo& info, bool json);

}  // namespace folio
