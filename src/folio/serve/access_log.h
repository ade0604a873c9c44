#pragma once

#include <mutex>
#include <string>
#include <string_view>

namespace folio {

// A request that was answered or refused, for the log. All is printable ASCII without a space, but
// for `refusal`, and the text of requests and answers is not among it.
struct AccessLogEntry {
  std::string time = {};               // when that was done: "2026-11-25T03:34:34.123Z"
  std::string id = {};                 // as the answer's X-Request-Id
  std::string client = {};             // its address
  std::string key = {};                // the name of its key; "" without one
  std::string method = {}, path = {};  // "" if it was no HTTP
  int status = 0;
  double seconds = 0;        // until the end of the answer
  std::string refusal = {};  // why it was none that could be read, in our words
};

// Returns the text as a URL has it: other bytes than printable ASCII, spaces, quotes, '\' and '%'
// are as "%0A". Cut to about a thousand.
std::string UrlText(std::string_view text);
// Now, as AccessLogEntry has it.
std::string LogTime();

// Returns a line for people: "TIME CLIENT KEY METHOD PATH STATUS 0.123 s ID", "-" for what is
// missing.
std::string AccessLine(const AccessLogEntry& request);

// The requests as lines of JSON, in a file or, for "-", on standard output. A line that cannot be
// written, or not at once, as nobody reads the pipe that it goes to, is left out: that is warned of
// once, and nobody waits for it.
class AccessLog {
 public:
  // Appends to a file, which it makes where it is missing. Throws a kRuntime Error.
  explicit AccessLog(std::string file);
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;

  void Write(const AccessLogEntry& request);
  // Goes on in the file that has the name now, since the old one was renamed. Where that fails it
  // is warned of, and the old one stays.
  void Reopen();

 private:
  std::string file_;
  std::mutex mutex_;
  int fd_;
  bool warned_ = false, torn_ = false;  // torn: the last line is written in part
};

}  // namespace folio
