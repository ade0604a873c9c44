#include "folio/corpus/text_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/data/dataset.h"
#include "folio/io/byte_input.h"
#include "folio/io/decompress.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

int64_t ModifiedTime(const std::string& path) {
  return static_cast<int64_t>(fs::last_write_time(path).time_since_epoch().count());
}

// Returns a different number on each call: input that is read once cannot be recognised later.
int64_t Now() {
  return static_cast<int64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
         int64_t { getpid() } << 40;
}

// Throws a kRuntime Error if `more` bytes do not fit on the disk of `to` beside the space that must
// remain free. The text has `bytes` so far.
void RequireRoom(const fs::path& to, int64_t bytes, int64_t more) {
  constexpr uint64_t kLeft = uint64_t{1} << 28;
  std::error_code error;
  const fs::space_info space = fs::space(to.parent_path(), error);
  if (error || space.available >= kLeft + static_cast<uint64_t>(more)) return;
  throw RuntimeError(
      fmt::format("{}: the disk {}", to.parent_path().string(),
                  bytes == 0 ? "has no room for the decompressed text" : "is nearly full"),
      fmt::format("the decompressed text has {}, {} are free, and {} must remain free",
                  bytes == 0 ? HumanBytes(more) + " at least" : HumanBytes(bytes) + " so far",
                  HumanBytes(space.available), HumanBytes(kLeft)),
      "free some space, or choose an --out on another disk: compressed files are decompressed "
      "beside it");
}

// Returns the least number of bytes that a file unpacks to: the end of a gzip stream has the length
// of its text modulo 2^32. 0 for other files.
int64_t LeastUnpackedBytes(const TextInput& input) {
  constexpr int64_t kHeader = 10, kTrailer = 8, kLength = 4;
  if (input.once || input.bytes < kHeader + kTrailer) return 0;
  const internal::FileDescriptor fd = internal::OpenForReading(input.file);
  std::string head(kHeader, '\0');
  std::array<uint8_t, kLength> length = {};
  if (pread(fd.get(), head.data(), head.size(), 0) != kHeader) return 0;
  if (pread(fd.get(), length.data(), length.size(), input.bytes - kLength) != kLength) return 0;
  if (FindCompression(head) != Compression::kGzip) return 0;
  return int64_t{length[0]} | int64_t{length[1]} << 8 | int64_t{length[2]} << 16 |
         int64_t{length[3]} << 24;
}

std::vector<std::string> FilesBelow(const std::string& dir) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    const bool hidden = it->path().filename().string().starts_with('.');
    if (it->is_directory(error) && (hidden || IsDataset(it->path().string()))) {
      it.disable_recursion_pending();
    }
    if (!hidden && it->is_regular_file(error)) found.push_back(it->path().string());
  }
  if (error) throw InputError(fmt::format("cannot read '{}'", dir), error.message());
  std::ranges::sort(found);
  return found;
}

// Says what a file below a directory is if it is no text; "" if it is one.
std::string WhyNot(const std::string& path, const TextOptions& options) {
  try {
    TextStream stream(path, options);
    // Only files named for JSON lines are meant as data: without the field they are a mistake, but
    // other JSON may be the settings of some program.
    if (!stream.begins_with_document() && !NamedForJsonLines(path)) {
      return fmt::format("{} without a \"{}\"", NamedForTables(path) ? "a table" : "JSON",
                         options.document());
    }
    if (!stream.form().converted && !options.raw) CheckPlaces(path, path);
    return "";
  } catch (const NotText& error) {
    return error.looks_like();
  }
}

// "skipped 12 files that are not text: a.png (a PNG image), ..."
std::string DescribeLeftOut(const std::vector<std::string>& some, size_t count) {
  if (count == 0) return "";
  return fmt::format("skipped {} file{} that {} not text: {}{}",
                     WithCommas(static_cast<int64_t>(count)), count == 1 ? "" : "s",
                     count == 1 ? "is" : "are", Join(some, ", "),
                     count > some.size() ? ", ..." : "");
}

}  // namespace

Error ChangedWhileRead(const std::string& path) {
  return InputError(fmt::format("{}: changed while being read", path), "",
                    "try again when no other program writes to it");
}

TextInput FindTextInput(const std::string& path, const TextOptions& options,
                        const std::string& standard_input) {
  TextInput input{.path = path, .file = path};
  if (path == "-" && !standard_input.empty()) input.file = standard_input;
  std::error_code error;
  const fs::file_status status = fs::status(input.file, error);
  if (input.file == "-" || status.type() == fs::file_type::fifo) {
    input.once = input.form.converted = true;
    input.modified = Now();
    return input;
  }
  if (!fs::exists(status)) {
    const bool missing = !error || error == std::errc::no_such_file_or_directory;
    throw InputError(fmt::format("{}: {}", path, missing ? "no such file" : "cannot be read"),
                     error ? internal::ErrnoText(error.value()) : "", "give a text file");
  }
  if (!fs::is_regular_file(status)) {
    throw InputError(fmt::format("{}: not a regular file", path), "",
                     "give a text file, or - for standard input");
  }
  input.bytes = static_cast<int64_t>(fs::file_size(input.file));
  input.modified = ModifiedTime(input.file);
  input.form = TextStream(input.file, options, path).form();
  if (!input.form.converted && !options.raw) CheckPlaces(input.file, path);
  return input;
}

PrepareSource::PrepareSource(const std::string& path, const TextOptions& options)
    : PrepareSource(FindTextInput(path, options), options, path) {}

