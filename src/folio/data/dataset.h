#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "folio/data/token_file.h"

namespace folio {

inline constexpr char kTrainFile[] = "train.bin";
inline constexpr char kValFile[] = "val.bin";
inline constexpr char kDatasetFile[] = "dataset.json";

// What dataset.json says.
struct DatasetInfo {
  static constexpr int64_t kFormatVersion = 1;

  TokenWidth width = TokenWidth::k16;
  int64_t vocab_size = 0;      // 0: not known (a bare nanoGPT directory)
  std::string tokenizer_kind;  // "char", "bytes"; empty if not known
  std::string tokenizer_hash;
  int64_t train_tokens = 0;
  int64_t val_tokens = 0;
  struct Source {
    std::string path;
    int64_t bytes = 0;
  };
  std::vector<Source> sources;
};

// Writes `dir`/dataset.json.
void WriteDatasetInfo(const std::string& dir, const DatasetInfo& info);

// True if `dir` holds a data set: a dataset.json, or nanoGPT's train.bin and val.bin.
bool IsDataset(const std::string& dir);

// A directory with train.bin, val.bin, dataset.json and the files of the tokenizer. A directory
// with nothing but train.bin and val.bin, as nanoGPT's scripts write them (uint16), is one too,
// with an unknown vocabulary.
class Dataset {
 public:
  // Throws a kInput Error if something is missing, or if counts and file sizes disagree. Where the
  // directory does not say, ids are checked against `vocab_size` (0: not at all).
  explicit Dataset(const std::string& dir, int64_t vocab_size = 0);

  const std::string& dir() const { return dir_; }
  const DatasetInfo& info() const { return info_; }
  const TokenFile& train() const { return *train_; }
  const TokenFile& val() const { return *val_; }

  // The directory to load the tokenizer from; throws a kInput Error if the data came without one.
  const std::string& TokenizerDir() const;

 private:
  std::string dir_;
  bool bare_ = false;
  DatasetInfo info_;
  std::optional<TokenFile> train_;
  std::optional<TokenFile> val_;
};

}  // namespace folio
