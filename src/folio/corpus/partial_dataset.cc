#include "folio/corpus/partial_dataset.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kJournalFile[] = "progress.json";
// This file marks a directory whose files were moved elsewhere, so that no process continues it.
constexpr char kHandedOverFile[] = "handed-over";

// `.NAME.partial` beside a resolved target.
fs::path PathFor(const fs::path& resolved) {
  return resolved.parent_path() / fmt::format(".{}.partial", resolved.filename().string());
}

bool IsSameFile(const fs::path& a, const fs::path& b) {
  struct stat one = {}, other = {};
  return internal::HeldName(a).Stat(one) == 0 && internal::HeldName(b).Stat(other) == 0 &&
         S_ISREG(one.st_mode) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

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

Json ToJson(const PrepareState& state) {
  Json splits = Json::array();
  for (const PrepareSplit& split : state.plan.splits) {
    splits.push_back({split.source, split.offset, split.line_end, split.inside});
  }
  return {{"units", state.plan.units},
          {"documents", state.plan.documents},
          {"text_bytes", state.plan.text_bytes},
          {"first", ToJson(state.plan.first)},
          {"splits", std::move(splits)},
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
  for (const Json& bytes : json.at("converted")) state.converted.push_back(bytes.get<int64_t>());
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
  path_ = PathFor(internal::ResolveTarget(target));
  inside_.emplace(GuardedDirectory::AlsoItself(path_));
  if (!internal::IsThere(path_)) return;
  if (!internal::IsDirectoryItself(path_) || !internal::IsOwn(path_)) {
    throw RuntimeError(fmt::format("cannot write {}", target),
                       fmt::format("{} exists and is not a directory of this user", path_.string()),
                       "remove it, or choose a directory that only you can write to");
  }
  Lock();
  try {
    Read();
  } catch (const Error&) {
    useless_ = "its state cannot be read";
  } catch (const JsonError&) {
    useless_ = "its state cannot be read";
  }
}

PartialDataset::~PartialDataset() {
  if (fd_ >= 0) close(fd_);
}

void PartialDataset::Tidy(const std::string& target) {
  std::error_code ignored;
  if (!fs::exists(target, ignored)) return;
  const fs::path whole = internal::ResolveTarget(target), partial = PathFor(whole);
  const GuardedDirectory inside = GuardedDirectory::AlsoItself(partial);
  if (!internal::IsDirectoryItself(partial) || !internal::IsOwn(partial)) return;
  const internal::FileDescriptor held(internal::OpenFile(partial, O_RDONLY | O_DIRECTORY));
  if (held.get() < 0) return;
  if (flock(held.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return;
  if (std::ranges::any_of(internal::NamesIn(partial), [&](const std::string& name) {
        return name == kHandedOverFile || IsSameFile(partial / name, whole / name);
      })) {
    internal::RemoveTree(partial);
  }
}

void PartialDataset::Begin() {
  if (fd_ < 0) {
    const std::error_code error = internal::MakeDirectory(path_);
    if (error) internal::ThrowCannotWrite(path_, error.value());
    Lock();
  }
  found_.reset();
  for (const std::string& name : internal::NamesIn(path_)) {
    const std::error_code error = internal::RemoveTree(path_ / name);
    if (error) internal::ThrowCannotWrite(path_ / name, error.value());
  }
}

void PartialDataset::Save(const PrepareState& state) {
  const Json json = {{"made_of", ParseJson(identity_, "identity")}, {"state", ToJson(state)}};
  WriteFileAtomically(path_ / kJournalFile, json.dump() + "\n");
}

void PartialDataset::HandOver(const std::vector<TokenShard>& shards, const fs::path& to) const {
  for (const TokenShard& shard : shards) {
    std::error_code error = internal::Link(path_ / shard.file, to / shard.file);
    if (error) WriteFileAtomically(path_ / kHandedOverFile, "");
    if (error) error = internal::Rename(path_ / shard.file, to / shard.file);
    if (error) internal::ThrowCannotWrite(to / shard.file, error.value());
  }
}

void PartialDataset::Remove() {
  internal::RemoveTree(path_);
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

void PartialDataset::Lock() {
  fd_ = internal::OpenFile(path_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd_ < 0) internal::ThrowCannotWrite(path_, errno);
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) internal::ThrowBusy(path_);
}

void PartialDataset::Read() {
  constexpr uint64_t kMost = uint64_t{64} << 20;  // enough for some hundred thousand texts
  const std::string file = (path_ / kJournalFile).string();
  const Json json = ParseJson(ReadFile(file, kMost), file);
  const Json identity = ParseJson(identity_, "identity");
  if (json.at("made_of") != identity) {
    useless_ = fmt::format("another {}", Difference(json.at("made_of"), identity));
    return;
  }
  found_ = StateFrom(json.at("state"));
}

}  // namespace folio
