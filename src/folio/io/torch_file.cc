#include "folio/io/torch_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/byte_reader.h"
#include "folio/io/pickle.h"
#include "folio/tensor/dtype.h"

namespace folio {
namespace {

constexpr uint32_t kLocalMark = 0x04034b50, kEntryMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr uint32_t kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr size_t kLocalSize = 30, kZipEntrySize = 46, kZipEndSize = 22, kLocator64Size = 20;
constexpr size_t kMaxComment = 0xFFFF;
constexpr uint64_t kMaxZipEntries = 1 << 17;
constexpr uint16_t kEncrypted = 1, kStored = 0, kZip64Extra = 1;
// A 32-bit field with this value refers to a 64-bit field.
constexpr uint32_t kSee64 = 0xFFFFFFFF;

// The position of the list of contents.
struct Contents {
  uint64_t entries = 0, bytes = 0, offset = 0;
  uint64_t end = 0;  // the end of what may come before: the list begins here or earlier
};

uint32_t ChecksumOf(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The part of a name that an error shows.
std::string_view Shown(std::string_view name) {
  return name.substr(0, 100);
}

void CheckOneDisk(const ByteReader& reader, bool one) {
  if (!one) reader.Fail("it is one of several parts");
}

Contents ReadEnd64(ByteReader& reader, uint64_t locator) {
  reader.Seek(locator + 4);
  CheckOneDisk(reader, reader.Number<uint32_t>() == 0);
  const auto end = reader.Number<uint64_t>();
  if (end >= locator) reader.Fail("its zip64 end record is out of range");
  reader.Seek(end);
  if (reader.Number<uint32_t>() != kEnd64Mark) reader.Fail("its zip64 end record is missing");
  reader.Bytes(8 + 2 + 2);  // its size, versions
  CheckOneDisk(reader, reader.Number<uint64_t>() == 0);
  const auto here = reader.Number<uint64_t>();
  Contents contents;
  contents.entries = reader.Number<uint64_t>();
  CheckOneDisk(reader, here == contents.entries);
  contents.bytes = reader.Number<uint64_t>();
  contents.offset = reader.Number<uint64_t>();
  contents.end = end;
  return contents;
}

Contents ReadEnd(ByteReader& reader) {
  const size_t size = reader.all().size();
  const size_t last = size - std::min(size, kZipEndSize);
  const size_t first = last - std::min(last, kMaxComment);
  for (size_t at = last + 1; at-- > first;) {
    reader.Seek(at);
    if (reader.left() < kZipEndSize || reader.Number<uint32_t>() != kEndMark) continue;
    const auto disks = reader.Number<uint32_t>();
    const auto here = reader.Number<uint16_t>();
    Contents contents;
    contents.entries = reader.Number<uint16_t>();
    contents.bytes = reader.Number<uint32_t>();
    contents.offset = reader.Number<uint32_t>();
    contents.end = at;
    if (reader.Number<uint16_t>() != reader.left()) continue;  // the length of a comment
    CheckOneDisk(reader, disks == 0 && here == contents.entries);
    if (at >= kLocator64Size) {
      reader.Seek(at - kLocator64Size);
      if (reader.Number<uint32_t>() == kLocator64Mark) {
        return ReadEnd64(reader, at - kLocator64Size);
      }
    }
    return contents;
  }
  reader.Fail("its central directory is missing");
}

// Reads the sizes and the offset of an entry that do not fit 32 bits.
void Read64(std::span<const std::byte> extra, const ByteReader& file, uint64_t& size,
            uint64_t& stored, uint64_t& offset) {
  if (size != kSee64 && stored != kSee64 && offset != kSee64) return;
  ByteReader fields(extra, "");
  while (fields.left() >= 4) {
    const auto kind = fields.Number<uint16_t>();
    const auto bytes = fields.Number<uint16_t>();
    if (bytes > fields.left()) break;
    const auto field = fields.Bytes(bytes);
    if (kind != kZip64Extra) continue;
    ByteReader numbers(field, "");
    for (uint64_t* number : {&size, &stored, &offset}) {
      if (*number != kSee64) continue;
      if (numbers.left() < sizeof(uint64_t)) file.Fail("an entry lacks its 64-bit size");
      *number = numbers.Number<uint64_t>();
    }
    return;
  }
  file.Fail("an entry lacks its 64-bit sizes");
}

// The bytes of an entry, behind a local header that must name it too.
std::span<const std::byte> Locate(ByteReader& reader, std::string_view name, uint16_t method,
                                  uint64_t offset, uint64_t size, uint64_t end) {
  const auto refuse = [&](std::string_view why) {
    reader.Fail(fmt::format("its entry \"{}\" {}", Shown(name), why));
  };
  if (offset > end || end - offset < kLocalSize) refuse("is beyond the end of the file");
  const size_t back = reader.at();
  reader.Seek(offset);
  if (reader.Number<uint32_t>() != kLocalMark)
    refuse("is not at its offset in the central directory");
  reader.Bytes(2 + 2);  // version, flags
  if (reader.Number<uint16_t>() != method) refuse("has a different compression");
  reader.Bytes(2 + 2 + 4 + 4 + 4);  // time, date, checksum, sizes, which may come after the data
  const auto name_bytes = reader.Number<uint16_t>();
  const auto extra_bytes = reader.Number<uint16_t>();
  if (name_bytes > reader.left() || reader.Text(name_bytes) != name) refuse("has a different name");
  if (extra_bytes > reader.left()) refuse("is beyond the end of the file");
  reader.Bytes(extra_bytes);
  if (reader.at() > end || size > end - reader.at()) refuse("is beyond the end of the file");
  const auto bytes = reader.Bytes(size);
  reader.Seek(back);
  return bytes;
}

ZipEntry ReadEntry(ByteReader& reader, uint64_t end) {
  if (reader.Number<uint32_t>() != kEntryMark) reader.Fail("its central directory is damaged");
  reader.Bytes(2 + 2);  // versions
  const auto flags = reader.Number<uint16_t>();
  const auto method = reader.Number<uint16_t>();
  reader.Bytes(2 + 2);  // time, date
  const auto checksum = reader.Number<uint32_t>();
  uint64_t stored = reader.Number<uint32_t>();
  uint64_t size = reader.Number<uint32_t>();
  const auto name_bytes = reader.Number<uint16_t>();
  const auto extra_bytes = reader.Number<uint16_t>();
  const auto comment_bytes = reader.Number<uint16_t>();
  reader.Bytes(2 + 2 + 4);  // disk, attributes
  uint64_t offset = reader.Number<uint32_t>();
  const std::string_view name = reader.Text(name_bytes);
  const auto extra = reader.Bytes(extra_bytes);
  reader.Bytes(comment_bytes);
  Read64(extra, reader, size, stored, offset);
  const bool encrypted = (flags & kEncrypted) != 0;
  const bool plain = method == kStored && !encrypted;
  if (plain && size != stored) {
    reader.Fail(fmt::format("its entry \"{}\" has two sizes", Shown(name)));
  }
  return {name, Locate(reader, name, method, offset, stored, end), plain, encrypted, checksum};
}

void CheckApart(const ByteReader& reader, std::vector<ZipEntry> entries) {
  std::ranges::sort(entries, {}, [](const ZipEntry& entry) { return entry.bytes.data(); });
  const std::byte* end = nullptr;
  for (const ZipEntry& entry : entries) {
    if (entry.bytes.empty()) continue;
    if (entry.bytes.data() < end)
      reader.Fail(fmt::format("its entry \"{}\" overlaps another", Shown(entry.name)));
    end = entry.bytes.data() + entry.bytes.size();
  }
}

constexpr uint64_t kZipAlignment = 64;
constexpr uint64_t kSee64Entries = 0xFFFF;
constexpr uint16_t kZipVersion = 20, kZipVersion64 = 45;
constexpr uint16_t kPaddingKind = 0x4246;  // "FB", as PyTorch pads

// The 32-bit field of a value that may be in a 64-bit field instead.
uint32_t FieldOf(uint64_t value, bool elsewhere) {
  return elsewhere ? kSee64 : static_cast<uint32_t>(value);
}

// The fields from the needed version to the length of the name.
std::string ZipCommon(std::string_view name, std::span<const std::byte> bytes, bool big) {
  constexpr uint16_t kNoFlags = 0, kAsItIs = 0, kMidnight = 0, kFirstOf1980 = 1 << 5 | 1;
  std::string out;
  AppendLittleEndian(out, big ? kZipVersion64 : kZipVersion, kNoFlags, kAsItIs, kMidnight,
                     kFirstOf1980, ChecksumOf(bytes), FieldOf(bytes.size(), big),
                     FieldOf(bytes.size(), big), static_cast<uint16_t>(name.size()));
  return out;
}

void AppendZipField(std::string& extra, uint16_t kind, const std::string& field) {
  if (field.empty()) return;
  AppendLittleEndian(extra, kind, static_cast<uint16_t>(field.size()));
  extra += field;
}

}  // namespace

std::vector<ZipEntry> ReadZip(std::span<const std::byte> file, const std::filesystem::path& path) {
  ByteReader reader(file, fmt::format("{} is not a valid zip file", path.string()));
  const Contents contents = ReadEnd(reader);
  if (contents.offset > contents.end || contents.bytes > contents.end - contents.offset) {
    reader.Fail("its central directory is beyond the end of the file");
  }
  if (contents.entries > contents.bytes / kZipEntrySize || contents.entries > kMaxZipEntries) {
    reader.Fail(fmt::format("{} entries in a central directory of {} bytes", contents.entries,
                            contents.bytes));
  }
  std::vector<ZipEntry> entries;
  entries.reserve(static_cast<size_t>(contents.entries));
  reader.Seek(contents.offset);
  while (entries.size() < contents.entries) {
    entries.push_back(ReadEntry(reader, contents.offset));
  }
  if (reader.at() != contents.offset + contents.bytes) {
    reader.Fail("its central directory has the wrong length");
  }
  std::ranges::sort(entries, {}, &ZipEntry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &ZipEntry::name);
  if (twice != entries.end())
    reader.Fail(fmt::format("the entry \"{}\" appears twice", Shown(twice->name)));
  CheckApart(reader, entries);
  return entries;
}

void ZipWriter::Add(std::string_view name, std::span<const std::byte> bytes) {
  constexpr size_t kLocalHeader = 30, kFieldHeader = 4, kLongestName = 999;
  FOLIO_CHECK(name.size() <= kLongestName, "the name of an entry is too long");
  const uint64_t offset = file_.written(), size = bytes.size();
  const bool big = size >= see64_, far = offset >= see64_;
  const std::string common = ZipCommon(name, bytes, big);
  std::string extra, sizes;
  if (big) AppendLittleEndian(sizes, size, size);
  AppendZipField(extra, kZip64Extra, sizes);
  const uint64_t begin = offset + kLocalHeader + name.size() + extra.size() + kFieldHeader;
  const uint64_t padding = (kZipAlignment - begin % kZipAlignment) % kZipAlignment;
  AppendLittleEndian(extra, kPaddingKind, static_cast<uint16_t>(padding));
  extra.append(padding, 'Z');
  std::string header;
  AppendLittleEndian(header, kLocalMark);
  header += common;
  AppendLittleEndian(header, static_cast<uint16_t>(extra.size()));
  file_.Write(header.append(name).append(extra));
  file_.Write(bytes);
  if (far) AppendLittleEndian(sizes, offset);
  std::string listed_extra;
  AppendZipField(listed_extra, kZip64Extra, sizes);
  // The mark, and the version of the writer.
  AppendLittleEndian(list_, kEntryMark, big || far ? kZipVersion64 : kZipVersion);
  list_ += common;
  AppendLittleEndian(list_, static_cast<uint16_t>(listed_extra.size()));
  list_.append(2 + 2 + 2 + 4, '\0');  // no comment, one disk, no attributes
  AppendLittleEndian(list_, FieldOf(offset, far));
  list_.append(name).append(listed_extra);
  ++entries_;
}

void ZipWriter::Finish() {
  const uint64_t offset = file_.written(), size = list_.size();
  const bool big = offset >= see64_ || size >= see64_ || entries_ >= kSee64Entries;
  constexpr uint32_t kFirstDisk = 0, kDisks = 1;
  constexpr uint16_t kNoComment = 0;
  std::string end;
  if (big) {
    constexpr uint64_t kSizeBehind = 44;
    AppendLittleEndian(end, kEnd64Mark, kSizeBehind, kZipVersion64, kZipVersion64, kFirstDisk,
                       kFirstDisk, entries_, entries_, size, offset);
    AppendLittleEndian(end, kLocator64Mark, kFirstDisk, offset + size, kDisks);
  }
  const auto count = static_cast<uint16_t>(big ? kSee64Entries : entries_);
  AppendLittleEndian(end, kEndMark, kFirstDisk, count, count, FieldOf(size, big),
                     FieldOf(offset, big), kNoComment);
  file_.Write(list_);
  file_.Write(end);
}

namespace {

// Throws a kInput Error that names the first plain entry whose bytes do not have its checksum:
// reads all of them, by several threads.
void CheckZip(const std::vector<ZipEntry>& entries, const std::filesystem::path& path) {
  const auto entry = [&](int64_t i) -> const ZipEntry& { return entries[static_cast<size_t>(i)]; };
  CheckParts(
      path, std::ssize(entries),
      [&](int64_t i) {
        const ZipEntry& one = entry(i);
        return !one.plain || one.checksum == 0 || ChecksumOf(one.bytes) == one.checksum;
      },
      [&](int64_t i) {
        return fmt::format("the checksum of its entry \"{}\" is wrong", Shown(entry(i).name));
      });
}

using Kind = PickleValue::Kind;

// The names in pickles of torch.save.
struct TorchStorage {
  std::string_view global;
  Dtype dtype;
};
constexpr TorchStorage kTorchStorages[] = {
    {"torch.FloatStorage", Dtype::kF32}, {"torch.DoubleStorage", Dtype::kF64},
    {"torch.HalfStorage", Dtype::kF16},  {"torch.BFloat16Storage", Dtype::kBF16},
    {"torch.LongStorage", Dtype::kI64},  {"torch.IntStorage", Dtype::kI32},
    {"torch.ShortStorage", Dtype::kI16}, {"torch.CharStorage", Dtype::kI8},
    {"torch.ByteStorage", Dtype::kU8},   {"torch.BoolStorage", Dtype::kBool},
};
constexpr std::string_view kRebuiltTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kOrderedDict = "collections.OrderedDict";

constexpr std::string_view kRebuiltParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kTorchSize = "torch.Size";
// Tensors of dtypes without a storage of their own, and other numbers that folio does not support:
// refused by the tensor's name.
constexpr std::string_view kRebuiltUntyped = "torch._utils._rebuild_tensor_v3";
constexpr auto kForeignGlobals = std::to_array<std::string_view>(
    {kRebuiltUntyped, "torch.storage.UntypedStorage", "torch.ComplexFloatStorage",
     "torch.ComplexDoubleStorage", "torch.complex32", "torch.uint16", "torch.uint32",
     "torch.uint64", "torch.float8_e4m3fn", "torch.float8_e4m3fnuz", "torch.float8_e5m2",
     "torch.float8_e5m2fnuz", "torch.float8_e8m0fnu", "torch.float4_e2m1fn_x2"});
// The globals that a pickle of PyTorch may name.
constexpr std::array kTorchGlobals = [] {
  constexpr std::array<std::string_view, 12> kOthers = {
      kRebuiltTensor,  kRebuiltParameter, kTorchSize,      kOrderedDict,
      "torch.float32", "torch.float64",   "torch.float16", "torch.bfloat16",
      "torch.int64",   "torch.int32",     "torch.uint8",   "torch.bool"};
  std::array<std::string_view, kOthers.size() + kForeignGlobals.size() + std::size(kTorchStorages)>
      all;
  auto end = std::ranges::copy(kOthers, all.begin()).out;
  end = std::ranges::copy(kForeignGlobals, end).out;
  std::ranges::transform(kTorchStorages, end, &TorchStorage::global);
  return all;
}();

constexpr std::string_view kZipMark = "PK\x03\x04";
// A pickle of protocol 2 that begins with the integer 0x1950a86a20f9469cfc6c.
constexpr std::string_view kOldMark("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);

// Null if there is none.
const ZipEntry* FindEntry(const std::vector<ZipEntry>& entries, std::string_view name) {
  const auto entry = std::ranges::lower_bound(entries, name, {}, &ZipEntry::name);
  return entry == entries.end() || entry->name != name ? nullptr : &*entry;
}

void RequirePlain(const ZipEntry& entry, const std::filesystem::path& path) {
  if (entry.plain) return;
  if (entry.encrypted) {
    throw InputError(fmt::format("{}: entry \"{}\" is encrypted", path.string(), entry.name), "",
                     "unpack it with its password, and pack it again without one: zip -0 -r");
  }
  throw InputError(fmt::format("{}: entry \"{}\" is compressed", path.string(), entry.name),
                   "the file was packed by another program: torch.save does not compress entries, "
                   "so that they can be read in place",
                   "load and save it with PyTorch, or pack it again in an empty directory: unzip "
                   "FILE && zip -0 -r NEW.pt .");
}

std::string PickledSizes(std::span<const int64_t> sizes) {
  std::vector<std::string> items;
  for (const int64_t size : sizes) items.push_back(Pickled(size));
  return PickledTuple(items);
}

// The tensor in the entry data/`index`.
std::string PickledTensor(const TensorToWrite& tensor, size_t index) {
  const auto* const storage = std::ranges::find(kTorchStorages, tensor.dtype, &TorchStorage::dtype);
  FOLIO_CHECK(storage != std::end(kTorchStorages), "PyTorch has no such storage");
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
  for (const auto& [name, original] : same) {
    FOLIO_CHECK(index.contains(original), "the same as no tensor");
    pickled.emplace_back(Pickled(name), PickledTensor(tensors[index[original]], index[original]));
  }
  items.emplace_back(Pickled(key), PickledDict(pickled));
  for (const auto& [name, value] : values.items()) {
    items.emplace_back(Pickled(name), Pickled(value));
  }
  return PickleOf(PickledDict(items));
}

// The prefix of the names of all entries: "archive/".
std::string PrefixOf(const std::vector<ZipEntry>& entries, const std::filesystem::path& path) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const ZipEntry& entry : entries) {
    if (entry.name.find('/') != entry.name.size() - std::min(entry.name.size(), kPickle.size()) ||
        !entry.name.ends_with(kPickle)) {
      continue;
    }
    return std::string(entry.name.substr(0, entry.name.size() - kPickle.size() + 1));
  }
  throw InputError(fmt::format("{}: not written by torch.save", path.string()),
                   "it is a zip file without data.pkl");
}

void RefuseOldFile(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  if (!AsText(bytes).starts_with(kOldMark)) return;
  throw InputError(
      fmt::format("{}: the format of PyTorch before 1.6", path.string()),
      "expected a zip file, the format of torch.save since 1.6",
      "save it again with a newer PyTorch: torch.save(torch.load(FILE, weights_only=True), FILE)");
}

}  // namespace

// Finds the tensors among a pickle's values.
class TorchReader {
 public:
  TorchReader(TorchFile& file, const Pickle& pickle, std::string mistake,
              const std::vector<ZipEntry>& entries, std::string_view prefix, uint64_t file_bytes)
      : file_(file),
        pickle_(pickle),
        mistake_(std::move(mistake)),
        entries_(entries),
        prefix_(prefix),
        left_(file_bytes) {}

