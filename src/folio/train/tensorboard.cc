#include "folio/train/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/machine.h"
#include "folio/io/crc32c.h"
#include "folio/io/file.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "events.out.tfevents.";
constexpr size_t kMostWaiting = 8 << 10;        // bytes
constexpr int64_t kMaxSeconds = 9'999'999'999;  // ten digits

// Field numbers of TensorFlow's messages.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SessionLogField { kStatus = 1 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9 };
enum MetadataField { kPluginData = 1, kDataClass = 4 };
enum PluginDataField { kPluginName = 1 };
enum TensorField { kDtype = 1, kTensorShape = 2, kStringValue = 8 };
enum Numbers { kStart = 1, kDataClassTensor = 2, kDtString = 7 };

constexpr uint32_t kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;

// Appends the lowest `bytes` bytes of `value`, lowest first.
void AppendLittleEndian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

// One message in the encoding of protocol buffers, field by field in the order of the calls.
class ProtobufMessage {
 public:
  ProtobufMessage& Varint(int field, uint64_t value) {
    Tag(field, kVarint);
    PutVarint(value);
    return *this;
  }
  ProtobufMessage& Float(int field, float value) {
    Tag(field, kFixed32);
    AppendLittleEndian(bytes_, std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  ProtobufMessage& Double(int field, double value) {
    Tag(field, kFixed64);
    AppendLittleEndian(bytes_, std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  ProtobufMessage& Bytes(int field, std::string_view bytes) {
    Tag(field, kLengthDelimited);
    PutVarint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  ProtobufMessage& Message(int field, const ProtobufMessage& message) {
    return Bytes(field, message.bytes());
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void Tag(int field, uint32_t wire_type) {
    PutVarint(static_cast<uint64_t>(field) << 3 | wire_type);
  }
  void PutVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

ProtobufMessage Event(double wall_time, int64_t step) {
  ProtobufMessage event;
  event.Double(kWallTime, wall_time).Varint(kStep, static_cast<uint64_t>(step));
  return event;
}

// Readers take the files of a directory in the order of their names.
fs::path NextName(const fs::path& dir) {
  static std::atomic<int> count = 0;
  CreateDirectories(dir);
  auto seconds = static_cast<int64_t>(WallSeconds());
  std::error_code unread;
  const std::vector<std::string> names = internal::NamesIn(dir, &unread);
  if (unread) internal::ThrowCannotWrite(dir, unread.value());
  for (const std::string& name : names) {
    int64_t theirs = 0;
    if (!name.starts_with(kPrefix)) continue;
    std::from_chars(name.data() + std::strlen(kPrefix), name.data() + name.size(), theirs);
    if (theirs < kMaxSeconds) seconds = std::max(seconds, theirs + 1);
  }
  return dir / fmt::format("{}{:010d}.{}.{}.{}", kPrefix, seconds, HostName(), ::getpid(), count++);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const fs::path& dir)
    : path_(NextName(dir)), file_(internal::OpenFile(path_, O_WRONLY | O_CREAT | O_EXCL)) {
  if (file_.get() < 0) internal::ThrowCannotWrite(path_, errno);
  ProtobufMessage first;
  first.Double(kWallTime, WallSeconds()).Bytes(kFileVersion, "brain.Event:2");
  Record(first.bytes());
  Flush();
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    Flush();
  } catch (const Error&) {  // a caller that must know has flushed
  }
}

void TensorBoardWriter::Restart(int64_t step, double wall_time) {
  ProtobufMessage log;
  log.Varint(kStatus, kStart);
  Record(Event(wall_time, step).Message(kSessionLog, log).bytes());
}

void TensorBoardWriter::Scalar(std::string_view tag, int64_t step, double value, double wall_time) {
  ProtobufMessage summary_value, summary;
  summary_value.Bytes(kTag, tag).Float(kSimpleValue, static_cast<float>(value));
  summary.Message(kValue, summary_value);
  Record(Event(wall_time, step).Message(kSummary, summary).bytes());
}

void TensorBoardWriter::Text(std::string_view tag, int64_t step, std::string_view text,
                             double wall_time) {
  ProtobufMessage plugin, metadata, tensor, summary_value, summary;
  plugin.Bytes(kPluginName, "text");
  metadata.Message(kPluginData, plugin).Varint(kDataClass, kDataClassTensor);
  tensor.Varint(kDtype, kDtString).Message(kTensorShape, {}).Bytes(kStringValue, text);
  summary_value.Bytes(kTag, tag).Message(kTensor, tensor).Message(kMetadata, metadata);
  summary.Message(kValue, summary_value);
  Record(Event(wall_time, step).Message(kSummary, summary).bytes());
}

void TensorBoardWriter::Flush() {
  std::string_view rest = waiting_;
  if (const int error = internal::WriteAll(file_.get(), rest)) {
    internal::ThrowCannotWrite(path_, error);
  }
  waiting_.clear();
}

void TensorBoardWriter::Record(std::string_view message) {
  std::string record;
  AppendLittleEndian(record, message.size(), 8);
  AppendLittleEndian(record, MaskedCrc32c(record), 4);
  record += message;
  AppendLittleEndian(record, MaskedCrc32c(message), 4);
  waiting_ += record;
  if (waiting_.size() > kMostWaiting) Flush();
}

}  // namespace folio
