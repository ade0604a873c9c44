#include "folio/run/growing_lines.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "folio/io/posix.h"

namespace folio {

bool GrowingLines::Rewound() {
  if (offset_ == 0) return false;
  const internal::FileDescriptor fd = internal::OpenIfRegular(file_);
  struct stat now = {};
  char before = 0;
  const bool same =
      fd.get() >= 0 && fstat(fd.get(), &now) == 0 && now.st_dev == device_ &&
      now.st_ino == inode_ && static_cast<uint64_t>(now.st_size) >= offset_ &&
      (within_ ||
       (pread(fd.get(), &before, 1, static_cast<off_t>(offset_ - 1)) == 1 && before == '\n'));
  if (same) return false;
  offset_ = 0;
  within_ = false;
  return true;
}

bool GrowingLines::Read(uint64_t most, const std::function<void(std::string_view line)>& take) {
  const internal::FileDescriptor fd = internal::OpenIfRegular(file_);
  struct stat now = {};
  if (fd.get() < 0 || fstat(fd.get(), &now) != 0) return false;
  device_ = now.st_dev;
  inode_ = now.st_ino;
  const auto size = static_cast<uint64_t>(now.st_size);
  if (size <= offset_) return false;
  std::string text(std::min(size - offset_, most), '\0');
  size_t read = 0;
  while (read < text.size()) {
    const ssize_t count =
        pread(fd.get(), text.data() + read, text.size() - read, static_cast<off_t>(offset_ + read));
    if (count <= 0) break;
    read += static_cast<size_t>(count);
  }
  text.resize(read);
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    take(std::string_view(text).substr(begin, end - begin));
  }
  // A line without an end in these bytes is too long, and is passed in pieces.
  within_ = begin == 0 && read == most;
  if (within_) begin = read;
  offset_ += begin;
  return begin > 0 && offset_ < size;
}

void GrowingLines::SkipToEnd() {
  const internal::FileDescriptor fd = internal::OpenIfRegular(file_);
  struct stat now = {};
  if (fd.get() < 0 || fstat(fd.get(), &now) != 0) return;
  device_ = now.st_dev;
  inode_ = now.st_ino;
  // Continues after the last line break, which must be near the end.
  constexpr uint64_t kTail = 64 << 10;
  const auto size = static_cast<uint64_t>(now.st_size);
  std::string tail(std::min(size, kTail), '\0');
  const uint64_t from = size - tail.size();
  const ssize_t count = pread(fd.get(), tail.data(), tail.size(), static_cast<off_t>(from));
  if (count <= 0) return;
  const size_t last = tail.rfind('\n', static_cast<size_t>(count) - 1);
  offset_ = last == tail.npos ? 0 : from + last + 1;
  within_ = false;
}

void GrowingLines::SkipTo(uint64_t byte) {
  offset_ = byte;
  within_ = byte > 0;
}

uint64_t GrowingLines::left() const {
  std::error_code failed;
  const uint64_t size = std::filesystem::file_size(file_, failed);
  return failed || size < offset_ ? 0 : size - offset_;
}

}  // namespace folio