  void Read() {
    if (pickle_.root().kind != Kind::kDict) {
      throw InputError(mistake_, "it does not contain a dictionary",
                       "save a state_dict: torch.save(model.state_dict(), FILE)");
    }
    file_.values_ =
        PlainValues(pickle_, mistake_, [this](const PickleValue& value, const std::string& name) {
          return TakeTensor(value, name);
        });
  }

 private:
  // Returns false if it is no tensor.
  bool TakeTensor(const PickleValue& value, const std::string& name) {
    const PickleValue* tensor = &value;
    if (const PickleValue* arguments = CallOf(value, kRebuiltParameter)) {
      if (arguments->items.empty()) Refuse(name, "an empty parameter");
      tensor = &pickle_[arguments->items[0]];
    }
    if (const PickleValue* arguments = CallOf(*tensor, kRebuiltUntyped)) {
      constexpr size_t kDtype = 6;
      RefuseDtype(name, arguments->items.size() > kDtype
                            ? std::string_view(pickle_[arguments->items[kDtype]].text)
                            : "unknown");
    }
    const PickleValue* arguments = CallOf(*tensor, kRebuiltTensor);
    if (arguments == nullptr) return false;
    AddTensor(*arguments, name);
    return true;
  }

  // The arguments if `value` is a call of `global`, else null.
  const PickleValue* CallOf(const PickleValue& value, std::string_view global) const {
    if (value.kind != Kind::kCall || pickle_[value.items[0]].text != global) return nullptr;
    return &pickle_[value.items[1]];
  }

