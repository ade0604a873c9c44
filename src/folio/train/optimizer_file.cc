#include "folio/train/optimizer_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "folio/io/guarded_directory.h"
#include "folio/io/posix.h"
#include "folio/model/shard.h"

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

std::string FileName(const NamedTensor& array, const ParamInfo& info) {
  return array.name + "." + info.name;
}

// The tensors of the file, as views of arrays that are laid out as what is trained.
std::vector<NamedTensor> FileTensors(const ParamTable& table, std::span<const NamedTensor> state) {
  std::vector<NamedTensor> tensors;
  for (const ParamInfo& info : table.params()) {
    if (!info.trained) continue;
    for (const NamedTensor& array : state) {
      tensors.push_back({FileName(array, info), table.View(info, array.tensor)});
    }
  }
  return tensors;
}

// Calls visit(begin, offset, size) for each run of elements of a parameter that the rank owns:
// from `begin` of the parameter on, they lie from `offset` on in what the rank keeps.
template <class Visit>
void VisitOwned(const ParamInfo& info, const Shards& shards, int rank, const Visit& visit) {
  const int64_t end = info.offset + info.shape.count();
  for (size_t b = 0; b < shards.buckets().size(); ++b) {
    const Shards::Piece piece = shards.PieceOf(b, rank);
    const int64_t from = std::max(piece.begin, info.offset), to = std::min(piece.end, end);
    if (from >= to) continue;
    visit(from - info.offset, piece.offset + (from - piece.begin), to - from);
  }
}

// A tensor of the file as a model, or a part of one, has it: `place` says where its elements lie.
std::vector<float> ReadPart(const SafetensorsFile& file, const std::string& name,
                            const Shape& whole, const Shape& shape, const PlaceInWhole& place) {
  std::vector<float> all(static_cast<size_t>(whole.count()));
  file.Read(name, std::span(all));
  if (shape == whole) return all;
  std::vector<float> part(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < part.size(); ++i) {
    part[i] = all[static_cast<size_t>(place(static_cast<int64_t>(i)))];
  }
  return part;
}

}  // namespace

void WriteOptimizerFile(const std::filesystem::path& path, const ParamTable& table,
                        std::span<const NamedTensor> state) {
  WriteSafetensors(path, FileTensors(table, state));
}

void ReadOptimizerFile(const std::filesystem::path& path, const ParamTable& table,
                       const Optimizer& optimizer, const Shards* shards, int rank) {
  const ParamTable whole = table.Whole();
  const SafetensorsFile file(path);
  for (const ParamInfo& info : whole.params()) {
    if (!info.trained) continue;
    for (const NamedTensor& array : optimizer.State()) {
      file.Require(FileName(array, info), info.shape);
    }
  }
  for (size_t p = 0; p < table.params().size(); ++p) {
    const ParamInfo& info = table.params()[p];
    if (!info.trained) continue;
    const Shape& shape = whole.params()[p].shape;
    const PlaceInWhole place(table, info, shape);
    for (const NamedTensor& array : optimizer.State()) {
      const std::vector<float> values =
          ReadPart(file, FileName(array, info), shape, info.shape, place);
      float* kept = array.tensor.data<float>();
      if (shards == nullptr) {
        std::ranges::copy(values, kept + info.offset);
        continue;
      }
      VisitOwned(info, *shards, rank, [&](int64_t begin, int64_t offset, int64_t size) {
        std::copy_n(values.data() + begin, size, kept + offset);
      });
    }
  }
}

SharedOptimizerFile::SharedOptimizerFile(std::filesystem::path path, const GptWeights& weights)
    : path_(std::move(path)), table_(weights.table()) {
  std::vector<NamedTensor> state;  // of which only the shapes count
  for (const std::string_view name : Optimizer::kState) {
    state.push_back({std::string(name), weights.flat()});
  }
  layout_ = LayOutSafetensors(FileTensors(table_, state));
}

void SharedOptimizerFile::Create() const {
  const internal::FileDescriptor file(
      internal::OpenFile(path_, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
  if (file.get() < 0) internal::ThrowCannotWrite(path_, errno);
  WriteAt(file, path_, layout_.header.data(), layout_.header.size(), 0);
  if (ftruncate(file.get(), static_cast<off_t>(layout_.bytes)) != 0) {
    internal::ThrowCannotWrite(path_, errno);
  }
  Flush(file, path_);
}

bool SharedOptimizerFile::IsHere() const {
  std::error_code unknown;
  return std::filesystem::file_size(path_, unknown) == layout_.bytes &&
         access(path_.c_str(), W_OK) == 0;
}

void SharedOptimizerFile::Write(const Shards& shards, int rank,
                                std::span<const NamedTensor> state) const {
  const internal::FileDescriptor file(internal::OpenFile(path_, O_WRONLY | O_NOFOLLOW));
  if (file.get() < 0) internal::ThrowCannotWrite(path_, errno);
  for (const ParamInfo& info : table_.params()) {
    if (!info.trained) continue;
    VisitOwned(info, shards, rank, [&](int64_t begin, int64_t offset, int64_t size) {
      for (const NamedTensor& array : state) {
        const float* kept = array.tensor.data<float>() + offset;
        WriteAt(file, path_, reinterpret_cast<const char*>(kept),
                static_cast<size_t>(size) * sizeof(float),
                layout_.offsets.at(FileName(array, info)) +
                    static_cast<uint64_t>(begin) * sizeof(float));
      }
    });
  }
  Flush(file, path_);
}

}  // namespace folio
