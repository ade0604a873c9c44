#include "folio/io/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/byte_reader.h"
#include "folio/io/pickle.h"
#include "folio/io/zip.h"
#include "folio/tensor/dtype.h"

namespace folio {
namespace {

using Kind = PickleValue::Kind;

// The names in pickles of torch.save.
struct TorchStorage {
  std::string_view global;
  Dtype dtype;
};
constexpr std::array kTorchStorages = {
    TorchStorage{"torch.FloatStorage", Dtype::kF32},
    TorchStorage{"torch.DoubleStorage", Dtype::kF64},
    TorchStorage{"torch.HalfStorage", Dtype::kF16},
    TorchStorage{"torch.BFloat16Storage", Dtype::kBF16},
    TorchStorage{"torch.LongStorage", Dtype::kI64},
    TorchStorage{"torch.IntStorage", Dtype::kI32},
    TorchStorage{"torch.ShortStorage", Dtype::kI16},
    TorchStorage{"torch.CharStorage", Dtype::kI8},
    TorchStorage{"torch.ByteStorage", Dtype::kU8},
    TorchStorage{"torch.BoolStorage", Dtype::kBool},
};
constexpr std::string_view kRebuiltTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kOrderedDict = "collections.OrderedDict";

constexpr std::string_view kRebuiltParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kTorchSize = "torch.Size";
// The globals that a pickle of PyTorch may name.
constexpr std::array kTorchGlobals = [] {
  constexpr std::array<std::string_view, 12> kOthers = {
      kRebuiltTensor,  kRebuiltParameter, kTorchSize,      kOrderedDict,
      "torch.float32", "torch.float64",   "torch.float16", "torch.bfloat16",
      "torch.int64",   "torch.int32",     "torch.uint8",   "torch.bool"};
  std::array<std::string_view, kOthers.size() + kTorchStorages.size()> all;
  std::ranges::copy(kOthers, all.begin());
  std::ranges::transform(kTorchStorages, all.begin() + kOthers.size(), &TorchStorage::global);
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
                     "unpack it with its password, and pack it again without: zip -0 -r");
  }
  throw InputError(
      fmt::format("{}: entry \"{}\" is compressed", path.string(), entry.name),
      "the file is whole, but packed by another program: torch.save stores entries as they are, "
      "and so they can be read in place",
      "load and save it with PyTorch, or pack it anew in an empty directory: unzip FILE && zip -0 "
      "-r NEW.pt .");
}

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

// The beginning that the names of all entries share: "archive/".
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
                   "it is a zip file without a data.pkl in it");
}

void RefuseOldFile(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  if (!AsText(bytes).starts_with(kOldMark)) return;
  throw InputError(fmt::format("{}: the format of PyTorch before 1.6", path.string()),
                   "expected a zip file, as torch.save writes since then",
                   "write it again where it came from, with a newer PyTorch: "
                   "torch.save(torch.load(FILE, weights_only=True), FILE)");
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
      throw InputError(mistake_, "what was saved is not a dictionary",
                       "save a state_dict: torch.save(model.state_dict(), FILE)");
    }
    file_.values_ =
        PlainValues(pickle_, mistake_, [this](const PickleValue& value, const std::string& name) {
          return TakeTensor(value, name);
        });
  }

 private:
  // False if it is none.
  bool TakeTensor(const PickleValue& value, const std::string& name) {
    const PickleValue* tensor = &value;
    if (const PickleValue* arguments = CallOf(value, kRebuiltParameter)) {
      if (arguments->items.empty()) Refuse(name, "an empty parameter");
      tensor = &pickle_[arguments->items[0]];
    }
    const PickleValue* arguments = CallOf(*tensor, kRebuiltTensor);
    if (arguments == nullptr) return false;
    AddTensor(*arguments, name);
    return true;
  }

  // The arguments if `value` is a call of `global`.
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
    if (type.kind != Kind::kGlobal || known == kTorchStorages.end() || key.kind != Kind::kText ||
        count.kind != Kind::kInt || pickle_[id[0]].text != "storage") {
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

  // Where the elements lie in their order, perhaps a copy.
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
      Refuse(info.name,
             "its elements lie out of order, and there are more of them than in the file");
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

  [[noreturn]] void Refuse(const std::string& name, const std::string& cause) const {
    throw InputError(mistake_, fmt::format("tensor \"{}\": {}", name, cause),
                     "copy or download it again: it may be cut short or damaged");
  }

  TorchFile& file_;
  const Pickle& pickle_;
  std::string mistake_;
  const std::vector<ZipEntry>& entries_;
  std::string_view prefix_;
  uint64_t left_;  // bytes that may be put together
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
                     "folio reads weights and executes nothing",
                     "save its weights alone: torch.save(torch.jit.load(FILE).state_dict(), FILE)");
  }
  const ZipEntry& values = *FindEntry(entries, prefix + "data.pkl");
  RequirePlain(values, path);
  const ZipEntry* const order = FindEntry(entries, prefix + "byteorder");
  if (order != nullptr) RequirePlain(*order, path);
  CheckZip(entries, path);
  if (order != nullptr && AsText(order->bytes) != "little") {
    throw InputError(
        fmt::format("{}: its byte order is {}", path.string(), AsText(order->bytes).substr(0, 10)),
        "folio reads files of little-endian machines", "write it again on such a machine");
  }
  const Pickle pickle(values.bytes, path.string(), kTorchGlobals);
  TorchReader(*this, pickle, fmt::format("{} is not a sound PyTorch file", path.string()), entries,
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
