#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "folio/base/check.h"
#include "folio/io/pickle_writer.h"
#include "folio/io/torch_file.h"
#include "folio/io/torch_names.h"
#include "folio/io/zip.h"

namespace folio {
namespace {

std::string PickledSizes(std::span<const int64_t> sizes) {
  std::vector<std::string> items;
  for (const int64_t size : sizes) items.push_back(Pickled(size));
  return PickledTuple(items);
}

// The tensor that lies in the entry data/`index`.
std::string PickledTensor(const TensorToWrite& tensor, size_t index) {
  const auto* const storage = std::ranges::find(kTorchStorages, tensor.dtype, &TorchStorage::dtype);
  FOLIO_CHECK(storage != kTorchStorages.end(), "PyTorch has no such storage");
  const std::vector<std::string> stored = {Pickled("storage"), PickledGlobal(storage->global),
                                           Pickled(fmt::format("{}", index)), Pickled("cpu"),
                                           Pickled(tensor.shape.count())};
  const int rank = tensor.shape.rank();
  std::vector<int64_t> strides(static_cast<size_t>(rank), 1);
  for (int i = rank - 1; i > 0; --i) {
    strides[static_cast<size_t>(i - 1)] = strides[static_cast<size_t>(i)] * tensor.shape[i];
  }
  const std::vector<std::string> arguments = {
      PickledStored(stored), Pickled(0),     PickledSizes(tensor.shape.dims()),
      PickledSizes(strides), Pickled(false), PickledCall(kOrderedDict, {})};
  return PickledCall(kRebuiltTensor, arguments);
}

std::string TorchPickle(const Json& values, std::string_view key,
                        std::span<const TensorToWrite> tensors,
                        std::span<const std::pair<std::string, std::string>> same) {
  std::vector<std::pair<std::string, std::string>> pickled, items;
  std::map<std::string_view, size_t> index;
  for (size_t i = 0; i < tensors.size(); ++i) {
    FOLIO_CHECK(index.emplace(tensors[i].name, i).second, "tensor name used twice");
    pickled.emplace_back(Pickled(tensors[i].name), PickledTensor(tensors[i], i));
  }
  for (const auto& [name, of] : same) {
    FOLIO_CHECK(index.contains(of), "the same as no tensor");
    pickled.emplace_back(Pickled(name), PickledTensor(tensors[index[of]], index[of]));
  }
  items.emplace_back(Pickled(key), PickledDict(pickled));
  for (const auto& [name, value] : values.items()) {
    items.emplace_back(Pickled(name), Pickled(value));
  }
  return PickleOf(PickledDict(items));
}

}  // namespace

void WriteTorchFile(const std::filesystem::path& path, const Json& values, std::string_view key,
                    std::span<const TensorToWrite> tensors,
                    std::span<const std::pair<std::string, std::string>> same) {
  AtomicFile file(path);
  ZipWriter zip(file);
  const std::string prefix = path.stem().string() + "/";
  const auto add = [&](std::string_view name, std::string_view text) {
    zip.Add(prefix + std::string(name), std::as_bytes(std::span(text)));
  };
  add("data.pkl", TorchPickle(values, key, tensors, same));
  add("byteorder", "little");
  std::vector<std::byte> bytes;  // of a whole tensor: its checksum stands before it
  for (size_t i = 0; i < tensors.size(); ++i) {
    bytes.clear();
    bytes.reserve(static_cast<size_t>(tensors[i].bytes()));
    EncodeTensor(tensors[i], [&](std::span<const std::byte> part) {
      bytes.insert(bytes.end(), part.begin(), part.end());
    });
    zip.Add(fmt::format("{}data/{}", prefix, i), bytes);
  }
  add("version", "3\n");
  zip.Finish();
  file.Commit();
}

}  // namespace folio
