#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "folio/io/file.h"

namespace folio {

// ChatHistory holds the lines that were typed at the prompt of `folio chat`, kept from one
// conversation to the next in a file that only its owner reads: a JSON string in each line, the
// latest last. Where it cannot be read or written it is warned of, and everything goes on without
// it.
class ChatHistory {
 public:
  static constexpr size_t kKept = 1000;  // of a file twice as long the older half is left out

  // `path` empty keeps nothing.
  explicit ChatHistory(const std::filesystem::path& path);

  // Returns the lines of the file, the latest last.
  const std::vector<std::string>& earlier() const { return earlier_; }
  // Not what was typed just before it.
  void Add(const std::string& typed);

 private:
  std::vector<std::string> earlier_;
  std::string last_;
  std::unique_ptr<LineFile> file_;
};

// $XDG_STATE_HOME/folio/history, else ~/.local/state/folio/history; "" where none of them is set.
std::filesystem::path ChatHistoryPath();

}  // namespace folio
