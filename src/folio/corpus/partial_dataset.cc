#include "folio/corpus/partial_dataset.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/data/shard_writer.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kJournalFile[] = "progress.json";

Json ToJson(const ShardProgress& progress) {
  Json finished = Json::array();
  for (const TokenShard& shard : progress.finished) {
    finished.push_back({shard.file, shard.tokens, shard.hash});
  }
  return {{"finished", std::move(finished)}, {"tokens", progress.tokens}};
}

Json ToJson(const PreparePlace& place) {
  return {place.source, place.offset, place.part};
}

Json ToJson(const std::vector<PrepareSplit>& splits) {
  Json json = Json::array();
  for (const PrepareSplit& split : splits) {
    json.push_back({split.source, split.offset, split.line_end, split.inside});
  }
  return json;
}

Json ToJson(const PrepareState& state) {
  const PreparePlan& plan = state.plan;
  return {{"units", plan.units},
          {"documents", plan.documents},
          {"text_bytes", plan.text_bytes},
          {"first", ToJson(plan.first)},
          {"splits", ToJson(plan.splits)},
          {"converted", state.converted},
          {"tokenizer_hash", state.tokenizer_hash},
          {"next", ToJson(state.next)},
          {"train", ToJson(state.train)},
          {"val", ToJson(state.val)}};
}

PreparePlace PlaceFrom(const Json& json) {
  return {json.at(0).get<size_t>(), json.at(1).get<int64_t>(), json.at(2).get<size_t>()};
}

ShardProgress ProgressFrom(const Json& json) {
  const auto tokens = [](const Json& count) {
    constexpr int64_t kMost = int64_t{1} << 56;
    const auto value = count.get<int64_t>();
    if (value < 0 || value > kMost) throw InputError("a number of tokens that cannot be");
    return value;
  };
  ShardProgress progress;
  for (const Json& shard : json.at("finished")) {
    const auto name = shard.at(0).get<std::string>();
    if (!IsFileName(name)) throw InputError("not the name of a file");
    progress.finished.push_back({name, tokens(shard.at(1)), shard.at(2).get<std::string>()});
  }
  progress.tokens = tokens(json.at("tokens"));
  return progress;
}

PrepareState StateFrom(const Json& json) {
  PrepareState state;
  state.plan.units = json.at("units").get<int64_t>();
  state.plan.documents = json.at("documents").get<int64_t>();
  state.plan.text_bytes = json.at("text_bytes").get<int64_t>();
  state.plan.first = PlaceFrom(json.at("first"));
  for (const Json& split : json.at("splits")) {
    state.plan.splits.push_back({split.at(0).get<size_t>(), split.at(1).get<int64_t>(),
                                 split.at(2).get<int64_t>(), split.at(3).get<int64_t>()});
  }
  for (const Json& bytes : json.at("converted")) {
    state.converted.push_back(bytes.get<int64_t>());
  }
  state.tokenizer_hash = json.at("tokenizer_hash").get<std::string>();
  state.next = PlaceFrom(json.at("next"));
  state.train = ProgressFrom(json.at("train"));
  state.val = ProgressFrom(json.at("val"));
  return state;
}

// The first key by which two identities differ.
std::string Difference(const Json& a, const Json& b) {
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key) || a[key] != value) return key;
  }
  return "version";
}

}  // namespace

PartialDataset::PartialDataset(const std::string& target, std::string identity)
    : parents_(target), identity_(std::move(identity)) {
  const fs::path resolved = internal::ResolveTarget(target);
  path_ = resolved.parent_path() / fmt::format(".{}.partial", resolved.filename().string());
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path_, error))) return;
  if (!fs::is_directory(fs::symlink_status(path_, error)) || !internal::IsOwn(path_)) {
    throw RuntimeError(fmt::format("cannot write {}", target),
                       fmt::format("{} is there and no directory of this user's", path_.string()),
                       "remove it, or choose a place that nobody else may write to");
  }
  Lock();
  try {
    Read();
  } catch (const Error&) {
    useless_ = "what was begun cannot be read";
  } catch (const JsonError&) {
    useless_ = "what was begun cannot be read";
  }
}

PartialDataset::~PartialDataset() {
  if (fd_ >= 0) close(fd_);
}

void PartialDataset::Lock() {
  fd_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd_ < 0) internal::ThrowCannotWrite(path_, errno);
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) internal::ThrowBusy(path_);
}

void PartialDataset::Read() {
  constexpr uint64_t kMost = uint64_t{64} << 20;  // of some hundred thousand texts
  const std::string file = (path_ / kJournalFile).string();
  const Json json = ParseJson(ReadFile(file, kMost), file);
  const Json identity = ParseJson(identity_, "identity");
  if (json.at("made_of") != identity) {
    useless_ = fmt::format("another {}", Difference(json.at("made_of"), identity));
    return;
  }
  found_ = StateFrom(json.at("state"));
}

void PartialDataset::Begin() {
  std::error_code error;
  if (fd_ < 0) {
    fs::create_directory(path_, error);
    if (error) internal::ThrowCannotWrite(path_, error.value());
    Lock();
  }
  found_.reset();
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    fs::remove_all(entry.path(), error);
    if (error) internal::ThrowCannotWrite(entry.path(), error.value());
  }
}

void PartialDataset::Save(const PrepareState& state) {
  const Json json = {{"made_of", ParseJson(identity_, "identity")}, {"state", ToJson(state)}};
  WriteFileAtomically(path_ / kJournalFile, json.dump() + "\n");
}

void PartialDataset::HandOver(const std::vector<TokenShard>& shards, const fs::path& to) const {
  for (const TokenShard& shard : shards) {
    std::error_code error;
    fs::create_hard_link(path_ / shard.file, to / shard.file, error);
    if (error) fs::rename(path_ / shard.file, to / shard.file, error);
    if (error) internal::ThrowCannotWrite(to / shard.file, error.value());
  }
}

void PartialDataset::Remove() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace folio
