#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "folio/serve/access.h"
#include "folio/serve/access_log.h"
#include "folio/serve/completions.h"
#include "folio/serve/http.h"
#include "folio/serve/http_server.h"
#include "folio/serve/page_runs.h"
#include "folio/serve/page_trace.h"
#include "folio/serve/scheduler.h"

namespace folio {

struct PageOptions {
  std::string version = {}, build = {};  // of the program, as the page shows them
  TraceLimits traces = {};
  // Stops the training of `runs`, and saves it, where this process trains them; may be called
  // again.
  std::function<void()> stop_training = {};
  std::vector<std::filesystem::path> runs = {};  // directories in which runs are
  int64_t streams = 32;                          // of events, at a time
};

struct ServiceOptions {
  Scheduler::Options scheduler = {};  // of each model
  AnswerLimits limits = {};
  AccessRules access = {};
  PageOptions page = {};
  // Requests for an unknown model are refused even if there is only one model.
  bool strict_model_names = false;
};

// A Service answers what `folio serve` is asked: OpenAI's interface below /v1/, /tokenize,
// /detokenize, /health, /metrics, the page at / and, below /api/, its data: web/API.md has every
// address of it, with an example of each. Errors have OpenAI's form. The cost of one request is
// bounded (AnswerLimits, Scheduler), and no file is ever named by one.
class Service {
 public:
  // `log` is called by many threads. Throws a kUsage Error for two models of one name.
  Service(ServiceOptions options, std::function<void(const AccessLogEntry&)> log);

  // Adds a model, before the first request. Throws a kInput Error for a model without a tokenizer.
  void Add(const std::string& name, OpenedModel model);

  // Answers a request of HttpServer, for many threads at once. Every answer has an X-Request-Id.
  HttpReply Answer(HttpRequest request);
  // Counts and logs a request that HTTP itself refused, for this reason. Returns the X-Request-Id
  // of its answer.
  std::string Refused(const std::string& client, int status, const std::string& reason);

  // Replaces the keys, at any time; without any, all requests that need a key are refused.
  // REQUIRES: it began with keys.
  void SetKeys(AccessKeys keys);

  const ServiceMetrics& metrics() const { return metrics_; }
  // All requests share this budget.
  const std::shared_ptr<MemoryBudget>& memory() const { return options_.limits.memory; }

 private:
  struct Route;
  static const std::vector<Route>& Routes();

  std::shared_ptr<const AccessKeys> Keys() const;
  HttpReply Dispatch(HttpRequest& request, const Route& route,
                     const std::vector<std::string>& names);
  using Models = std::vector<std::shared_ptr<ServedModel>>;
  Models AllModels() const;
  std::shared_ptr<ServedModel> ModelAsked(const std::string& name) const;
  std::shared_ptr<ServedModel> ModelNamed(const std::string& name, bool or_first) const;
  std::shared_ptr<ServedModel> MakeServed(const std::string& name, OpenedModel model) const;

  // The function that a route calls: a plain one, one of the runs, or one that reads a trace.
  template <HttpReply (*answer)(const Call&)>
  HttpReply By(const Call& call) {
    return answer(call);
  }
  template <HttpReply (PageRuns::*answer)(const Call&)>
  HttpReply ByRuns(const Call& call) {
    return (runs_.*answer)(call);
  }
  template <HttpReply (*answer)(PageTrace&, const Call&)>
  HttpReply ByTrace(const Call& call) {
    return traces_.Read(call, answer);
  }
  HttpReply MakeTrace(const Call& call) { return traces_.Make(call); }
  HttpReply StopRun(const Call& call);
  HttpReply OpenRun(const Call& call);
  HttpReply OpenCheckpoint(const Call& call);
  HttpReply ListModels(const Call& call);
  HttpReply Metrics(const Call& call);
  HttpReply Info(const Call& call);

  ServiceOptions options_;
  mutable std::mutex keys_mutex_;
  std::shared_ptr<const AccessKeys> keys_;
  std::function<void(const AccessLogEntry&)> log_;
  ServiceMetrics metrics_;
  mutable std::mutex models_mutex_;
  Models models_;
  Models of_runs_;      // those of `models_` that OpenRun opened, the newest last
  std::mutex opening_;  // held while a run is opened
  PageTraces traces_;
  PageRuns runs_;
};

// Makes this process return freed memory to the system, for programs that serve. To be called
// before there are other threads.
void ReturnFreedMemory();

// A service that answers at an address, on threads of its own, until it is stopped.
class BackgroundServer {
 public:
  // Binds the address; clients that connect wait until Begin. `service` must outlive it. Throws as
  // HttpServer::Bind.
  BackgroundServer(Service& service, const std::string& host, int port,
                   const HttpLimits& limits = {});
  ~BackgroundServer();  // stops
  BackgroundServer(const BackgroundServer&) = delete;

  int port() const { return port_; }
  const std::string& url() const { return url_; }  // "http://127.0.0.1:8080"
  int connections() const { return server_.connections(); }

  // Starts to answer.
  void Begin();
  // Takes no more requests, and returns when those that run have ended.
  void Stop();

 private:
  HttpServer server_;
  int port_;
  std::string url_;
  std::thread thread_;
};

}  // namespace folio
