#include "folio/io/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/io/byte_reader.h"
#include "folio/io/file.h"

namespace folio {
namespace {

using Kind = PickleValue::Kind;

// The most values that are visited; shared values count each time.
constexpr int kMaxVisits = 1 << 17;
constexpr size_t kMaxText = size_t{4} << 20;
constexpr size_t kMaxKey = 256;
constexpr int kMaxDepth = 16;

// Converts a pickle's values to JSON.
class PlainReader {
 public:
  PlainReader(const Pickle& pickle, const std::string& mistake, const TakeOther& take_other)
      : pickle_(pickle), mistake_(mistake), take_other_(take_other) {}

  // `name` is the value's key after those of the dictionaries and lists around it, "a/b".
  Json Plain(const PickleValue& value, const std::string& name, int depth = 0) {
    Visit();
    if (depth > kMaxDepth) Fail(fmt::format("values are nested {} deep", depth));
    switch (value.kind) {
      case Kind::kNone:
        return nullptr;
      case Kind::kBool:
        return value.integer != 0;
      case Kind::kInt:
        return value.integer;
      case Kind::kFloat:
        return value.number;
      case Kind::kText:
      case Kind::kGlobal:
        return Counted(value.text);
      case Kind::kDict:
        return Dict(value, name, depth);
      case Kind::kList:
      case Kind::kTuple: {
        Json list = Json::array();
        for (const uint32_t item : value.items) {
          Visit();
          const std::string inner = fmt::format("{}/{}", Counted(name), list.size());
          list.push_back(Taken(pickle_[item], inner) ? Json()
                                                     : Plain(pickle_[item], inner, depth + 1));
        }
        return list;
      }
      case Kind::kCall:
        if (pickle_[value.items[0]].text == "torch.Size" &&
            pickle_[value.items[1]].items.size() == 1) {
          return Plain(pickle_[pickle_[value.items[1]].items[0]], name, depth + 1);
        }
        break;
      case Kind::kObject:
      case Kind::kStored:
        break;
    }
    Fail(fmt::format("\"{}\" is neither a tensor nor a plain value", name));
  }

 private:
  bool Taken(const PickleValue& value, const std::string& name) const {
    return take_other_ != nullptr && take_other_(value, name);
  }
  [[noreturn]] void Fail(std::string cause) const { throw InputError(mistake_, std::move(cause)); }
  std::string Key(const PickleValue& value) {
    if (value.kind == Kind::kText && value.text.size() <= kMaxKey) return Counted(value.text);
    if (value.kind == Kind::kInt) return fmt::format("{}", value.integer);
    Fail("a dictionary key is neither a short string nor an integer");
  }

  Json Dict(const PickleValue& value, const std::string& name, int depth) {
    Json dict = Json::object();
    std::vector<std::string> keys;
    for (size_t i = 0; i < value.items.size(); i += 2) {
      Visit();
      keys.push_back(Key(pickle_[value.items[i]]));
      const std::string inner = name.empty() ? keys.back() : Counted(name) + "/" + keys.back();
      const PickleValue& item = pickle_[value.items[i + 1]];
      if (!Taken(item, inner)) dict.Add(keys.back(), Plain(item, inner, depth + 1));
    }
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice != keys.end()) Fail(fmt::format("the dictionary key \"{}\" appears twice", *twice));
    return dict;
  }

  std::string Counted(std::string_view text) {
    text_ += text.size();
    if (text_ > kMaxText) Fail("too much text for a model");
    return std::string(text);
  }

  void Visit() {
    if (++visits_ > kMaxVisits) Fail("too many values for a model");
  }

