#include "folio/model_files/unknown_keys.h"

#include <fmt/format.h>

#include <mutex>
#include <set>

#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/io/json.h"

namespace folio {
namespace {

// Returns whether the line is said for the first time.
bool IsNew(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  constexpr size_t kMost = 1000;  // of a process that opens files for ever
  const std::lock_guard lock(mutex);
  if (said.size() >= kMost) said.clear();
  return said.insert(line).second;
}

}  // namespace

bool AsksForNothing(const Json& value) {
  if (value.is_array() || value.is_object()) return value.empty();
  return value.is_null() || value == Json(false) || value == Json(0) || value == Json("");
}

void WarnOfUnknownKeys(const std::string& where, const std::vector<std::string>& unknown,
                       const std::vector<std::string>& known) {
  constexpr size_t kMostKeys = 8, kMostBytes = 64;
  if (unknown.empty()) return;
  std::vector<std::string> named;
  for (const std::string& key : unknown) {
    if (named.size() == kMostKeys) {
      named.push_back(fmt::format("{} more", unknown.size() - kMostKeys));
      break;
    }
    const std::string nearest = key.size() > kMostBytes ? "" : Nearest(key, known);
    named.push_back(
        fmt::format("\"{}\"{}", key.substr(0, kMostBytes),
                    nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
  }
  const std::string line = fmt::format("{}: unknown key{} ignored: {}", where,
                                       unknown.size() == 1 ? "" : "s", Join(named, ", "));
  if (IsNew(line)) LogWarning(line);
}

}  // namespace folio