  // (storage, first element, sizes, strides, ...)
  void AddTensor(const PickleValue& arguments, const std::string& name) {
    if (arguments.items.size() < 4) Refuse(name, "it is not described");
    const auto argument = [&](size_t i) -> const PickleValue& {
      return pickle_[arguments.items[i]];
    };
    TensorInfo info{.name = name};
    const auto bytes = FindStorage(argument(0), name, info.dtype);
    const std::vector<int64_t> sizes = Integers(argument(2), name);
    const std::vector<int64_t> strides = Integers(argument(3), name);
    const PickleValue& offset = argument(1);
    if (strides.size() != sizes.size() || offset.kind != Kind::kInt || offset.integer < 0) {
      Refuse(name, "it is not described");
    }
    const uint64_t size = DtypeSize(info.dtype);
    constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
    uint64_t last = static_cast<uint64_t>(offset.integer);
    info.bytes = size;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto n = static_cast<uint64_t>(sizes[i]), stride = static_cast<uint64_t>(strides[i]);
      if (!MultiplyBytes(info.bytes, n) || (n > 1 && stride > (kMax - last) / (n - 1))) {
        Refuse(name, "its sizes overflow");
      }
      if (n != 0) last += (n - 1) * stride;
    }
    info.shape = Shape(std::span(sizes));
    if (info.bytes == 0) {
      info.data = bytes.data();
    } else if (last >= bytes.size() / size) {
      Refuse(name, fmt::format("element {} of a storage of {}", last, bytes.size() / size));
    } else {
      const std::byte* first = bytes.data() + static_cast<uint64_t>(offset.integer) * size;
      info.data = InOrder(info, strides, first);
    }
    if (!file_.Add(std::move(info))) Refuse(name, "there are two");
  }

