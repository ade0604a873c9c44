#include "folio/io/decompress.h"

#include <archive.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <memory>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

struct Known {
  Compression compression;
  std::string_view name;
  std::string_view begins;
};

constexpr std::array kKnown = {
    Known{Compression::kGzip, "gzip", "\x1F\x8B\x08"},
    Known{Compression::kBzip2, "bzip2", "BZh"},
    Known{Compression::kXz, "xz", std::string_view("\xFD\x37zXZ\0", 6)},
    Known{Compression::kZstd, "zstd", "\x28\xB5\x2F\xFD"},
};

Error Damaged(const std::string& name, Compression compression, const std::string& cause) {
  return InputError(fmt::format("{}: incomplete {} stream", name, CompressionName(compression)),
                    cause, "copy the file again");
}

class Gunzipper {
 public:
  Gunzipper(ReadBytes from, std::string name) : from_(std::move(from)), name_(std::move(name)) {
    constexpr int kGzipAndNothingElse = 15 + 16;  // largest window, RFC 1952 framing
    FOLIO_CHECK(inflateInit2(&stream_, kGzipAndNothingElse) == Z_OK, "zlib does not start");
  }
  ~Gunzipper() { inflateEnd(&stream_); }
  Gunzipper(const Gunzipper&) = delete;
  Gunzipper& operator=(const Gunzipper&) = delete;

  size_t Read(std::string& out, size_t wanted) {
    const size_t before = out.size();
    wanted = std::min<size_t>(wanted, std::numeric_limits<uInt>::max());
    out.resize(before + wanted);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream_.avail_out = static_cast<uInt>(wanted);
    while (stream_.avail_out > 0 && MoreInput()) Inflate();
    out.resize(out.size() - stream_.avail_out);
    return out.size() - before;
  }

 private:
  // Returns false behind the last stream.
  bool MoreInput() {
    if (stream_.avail_in == 0) {
      piece_.clear();
      from_(piece_, kPiece);
      stream_.next_in = reinterpret_cast<Bytef*>(piece_.data());
      stream_.avail_in = static_cast<uInt>(piece_.size());
    }
    if (stream_.avail_in > 0) return true;
    if (!between_) throw Damaged(name_, Compression::kGzip, "it is truncated");
    return false;
  }

  void Inflate() {
    if (std::exchange(between_, false)) inflateReset(&stream_);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    between_ = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR) return;
    throw Damaged(name_, Compression::kGzip,
                  stream_.msg == nullptr ? "it is damaged" : stream_.msg);
  }

  static constexpr size_t kPiece = size_t{1} << 16;

  ReadBytes from_;
  std::string name_;
  z_stream stream_ = {};
  std::string piece_;
  bool between_ = false;  // a stream has ended; another one may follow
};

// BZh and a digit are followed by the mark of a block, or of the end.
bool IsBzip2(std::string_view head) {
  const std::string_view mark = head.substr(0, 10).substr(std::min<size_t>(4, head.size()));
  return head.starts_with("BZh") && head.size() > 3 && head[3] >= '1' && head[3] <= '9' &&
         (mark == "1AY&SY" || mark == "\x17\x72\x45\x38\x50\x90");
}

// How many bytes back a zstd frame refers, according to its header (RFC 8878, 3.1.1.1); 0 if the
// header is invalid.
uint64_t ZstdWindow(std::string_view frame) {
  constexpr size_t kDescriptor = 4, kDictionary = 5;
  if (frame.size() <= kDictionary) return 0;
  const auto byte = [&](size_t at) { return uint64_t{static_cast<unsigned char>(frame[at])}; };
  const uint64_t descriptor = byte(kDescriptor);
  const bool single_segment = (descriptor >> 5 & 1) != 0;
  if (!single_segment) {
    const uint64_t base = uint64_t{1} << (10 + (byte(kDescriptor + 1) >> 3));
    return base + base / 8 * (byte(kDescriptor + 1) & 7);
  }
  // The content is the window: its size follows the dictionary's number.
  constexpr std::array<size_t, 4> kDictionaryBytes = {0, 1, 2, 4};
  const size_t at = kDictionary + kDictionaryBytes[descriptor & 3];
  const size_t count = size_t{1} << (descriptor >> 6);
  if (frame.size() < at + count) return 0;
  uint64_t size = count == 2 ? 256 : 0;
  for (size_t i = 0; i < count; ++i) size += byte(at + i) << (8 * i);
  return size;
}

Error NoLibarchive(const char* cause) {
  return RuntimeError(
      "cannot decompress", cause,
      "install libarchive (on Debian: apt install libarchive13), or decompress the file first");
}

struct Libarchive : internal::LateLibrary {
  Libarchive() : LateLibrary({"libarchive.so.13", "libarchive.13.dylib"}, NoLibarchive) {}

  FOLIO_LATE_FUNCTION(archive_read_new);
  FOLIO_LATE_FUNCTION(archive_read_free);
  FOLIO_LATE_FUNCTION(archive_read_support_filter_bzip2);
  FOLIO_LATE_FUNCTION(archive_read_support_filter_xz);
  FOLIO_LATE_FUNCTION(archive_read_support_filter_zstd);
  FOLIO_LATE_FUNCTION(archive_read_support_format_raw);
  FOLIO_LATE_FUNCTION(archive_read_support_format_empty);
  FOLIO_LATE_FUNCTION(archive_read_open);
  FOLIO_LATE_FUNCTION(archive_read_next_header);
  FOLIO_LATE_FUNCTION(archive_read_data);
  FOLIO_LATE_FUNCTION(archive_filter_count);
  FOLIO_LATE_FUNCTION(archive_filter_bytes);
  FOLIO_LATE_FUNCTION(archive_error_string);
};