PrepareSource::PrepareSource(TextInput input, const TextOptions& options, std::string text)
    : input_(std::move(input)), field_(options.document()), text_(std::move(text)) {
  bytes_ = static_cast<int64_t>(fs::file_size(text_));
  if (options.raw) return;
  std::string begin;
  Read(0, std::min<int64_t>(bytes_, std::ssize(kByteOrderMark)), begin);
  if (begin != kByteOrderMark) return;
  mark_ = std::ssize(kByteOrderMark);
  bytes_ -= mark_;
}

void PrepareSource::Read(int64_t begin, int64_t end, std::string& out) const {
  const internal::FileDescriptor fd = internal::OpenForReading(text_);
  out.resize(static_cast<size_t>(end - begin));
  for (size_t done = 0; done < out.size();) {
    const ssize_t got = pread(fd.get(), out.data() + done, out.size() - done,
                              mark_ + begin + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) internal::ThrowCannotRead(path(), errno);
    if (got == 0) throw ChangedWhileRead(path());
    done += static_cast<size_t>(got);
  }
}

TextPosition PrepareSource::PositionOf(int64_t byte) const {
  constexpr int64_t kPiece = int64_t{1} << 20;
  TextPosition position;
  std::string text;
  while (position.byte < byte) {
    Read(position.byte, std::min(byte, position.byte + kPiece), text);
    position.Advance(text);
  }
  return position;
}

std::string PrepareSource::NameLine(int64_t byte) const {
  return NameJsonLine(path(), PositionOf(byte).line, input_.form.unit);
}

void PrepareSource::CheckUnchanged() const {
  if (input_.once) return;
  std::error_code error;
  const auto bytes = static_cast<int64_t>(fs::file_size(input_.file, error));
  if (error || bytes != input_.bytes || ModifiedTime(input_.file) != input_.modified) {
    throw ChangedWhileRead(path());
  }
}

PrepareSource ConvertSource(TextInput input, const TextOptions& options, const fs::path& to,
                            const std::function<void(int64_t bytes)>& progress) {
  constexpr size_t kPiece = size_t{1} << 22;
  constexpr int64_t kLookAtRoom = int64_t{1} << 26;
  TextStream stream(input.file, options, input.path == "-" ? "" : input.path);
  input.form = stream.form();
  input.form.converted = true;
  if (input.form.conversations) {
    throw InputError(
        fmt::format("{}: conversations are read twice, but this can be read only once", input.path),
        "it is a pipe", "save it as a file first");
  }
  RequireRoom(to, 0, LeastUnpackedBytes(input));
  AtomicFile file(to);
  std::string piece;
  int64_t bytes = 0;
  for (bool at_end = false; !at_end; piece.clear()) {
    while (piece.size() < kPiece && !at_end) {
      at_end = stream.Read(piece, kPiece - piece.size()) == 0;
    }
    const int64_t before = bytes;
    bytes += std::ssize(piece);
    if (bytes / kLookAtRoom > before / kLookAtRoom) RequireRoom(to, bytes, 0);
    file.Write(piece);
    if (progress) progress(bytes);
  }
  file.Commit();
  if (input.once) input.bytes = bytes;
  if (!options.raw) CheckPlaces(to.string(), input.path);
  return {std::move(input), options, to.string()};
}

std::string LineEndsNote(std::span<const PrepareSource> sources) {
  std::string first, text;
  int64_t count = 0;
  for (const PrepareSource& source : sources) {
    if (source.json_lines()) continue;
    source.Read(0, std::min<int64_t>(source.bytes(), kTextHead), text);
    if (text.find("\r\n") == text.npos) continue;
    if (++count == 1) first = source.path();
  }
  if (count == 0) return "";
  return fmt::format(
      "{}{}: lines end in \\r\\n (Windows), and the model would learn the \\r; remove it with "
      "sed 's/\\r$//'",
      first, count == 1 ? "" : fmt::format(" and {} more", WithCommas(count - 1)));
}

void SaveStandardInput(const std::string& to) {
  constexpr size_t kPiece = size_t{1} << 20;
  ByteInput input("-");
  AtomicFile file(to);
  for (std::string piece; input.Read(piece, kPiece) > 0; piece.clear()) file.Write(piece);
  file.Commit();
}

TextFiles FindTextFiles(const std::vector<std::string>& paths, const TextOptions& options) {
  constexpr size_t kTold = 3;
  TextFiles texts;
  std::vector<std::string> told;
  size_t left_out = 0;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      texts.files.push_back(path);
      continue;
    }
    const size_t before = texts.files.size();
    const size_t left_out_before = left_out;
    for (const std::string& file : FilesBelow(path)) {
      const std::string why = WhyNot(file, options);
      if (why.empty()) {
        texts.files.push_back(file);
      } else if (++left_out; told.size() < kTold) {
        told.push_back(fmt::format("{} ({})", fs::path(file).filename().string(), why));
      }
    }
    if (texts.files.size() > before) continue;
    throw InputError(
        fmt::format("'{}' contains neither a data set nor texts", path),
        left_out == left_out_before ? "it contains no files" : DescribeLeftOut(told, left_out),
        "give files, or a directory with texts; --field NAME selects the member of JSON lines, or "
        "the column of tables, that contains the text");
  }
  texts.left_out = DescribeLeftOut(told, left_out);
  return texts;
}

int64_t TextBytes(const std::vector<std::string>& files, const TextOptions& options,
                  int64_t enough) {
  constexpr size_t kPiece = size_t{1} << 20;
  int64_t total = 0;
  std::string piece;
  for (const std::string& file : files) {
    const TextInput input = FindTextInput(file, options);
    if (input.once) return -1;
    if (!input.form.converted) {
      total += input.bytes;
      continue;
    }
    TextStream stream(file, options);
    while (total < enough) {
      piece.clear();
      const size_t got = stream.Read(piece, kPiece);
      if (got == 0) break;
      total += static_cast<int64_t>(got);
    }
  }
  return total;
}

}  // namespace folio
