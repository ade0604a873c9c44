#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "folio/serve/completions.h"
#include "folio/serve/http.h"
#include "folio/serve/page_embeddings.h"
#include "folio/serve/page_runs.h"
#include "folio/serve/page_trace.h"
#include "folio/serve/served_model.h"
#include "folio/serve/service_metrics.h"

namespace folio {

struct PageOptions {
  std::string version = {}, build = {};  // of the program, as the page shows them
  TraceLimits traces = {};
  std::vector<std::filesystem::path> runs = {};  // directories in which runs are
  int64_t streams = 32;                          // of events, at a time
};

// The data behind the page of `folio serve`, below /api/: web/API.md has every address of it, with
// an example of each.
class PageApi {
 public:
  using Models = std::vector<std::unique_ptr<ServedModel>>;

  // `models`, to which some may be added before the first request, and `metrics` must outlive it.
  PageApi(const PageOptions& options, const AnswerLimits& limits, const Models& models,
          ServiceMetrics& metrics);

  // Answers a request, for many threads at once. Throws an ApiError.
  HttpReply Answer(const HttpRequest& request);

 private:
  struct Endpoint;
  static const std::vector<Endpoint>& Endpoints();
  using Path = std::vector<std::string>;  // the names behind /api/

  // The one of that name or id, the first for "".
  ServedModel& ModelNamed(const std::string& name) const;
  ServedModel& ModelOf(const HttpRequest& request) const;
  ServedModel& ModelOf(const RequestFields& fields) const;

  HttpReply Info(const HttpRequest& request, const Path& path);
  HttpReply Vocabulary(const HttpRequest& request, const Path& path);
  HttpReply Tokenize(const HttpRequest& request, const Path& path);
  HttpReply Generate(const HttpRequest& request, const Path& path);
  HttpReply Score(const HttpRequest& request, const Path& path);
  HttpReply MakeTrace(const HttpRequest& request, const Path& path);
  HttpReply ReadTrace(const HttpRequest& request, const Path& path);
  HttpReply Projected(const HttpRequest& request, const Path& path);
  HttpReply Neighbours(const HttpRequest& request, const Path& path);
  HttpReply Positions(const HttpRequest& request, const Path& path);
  HttpReply Runs(const HttpRequest& request, const Path& path);
  HttpReply Run(const HttpRequest& request, const Path& path);
  HttpReply RunSeries(const HttpRequest& request, const Path& path);
  HttpReply RunSamples(const HttpRequest& request, const Path& path);
  HttpReply Events(const HttpRequest& request, const Path& path);

  PageOptions options_;
  AnswerLimits limits_;
  const Models& models_;
  ServiceMetrics& metrics_;
  PageTraces traces_;
  PageEmbeddings embeddings_;
  PageRuns runs_;
};

}  // namespace folio
