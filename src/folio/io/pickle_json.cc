#include "folio/io/pickle_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/io/file.h"

namespace folio {
namespace {

using Kind = PickleValue::Kind;

// How much of a pickle is looked at: shared values count each time.
constexpr int kMaxVisits = 1 << 17;
constexpr size_t kMaxText = size_t{4} << 20;
constexpr size_t kMaxKey = 256;
constexpr int kMaxDepth = 16;

// Goes through a pickle's values and makes JSON of them.
class PlainReader {
 public:
  PlainReader(const Pickle& pickle, const std::string& mistake, const TakeOther& take_other)
      : pickle_(pickle), mistake_(mistake), take_other_(take_other) {}

  // `name` is of dictionaries and lists around it, "a/b", and its own.
  Json Plain(const PickleValue& value, const std::string& name, int depth = 0);

 private:
  bool Taken(const PickleValue& value, const std::string& name) const {
    return take_other_ != nullptr && take_other_(value, name);
  }
  [[noreturn]] void Fail(std::string cause) const { throw InputError(mistake_, std::move(cause)); }
  std::string Key(const PickleValue& value);
  Json Dict(const PickleValue& value, const std::string& name, int depth);
  std::string Counted(std::string_view text);
  void Visit() {
    if (++visits_ > kMaxVisits) Fail("more values than a model needs");
  }

  const Pickle& pickle_;
  const std::string& mistake_;
  const TakeOther& take_other_;
  int visits_ = 0;
  size_t text_ = 0;
};

std::string PlainReader::Counted(std::string_view text) {
  text_ += text.size();
  if (text_ > kMaxText) Fail("more text than a model needs");
  return std::string(text);
}

std::string PlainReader::Key(const PickleValue& value) {
  if (value.kind == Kind::kText && value.text.size() <= kMaxKey) return Counted(value.text);
  if (value.kind == Kind::kInt) return fmt::format("{}", value.integer);
  Fail("a key of a dictionary is neither a short text nor an integer");
}

Json PlainReader::Dict(const PickleValue& value, const std::string& name, int depth) {
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
  if (twice != keys.end()) Fail(fmt::format("a dictionary has \"{}\" twice", *twice));
  return dict;
}

Json PlainReader::Plain(const PickleValue& value, const std::string& name, int depth) {
  Visit();
  if (depth > kMaxDepth) Fail(fmt::format("values {} deep in each other", depth));
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
    case Kind::kStored:
      break;
  }
  Fail(fmt::format("\"{}\" is neither a tensor nor a plain value", name));
}

}  // namespace

Json PlainValues(const Pickle& pickle, const std::string& mistake, const TakeOther& take_other) {
  return PlainReader(pickle, mistake, take_other).Plain(pickle.root(), "");
}

Json ReadPlainPickle(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path, Pickle::kMaxBytes);
  const Pickle pickle(std::as_bytes(std::span(bytes)), path.string(), {});
  return PlainValues(pickle, fmt::format("{} is not a pickle of plain values", path.string()));
}

}  // namespace folio
