#include "folio/serve/service_metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace folio {
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
  std::string text = Head("requests_total", "requests answered", "counter");
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [of, count] : requests_) {
      const auto& [endpoint, status, key] = of;
      const std::string label = key.empty() ? "" : fmt::format(",key=\"{}\"", key);
      text += fmt::format("folio_requests_total{{endpoint=\"{}\",status=\"{}\"{}}} {}\n", endpoint,
                          status, label, count);
    }
  }
  const auto counter = [&](const char* name, const char* help, int64_t value) {
    text += Head(name, help, "counter") + fmt::format("folio_{} {}\n", name, value);
  };
  counter("prompt_tokens_total", "tokens of prompts", prompt_tokens);
  counter("shared_tokens_total", "of these, known from an earlier text", shared_tokens);
  counter("new_tokens_total", "tokens written", new_tokens);
  text += first_token.Text("first_token_seconds", "from the request to the first token of a text");
  text += between_tokens.Text("between_tokens_seconds", "between the tokens of a text");
  text += whole_request.Text("request_seconds", "from a request to the end of its answer");
  for (const Gauge& gauge : gauges) {
    text += Head(gauge.name, gauge.help, "gauge") +
            fmt::format("folio_{} {}\n", gauge.name, gauge.value);
  }
  return text;
}

}  // namespace folio