const Libarchive& TheLibarchive() {
  static const Libarchive library;
  return library;
}

// Unpacks one stream through libarchive.
class Unpacker {
 public:
  Unpacker(ReadBytes from, Compression compression, std::string name)
      : from_(std::move(from)),
        compression_(compression),
        name_(std::move(name)),
        archive_(library_.archive_read_new()) {
    if (archive_ == nullptr) throw NoLibarchive("libarchive does not start");
    (compression == Compression::kBzip2 ? library_.archive_read_support_filter_bzip2
     : compression == Compression::kXz  ? library_.archive_read_support_filter_xz
                                       : library_.archive_read_support_filter_zstd)(archive_.get());
    library_.archive_read_support_format_raw(archive_.get());
    library_.archive_read_support_format_empty(archive_.get());
  }

  size_t Read(std::string& out, size_t wanted) {
    if (!opened_) {
      opened_ = true;
      Check(library_.archive_read_open(archive_.get(), this, nullptr, &Unpacker::OnRead, nullptr));
      // A stream that is too short for its own header passes through libarchive unchanged.
      if (library_.archive_filter_count(archive_.get()) < 2)
        throw Damaged(name_, compression_, "it is truncated");
      archive_entry* entry = nullptr;
      const int next = library_.archive_read_next_header(archive_.get(), &entry);
      at_end_ = next == ARCHIVE_EOF;
      if (!at_end_) Check(next);
    }
    const size_t before = out.size();
    if (!at_end_) {
      out.resize(before + wanted);
      const la_ssize_t got =
          library_.archive_read_data(archive_.get(), out.data() + before, wanted);
      out.resize(before + static_cast<size_t>(std::max<la_ssize_t>(got, 0)));
      Check(got < 0 ? ARCHIVE_FATAL : ARCHIVE_OK);
      at_end_ = got == 0;
    }
    if (at_end_) CheckAllRead();
    return out.size() - before;
  }

 private:
  struct Free {
    void operator()(archive* one) const { TheLibarchive().archive_read_free(one); }
  };

  // Exceptions must not pass through C code: they are kept in problem_.
  static la_ssize_t OnRead(archive* /*from*/, void* context, const void** bytes) {
    auto& unpacker = *static_cast<Unpacker*>(context);
    try {
      unpacker.piece_.clear();
      unpacker.taken_ += unpacker.from_(unpacker.piece_, kPiece);
      if (unpacker.head_.size() < kHead) unpacker.head_ += unpacker.piece_.substr(0, kHead);
    } catch (...) {
      unpacker.problem_ = std::current_exception();
      return ARCHIVE_FATAL;
    }
    *bytes = unpacker.piece_.data();
    return static_cast<la_ssize_t>(unpacker.piece_.size());
  }

  void Check(int result) {
    if (problem_ != nullptr) std::rethrow_exception(problem_);
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return;
    RequireWindow();
    const char* said = library_.archive_error_string(archive_.get());
    throw Damaged(name_, compression_, said == nullptr ? "it is damaged or truncated" : said);
  }

  // libzstd refuses larger windows, so that no file can demand that much memory.
  void RequireWindow() const {
    constexpr uint64_t kMostWindow = uint64_t{128} << 20;
    if (compression_ != Compression::kZstd) return;
    const uint64_t window = ZstdWindow(head_);
    if (window <= kMostWindow) return;
    throw InputError(
        fmt::format("{}: the compression window is too large", name_),
        fmt::format("it is {} MiB, at most {} MiB are supported", window >> 20, kMostWindow >> 20),
        "compress it again without --long: zstd -dc --long=31 FILE | zstd > NEW.zst");
  }

  void CheckAllRead() {
    // The empty format accepts any input as an empty archive, and bzip2 ends at other bytes.
    std::string more;
    const auto used = static_cast<size_t>(library_.archive_filter_bytes(archive_.get(), -1));
    if (used < taken_ || from_(more, 1) > 0)
      throw Damaged(name_, compression_, "extra bytes follow it");
  }

  static constexpr size_t kPiece = size_t{1} << 16;
  static constexpr size_t kHead = 18;  // the longest header of a zstd frame

  const Libarchive& library_ = TheLibarchive();
  ReadBytes from_;
  Compression compression_;
  std::string name_;
  std::unique_ptr<archive, Free> archive_;
  bool opened_ = false, at_end_ = false;
  std::string piece_;
  std::string head_;  // the first bytes of the input
  size_t taken_ = 0;  // bytes given to libarchive
  std::exception_ptr problem_;
};

}  // namespace

std::optional<Compression> FindCompression(std::string_view head) {
  for (const Known& known : kKnown) {
    if (!head.starts_with(known.begins)) continue;
    if (known.compression == Compression::kBzip2 && !IsBzip2(head)) continue;
    return known.compression;
  }
  return std::nullopt;
}

std::string_view CompressionName(Compression compression) {
  return kKnown[static_cast<size_t>(compression)].name;
}

ReadBytes Decompress(ReadBytes from, Compression compression, std::string name) {
  if (compression == Compression::kGzip) {
    auto gunzipper = std::make_shared<Gunzipper>(std::move(from), std::move(name));
    return [gunzipper](std::string& out, size_t wanted) { return gunzipper->Read(out, wanted); };
  }
  auto unpacker = std::make_shared<Unpacker>(std::move(from), compression, std::move(name));
  return [unpacker](std::string& out, size_t wanted) { return unpacker->Read(out, wanted); };
}

}  // namespace folio
