#include "folio/corpus/text_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "folio/corpus/json_documents.h"
#include "folio/corpus/text_filters.h"
#include "folio/io/posix.h"

namespace folio {
namespace {

using Form = TextKind::Form;

// Nobody makes a text that was compressed more often than this.
constexpr int kMostLayers = 3;

}  // namespace

NotText::NotText(const std::string& name, const TextKind& kind)
    : Error(ErrorKind::kInput, fmt::format("{}: not a text", name),
            fmt::format("it looks like {}", kind.looks_like), kind.help),
      looks_like_(kind.looks_like) {}

TextStream::TextStream(const std::string& path, const TextOptions& options, std::string name)
    : name_(std::move(name)), options_(options), lines_by_name_(NamedForJsonLines(path)) {
  input_ = std::make_shared<ByteInput>(path);
  if (name_.empty()) name_ = input_->name();
  read_ = [input = input_](std::string& out, size_t wanted) { return input->Read(out, wanted); };
  Open();
}

void TextStream::Open() {
  if (options_.raw) return;
  Peel();
  form_.conversations = form_.json_lines && HoldsConversation(FirstLine(), options_.field);
}

void TextStream::Peel() {
  for (int layer = 0; layer < kMostLayers; ++layer) {
    Peek();
    const TextKind kind = RecogniseText(head_, lines_by_name_);
    if (kind.form == Form::kOther) throw NotText(name_, kind);
    form_.json_lines = kind.form == Form::kJsonLines || form_.json_values;
    if (kind.form == Form::kText || kind.form == Form::kJsonLines) {
      mark_ = head_.starts_with(kByteOrderMark);
      if (mark_) given_ = kByteOrderMark.size();
      return;
    }
    Convert(kind);
    if (kind.form == Form::kJson) {
      form_.json_lines = form_.json_values = true;
      Peek();
      return;
    }
  }
  throw NotText(name_, {.looks_like = "something that was compressed several times",
                        .help = "decompress it before"});
}

void TextStream::Peek() {
  while (head_.size() < kTextHead) {
    if (read_(head_, kTextHead - head_.size()) == 0) break;
  }
}

// Reads from the beginning again, through what `kind` asks for.
void TextStream::Convert(const TextKind& kind) {
  const bool utf16 = kind.form == Form::kUtf16Little || kind.form == Form::kUtf16Big;
  size_t skip = utf16 ? 2 : 0;
  if (kind.form == Form::kJson && head_.starts_with(kByteOrderMark)) skip = kByteOrderMark.size();
  ReadBytes from = [rest = std::exchange(head_, {}), at = skip, read = std::move(read_)](
                       std::string& out, size_t wanted) mutable {
    if (at == rest.size()) return read(out, wanted);
    const size_t n = std::min(wanted, rest.size() - at);
    out.append(rest, at, n);
    at += n;
    return n;
  };
  form_.converted = true;
  if (kind.form == Form::kCompressed) {
    read_ = Decompress(std::move(from), kind.compression, name_);
  } else if (utf16) {
    read_ = FromUtf16(std::move(from), kind.form == Form::kUtf16Big, name_);
  } else {
    read_ = JsonAsLines(std::move(from), options_.field, name_);
  }
}

std::string_view TextStream::FirstLine() const {
  std::string_view rest = std::string_view(head_).substr(given_);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    if (end == rest.npos && head_.size() >= kTextHead) break;
    const std::string_view line = rest.substr(0, end);
    if (!IsBlankLine(line)) return line;
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  return {};
}

bool TextStream::begins_with_document() const {
  if (!form_.json_lines || form_.conversations) return true;
  const std::string_view line = FirstLine();
  return line.empty() || HoldsDocument(line, options_.field);
}

size_t TextStream::Read(std::string& out, size_t wanted) {
  const size_t before = out.size();
  if (given_ < head_.size()) {
    out.append(head_, given_, wanted);
    given_ += out.size() - before;
  } else {
    read_(out, wanted);
  }
  const std::string_view got = std::string_view(out).substr(before);
  if (options_.raw || got.find('\0') == got.npos) return got.size();
  throw NotText(name_, *NoText(got));
}

ByteInput TextStream::AsInput() {
  if (!form_.converted && !form_.json_lines && !mark_ && input_->again()) {
    input_->Rewind();
    return std::move(*input_);
  }
  return ByteInput::FromReader(
      [this](std::string& out, size_t wanted) { return Read(out, wanted); }, name_);
}

void CheckPlaces(const std::string& path, const std::string& name) {
  constexpr int kPlaces = 8;
  constexpr size_t kBytes = size_t{1} << 15;
  const internal::FileDescriptor fd = internal::OpenForReading(path);
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size < 0) internal::ThrowCannotRead(name, errno);
  std::string sample(kBytes, '\0');
  for (int place = 1; place <= kPlaces && size > static_cast<off_t>(kTextHead); ++place) {
    const off_t begin = std::max<off_t>(0, size / kPlaces * place - static_cast<off_t>(kBytes));
    const ssize_t got = pread(fd.get(), sample.data(), kBytes, begin);
    if (got < 0) internal::ThrowCannotRead(name, errno);
    const auto other = NoText(std::string_view(sample).substr(0, static_cast<size_t>(got)));
    if (other) throw NotText(name, *other);
  }
}

}  // namespace folio
