#include "folio/io/tf_bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

#include "folio/io/crc32c.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kTableMagic = 0xDB4775248B80FB57;
constexpr size_t kFooterSize = 48,
                 kBlockTrailer = 5;  // bytes of a file's footer, and of a block's: its kind and its
                                     // checksum
constexpr uint64_t kMaxIndex = uint64_t{4} << 20;
constexpr size_t kMaxTensors = 1 << 16, kMaxTensorName = 256;

// Field numbers and values of TensorFlow's messages.
enum HeaderField { kNumShards = 1, kEndianness = 2 };
enum EntryField {
  kType = 1,
  kShape = 2,
  kShardId = 3,
  kOffset = 4,
  kByteSize = 5,
  kCrc32c = 6,
  kSlices = 7
};
enum ShapeField { kDim = 2, kUnknownRank = 3 };
enum DimField { kDimSize = 1 };

// Dtypes by their numbers in TensorFlow's messages.
constexpr std::pair<uint64_t, Dtype> kTfDtypes[] = {
    {1, Dtype::kF32}, {2, Dtype::kF64}, {3, Dtype::kI32},   {4, Dtype::kU8},    {5, Dtype::kI16},
    {6, Dtype::kI8},  {9, Dtype::kI64}, {10, Dtype::kBool}, {14, Dtype::kBF16}, {19, Dtype::kF16}};

// A field of a message in the encoding of protocol buffers.
struct ProtoField {
  uint64_t number = 0;
  uint64_t value = 0;                     // if it is a number
  std::span<const std::byte> bytes = {};  // if it is longer
};

void ReadMessage(ByteReader& message, const std::function<void(const ProtoField&)>& take) {
  while (message.left() > 0) {
    const uint64_t tag = message.Varint();
    ProtoField field{.number = tag >> 3};
    switch (tag & 7) {
      case 0:
        field.value = message.Varint();
        break;
      case 1:
        field.value = message.Number<uint64_t>();
        break;
      case 2:
        field.bytes = message.Bytes(message.Varint());
        break;
      case 5:
        field.value = message.Number<uint32_t>();
        break;
      default:
        message.Fail(fmt::format("field {} of a message has an unknown type", field.number));
    }
    take(field);
  }
}

// The block of `file` at the offset and with the size that `place` says, not before `from`.
std::span<const std::byte> ReadBlock(ByteReader& file, ByteReader& place, uint64_t from = 0) {
  const uint64_t offset = place.Varint(), size = place.Varint();
  const uint64_t end = file.all().size() - kFooterSize;
  if (offset < from || offset > end || size > end - offset || kBlockTrailer > end - offset - size) {
    file.Fail(fmt::format("a block of {} bytes at byte {}", size, offset));
  }
  file.Seek(offset);
  const std::string_view checked = file.Text(size + 1);
  if (file.Number<uint32_t>() != MaskedCrc32c(checked)) {
    file.Fail(fmt::format("the checksum of the block at byte {} is wrong", offset));
  }
  if (checked.back() != '\0') {
    file.Fail(fmt::format("the block at byte {} is compressed", offset),
              "write the checkpoint without compression, TensorFlow's default");
  }
  return file.all().subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
}

using OnEntry = std::function<void(std::string_view key, std::span<const std::byte> value)>;

// Each key repeats that many bytes of the key before it.
void ReadEntries(ByteReader block, const OnEntry& entry) {
  constexpr size_t kInt = sizeof(uint32_t);
  const size_t size = block.left();
  if (size < kInt) block.Fail("a block is truncated");
  block.Seek(size - kInt);
  const uint64_t restarts = block.Number<uint32_t>();
  if (restarts > size / kInt - 1) block.Fail(fmt::format("{} restarts", restarts));
  ByteReader entries =
      block.Within(block.all().first(size - kInt - static_cast<size_t>(restarts) * kInt));
  std::string key;
  while (entries.left() > 0) {
    const uint64_t shared = entries.Varint(), more = entries.Varint(), bytes = entries.Varint();
    if (shared > key.size() || more > kMaxTensorName || shared + more > kMaxTensorName) {
      block.Fail(fmt::format("a name of {} and {} bytes", shared, more));
    }
    key.resize(static_cast<size_t>(shared));
    key += entries.Text(more);
    entry(key, entries.Bytes(bytes));
  }
}

// The table of an index file: calls entry(name, value) for each, in order.
void ReadTable(ByteReader file, const OnEntry& entry) {
  const size_t size = file.all().size();
  if (size < kFooterSize || size > kMaxIndex) file.Fail(fmt::format("it has {} bytes", size));
  file.Seek(size - sizeof(kTableMagic));
  if (file.Number<uint64_t>() != kTableMagic) file.Fail("its footer is not valid");
  ByteReader footer = file.Within(file.all().subspan(size - kFooterSize));
  footer.Varint();  // place of a list of other blocks
  footer.Varint();
  const auto index = ReadBlock(file, footer);
  uint64_t from = 0;  // blocks are in order, so that each is read once
  size_t count = 0;
  std::string last;
  ReadEntries(file.Within(index), [&](std::string_view, std::span<const std::byte> handle) {
    ByteReader place = file.Within(handle);
    const auto block = ReadBlock(file, place, from);
    from = static_cast<uint64_t>(block.data() - file.all().data()) + block.size() + kBlockTrailer;
    ReadEntries(file.Within(block), [&](std::string_view key, std::span<const std::byte> value) {
      if (++count > kMaxTensors) file.Fail("too many entries for a model");
      if (count > 1 && key <= last) file.Fail("its names are not sorted");
      last = key;
      entry(key, value);
    });
  });
}

