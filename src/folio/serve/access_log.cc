#include "folio/serve/access_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/io/json.h"

namespace folio {
namespace {

std::string Reason(int error) {
  return std::system_category().message(error);
}

// -1 and errno where that fails. Opening a pipe that nobody reads does not wait.
int OpenLog(const std::string& file) {
  if (file == "-") return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  return open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
              0640);
}

std::string JsonLine(const AccessLogEntry& request) {
  Json line{{"time", request.time},     {"id", request.id},          {"client", request.client},
            {"key", request.key},       {"method", request.method},  {"path", request.path},
            {"status", request.status}, {"seconds", request.seconds}};
  if (!request.refusal.empty()) line["refusal"] = request.refusal;
  return line.dump() + "\n";
}

}  // namespace

std::string UrlText(std::string_view text) {
  constexpr size_t kMost = 1000;
  std::string shown;
  for (const char c : text) {
    const bool plain = c > ' ' && c < 0x7F && c != '"' && c != '\\' && c != '%';
    shown += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    if (shown.size() > kMost) return shown + "...";
  }
  return shown;
}

std::string LogTime() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     ms.count() % 1000);
}

std::string AccessLine(const AccessLogEntry& request) {
  const auto shown = [](const std::string& text) { return text.empty() ? "-" : text; };
  return fmt::format("{} {} {} {} {} {} {:.3f} s {}{}", request.time, shown(request.client),
                     shown(request.key), shown(request.method), shown(request.path), request.status,
                     request.seconds, request.id,
                     request.refusal.empty() ? "" : " (" + request.refusal + ")");
}

AccessLog::AccessLog(std::string file) : file_(std::move(file)), fd_(OpenLog(file_)) {
  if (fd_ >= 0) return;
  const int error = errno;
  throw RuntimeError(fmt::format("cannot write the log '{}'", file_),
                     error == ENXIO ? "it is a pipe without a reader" : Reason(error));
}

AccessLog::~AccessLog() {
  if (fd_ >= 0) close(fd_);
}

void AccessLog::Write(const AccessLogEntry& request) {
  // It is shorter than PIPE_BUF: a pipe that is ready takes all of it at once.
  std::string line = JsonLine(request);
  int error = 0;
  {
    const std::lock_guard lock(mutex_);
    if (torn_) line.insert(0, "\n");
    pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, 0) == 0) {
      error = EAGAIN;
    } else if (const ssize_t written = write(fd_, line.data(), line.size()); written < 0) {
      error = errno;
    } else {
      torn_ = static_cast<size_t>(written) < line.size();
      if (torn_) error = ENOSPC;
    }
    if (error == 0 || std::exchange(warned_, true)) return;
  }
  LogWarning(fmt::format("cannot write the access log: {}: {}; lines are missing", file_,
                         error == EAGAIN ? "the pipe has no reader" : Reason(error)));
}

void AccessLog::Reopen() {
  const int fd = OpenLog(file_);
  if (fd < 0) {
    LogWarning(fmt::format("cannot reopen the access log, continuing in the old file: {}: {}",
                           file_, Reason(errno)));
    return;
  }
  int old = -1;
  {
    const std::lock_guard lock(mutex_);
    old = std::exchange(fd_, fd);
    warned_ = torn_ = false;
  }
  close(old);
}

namespace {

std::string Head(const std::string& name, const std::string& help, const char* type) {
  return fmt::format("# HELP folio_{0} {1}\n# TYPE folio_{0} {2}\n", name, help, type);
}

}  // namespace

void SecondsHistogram::Add(double seconds) {
  const auto edge = std::ranges::lower_bound(kEdges, seconds);
  ++counts_[static_cast<size_t>(edge - kEdges.begin())];
  sum_ += seconds;
}

std::string SecondsHistogram::Text(const std::string& name, const std::string& help) const {
  std::string text = Head(name, help, "histogram");
  int64_t total = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    text += fmt::format("folio_{}_bucket{{le=\"{}\"}} {}\n", name,
                        i < kEdges.size() ? fmt::format("{}", kEdges[i]) : "+Inf", total);
  }
  return text + fmt::format("folio_{0}_sum {1}\nfolio_{0}_count {2}\n", name, sum_.load(), total);
}

void ServiceMetrics::AddRequest(const std::string& endpoint, int status, const std::string& key) {
  const std::lock_guard lock(mutex_);
  ++requests_[{endpoint, status, key}];
}

std::string ServiceMetrics::Text(const std::vector<Gauge>& gauges) const {
  std::string text = Head("requests_total", "answered requests", "counter");
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [request, count] : requests_) {
      const auto& [endpoint, status, key] = request;
      const std::string label = key.empty() ? "" : fmt::format(",key=\"{}\"", key);
      text += fmt::format("folio_requests_total{{endpoint=\"{}\",status=\"{}\"{}}} {}\n", endpoint,
                          status, label, count);
    }
  }
  const auto counter = [&](const char* name, const char* help, int64_t value) {
    text += Head(name, help, "counter") + fmt::format("folio_{} {}\n", name, value);
  };
  counter("prompt_tokens_total", "prompt tokens", prompt_tokens);
  counter("shared_tokens_total", "prompt tokens found in the cache", shared_tokens);
  counter("new_tokens_total", "generated tokens", new_tokens);
  text += first_token.Text("first_token_seconds", "time from the request to the first token");
  text += between_tokens.Text("between_tokens_seconds", "time between tokens");
  text += whole_request.Text("request_seconds", "time from the request to the end of the answer");
  for (const Gauge& gauge : gauges) {
    text += Head(gauge.name, gauge.help, "gauge") +
            fmt::format("folio_{} {}\n", gauge.name, gauge.value);
  }
  return text;
}

}  // namespace folio
