#include "folio/io/json_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "folio/base/error.h"

namespace folio {
namespace {

using Json = nlohmann::ordered_json;

// Where a text lies, for messages.
struct Place {
  const std::string& name;
  int64_t line;  // on which it begins
};

[[noreturn]] void ThrowAt(std::string_view text, size_t offset, const Place& place,
                          std::string cause) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0: the first line
  throw InputError(fmt::format("{}:{}:{}: not valid JSON", place.name, place.line + lines,
                               before.size() - line_begin + 1),
                   std::move(cause), "mend the file, or copy it again if it should be whole");
}

// Reads characters and leaves the count of those read where the builder can see it.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  size_t* count_;
};

// Builds the value, and refuses what the format leaves open: repeated keys and endless nesting.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const Place& place, const size_t& count)
      : text_(text), place_(place), count_(count) {}

  Json Take() { return std::move(root_); }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(number_integer_t value) override { return Put(value); }
  bool number_unsigned(number_unsigned_t value) override { return Put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return Put(value); }
  bool string(string_t& value) override { return Put(std::move(value)); }
  bool binary(binary_t& value) override { return Put(std::move(value)); }

  bool start_object(std::size_t /*size*/) override { return Open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& key) override {
    Level& level = levels_.back();
    if (!level.keys.insert(key).second) {
      ThrowAt(text_, count_, place_, fmt::format("the key \"{}\" appears twice", key));
    }
    level.key = std::move(key);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception...] parse error at line 1, column 2: syntax error ..."
    const std::string_view message = error.what();
    const size_t colon = message.find(": ");
    const size_t bracket = message.find("] ");
    const size_t begin = colon != message.npos     ? colon + 2
                         : bracket != message.npos ? bracket + 2
                                                   : 0;
    ThrowAt(text_, position == 0 ? 0 : position - 1, place_, std::string(message.substr(begin)));
  }

 private:
  struct Level {
    Json* value;
    std::string key;  // the next member's
    std::set<std::string> keys;
  };

  // Adds the value to the innermost open container and returns it in its place there. The place
  // stays valid while the value is open, because its container gets nothing else meanwhile.
  Json* Add(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      level.value->push_back(std::move(value));
      return &level.value->back();
    }
    // Through the vector underneath: the key is known to be new, and searching would be quadratic.
    auto& members = level.value->get_ref<Json::object_t&>();
    members.emplace_back(std::move(level.key), std::move(value));
    return &members.back().second;
  }
  bool Put(Json value) {
    Add(std::move(value));
    return true;
  }
  bool Open(Json value) {
    if (levels_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      ThrowAt(text_, count_, place_, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    }
    levels_.push_back({Add(std::move(value)), {}, {}});
    return true;
  }
  bool Close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_;
  const Place& place_;
  const size_t& count_;
  Json root_;
  std::vector<Level> levels_;
};

}  // namespace

Json ParseJson(std::string_view text, const std::string& where, int64_t line) {
  const Place place = {where, line};
  // nlohmann's reader takes a zero byte for the end of the text.
  const size_t zero = text.find('\0');
  if (zero != text.npos) ThrowAt(text, zero, place, "a zero byte");
  size_t count = 0;
  Builder builder(text, place, count);
  Json::sax_parse(CountingIterator(text.data(), &count),
                  CountingIterator(text.data() + text.size(), &count), &builder);
  return builder.Take();
}

}  // namespace folio