  // The bytes of a storage: ("storage", type, key, device, count).
  std::span<const std::byte> FindStorage(const PickleValue& stored, const std::string& name,
                                         Dtype& dtype) const {
    if (stored.kind != Kind::kStored) Refuse(name, "it has no storage");
    const std::vector<uint32_t>& id = pickle_[stored.items[0]].items;
    if (id.size() != 5) Refuse(name, "its storage is not described");
    const PickleValue& type = pickle_[id[1]];
    const PickleValue& key = pickle_[id[2]];
    const PickleValue& count = pickle_[id[4]];
    const auto* const known = std::ranges::find(kTorchStorages, type.text, &TorchStorage::global);
    if (type.kind == Kind::kGlobal && std::ranges::count(kForeignGlobals, type.text) > 0) {
      RefuseDtype(name, type.text);
    }
    if (type.kind != Kind::kGlobal || known == std::end(kTorchStorages) ||
        key.kind != Kind::kText || count.kind != Kind::kInt || pickle_[id[0]].text != "storage") {
      Refuse(name, "its storage is not described");
    }
    dtype = known->dtype;
    constexpr size_t kMaxEntryName = 64;
    const std::string path = fmt::format("{}data/{}", prefix_, key.text.substr(0, kMaxEntryName));
    const ZipEntry* const entry = FindEntry(entries_, path);
    if (entry == nullptr) Refuse(name, fmt::format("there is no entry {}", path));
    RequirePlain(*entry, file_.path());
    const uint64_t size = DtypeSize(dtype);
    if (count.integer < 0 || entry->bytes.size() % size != 0 ||
        entry->bytes.size() / size != static_cast<uint64_t>(count.integer)) {
      Refuse(name, fmt::format("entry {} has {} bytes, not {} elements of {}", path,
                               entry->bytes.size(), count.integer, DtypeName(dtype)));
    }
    return entry->bytes;
  }

