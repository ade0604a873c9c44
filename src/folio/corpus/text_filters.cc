#include "folio/corpus/text_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/io/json.h"

namespace folio {
namespace {

constexpr size_t kPiece = size_t{1} << 16;

// A filtered source converts pieces as a whole and gives them out as they are asked for.
// Filter has Convert(piece, out) and Finish(out).
template <class Filter>
ReadBytes Filtered(ReadBytes from, Filter filter) {
  struct State {
    ReadBytes from;
    Filter filter;
    std::string piece = {}, made = {};
    size_t given = 0;
    bool at_end = false;
  };
  auto state = std::make_shared<State>(State{std::move(from), std::move(filter)});
  return [state](std::string& out, size_t wanted) {
    State& s = *state;
    while (s.given == s.made.size() && !s.at_end) {
      s.made.clear();
      s.piece.clear();
      s.given = 0;
      s.at_end = s.from(s.piece, kPiece) == 0;
      s.at_end ? s.filter.Finish(s.made) : s.filter.Convert(s.piece, s.made);
    }
    const size_t n = std::min(wanted, s.made.size() - s.given);
    out.append(s.made, s.given, n);
    s.given += n;
    return n;
  };
}

class Utf16Filter {
 public:
  Utf16Filter(bool big_endian, std::string name)
      : big_endian_(big_endian), name_(std::move(name)) {}

  void Convert(std::string_view piece, std::string& out) {
    for (const char c : piece) {
      const auto byte = static_cast<uint8_t>(c);
      ++bytes_;
      if (bytes_ % 2 == 1) {
        first_ = byte;
        continue;
      }
      Add(big_endian_ ? char32_t{first_} << 8 | byte : char32_t{byte} << 8 | first_, out);
    }
  }

  void Finish(std::string& /*out*/) const {
    if (bytes_ % 2 == 1) throw Bad("it ends within a character");
    if (high_ != 0) throw Bad("it ends within a pair of surrogates");
  }

 private:
  void Add(char32_t unit, std::string& out) {
    const bool low = unit >= 0xDC00 && unit < 0xE000;
    if (low != (high_ != 0)) {
      throw Bad(fmt::format("half a pair of surrogates before byte {}", bytes_));
    }
    if (unit >= 0xD800 && unit < 0xDC00) {
      high_ = unit;
    } else if (low) {
      AppendUtf8(0x10000 + ((std::exchange(high_, 0) - 0xD800) << 10) + (unit - 0xDC00), out);
    } else {
      AppendUtf8(unit, out);
    }
  }

  Error Bad(std::string cause) const {
    return InputError(fmt::format("{}: not valid UTF-16", name_), std::move(cause),
                      "mend the file, or copy it again if it should be whole");
  }

  bool big_endian_;
  std::string name_;
  int64_t bytes_ = 0;
  uint8_t first_ = 0;  // of the two bytes of a unit
  char32_t high_ = 0;  // the first half of a pair, 0 if there is none
};

class JsonFilter {
 public:
  JsonFilter(const std::string& field, std::string name)
      : before_string_("{" + Json(field).dump() + ":"), name_(std::move(name)) {}

  void Convert(std::string_view piece, std::string& out) {
    for (const char c : piece) {
      if (inside_ == Inside::kString) {
        InString(c, out);
      } else if (inside_ == Inside::kNothing) {
        Between(c, out);
      } else {
        InValue(c, out);
      }
    }
  }

  void Finish(std::string& out) {
    if (inside_ == Inside::kScalar) End(out);
    if (inside_ != Inside::kNothing) throw Bad("it ends within a value");
    if (array_ && !closed_) throw Bad("the array does not end");
  }

 private:
  enum class Inside { kNothing, kScalar, kContainer, kString };

  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

  void Between(char c, std::string& out) {
    if (IsSpace(c)) return;
    if (!begun_ && c == '[') {
      begun_ = array_ = true;
      return;
    }
    begun_ = true;
    if (array_) {
      if (closed_) throw Bad("something follows the array");
      if (c == ']' && (values_ == 0 || !comma_)) {
        closed_ = true;
        return;
      }
      if (c == ',' && values_ > 0 && !comma_) {
        comma_ = true;
        return;
      }
      if (values_ > 0 && !std::exchange(comma_, false)) throw Bad("expected ',' or ']'");
    }
    Begin(c, out);
  }

  void Begin(char c, std::string& out) {
    if (c == ']' || c == '}' || c == ',' || c == ':') throw Bad("expected a value");
    ++values_;
    depth_ = 0;
    wrapped_ = array_ && c == '"';
    if (wrapped_) out += before_string_;
    inside_ = c == '{' || c == '[' ? Inside::kContainer : Inside::kScalar;
    InValue(c, out);
  }

  void InValue(char c, std::string& out) {
    if (inside_ == Inside::kScalar && (IsSpace(c) || c == ',' || c == ']')) {
      End(out);
      Between(c, out);
      return;
    }
    out += c == '\n' || c == '\r' ? ' ' : c;
    if (c == '"') inside_ = Inside::kString;
    if (c == '{' || c == '[') ++depth_;
    if ((c == '}' || c == ']') && --depth_ == 0) End(out);
  }

  void InString(char c, std::string& out) {
    // A raw line break is no part of a JSON string: whoever reads the line complains.
    out += c == '\n' || c == '\r' ? '\t' : c;
    if (std::exchange(escaped_, c == '\\' && !escaped_) || c != '"') return;
    if (depth_ > 0) {
      inside_ = Inside::kContainer;
    } else {
      End(out);
    }
  }

  void End(std::string& out) {
    out += wrapped_ ? "}\n" : "\n";
    inside_ = Inside::kNothing;
  }

  Error Bad(const std::string& cause) const {
    return InputError(fmt::format("{}: not valid JSON", name_),
                      values_ == 0 ? cause : fmt::format("value {}: {}", values_, cause),
                      "expected an object in each line, or one array of objects or strings");
  }

  std::string before_string_, name_;
  bool begun_ = false, array_ = false, closed_ = false, comma_ = false;
  int64_t values_ = 0;  // that have begun
  Inside inside_ = Inside::kNothing;
  bool wrapped_ = false, escaped_ = false;
  int64_t depth_ = 0;
};

}  // namespace

ReadBytes FromUtf16(ReadBytes from, bool big_endian, std::string name) {
  return Filtered(std::move(from), Utf16Filter(big_endian, std::move(name)));
}

ReadBytes JsonAsLines(ReadBytes from, const std::string& field, std::string name) {
  return Filtered(std::move(from), JsonFilter(field, std::move(name)));
}

}  // namespace folio
