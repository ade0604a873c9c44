#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace folio {

// A value in a pickle.
struct PickleValue {
  enum class Kind : uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,  // text or bytes
    kList,
    kTuple,
    kDict,    // an OrderedDict too
    kGlobal,  // something that the program is to look up: text is "torch.FloatStorage"
    kCall,    // of a global: items are that and the tuple of arguments
    kStored,  // something that lies outside: items are what it is called by
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // of kBool too
  double number = 0;
  std::string_view text = {};        // in the pickle's own bytes
  std::vector<uint32_t> items = {};  // kDict: key, value, key, value ...
};

// The values of a Python pickle, in the opcodes of protocols 2 to 5 in which torch.save and plain
// containers are written. It is only described: nothing is looked up, called or executed, and a
// global that is not among those expected is refused by its name. Values are shared, and may
// contain themselves: who goes through them needs a limit. Takes less than 60 MB.
class Pickle {
 public:
  static constexpr size_t kMaxBytes = size_t{2} << 20, kMaxValues = size_t{1} << 18;

  // `bytes` and `globals` must outlive it. Throws a kInput Error whose `what` begins with `where`.
  Pickle(std::span<const std::byte> bytes, const std::string& where,
         std::span<const std::string_view> globals);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](uint32_t index) const { return values_[index]; }

 private:
  friend class PickleReader;
  std::vector<PickleValue> values_;
  uint32_t root_ = 0;
};

}  // namespace folio
