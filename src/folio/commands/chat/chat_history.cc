#include "folio/commands/chat/chat_history.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/io/file.h"
#include "folio/io/json.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

std::string Line(const std::string& typed) {
  return Json(typed).dump() + "\n";
}

// Lines of the file that are whole; others are left out.
std::vector<std::string> ReadHistory(const fs::path& path) {
  constexpr uint64_t kLargest = uint64_t{1} << 26;
  std::vector<std::string> typed;
  for (const std::string& line : Split(ReadFile(path, kLargest), '\n')) {
    try {
      const Json json = ParseJson(line, path.string());
      if (json.is_string()) typed.push_back(json.text());
    } catch (const Error&) {  // a line that was cut
    }
  }
  return typed;
}

}  // namespace

ChatHistory::ChatHistory(const fs::path& path) {
  if (path.empty()) return;
  const mode_t before = umask(077);
  try {
    CreateParentOf(path);
    if (fs::exists(path)) {
      fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
      earlier_ = ReadHistory(path);
    }
    if (earlier_.size() > 2 * kKept) {
      earlier_.erase(earlier_.begin(), earlier_.end() - kKept);
      std::string lines;
      for (const std::string& one : earlier_) lines += Line(one);
      WriteFileAtomically(path, lines);
    }
    file_ = std::make_unique<LineFile>(path);
  } catch (const std::exception& error) {  // an Error, or one of the file system
    LogWarning(std::string("no history is kept: ") + error.what());
  }
  umask(before);
  if (!earlier_.empty()) last_ = earlier_.back();
}

void ChatHistory::Add(const std::string& typed) {
  if (typed.empty() || typed == last_) return;
  last_ = typed;
  if (file_) file_->Write(Line(typed));
}

fs::path ChatHistoryPath() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && fs::path(state).is_absolute()) return fs::path(state) / "folio/history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return fs::path(home) / ".local/state/folio/history";
}

}  // namespace folio
