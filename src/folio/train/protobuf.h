#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace folio {

// One message in the encoding of protocol buffers, field by field in the order of the calls.
class ProtobufMessage {
 public:
  ProtobufMessage& Varint(int field, uint64_t value);
  ProtobufMessage& Float(int field, float value);
  ProtobufMessage& Double(int field, double value);
  ProtobufMessage& Bytes(int field, std::string_view bytes);
  ProtobufMessage& Message(int field, const ProtobufMessage& message) {
    return Bytes(field, message.bytes());
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void Tag(int field, uint32_t wire_type);
  void PutVarint(uint64_t value);

  std::string bytes_;
};

// Appends the lowest `bytes` bytes of `value`, lowest first.
void AppendLittleEndian(std::string& out, uint64_t value, int bytes);

}  // namespace folio
