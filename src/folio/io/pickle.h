#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "folio/io/json.h"

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
    kDict,    // or an OrderedDict
    kGlobal,  // something that the program would look up: text is "torch.FloatStorage"
    kCall,    // a call: items are the global and the tuple of arguments
    kObject,  // an object: items are its class (a global), the tuple of arguments and, if any, the
              // state
    kStored,  // a persistent object outside of the pickle: items identify it
  };
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // also for kBool
  double number = 0;
  std::string_view text = {};        // points into the pickle's bytes
  std::vector<uint32_t> items = {};  // kDict: key, value, key, value ...
};

// The values of a Python pickle, in the opcodes of protocols 2 to 5 that torch.save and plain
// containers use, and objects with a state. They are only described: nothing is looked up, called
// or executed, and a global that is not among the expected ones is refused by its name. Values are
// shared, and may contain themselves: code that visits them needs a limit. Takes less than 60 MB.
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

// Takes a value that is not plain; returns true if it did. `name` consists of the keys that lead to
// it, "optimizer/state/0/exp_avg".
using TakeOther = std::function<bool(const PickleValue& value, const std::string& name)>;

// The plain values of a pickle: None, booleans, numbers, texts, names of globals, lists, tuples,
// torch.Size and dictionaries whose keys are texts or integers. What `take_other` takes is left out
// of dictionaries, and null in lists. Throws a kInput Error, `mistake`, for anything else, for a
// repeated key, and for values that are too deep or, with shared values, too many.
Json PlainValues(const Pickle& pickle, const std::string& mistake,
                 const TakeOther& take_other = {});

// The values of a file that pickle.dump wrote.
Json ReadPlainPickle(const std::filesystem::path& path);

// Parts of a pickle of Python's protocol 2 to be combined: each is one value.

// Plain values: dictionaries have texts as keys. REQUIRES: signed integers of 64 bits.
std::string Pickled(const Json& value);

// A dictionary of already pickled keys and values.
std::string PickledDict(std::span<const std::pair<std::string, std::string>> items);
std::string PickledTuple(std::span<const std::string> items);
// A global, "torch.FloatStorage", and a call of one with a tuple.
std::string PickledGlobal(std::string_view name);
std::string PickledCall(std::string_view global, std::span<const std::string> arguments);
// A persistent object outside of the pickle, identified by a tuple.
std::string PickledStored(std::span<const std::string> called);

// The complete pickle of a value.
std::string PickleOf(std::string_view value);

}  // namespace folio
