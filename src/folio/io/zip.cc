#include "folio/io/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/byte_reader.h"
#include "folio/io/checksums.h"

namespace folio {
namespace {

constexpr uint32_t kLocalMark = 0x04034b50, kEntryMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr uint32_t kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr size_t kLocalSize = 30, kZipEntrySize = 46, kZipEndSize = 22, kLocator64Size = 20;
constexpr size_t kMaxComment = 0xFFFF;
constexpr uint64_t kMaxZipEntries = 1 << 17;
constexpr uint16_t kEncrypted = 1, kStored = 0, kZip64Extra = 1;
// Where a number of 32 bits says that the one of 64 bits is to be read.
constexpr uint32_t kSee64 = 0xFFFFFFFF;

// Where the list of contents lies.
struct Contents {
  uint64_t entries = 0, bytes = 0, offset = 0;
  uint64_t end = 0;  // of what may lie before: the list ends here or earlier
};

uint32_t ChecksumOf(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// As much of a name as an error shows.
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
  if (end >= locator) reader.Fail("its end does not lie before its end");
  reader.Seek(end);
  if (reader.Number<uint32_t>() != kEnd64Mark) reader.Fail("no end of 64 bits where it should be");
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
  reader.Fail("it has no list of contents at its end");
}

// The sizes and the offset of an entry where 32 bits do not hold them.
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
      if (numbers.left() < sizeof(uint64_t)) file.Fail("an entry lacks its size of 64 bits");
      *number = numbers.Number<uint64_t>();
    }
    return;
  }
  file.Fail("an entry lacks its sizes of 64 bits");
}

// The bytes of an entry, behind a header of their own that must name it too.
std::span<const std::byte> Locate(ByteReader& reader, std::string_view name, uint16_t method,
                                  uint64_t offset, uint64_t size, uint64_t end) {
  const auto refuse = [&](std::string_view why) {
    reader.Fail(fmt::format("its entry \"{}\" {}", Shown(name), why));
  };
  if (offset > end || end - offset < kLocalSize) refuse("lies behind the end");
  const size_t back = reader.at();
  reader.Seek(offset);
  if (reader.Number<uint32_t>() != kLocalMark) refuse("is not where the list says");
  reader.Bytes(2 + 2);  // version, flags
  if (reader.Number<uint16_t>() != method) refuse("is compressed in another way");
  reader.Bytes(2 + 2 + 4 + 4 + 4);  // time, date, checksum, sizes, which may come behind the data
  const auto name_bytes = reader.Number<uint16_t>();
  const auto extra_bytes = reader.Number<uint16_t>();
  if (name_bytes > reader.left() || reader.Text(name_bytes) != name) refuse("has another name");
  if (extra_bytes > reader.left()) refuse("lies behind the end");
  reader.Bytes(extra_bytes);
  if (reader.at() > end || size > end - reader.at()) refuse("lies behind the end");
  const auto bytes = reader.Bytes(size);
  reader.Seek(back);
  return bytes;
}

ZipEntry ReadEntry(ByteReader& reader, uint64_t end) {
  if (reader.Number<uint32_t>() != kEntryMark) reader.Fail("its list of contents is damaged");
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

// The field of 32 bits for a value that may stand elsewhere, in one of 64.
uint32_t FieldOf(uint64_t value, bool elsewhere) {
  return elsewhere ? kSee64 : static_cast<uint32_t>(value);
}

// From the version that is needed to the length of the name.
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
  ByteReader reader(file, fmt::format("{} is not a sound zip file", path.string()));
  const Contents contents = ReadEnd(reader);
  if (contents.offset > contents.end || contents.bytes > contents.end - contents.offset) {
    reader.Fail("its list of contents lies behind the end");
  }
  if (contents.entries > contents.bytes / kZipEntrySize || contents.entries > kMaxZipEntries) {
    reader.Fail(fmt::format("{} entries in a list of {} bytes", contents.entries, contents.bytes));
  }
  std::vector<ZipEntry> entries;
  entries.reserve(static_cast<size_t>(contents.entries));
  reader.Seek(contents.offset);
  while (entries.size() < contents.entries) {
    entries.push_back(ReadEntry(reader, contents.offset));
  }
  if (reader.at() != contents.offset + contents.bytes) {
    reader.Fail("its list of contents has another length than it says");
  }
  std::ranges::sort(entries, {}, &ZipEntry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &ZipEntry::name);
  if (twice != entries.end()) reader.Fail(fmt::format("two entries \"{}\"", Shown(twice->name)));
  CheckApart(reader, entries);
  return entries;
}

void CheckZip(const std::vector<ZipEntry>& entries, const std::filesystem::path& path) {
  const int64_t wrong = FindUnsound(std::ssize(entries), [&](int64_t i) {
    const ZipEntry& entry = entries[static_cast<size_t>(i)];
    return !entry.plain || entry.checksum == 0 || ChecksumOf(entry.bytes) == entry.checksum;
  });
  if (wrong == std::ssize(entries)) return;
  throw InputError(fmt::format("{} is damaged", path.string()),
                   fmt::format("the bytes of its entry \"{}\" do not have the checksum that is "
                               "written beside them",
                               Shown(entries[static_cast<size_t>(wrong)].name)),
                   "copy or download it again");
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

}  // namespace folio
