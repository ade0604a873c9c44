#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/safetensors.h"
#include "folio/io/safetensors_format.h"

namespace folio {
namespace {

constexpr uint64_t kAlignment = 64;

std::string Quoted(const std::string& text) {
  return Json(text).dump();
}

// The order of the data: large elements first, so that every tensor starts at a multiple of its
// element's size.
std::vector<const NamedTensor*> InFileOrder(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> order;
  std::set<std::string_view> names = {"__metadata__"};
  for (const NamedTensor& named : tensors) {
    FOLIO_CHECK(names.insert(named.name).second, "tensor name used twice, or reserved");
    FOLIO_CHECK(named.tensor || named.tensor.count() == 0, "absent tensor");
    order.push_back(&named);
  }
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const size_t size_a = DtypeSize(a->tensor.dtype()), size_b = DtypeSize(b->tensor.dtype());
    return std::tie(size_b, a->name) < std::tie(size_a, b->name);
  });
  return order;
}

// Length and header, padded so that the data behind it is aligned.
std::string Header(std::span<const NamedTensor* const> order, const SafetensorsMetadata& metadata) {
  std::string header(kSafetensorsLengthBytes, '\0');
  header += "{\"__metadata__\":{";
  for (const char* separator = ""; const auto& [key, value] : metadata) {
    header += fmt::format("{}{}:{}", std::exchange(separator, ","), Quoted(key), Quoted(value));
  }
  header += '}';
  uint64_t offset = 0;
  for (const NamedTensor* named : order) {
    const Tensor& tensor = named->tensor;
    const uint64_t end = offset + tensor.bytes();
    header += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          Quoted(named->name), DtypeName(tensor.dtype()),
                          fmt::join(tensor.shape().dims(), ","), offset, end);
    offset = end;
  }
  header += '}';
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = header.size() - kSafetensorsLengthBytes;
  for (size_t i = 0; i < kSafetensorsLengthBytes; ++i) {
    header[i] = static_cast<char>(length >> (8 * i) & 255u);
  }
  return header;
}

}  // namespace

void WriteSafetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                      SafetensorsMetadata metadata) {
  metadata.try_emplace("format", "pt");
  const std::vector<const NamedTensor*> order = InFileOrder(tensors);
  const std::string header = Header(order, metadata);
  if (header.size() > kSafetensorsMaxHeader) {
    throw RuntimeError(fmt::format("cannot write {}", path.string()),
                       fmt::format("its header would take {} bytes, the format allows {}",
                                   header.size(), kSafetensorsMaxHeader));
  }
  AtomicFile file(path);
  file.Write(header);
  for (const NamedTensor* named : order) {
    file.Write({named->tensor.raw(), named->tensor.bytes()});
  }
  file.Commit();
}

}  // namespace folio
