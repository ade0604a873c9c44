#include "folio/serve/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/serve/http_client.h"

namespace folio {
namespace {

// StreamedAnswer holds what a client reads of one answer.
struct StreamedAnswer {
  int status = 0;
  std::string text, rest;
  int64_t tokens = 0;
  double first = 0, last = 0;
  bool whole = false;

  void Take(std::string_view bytes) {
    rest += bytes;
    for (size_t end = 0; (end = rest.find("\n\n")) != std::string::npos;) {
      Event(rest.substr(0, end));
      rest.erase(0, end + 2);
    }
  }

 private:
  void Event(std::string_view event) {
    constexpr std::string_view kData = "data: ";
    if (!event.starts_with(kData)) return;
    event.remove_prefix(kData.size());
    if (event == "[DONE]") {
      whole = true;
      return;
    }
    const Json chunk = ParseJson(event, "an event");
    const Json* choices = chunk.find("choices");
    for (const Json& choice : choices == nullptr ? Json::array() : *choices) {
      const Json* shown = choice.find("text");
      if (shown == nullptr || !shown->is_string() || shown->text().empty()) continue;
      text += shown->text();
      last = SteadySeconds();
      if (first == 0) first = last;
    }
    const Json* usage = chunk.find("usage");
    const Json* written = usage == nullptr ? nullptr : usage->find("completion_tokens");
    if (written != nullptr && written->is_number_integer()) tokens = written->get<int64_t>();
  }
};

}  // namespace

double LoadResult::Quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::lround(q * last))];
}

Json LoadResult::json() const {
  return {{"clients", clients},
          {"seconds", seconds},
          {"requests", requests},
          {"refused", refused},
          {"failed", failed},
          {"different", different},
          {"requests_per_second", static_cast<double>(requests) / seconds},
          {"tokens_per_second", static_cast<double>(tokens) / seconds},
          {"first_token_median_seconds", Quantile(first_token, 0.5)},
          {"first_token_p99_seconds", Quantile(first_token, 0.99)},
          {"between_tokens_median_seconds", Quantile(between_tokens, 0.5)},
          {"between_tokens_p99_seconds", Quantile(between_tokens, 0.99)}};
}

LoadResult LoadGenerator::Run(int clients) {
  LoadResult result{.clients = clients};
  std::mutex mutex;
  std::atomic<size_t> next = 0;
  const double begin = SteadySeconds(), end = begin + options_.seconds;
  const auto ask = [&](HttpClient& client, size_t p) {
    Json body{{"prompt", options_.prompts[p]},
              {"max_tokens", options_.max_tokens},
              {"seed", 1},
              {"temperature", 0.8},
              {"ignore_eos", true},
              {"stream", true},
              {"stream_options", Json{{"include_usage", true}}}};
    if (!options_.model.empty()) body["model"] = options_.model;
    StreamedAnswer answer;
    answer.status = client
                        .Ask("POST", "/v1/completions", body.dump(), {},
                             [&](std::string_view piece) {
                               answer.Take(piece);
                               return true;
                             })
                        .status;
    return answer;
  };
  const auto drive = [&] {
    constexpr double kPatience = 600;  // seconds
    HttpClient client(options_.host, options_.port, kPatience);
    while (SteadySeconds() < end) {
      const size_t p = next++ % options_.prompts.size();
      const double asked = SteadySeconds();
      const StreamedAnswer answer = ask(client, p);
      if (answer.status == 429) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::lock_guard lock(mutex);
      if (answer.status == 429) {
        ++result.refused;
        continue;
      }
      if (answer.status != 200 || !answer.whole) {
        ++result.failed;
        continue;
      }
      ++result.requests;
      result.tokens += answer.tokens;
      result.first_token.push_back(answer.first - asked);
      if (answer.tokens > 1) {
        result.between_tokens.push_back((answer.last - answer.first) /
                                        static_cast<double>(answer.tokens - 1));
      }
      if (known_[p].empty()) known_[p] = answer.text;
      result.different += known_[p] == answer.text ? 0 : 1;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) threads.emplace_back(drive);
  for (std::thread& thread : threads) thread.join();
  result.seconds = SteadySeconds() - begin;
  std::ranges::sort(result.first_token);
  std::ranges::sort(result.between_tokens);
  if (result.requests == 0) {
    throw RuntimeError(fmt::format("{}:{} answered no request", options_.host, options_.port),
                       fmt::format("{} failed, {} were refused", result.failed, result.refused));
  }
  return result;
}

}  // namespace folio
