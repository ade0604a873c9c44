#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

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
// Returns the time now, as in AccessLogEntry.
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
  // Continues in a new file of the same name, since the old one was renamed. Where that fails there
  // is a warning, and it continues in the old one.
  void Reopen();

 private:
  std::string file_;
  std::mutex mutex_;
  int fd_;
  bool warned_ = false, torn_ = false;  // torn: the last line is written in part
};

// SecondsHistogram counts how often something took how long.
class SecondsHistogram {
 public:
  void Add(double seconds);
  // The lines of Prometheus' text format.
  std::string Text(const std::string& name, const std::string& help) const;

 private:
  static constexpr std::array<double, 14> kEdges = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                    0.25,  0.5,    1,     2.5,  5,     10,   60};
  std::array<std::atomic<int64_t>, kEdges.size() + 1> counts_ = {};
  std::atomic<double> sum_ = 0;
};

// ServiceMetrics counts what a service has done since it began. Any thread may add.
class ServiceMetrics {
 public:
  // `key`: the name of the one that it came with, or "".
  void AddRequest(const std::string& endpoint, int status, const std::string& key = "");

  std::atomic<int64_t> prompt_tokens = 0, shared_tokens = 0, new_tokens = 0;
  SecondsHistogram first_token;     // from the request to its first token
  SecondsHistogram between_tokens;  // of one text
  SecondsHistogram whole_request;

  // Prometheus' text format; `gauges`: what is so now, as (name, help, value).
  struct Gauge {
    std::string name, help;
    double value = 0;
  };
  std::string Text(const std::vector<Gauge>& gauges) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, int, std::string>, int64_t> requests_;
};

}  // namespace folio
