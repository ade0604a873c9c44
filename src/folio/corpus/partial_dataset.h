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
  std::vector<int64_t> converted;  // bytes of each converted text
  std::string tokenizer_hash;
  PreparePlace next;  // the tokens of everything before it are in the files
  ShardProgress train;
  ShardProgress val;
};

// The directory `.NAME.partial` beside the target, in which a data set grows. A file in it stores
// the progress, so that a later process can continue. Only one process uses it at a time.
class PartialDataset {
 public:
  // An earlier attempt is used only if its `identity` (JSON) is the same. Opens an existing
  // directory but creates nothing. Throws a kRuntime Error if another process uses it, or if the
  // target's parent is no directory.
  PartialDataset(const std::string& target, std::string identity);
  ~PartialDataset();
  PartialDataset(const PartialDataset&) = delete;
  PartialDataset& operator=(const PartialDataset&) = delete;

  // Removes the directory if its files are the target's: a process was killed after it had
  // completed the target.
  static void Tidy(const std::string& target);

  const std::filesystem::path& path() const { return path_; }
  // The state that an earlier process with the same identity has left, if any.
  const std::optional<PrepareState>& found() const { return found_; }
  // Says why an earlier attempt cannot be continued ("another format"); else "".
  const std::string& useless() const { return useless_; }

  // Begins with an empty directory.
  void Begin();
  // Makes the state durable. The files must already be durable.
  void Save(const PrepareState& state);
  // Moves files to another directory on the same file system; if links are possible they remain
  // here too.
  void HandOver(const std::vector<TokenShard>& shards, const std::filesystem::path& to) const;
  void Remove();

 private:
  void Lock();
  void Read();

  MadeParents parents_;
  std::filesystem::path path_;
  std::optional<GuardedDirectory> inside_;  // the directory itself must not be a link either
  std::string identity_;
  int fd_ = -1;  // the directory, locked
  std::optional<PrepareState> found_;
  std::string useless_;
};

}  // namespace folio
