#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>

#include "folio/base/check.h"
#include "folio/io/zip.h"

namespace folio {
namespace {

constexpr uint64_t kZipAlignment = 64;
constexpr uint64_t kSee64Entries = 0xFFFF;
constexpr uint16_t kZipVersion = 20, kZipVersion64 = 45, kZip64Kind = 1;
constexpr uint16_t kPaddingKind = 0x4246;  // "FB", as PyTorch pads

template <class T>
void AppendZip(std::string& to, T value) {
  static_assert(std::endian::native == std::endian::little);
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A field of 32 bits, or where that one says so of 64 bits elsewhere.
void AppendZipOr64(std::string& to, uint64_t value, bool elsewhere) {
  AppendZip(to, static_cast<uint32_t>(elsewhere ? 0xFFFFFFFF : value));
}

// From the version that is needed to the length of the name.
std::string ZipCommon(std::string_view name, std::span<const std::byte> bytes, bool big) {
  constexpr uint16_t kNoFlags = 0, kAsItIs = 0, kMidnight = 0, kFirstOf1980 = 1 << 5 | 1;
  std::string out;
  AppendZip(out, big ? kZipVersion64 : kZipVersion);
  AppendZip(out, kNoFlags);
  AppendZip(out, kAsItIs);
  AppendZip(out, kMidnight);
  AppendZip(out, kFirstOf1980);
  AppendZip(out, static_cast<uint32_t>(
                     crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size())));
  AppendZipOr64(out, bytes.size(), big);
  AppendZipOr64(out, bytes.size(), big);
  AppendZip(out, static_cast<uint16_t>(name.size()));
  return out;
}

void AppendZipField(std::string& extra, uint16_t kind, const std::string& field) {
  if (field.empty()) return;
  AppendZip(extra, kind);
  AppendZip(extra, static_cast<uint16_t>(field.size()));
  extra += field;
}

}  // namespace

void ZipWriter::Add(std::string_view name, std::span<const std::byte> bytes) {
  constexpr size_t kLocalHeader = 30, kFieldHeader = 4, kLongestName = 999;
  FOLIO_CHECK(name.size() <= kLongestName, "the name of an entry is too long");
  const uint64_t offset = file_.written(), size = bytes.size();
  const bool big = size >= see64_, far = offset >= see64_;
  const std::string common = ZipCommon(name, bytes, big);
  std::string extra, sizes;
  if (big) {
    AppendZip(sizes, size);
    AppendZip(sizes, size);
  }
  AppendZipField(extra, kZip64Kind, sizes);
  const uint64_t begin = offset + kLocalHeader + name.size() + extra.size() + kFieldHeader;
  const uint64_t padding = (kZipAlignment - begin % kZipAlignment) % kZipAlignment;
  AppendZip(extra, kPaddingKind);
  AppendZip(extra, static_cast<uint16_t>(padding));
  extra.append(padding, 'Z');
  std::string header = "PK\x03\x04" + common;
  AppendZip(header, static_cast<uint16_t>(extra.size()));
  header += name;
  header += extra;
  file_.Write(header);
  file_.Write(bytes);
  if (far) AppendZip(sizes, offset);
  std::string listed_extra;
  AppendZipField(listed_extra, kZip64Kind, sizes);
  list_ += "PK\x01\x02";
  AppendZip(list_, big || far ? kZipVersion64 : kZipVersion);  // of the writer
  list_ += common;
  AppendZip(list_, static_cast<uint16_t>(listed_extra.size()));
  list_.append(2 + 2 + 2 + 4, '\0');  // no comment, one disk, no attributes
  AppendZipOr64(list_, offset, far);
  list_ += name;
  list_ += listed_extra;
  ++entries_;
}

void ZipWriter::Finish() {
  const uint64_t offset = file_.written(), size = list_.size();
  const bool big = offset >= see64_ || size >= see64_ || entries_ >= kSee64Entries;
  std::string end;
  if (big) {
    constexpr uint64_t kSizeBehind = 44;
    end += "PK\x06\x06";
    AppendZip(end, kSizeBehind);
    AppendZip(end, kZipVersion64);
    AppendZip(end, kZipVersion64);
    end.append(4 + 4, '\0');  // one disk
    AppendZip(end, entries_);
    AppendZip(end, entries_);
    AppendZip(end, size);
    AppendZip(end, offset);
    end += "PK\x06\x07";
    end.append(4, '\0');
    AppendZip(end, offset + size);
    AppendZip(end, uint32_t{1});
  }
  end += "PK\x05\x06";
  end.append(2 + 2, '\0');
  const auto count = static_cast<uint16_t>(big ? kSee64Entries : entries_);
  AppendZip(end, count);
  AppendZip(end, count);
  AppendZipOr64(end, size, big);
  AppendZipOr64(end, offset, big);
  end.append(2, '\0');  // no comment
  file_.Write(list_);
  file_.Write(end);
}

}  // namespace folio
