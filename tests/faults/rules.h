#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/faults/calls.h"

namespace folio::faults {

// A verdict says what is to become of a call.
struct Verdict {
  int error = 0;      // it fails with this
  bool kill = false;  // the process is killed, after `most` bytes of a write
  size_t most = SIZE_MAX;
};

// FOLIO_FAULTS, read and followed. Says so and ends the program where it is spelt wrong.
class Rules {
 public:
  explicit Rules(std::string_view text) {
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      Add(text.substr(0, comma));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }

  // Judges the `nth` call of its kind, which is the `nth_of_all`, with so many bytes if it writes.
  Verdict Judge(Kind kind, uint64_t nth, uint64_t nth_of_all, size_t bytes) {
    for (const Rule& rule : rules_) {
      const uint64_t n = rule.kind < 0 ? nth_of_all : nth;
      if ((rule.kind >= 0 && rule.kind != kind) || n < rule.first || n > rule.last) continue;
      if (rule.error != 0) return {.error = rule.error};
      if (!rule.half) return {.kill = true, .most = 0};
      if (kind == kWriteCall)
        return {.kill = rule.kill, .most = rule.kill ? bytes / 2 : (bytes + 1) / 2};
    }
    return has_space_ ? JudgeSpace(kind, bytes) : Verdict{};
  }

 private:
  struct Rule {
    int kind = -1;  // -1: any
    uint64_t first = 0, last = 0;
    int error = 0;
    bool kill = false, half = false;
  };

  [[noreturn]] static void Refuse(std::string_view rule);
  static uint64_t Number(std::string_view text, std::string_view rule) {
    const std::string digits(text);
    char* end = nullptr;
    const uint64_t value = std::strtoull(digits.c_str(), &end, 10);
    if (digits.empty() || *end != '\0') Refuse(rule);
    return value;
  }

  void Add(std::string_view text) {
    const size_t one = text.find(':'), two = text.find(':', one + 1);
    if (one == text.npos) Refuse(text);
    const std::string_view name = text.substr(0, one);
    const std::string_view second = text.substr(one + 1, two == text.npos ? two : two - one - 1);
    const std::string_view third = two == text.npos ? "" : text.substr(two + 1);
    if (name == "space") {
      has_space_ = true;
      space_ = Number(second, text);
      failures_ = third.empty() ? UINT64_MAX : Number(third, text);
      return;
    }
    Rule rule;
    for (size_t i = 0; i < kKindNames.size(); ++i) {
      if (name == kKindNames[i]) rule.kind = static_cast<int>(i);
    }
    if (rule.kind < 0 && name != "any") Refuse(text);
    const size_t dash = second.find('-');
    const bool on = second.ends_with('+');
    rule.first = Number(second.substr(0, on ? second.size() - 1 : dash), text);
    rule.last = on                    ? UINT64_MAX
                : dash != second.npos ? Number(second.substr(dash + 1), text)
                                      : rule.first;
    rule.error = third == "ENOSPC"   ? ENOSPC
                 : third == "EIO"    ? EIO
                 : third == "EDQUOT" ? EDQUOT
                 : third == "EROFS"  ? EROFS
                                     : 0;
    rule.kill = third == "kill" || third == "tear";
    rule.half = third == "short" || third == "tear";
    if (rule.error == 0 && !rule.kill && !rule.half) Refuse(text);
    rules_.push_back(rule);
  }

  // Names take room too, but what a write needs is what decides.
  Verdict JudgeSpace(Kind kind, size_t bytes) {
    if (failures_ == 0) return {};
    const bool full = space_ == 0;
    if (kind == kWriteCall && bytes > 0) {
      const size_t put = static_cast<size_t>(std::min<uint64_t>(bytes, space_));
      space_ -= put;
      if (!full) return {.most = put};
    } else if (!full || (kind != kOpenCall && kind != kMkdirCall && kind != kLinkCall &&
                         kind != kAllocateCall)) {
      return {};
    }
    if (failures_ != UINT64_MAX) failures_ -= 1;
    return {.error = ENOSPC};
  }

  std::vector<Rule> rules_;
  bool has_space_ = false;
  uint64_t space_ = 0, failures_ = 0;
};

}  // namespace folio::faults
