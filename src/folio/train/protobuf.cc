#include "folio/train/protobuf.h"

#include <bit>

namespace folio {
namespace {

constexpr uint32_t kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5;

}  // namespace

void AppendLittleEndian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

void ProtobufMessage::PutVarint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtobufMessage::Tag(int field, uint32_t wire_type) {
  PutVarint(static_cast<uint64_t>(field) << 3 | wire_type);
}

ProtobufMessage& ProtobufMessage::Varint(int field, uint64_t value) {
  Tag(field, kVarint);
  PutVarint(value);
  return *this;
}

ProtobufMessage& ProtobufMessage::Float(int field, float value) {
  Tag(field, kFixed32);
  AppendLittleEndian(bytes_, std::bit_cast<uint32_t>(value), 4);
  return *this;
}

ProtobufMessage& ProtobufMessage::Double(int field, double value) {
  Tag(field, kFixed64);
  AppendLittleEndian(bytes_, std::bit_cast<uint64_t>(value), 8);
  return *this;
}

ProtobufMessage& ProtobufMessage::Bytes(int field, std::string_view bytes) {
  Tag(field, kLengthDelimited);
  PutVarint(bytes.size());
  bytes_ += bytes;
  return *this;
}

}  // namespace folio