  const Pickle& pickle_;
  const std::string& mistake_;
  const TakeOther& take_other_;
  int visits_ = 0;
  size_t text_ = 0;
};

template <class T>
std::string PickledBytes(std::string opcode, T value) {
  AppendLittleEndian(opcode, value);
  return opcode;
}

std::string PickledText(std::string_view text) {
  return PickledBytes("X", static_cast<uint32_t>(text.size())).append(text);
}

std::string PickledNumber(double number) {
  std::string pickled = PickledBytes("G", number);
  std::reverse(pickled.begin() + 1, pickled.end());  // reverses to big-endian
  return pickled;
}

}  // namespace

// Runs the opcodes of https://github.com/python/cpython/blob/main/Lib/pickletools.py
class PickleReader {
 public:
  PickleReader(Pickle& pickle, std::span<const std::byte> bytes, const std::string& where,
               std::span<const std::string_view> globals)
      : values_(pickle.values_),
        bytes_(bytes, where + " is not a valid pickle"),
        where_(where),
        globals_(globals) {}

  uint32_t Read() {
    if (bytes_.left() > Pickle::kMaxBytes) {
      bytes_.Fail(fmt::format("{} bytes, too many for the description of a model", bytes_.left()));
    }
    constexpr uint8_t kProtocol = 0x80, kFrame = 0x95, kStop = '.';
    if (bytes_.Number<uint8_t>() != kProtocol) {
      bytes_.Fail("it does not begin with a protocol version (2 to 5)");
    }
    const auto protocol = bytes_.Number<uint8_t>();
    if (protocol < 2 || protocol > 5) bytes_.Fail(fmt::format("its protocol is {}", protocol));
    for (;;) {
      const auto opcode = bytes_.Number<uint8_t>();
      if (opcode == kStop) break;
      if (opcode == kFrame) {
        bytes_.Bytes(8);  // the length of a frame, not needed
      } else if (!Run(opcode)) {
        bytes_.Fail(fmt::format("unexpected opcode {:#04x} at byte {}", opcode, bytes_.at() - 1));
      }
    }
    const uint32_t root = Pop();
    if (!stack_.empty() || !marks_.empty()) bytes_.Fail("values are left over");
    return root;
  }

 private:
  static constexpr uint32_t kNothing = ~uint32_t{0};