void CheckHeader(ByteReader header) {
  uint64_t shards = 0, endianness = 0;
  ReadMessage(header, [&](const ProtoField& field) {
    if (field.number == kNumShards) shards = field.value;
    if (field.number == kEndianness) endianness = field.value;
  });
  if (shards != 1) header.Fail(fmt::format("it has {} shards; only one is supported", shards));
  if (endianness != 0) header.Fail("it is big-endian");
}

Shape ReadShape(ByteReader shape, uint64_t& bytes, const std::string& what) {
  std::array<int64_t, Shape::kMaxRank> dims{};
  size_t rank = 0;
  ReadMessage(shape, [&](const ProtoField& field) {
    if (field.number == kUnknownRank && field.value != 0) shape.Fail(what + ": it has no shape");
    if (field.number != kDim) return;
    uint64_t size = 0;
    ByteReader dim = shape.Within(field.bytes);
    ReadMessage(dim, [&](const ProtoField& part) {
      if (part.number == kDimSize) size = part.value;
    });
    if (rank == dims.size()) shape.Fail(what + fmt::format(": more than {} sizes", dims.size()));
    if (!MultiplyBytes(bytes, size)) shape.Fail(what + ": its sizes overflow");
    dims[rank++] = static_cast<int64_t>(size);
  });
  return Shape(std::span<const int64_t>(dims.data(), rank));
}

}  // namespace

void TfBundle::AddEntry(std::string_view name, ByteReader entry, std::span<const std::byte> data) {
  const std::string what = fmt::format("tensor \"{}\"", name);
  uint64_t type = 0, shard = 0, offset = 0, size = 0, checksum = 0;
  std::span<const std::byte> shape;
  ReadMessage(entry, [&](const ProtoField& field) {
    if (field.number == kType) type = field.value;
    if (field.number == kShape) shape = field.bytes;
    if (field.number == kShardId) shard = field.value;
    if (field.number == kOffset) offset = field.value;
    if (field.number == kByteSize) size = field.value;
    if (field.number == kCrc32c) checksum = field.value;
    if (field.number == kSlices) entry.Fail(what + " is partitioned, which folio does not support");
  });
  const auto* const dtype = std::ranges::find(kTfDtypes, type, &std::pair<uint64_t, Dtype>::first);
  if (dtype == std::end(kTfDtypes)) {
    entry.Fail(fmt::format("{} has type {}, which folio does not support", what, type));
  }
  TensorInfo info{.name = std::string(name), .dtype = dtype->second};
  info.bytes = DtypeSize(info.dtype);
  info.shape = ReadShape(entry.Within(shape), info.bytes, what);
  if (shard != 0 || offset > data.size() || size > data.size() - offset) {
    entry.Fail(fmt::format("{}: {} bytes at byte {} of shard {}, which has {}", what, size, offset,
                           shard, data.size()));
  }
  if (size != info.bytes) {
    entry.Fail(fmt::format("{}: {} {} takes {} bytes, not {}", what, DtypeName(info.dtype),
                           info.shape.ToString(), info.bytes, size));
  }
  info.data = data.data() + offset;
  checksums_.push_back(static_cast<uint32_t>(checksum));
  if (!Add(std::move(info))) entry.Fail(what + " appears twice");
}

TfBundle::TfBundle(const fs::path& prefix, Loading loading) : TensorFile(prefix) {
  const fs::path index = prefix.string() + ".index";
  const ByteReader reader(
      Open(index, loading),
      fmt::format("{} is not a valid index of a TensorFlow checkpoint", index.string()));
  const fs::path data_file = prefix.string() + ".data-00000-of-00001";
  const auto data = Open(data_file, loading);
  bool any = false;
  ReadTable(reader, [&](std::string_view key, std::span<const std::byte> value) {
    ByteReader message = reader.Within(value);
    if (any) return AddEntry(key, std::move(message), data);
    if (!key.empty()) message.Fail("its first entry is not the header");
    any = true;
    CheckHeader(std::move(message));
  });
  if (!any) reader.Fail("it has no entries");
  // Reads all of the file.
  CheckParts(
      data_file, std::ssize(tensors()),
      [&](int64_t i) {
        const TensorInfo& info = tensors()[static_cast<size_t>(i)];
        return MaskedCrc32c(AsText({info.data, static_cast<size_t>(info.bytes)})) ==
               checksums_[static_cast<size_t>(i)];
      },
      [&](int64_t i) {
        return fmt::format("the checksum of tensor \"{}\" differs from that in the index",
                           tensors()[static_cast<size_t>(i)].name);
      });
}

}  // namespace folio