  std::vector<int64_t> Integers(const PickleValue& value, const std::string& name) const {
    const PickleValue* tuple = &value;
    if (const PickleValue* arguments = CallOf(value, kTorchSize)) {
      if (arguments->items.size() == 1) tuple = &pickle_[arguments->items[0]];
    }
    if (tuple->kind != Kind::kTuple || tuple->items.size() > static_cast<size_t>(Shape::kMaxRank)) {
      Refuse(name, fmt::format("its shape is not up to {} sizes", Shape::kMaxRank));
    }
    std::vector<int64_t> integers;
    for (const uint32_t item : tuple->items) {
      const PickleValue& integer = pickle_[item];
      if (integer.kind != Kind::kInt || integer.integer < 0) {
        Refuse(name, "a size or stride is not a number from 0");
      }
      integers.push_back(integer.integer);
    }
    return integers;
  }

  // The elements in row-major order, copied if necessary.
  const std::byte* InOrder(const TensorInfo& info, std::span<const int64_t> strides,
                           const std::byte* first) {
    const int rank = info.shape.rank();
    const size_t size = DtypeSize(info.dtype);
    int64_t expected = 1;
    bool in_order = true;
    for (int i = rank; i-- > 0;) {
      in_order = in_order && (info.shape[i] == 1 || strides[static_cast<size_t>(i)] == expected);
      expected *= info.shape[i];
    }
    if (in_order) return first;
    if (info.bytes > left_) {
      Refuse(info.name, "its strides repeat elements: it would be larger than the file");
    }
    left_ -= info.bytes;
    const std::span<std::byte> copy = file_.Allocate(static_cast<size_t>(info.bytes));
    std::array<int64_t, Shape::kMaxRank> at{};
    const std::byte* from = first;
    for (size_t to = 0; to < copy.size(); to += size) {
      std::copy_n(from, size, copy.data() + to);
      for (int i = rank; i-- > 0;) {
        const auto dim = static_cast<size_t>(i);
        const int64_t step = info.shape[i] == 1 ? 0 : strides[dim] * static_cast<int64_t>(size);
        if (++at[dim] < info.shape[i]) {
          from += step;
          break;
        }
        from -= (at[dim] - 1) * step;
        at[dim] = 0;
      }
    }
    return copy.data();
  }