  // Runs an opcode; returns false if it is not in the table.
  bool Run(uint8_t opcode) {
    using R = PickleReader;
    using Opcode = std::pair<uint8_t, void (*)(R&)>;
    static constexpr Opcode kOpcodes[] = {
        {'N', [](R& r) { r.Push({}); }},                                    // NONE
        {0x88, [](R& r) { r.Push({.kind = Kind::kBool, .integer = 1}); }},  // NEWTRUE
        {0x89, [](R& r) { r.Push({.kind = Kind::kBool}); }},                // NEWFALSE
        {'J', [](R& r) { r.Integer(r.bytes_.Number<int32_t>()); }},         // BININT
        {'K', [](R& r) { r.Integer(r.bytes_.Number<uint8_t>()); }},         // BININT1
        {'M', [](R& r) { r.Integer(r.bytes_.Number<uint16_t>()); }},        // BININT2
        {0x8A, [](R& r) { r.LongInteger(); }},                              // LONG1
        {'G', [](R& r) { r.Float(); }},                                     // BINFLOAT
        {'X', [](R& r) { r.Text(r.bytes_.Number<uint32_t>()); }},           // BINUNICODE
        {'T', [](R& r) { r.Text(r.bytes_.Number<uint32_t>()); }},           // BINSTRING
        {'B', [](R& r) { r.Text(r.bytes_.Number<uint32_t>()); }},           // BINBYTES
        {0x8C, [](R& r) { r.Text(r.bytes_.Number<uint8_t>()); }},           // SHORT_BINUNICODE
        {'U', [](R& r) { r.Text(r.bytes_.Number<uint8_t>()); }},            // SHORT_BINSTRING
        {'C', [](R& r) { r.Text(r.bytes_.Number<uint8_t>()); }},            // SHORT_BINBYTES
        {0x8D, [](R& r) { r.Text(r.bytes_.Number<uint64_t>()); }},          // BINUNICODE8
        {'(', [](R& r) { r.marks_.push_back(static_cast<uint32_t>(r.stack_.size())); }},  // MARK
        {')', [](R& r) { r.Push({.kind = Kind::kTuple}); }},                       // EMPTY_TUPLE
        {']', [](R& r) { r.Push({.kind = Kind::kList}); }},                        // EMPTY_LIST
        {'}', [](R& r) { r.Push({.kind = Kind::kDict}); }},                        // EMPTY_DICT
        {0x85, [](R& r) { r.Tuple(r.Below(1)); }},                                 // TUPLE1
        {0x86, [](R& r) { r.Tuple(r.Below(2)); }},                                 // TUPLE2
        {0x87, [](R& r) { r.Tuple(r.Below(3)); }},                                 // TUPLE3
        {'t', [](R& r) { r.Tuple(r.PopMark()); }},                                 // TUPLE
        {'a', [](R& r) { r.AppendTo(Kind::kList, r.Below(1)); }},                  // APPEND
        {'s', [](R& r) { r.AppendTo(Kind::kDict, r.Below(2)); }},                  // SETITEM
        {'e', [](R& r) { r.AppendTo(Kind::kList, r.PopMark()); }},                 // APPENDS
        {'u', [](R& r) { r.AppendTo(Kind::kDict, r.PopMark()); }},                 // SETITEMS
        {'q', [](R& r) { r.Put(r.bytes_.Number<uint8_t>()); }},                    // BINPUT
        {'r', [](R& r) { r.Put(r.bytes_.Number<uint32_t>()); }},                   // LONG_BINPUT
        {0x94, [](R& r) { r.Put(r.memo_.size()); }},                               // MEMOIZE
        {'h', [](R& r) { r.Get(r.bytes_.Number<uint8_t>()); }},                    // BINGET
        {'j', [](R& r) { r.Get(r.bytes_.Number<uint32_t>()); }},                   // LONG_BINGET
        {'c', [](R& r) { r.NamedGlobal(); }},                                      // GLOBAL
        {0x93, [](R& r) { r.StackGlobal(); }},                                     // STACK_GLOBAL
        {'R', [](R& r) { r.Call(); }},                                             // REDUCE
        {0x81, [](R& r) { r.NewObject(); }},                                       // NEWOBJ
        {'b', [](R& r) { r.Build(); }},                                            // BUILD
        {'Q', [](R& r) { r.Push({.kind = Kind::kStored, .items = {r.Pop()}}); }},  // BINPERSID
    };
    const auto* const found = std::ranges::find(kOpcodes, opcode, &Opcode::first);
    if (found == std::end(kOpcodes)) return false;
    found->second(*this);
    return true;
  }

  void NamedGlobal() {
    const std::string_view module = Line();
    Global(module, Line());
  }

  void NewObject() {
    const uint32_t arguments = Pop(), type = Pop();
    if (values_[type].kind != Kind::kGlobal || values_[arguments].kind != Kind::kTuple) {
      bytes_.Fail(fmt::format("an object without a type at byte {}", bytes_.at()));
    }
    Push({.kind = Kind::kObject, .items = {type, arguments}});
  }

  // Drops the state of an OrderedDict beside its items.
  void Build() {
    const uint32_t state = Pop();
    PickleValue& object = values_[Top()];
    if (object.kind == Kind::kDict) return;
    if (object.kind == Kind::kObject && object.items.size() == 2) {
      object.items.push_back(state);
      return;
    }
    bytes_.Fail(fmt::format("an object with a state at byte {}", bytes_.at()));
  }

  uint32_t Push(PickleValue value) {
    if (values_.size() == Pickle::kMaxValues) {
      bytes_.Fail(fmt::format("more than {} values", Pickle::kMaxValues));
    }
    values_.push_back(std::move(value));
    stack_.push_back(static_cast<uint32_t>(values_.size() - 1));
    return stack_.back();
  }

