#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "folio/corpus/prepare_plan.h"
#include "folio/data/shard_writer.h"
#include "folio/io/file.h"

namespace folio {

// The state of a data set that is being made.
struct PrepareState {
  PreparePlan plan;
  std::vector<int64_t> converted;  // bytes of the texts that inputs were converted to
  std::string tokenizer_hash;
  PreparePlace next;  // the tokens of all before it are in the files
  ShardProgress train;
  ShardProgress val;
};

// The directory `.NAME.partial` beside the target, where a data set grows and a file says how far
// it is, so that a later process can go on. One process uses it at a time.
class PartialDataset {
 public:
  // An earlier attempt is of use only where its `identity` (JSON) is the same. Opens what is
  // there, and makes nothing. Throws a kRuntime Error where another process is at work, or where
  // the target's parent is no directory.
  PartialDataset(const std::string& target, std::string identity);
  ~PartialDataset();
  PartialDataset(const PartialDataset&) = delete;
  PartialDataset& operator=(const PartialDataset&) = delete;

  // Removes what a process left that was killed when the target was there already: the directory,
  // if its files are the target's.
  static void Tidy(const std::string& target);

  const std::filesystem::path& path() const { return path_; }
  // The state that an earlier process left, if there was one that made the same.
  const std::optional<PrepareState>& found() const { return found_; }
  // Says why an earlier attempt is of no use ("other options"), or "" if there is none or it is.
  const std::string& useless() const { return useless_; }

  // Begins with an empty directory.
  void Begin();
  // Makes the state durable. The files must be so already.
  void Save(const PrepareState& state);
  // Moves files of the directory, by their names, to another one on the same file system; where
  // links are possible they stay here too.
  void HandOver(const std::vector<TokenShard>& shards, const std::filesystem::path& to) const;
  void Remove();

 private:
  void Lock();
  void Read();

  MadeParents parents_;
  std::filesystem::path path_;
  std::optional<GuardedDirectory> inside_;  // it, too, is no link
  std::string identity_;
  int fd_ = -1;  // of the directory, locked
  std::optional<PrepareState> found_;
  std::string useless_;
};

}  // namespace folio