  [[noreturn]] void RefuseDtype(const std::string& name, std::string_view dtype) const {
    throw InputError(fmt::format("{}: tensor \"{}\" is of the dtype {}, which is not supported",
                                 file_.path().string(), name, dtype),
                     "supported types are float32, float16, bfloat16 and float64",
                     "use the model in one of them, or as a GGUF file");
  }

  [[noreturn]] void Refuse(const std::string& name, const std::string& cause) const {
    throw InputError(mistake_, fmt::format("tensor \"{}\": {}", name, cause),
                     "copy or download it again: it may be truncated or damaged");
  }

  TorchFile& file_;
  const Pickle& pickle_;
  std::string mistake_;
  const std::vector<ZipEntry>& entries_;
  std::string_view prefix_;
  uint64_t left_;  // bytes that may still be copied
};

bool IsTorchFile(const std::filesystem::path& path) {
  return FileBeginsWith(path, kZipMark) || FileBeginsWith(path, kOldMark);
}

TorchFile::TorchFile(const std::filesystem::path& path, Loading loading) : TensorFile(path) {
  const auto bytes = Open(path, loading);
  RefuseOldFile(bytes, path);
  const std::vector<ZipEntry> entries = ReadZip(bytes, path);
  const std::string prefix = PrefixOf(entries, path);
  if (FindEntry(entries, prefix + "constants.pkl") != nullptr) {
    throw InputError(fmt::format("{}: a TorchScript program", path.string()),
                     "folio reads only weights, and executes nothing",
                     "save only its weights: torch.save(torch.jit.load(FILE).state_dict(), FILE)");
  }
  const ZipEntry& values = *FindEntry(entries, prefix + "data.pkl");
  RequirePlain(values, path);
  const ZipEntry* const order = FindEntry(entries, prefix + "byteorder");
  if (order != nullptr) RequirePlain(*order, path);
  CheckZip(entries, path);
  if (order != nullptr && AsText(order->bytes) != "little") {
    throw InputError(
        fmt::format("{}: its byte order is {}", path.string(), AsText(order->bytes).substr(0, 10)),
        "folio supports little-endian files", "save it again on a little-endian machine");
  }
  const Pickle pickle(values.bytes, path.string(), kTorchGlobals);
  TorchReader(*this, pickle, fmt::format("{} is not a valid PyTorch file", path.string()), entries,
              prefix, bytes.size())
      .Read();
}

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
  std::vector<std::byte> bytes;  // of a whole tensor: its checksum is written before it
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