  void Text(uint64_t bytes) { Push({.kind = Kind::kText, .text = bytes_.Text(bytes)}); }
  void Integer(int64_t value) { Push({.kind = Kind::kInt, .integer = value}); }
  void LongInteger() {
    const auto digits = bytes_.Bytes(bytes_.Number<uint8_t>());
    if (digits.size() > 8) bytes_.Fail(fmt::format("an integer of {} bytes", digits.size()));
    uint64_t value = 0;
    for (size_t i = 0; i < digits.size(); ++i)
      value |= std::to_integer<uint64_t>(digits[i]) << 8 * i;
    const size_t unused = 64 - 8 * digits.size();
    Integer(unused == 64 ? 0 : static_cast<int64_t>(value << unused) >> unused);
  }

  void Float() {
    uint64_t bits = 0;
    for (const std::byte byte : bytes_.Bytes(8)) bits = bits << 8 | std::to_integer<uint64_t>(byte);
    Push({.kind = Kind::kFloat, .number = std::bit_cast<double>(bits)});
  }

  void Tuple(size_t from) { Push({.kind = Kind::kTuple, .items = Above(from)}); }
  // The items above `from` go into the list or dictionary below it.
  void AppendTo(Kind kind, size_t from) {
    const std::vector<uint32_t> items = Above(from);
    PickleValue& to = values_[Top()];
    if (to.kind != kind || (kind == Kind::kDict && items.size() % 2 != 0)) {
      bytes_.Fail(fmt::format("no container for the values before byte {}", bytes_.at()));
    }
    to.items.insert(to.items.end(), items.begin(), items.end());
  }

  // Indexes are consecutive, so that there are no more of them than bytes.
  void Put(uint64_t index) {
    const uint32_t value = Top();
    if (index > bytes_.at()) bytes_.Fail(fmt::format("a memo numbered {}", index));
    if (index >= memo_.size()) memo_.resize(static_cast<size_t>(index) + 1, kNothing);
    memo_[static_cast<size_t>(index)] = value;
  }

  void Get(uint64_t index) {
    if (index >= memo_.size() || memo_[static_cast<size_t>(index)] == kNothing) {
      bytes_.Fail(fmt::format("no memo numbered {}", index));
    }
    stack_.push_back(memo_[static_cast<size_t>(index)]);
  }

  std::string_view Line() {
    const size_t begin = bytes_.at();
    while (bytes_.Number<char>() != '\n') {
    }
    const size_t end = bytes_.at();
    bytes_.Seek(begin);
    const std::string_view line = bytes_.Text(end - begin);
    return line.substr(0, line.size() - 1);
  }

  // Looks the name up among the expected ones, and keeps a reference to that.
  void Global(std::string_view module, std::string_view name) {
    constexpr size_t kShown = 60;
    for (const std::string_view known : globals_) {
      if (known.size() == module.size() + 1 + name.size() && known.starts_with(module) &&
          known[module.size()] == '.' && known.ends_with(name)) {
        Push({.kind = Kind::kGlobal, .text = known});
        return;
      }
    }
    throw InputError(fmt::format("{} is not allowed", where_),
                     fmt::format("it uses {}.{} of Python, which model weights do not need",
                                 module.substr(0, kShown), name.substr(0, kShown)),
                     "nothing was executed; if you trust the file, save only its weights with "
                     "PyTorch: torch.save(model.state_dict(), FILE), or as safetensors");
  }

  void StackGlobal() {
    const PickleValue& name = values_[Pop()];
    const PickleValue& module = values_[Pop()];
    if (name.kind != Kind::kText || module.kind != Kind::kText) {
      bytes_.Fail(fmt::format("a global without a name at byte {}", bytes_.at()));
    }
    Global(std::string_view(module.text), std::string_view(name.text));
  }

