#include "folio/data/shard_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;
using internal::ThrowCannotWrite;

[[noreturn]] void ThrowChanged(const fs::path& path) {
  throw InputError(fmt::format("{}: modified since it was written", path.string()),
                   "it is shorter than before", "start again");
}

}  // namespace

std::string ShardLayout::FileName(size_t index) const {
  return shard_tokens == 0 ? part + ".bin" : fmt::format("{}_{:06}.bin", part, index);
}

ShardWriter::ShardWriter(fs::path dir, ShardLayout layout, ShardProgress progress)
    : dir_(std::move(dir)), layout_(std::move(layout)), progress_(std::move(progress)) {
  if (layout_.shard_tokens < 0) {
    throw UsageError(fmt::format("files of {} tokens cannot be", layout_.shard_tokens));
  }
  CheckFinished();
  durable_ = progress_.finished.size();
  if (progress_.tokens > 0) Reopen();
}

ShardWriter::~ShardWriter() {
  if (fd_ >= 0) close(fd_);
}

fs::path ShardWriter::Path() const {
  return dir_ / layout_.FileName(progress_.finished.size());
}

size_t ShardWriter::HeaderBytes() const {
  return layout_.format == TokenFormat::kLlmC ? kTokenHeaderBytes : 0;
}

void ShardWriter::CheckFinished() const {
  for (const TokenShard& shard : progress_.finished) {
    std::error_code error;
    const uintmax_t bytes = fs::file_size(dir_ / shard.file, error);
    if (error || bytes != HeaderBytes() + static_cast<uint64_t>(shard.tokens) *
                                              static_cast<uint64_t>(layout_.width)) {
      ThrowChanged(dir_ / shard.file);
    }
  }
}

// Truncates to the last checkpoint, and hashes the remaining tokens again.
void ShardWriter::Reopen() {
  fd_ = internal::OpenFile(Path(), O_RDWR | O_NOFOLLOW);
  if (fd_ < 0) ThrowChanged(Path());
  const int64_t end =
      static_cast<int64_t>(HeaderBytes()) + progress_.tokens * static_cast<int64_t>(layout_.width);
  if (lseek(fd_, 0, SEEK_END) < end) ThrowChanged(Path());
  if (ftruncate(fd_, end) != 0) ThrowCannotWrite(Path(), errno);
  std::vector<std::byte> piece(size_t{1} << 20);
  for (int64_t at = static_cast<int64_t>(HeaderBytes()); at < end;) {
    const size_t want = std::min(piece.size(), static_cast<size_t>(end - at));
    const ssize_t got = pread(fd_, piece.data(), want, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) internal::ThrowCannotRead(Path(), errno);
    if (got == 0) ThrowChanged(Path());
    hasher_.Add(std::span(piece).first(static_cast<size_t>(got)));
    at += got;
  }
}

void ShardWriter::Open() {
  fd_ = internal::OpenFile(Path(), O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (fd_ < 0) ThrowCannotWrite(Path(), errno);
  hasher_ = Hasher();
  if (HeaderBytes() > 0) WriteHeader(0);
}

void ShardWriter::WriteHeader(int64_t tokens) {
  const std::string header = TokenHeader(tokens, layout_.width);
  Write(std::as_bytes(std::span(header)), 0);
}

void ShardWriter::Write(std::span<const std::byte> bytes, int64_t at) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd_, bytes.data(), bytes.size(), at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) ThrowCannotWrite(Path(), errno);
    bytes = bytes.subspan(static_cast<size_t>(put));
    at += put;
  }
}

void ShardWriter::Append(std::span<const std::byte> bytes) {
  const int64_t width = static_cast<int64_t>(layout_.width);
  FOLIO_CHECK(bytes.size() % static_cast<size_t>(width) == 0, "part of a token");
  while (!bytes.empty()) {
    int64_t tokens = static_cast<int64_t>(bytes.size()) / width;
    if (layout_.shard_tokens > 0)
      tokens = std::min(tokens, layout_.shard_tokens - progress_.tokens);
    if (HeaderBytes() > 0 && tokens > kMaxHeaderTokens - progress_.tokens) {
      throw UsageError(fmt::format("{}: too many tokens for llm.c's format", Path().string()),
                       fmt::format("its header counts up to {}", kMaxHeaderTokens),
                       "use several files: --shard-tokens 100000000");
    }
    if (fd_ < 0) Open();
    const std::span<const std::byte> now = bytes.first(static_cast<size_t>(tokens * width));
    Write(now, static_cast<int64_t>(HeaderBytes()) + progress_.tokens * width);
    hasher_.Add(now);
    progress_.tokens += tokens;
    bytes = bytes.subspan(now.size());
    if (progress_.tokens == layout_.shard_tokens) CompleteFile();
  }
}

void ShardWriter::CompleteFile() {
  if (HeaderBytes() > 0) WriteHeader(progress_.tokens);
  TokenShard shard{Path().filename().string(), progress_.tokens, hasher_.Hex()};
  if (close(std::exchange(fd_, -1)) != 0) ThrowCannotWrite(Path(), errno);
  progress_.finished.push_back(std::move(shard));
  progress_.tokens = 0;
}

ShardProgress ShardWriter::Checkpoint() {
  for (; durable_ < progress_.finished.size(); ++durable_) {
    const fs::path path = dir_ / progress_.finished[durable_].file;
    const internal::FileDescriptor fd(internal::OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() < 0 || internal::FlushFile(fd.get()) != 0) ThrowCannotWrite(path, errno);
  }
  if (fd_ >= 0 && internal::FlushFile(fd_) != 0) ThrowCannotWrite(Path(), errno);
  return progress_;
}

std::vector<TokenShard> ShardWriter::Finish() {
  if (fd_ < 0 && progress_.finished.empty()) Open();
  if (fd_ >= 0) CompleteFile();
  return progress_.finished;
}

}  // namespace folio
