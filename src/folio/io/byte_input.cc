#include "folio/io/byte_input.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/io/file.h"

namespace folio {
namespace {

// A signal that arrives between the check of StopRequested and the wait is noticed after this time.
constexpr int kWaitMilliseconds = 1000;

void WaitForBytes(int fd) {
  for (;;) {
    ThrowIfStopRequested();
    pollfd waiting = {fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, kWaitMilliseconds);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return;  // read() reports errors
  }
}

}  // namespace

ByteInput::ByteInput(const std::string& path) : name_(path == "-" ? "standard input" : path) {
  if (path == "-") {
    fd_ = STDIN_FILENO;
  } else {
    RequireTyped(path);
    file_ = internal::OpenStream(path);
    fd_ = file_.get();
  }
  struct stat info;
  if (fd_ < 0 || fstat(fd_, &info) != 0) internal::ThrowCannotRead(name_, errno);
  if (S_ISDIR(info.st_mode)) internal::ThrowCannotRead(name_, EISDIR);
  begin_ = S_ISREG(info.st_mode) ? lseek(fd_, 0, SEEK_CUR) : -1;
  again_ = begin_ >= 0;
}

ByteInput ByteInput::FromText(std::string text, std::string name) {
  ByteInput input;
  input.text_ = std::move(text);
  input.name_ = std::move(name);
  return input;
}

ByteInput ByteInput::FromReader(ReadBytes read, std::string name) {
  ByteInput input;
  input.reader_ = std::move(read);
  input.name_ = std::move(name);
  input.again_ = false;
  return input;
}

void ByteInput::Rewind() {
  FOLIO_CHECK(again_, "a pipe can be read only once");
  at_ = 0;
  if (fd_ >= 0 && lseek(fd_, begin_, SEEK_SET) < 0) internal::ThrowCannotRead(name_, errno);
}

size_t ByteInput::Read(std::string& out, size_t wanted) {
  if (reader_) return reader_(out, wanted);
  if (fd_ < 0) {
    const size_t n = std::min(wanted, text_.size() - at_);
    out.append(text_, at_, n);
    at_ += n;
    return n;
  }
  const size_t before = out.size();
  const size_t piece = std::min(wanted, PieceToRead());
  size_t got = 0;
  out.resize(before + piece);
  while (got < piece) {
    if (again_) {
      ThrowIfStopRequested();
    } else {
      WaitForBytes(fd_);
    }
    const ssize_t n = read(fd_, out.data() + before + got, piece - got);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) internal::ThrowCannotRead(name_, errno);
    got += static_cast<size_t>(n);
    if (n == 0 || !again_) break;
  }
  out.resize(before + got);
  return got;
}

size_t ByteInput::PieceToRead() const {
  constexpr off_t kLeast = 1 << 16;
  if (!again_) return kLeast;
  struct stat info;
  const off_t at = lseek(fd_, 0, SEEK_CUR);
  if (at < 0 || fstat(fd_, &info) != 0) internal::ThrowCannotRead(name_, errno);
  return static_cast<size_t>(std::max(info.st_size - at, kLeast));
}

void RequireLineEnds(int64_t bytes, const std::string& name, int64_t longest) {
  if (bytes <= longest) return;
  throw InputError(fmt::format("{}: a line is too long", name),
                   fmt::format("it has {} bytes, at most {} are allowed", bytes, longest),
                   "check that this is the right file: each line must be one JSON value");
}

bool InputIsPiped() {
  struct stat info;
  return fstat(STDIN_FILENO, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode));
}

bool InputIsTerminal() {
  return isatty(STDIN_FILENO) == 1;
}

}  // namespace folio