  void Call() {
    const uint32_t arguments = Pop(), function = Pop();
    if (values_[function].kind != Kind::kGlobal || values_[arguments].kind != Kind::kTuple) {
      bytes_.Fail(fmt::format("a call without a function at byte {}", bytes_.at()));
    }
    if (values_[function].text == "collections.OrderedDict" && values_[arguments].items.empty()) {
      Push({.kind = Kind::kDict});
    } else {
      Push({.kind = Kind::kCall, .items = {function, arguments}});
    }
  }

  // The height of the stack at the last mark, or 0.
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  uint32_t Pop() {
    const uint32_t top = Top();
    stack_.pop_back();
    return top;
  }

  uint32_t Top() const { return stack_[Below(1)]; }

  size_t PopMark() {
    if (marks_.empty()) bytes_.Fail(fmt::format("a mark is missing at byte {}", bytes_.at()));
    const size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  // The position of the last `count` values.
  size_t Below(size_t count) const {
    if (stack_.size() - Floor() < count) {
      bytes_.Fail(fmt::format("a value is missing at byte {}", bytes_.at()));
    }
    return stack_.size() - count;
  }

  // Pops the values above `from`.
  std::vector<uint32_t> Above(size_t from) {
    std::vector<uint32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
    stack_.resize(from);
    return items;
  }

  std::vector<PickleValue>& values_;
  ByteReader bytes_;
  std::string where_;
  std::span<const std::string_view> globals_;
  std::vector<uint32_t> stack_, marks_, memo_;
};

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& where,
               std::span<const std::string_view> globals) {
  root_ = PickleReader(*this, bytes, where, globals).Read();
}

Json PlainValues(const Pickle& pickle, const std::string& mistake, const TakeOther& take_other) {
  return PlainReader(pickle, mistake, take_other).Plain(pickle.root(), "");
}

Json ReadPlainPickle(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path, Pickle::kMaxBytes);
  const Pickle pickle(std::as_bytes(std::span(bytes)), path.string(), {});
  return PlainValues(pickle, fmt::format("{} is not a pickle of plain values", path.string()));
}

std::string Pickled(const Json& value) {
  if (value.is_null()) return "N";
  if (value.is_boolean()) return value.get<bool>() ? "\x88" : "\x89";
  if (value.is_number_integer()) return PickledBytes("\x8a\x08", value.get<int64_t>());
  if (value.is_number()) return PickledNumber(value.get<double>());
  if (value.is_string()) return PickledText(value.text());
  if (value.is_object()) {
    std::vector<std::pair<std::string, std::string>> items;
    for (const auto& [key, member] : value.items()) {
      items.emplace_back(PickledText(key), Pickled(member));
    }
    return PickledDict(items);
  }
  std::string list = "](";
  for (const Json& element : value) list += Pickled(element);
  return list + "e";
}

std::string PickledDict(std::span<const std::pair<std::string, std::string>> items) {
  std::string dict = "}(";
  for (const auto& [key, value] : items) dict += key + value;
  return dict + "u";
}

std::string PickledTuple(std::span<const std::string> items) {
  std::string tuple = "(";
  for (const std::string& item : items) tuple += item;
  return tuple + "t";
}

std::string PickledGlobal(std::string_view name) {
  const size_t dot = name.rfind('.');
  FOLIO_CHECK(dot != name.npos, "a global without a module");
  return "c" + std::string(name.substr(0, dot)) + "\n" + std::string(name.substr(dot + 1)) + "\n";
}

std::string PickledCall(std::string_view global, std::span<const std::string> arguments) {
  return PickledGlobal(global) + PickledTuple(arguments) + "R";
}

std::string PickledStored(std::span<const std::string> called) {
  return PickledTuple(called) + "Q";
}

std::string PickleOf(std::string_view value) {
  return "\x80\x02" + std::string(value) + ".";
}

}  // namespace folio
