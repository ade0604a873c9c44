#include "folio/io/gunzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"

namespace folio {
namespace {

class Gunzipper {
 public:
  Gunzipper(ReadBytes from, std::string name) : from_(std::move(from)), name_(std::move(name)) {
    constexpr int kGzipAndNothingElse = 15 + 16;  // the largest window, and RFC 1952 around it
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
  // False behind the last stream.
  bool MoreInput() {
    if (stream_.avail_in == 0) {
      piece_.clear();
      from_(piece_, kPiece);
      stream_.next_in = reinterpret_cast<Bytef*>(piece_.data());
      stream_.avail_in = static_cast<uInt>(piece_.size());
    }
    if (stream_.avail_in > 0) return true;
    if (!between_) throw Damaged("it is cut short");
    return false;
  }

  void Inflate() {
    if (std::exchange(between_, false)) inflateReset(&stream_);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    between_ = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR) return;
    throw Damaged(stream_.msg == nullptr ? "it is damaged" : stream_.msg);
  }

  Error Damaged(const std::string& cause) const {
    return InputError(fmt::format("{}: not a whole gzip stream", name_), cause,
                      "copy the file again");
  }

  static constexpr size_t kPiece = size_t{1} << 16;

  ReadBytes from_;
  std::string name_;
  z_stream stream_ = {};
  std::string piece_;
  bool between_ = false;  // a stream has ended; another one may follow
};

}  // namespace

ReadBytes Gunzip(ReadBytes from, std::string name) {
  auto gunzipper = std::make_shared<Gunzipper>(std::move(from), std::move(name));
  return [gunzipper](std::string& out, size_t wanted) { return gunzipper->Read(out, wanted); };
}

}  // namespace folio
