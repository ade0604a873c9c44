#include "folio/train/moment_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "folio/io/guarded_directory.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

void WriteAt(const internal::FileDescriptor& file, const std::filesystem::path& path,
             const char* bytes, size_t size, uint64_t offset) {
  while (size > 0) {
    const ssize_t written = pwrite(file.get(), bytes, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) internal::ThrowCannotWrite(path, written < 0 ? errno : ENOSPC);
    bytes += written;
    size -= static_cast<size_t>(written);
    offset += static_cast<uint64_t>(written);
  }
}

void Flush(const internal::FileDescriptor& file, const std::filesystem::path& path) {
  if (fsync(file.get()) != 0) internal::ThrowCannotWrite(path, errno);
}

}  // namespace

MomentFile::MomentFile(std::filesystem::path path, const GptWeights& weights)
    : path_(std::move(path)), table_(weights.table()) {
  std::vector<NamedTensor> moments;  // of the parameters' shapes
  for (const ParamInfo& info : table_.params()) {
    if (!info.trained) continue;
    for (const char* name : {"m.", "v."}) {
      moments.push_back({name + info.name, table_.View(info, weights.flat())});
    }
  }
  layout_ = LayOutSafetensors(moments);
}

void MomentFile::Create() const {
  const internal::FileDescriptor file(
      internal::OpenFile(path_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
  if (file.get() < 0) internal::ThrowCannotWrite(path_, errno);
  WriteAt(file, path_, layout_.header.data(), layout_.header.size(), 0);
  if (ftruncate(file.get(), static_cast<off_t>(layout_.bytes)) != 0) {
    internal::ThrowCannotWrite(path_, errno);
  }
  Flush(file, path_);
}

bool MomentFile::IsHere() const {
  std::error_code unknown;
  return std::filesystem::file_size(path_, unknown) == layout_.bytes &&
         access(path_.c_str(), W_OK) == 0;
}

void MomentFile::Write(const Shards& shards, int rank, const float* m, const float* v) const {
  const internal::FileDescriptor file(internal::OpenFile(path_, O_WRONLY | O_NOFOLLOW));
  if (file.get() < 0) internal::ThrowCannotWrite(path_, errno);
  for (const ParamInfo& info : table_.params()) {
    if (!info.trained) continue;
    const int64_t end = info.offset + info.shape.count();
    for (size_t b = 0; b < shards.buckets().size(); ++b) {
      const Shards::Piece piece = shards.PieceOf(b, rank);
      const int64_t from = std::max(piece.begin, info.offset), to = std::min(piece.end, end);
      if (from >= to) continue;
      const int64_t mine = piece.offset + (from - piece.begin);
      const auto into = static_cast<uint64_t>(from - info.offset) * sizeof(float);
      const auto size = static_cast<size_t>(to - from) * sizeof(float);
      for (const auto& [name, moment] : {std::pair("m.", m), std::pair("v.", v)}) {
        WriteAt(file, path_, reinterpret_cast<const char*>(moment + mine), size,
                layout_.offsets.at(name + info.name) + into);
      }
    }
  }
  Flush(file, path_);
}

}  // namespace folio
