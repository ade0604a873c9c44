#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "folio/serve/access.h"
#include "folio/serve/access_log.h"
#include "folio/serve/completions.h"
#include "folio/serve/http.h"
#include "folio/serve/page_api.h"
#include "folio/serve/served_model.h"
#include "folio/serve/service_metrics.h"

namespace folio {

struct ServiceOptions {
  Scheduler::Options scheduler = {};  // of each model
  AnswerLimits limits = {};
  AccessRules access = {};
  PageOptions page = {};
};

// A Service answers what `folio serve` is asked:
//   POST /v1/completions /v1/chat/completions /v1/embeddings /tokenize /detokenize
//   GET  /v1/models /v1/models/NAME /health /metrics
//   /api/...  the data behind its page (PageApi), and / and the other files of that
// Errors have OpenAI's form. The cost of one request is bounded (AnswerLimits, Scheduler), and no
// file is ever named by one.
class Service {
 public:
  // `log` is called by many threads. Throws a kUsage Error for two models of one name.
  Service(ServiceOptions options, std::function<void(const AccessLogEntry&)> log);

  // Adds a model, before the first request. Throws a kInput Error for a model without a tokenizer.
  void Add(const std::string& name, OpenedModel model);

  // Answers a request of HttpServer, for many threads at once. Every answer has an X-Request-Id.
  HttpReply Answer(HttpRequest request);
  // Does the same for what HTTP itself refused, for a `reason` in our own words: it is counted and
  // logged. Returns the X-Request-Id of its answer.
  std::string Refused(const std::string& client, int status, const std::string& reason);

  // These open the service from now on, and no others; at any time. REQUIRES: it has keys.
  void SetKeys(AccessKeys keys);

  const ServiceMetrics& metrics() const { return metrics_; }
  // All requests share this budget.
  const std::shared_ptr<MemoryBudget>& memory() const { return options_.limits.memory; }

 private:
  struct Route;
  static const std::vector<Route>& Routes();

  std::shared_ptr<const AccessKeys> Keys() const;
  HttpReply Dispatch(const HttpRequest& request, const Route& route);
  ServedModel& ModelOf(const RequestFields& fields);

  HttpReply Models(const HttpRequest& request);
  HttpReply Completion(const HttpRequest& request);
  HttpReply Chat(const HttpRequest& request);
  HttpReply Embedding(const HttpRequest& request);
  HttpReply Tokenize(const HttpRequest& request);
  HttpReply Detokenize(const HttpRequest& request);
  HttpReply Health(const HttpRequest& request);
  HttpReply Metrics(const HttpRequest& request);
  HttpReply Page(const HttpRequest& request);

  ServiceOptions options_;
  mutable std::mutex keys_mutex_;
  std::shared_ptr<const AccessKeys> keys_;
  std::function<void(const AccessLogEntry&)> log_;
  ServiceMetrics metrics_;
  std::vector<std::unique_ptr<ServedModel>> models_;
  PageApi page_;
};

}  // namespace folio
