#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace folio {

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
