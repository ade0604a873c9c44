#include "folio/serve/page_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "folio/base/strings.h"
#include "folio/serve/api_error.h"
#include "folio/serve/generation_fields.h"
#include "folio/serve/page_model.h"
#include "folio/text/chat.h"

namespace folio {

// An Endpoint answers the requests for an address. "*" stands for any name; `below`: for any names
// that follow.
struct PageApi::Endpoint {
  const char* method;
  Path path;
  HttpReply (PageApi::*answer)(const HttpRequest&, const Path&);
  bool below = false;

  bool IsAt(const Path& asked) const {
    if (asked.size() < path.size() || (asked.size() > path.size() && !below)) return false;
    return std::ranges::equal(path, std::span(asked).first(path.size()),
                              [](const auto& a, const auto& b) { return a == "*" || a == b; });
  }
};

const std::vector<PageApi::Endpoint>& PageApi::Endpoints() {
  static const std::vector<Endpoint> endpoints = {
      {"GET", {"info"}, &PageApi::Info},
      {"GET", {"vocab"}, &PageApi::Vocabulary},
      {"POST", {"tokenize"}, &PageApi::Tokenize},
      {"POST", {"generate"}, &PageApi::Generate},
      {"POST", {"score"}, &PageApi::Score},
      {"POST", {"trace"}, &PageApi::MakeTrace},
      {"GET", {"trace", "*"}, &PageApi::ReadTrace, /*below=*/true},
      {"GET", {"embed", "pca"}, &PageApi::Projected},
      {"GET", {"embed", "nn"}, &PageApi::Neighbours},
      {"GET", {"wpe"}, &PageApi::Positions},
      {"GET", {"runs"}, &PageApi::Runs},
      {"GET", {"runs", "*"}, &PageApi::Run},
      {"GET", {"runs", "*", "series"}, &PageApi::RunSeries},
      {"GET", {"runs", "*", "samples"}, &PageApi::RunSamples},
      {"GET", {"events"}, &PageApi::Events},
  };
  return endpoints;
}

PageApi::PageApi(const PageOptions& options, const AnswerLimits& limits, const Models& models,
                 ServiceMetrics& metrics)
    : options_(options),
      limits_(limits),
      models_(models),
      metrics_(metrics),
      traces_(options.traces),
      runs_({.directories = options.runs, .streams = options.streams, .version = options.version}) {
}

HttpReply PageApi::Answer(const HttpRequest& request) {
  constexpr std::string_view kRoot = "/api/";
  const Path path = Split(request.path.substr(std::min(kRoot.size(), request.path.size())), '/');
  const auto found = std::ranges::find_if(
      Endpoints(), [&](const Endpoint& endpoint) { return endpoint.IsAt(path); });
  if (found == Endpoints().end()) {
    throw ApiError(404, fmt::format("there is nothing at '{}'", request.path.substr(0, 200)));
  }
  if (std::optional<HttpReply> reply = ReplyToOtherMethod(request, found->method)) return *reply;
  return (this->*found->answer)(request, path);
}

ServedModel& PageApi::ModelNamed(const std::string& name) const {
  if (models_.empty()) throw ApiError(404, "this service has no model", "", "model_not_found");
  if (name.empty()) return *models_.front();
  const auto found = std::ranges::find_if(
      models_, [&](const auto& model) { return model->name == name || model->id == name; });
  if (found != models_.end()) return **found;
  throw ApiError(404, fmt::format("there is no model '{}'", name.substr(0, 200)), "model",
                 "model_not_found");
}

ServedModel& PageApi::ModelOf(const HttpRequest& request) const {
  return ModelNamed(request.parameter("model"));
}

ServedModel& PageApi::ModelOf(const RequestFields& fields) const {
  return ModelNamed(fields.Text("model"));
}

HttpReply PageApi::Info(const HttpRequest& request, const Path&) {
  Json names = Json::array(), features = Json::array();
  for (const auto& model : models_) names.push_back(model->name);
  Json json{{"version", options_.version}, {"build", options_.build}, {"model", nullptr}};
  if (!models_.empty()) {
    const ServedModel& model = ModelOf(request);
    json["backend"] = model.inspect_backend->description();
    json["model"] = PageModelJson(model);
    if (model.config().causal) features.push_back("generate");
    if (model.config().causal && FindChatFormat(model.tokenizer())) features.push_back("chat");
    if (MatrixDtypeOf(*model.model.weights) == "fp32") {
      for (const char* feature : {"score", "trace", "embed"}) features.push_back(feature);
    }
  }
  if (!runs_.empty()) features.push_back("runs");
  const TraceLimits& traces = traces_.limits();
  json["models"] = names;
  json["sampling"] = GenerationDefaults();
  json["limits"] = {{"traces", traces.traces},
                    {"trace_bytes", traces.bytes},
                    {"trace_seconds", traces.seconds},
                    {"score_tokens", kMostScoredTokens},
                    {"top", kMostPageTop},
                    {"events", runs_.streams()}};
  json["features"] = features;
  return {.body = json.dump()};
}

HttpReply PageApi::Vocabulary(const HttpRequest& request, const Path&) {
  return AnswerVocabulary(ModelOf(request), request);
}

HttpReply PageApi::Tokenize(const HttpRequest& request, const Path&) {
  const RequestFields fields(request.body, limits_);
  return AnswerPageTokens(ModelOf(fields), fields);
}

HttpReply PageApi::Generate(const HttpRequest& request, const Path&) {
  const RequestFields fields(request.body, limits_);
  return AnswerPageText(ModelOf(fields), fields, request, limits_, metrics_);
}

HttpReply PageApi::Score(const HttpRequest& request, const Path&) {
  const RequestFields fields(request.body, limits_);
  return AnswerScores(ModelOf(fields), fields, limits_);
}

HttpReply PageApi::MakeTrace(const HttpRequest& request, const Path&) {
  const RequestFields fields(request.body, limits_);
  return traces_.Make(ModelOf(fields), fields);
}

HttpReply PageApi::ReadTrace(const HttpRequest& request, const Path& path) {
  return traces_.Answer({path.begin() + 1, path.end()}, request);
}

HttpReply PageApi::Projected(const HttpRequest& request, const Path&) {
  return embeddings_.Projected(ModelOf(request), request);
}

HttpReply PageApi::Neighbours(const HttpRequest& request, const Path&) {
  return AnswerNeighbours(ModelOf(request), request);
}

HttpReply PageApi::Positions(const HttpRequest& request, const Path&) {
  return AnswerPositions(ModelOf(request), request);
}

HttpReply PageApi::Runs(const HttpRequest&, const Path&) {
  return runs_.List();
}

HttpReply PageApi::Run(const HttpRequest&, const Path& path) {
  return runs_.One(path[1]);
}

HttpReply PageApi::RunSeries(const HttpRequest& request, const Path& path) {
  return runs_.Series(path[1], request);
}

HttpReply PageApi::RunSamples(const HttpRequest&, const Path& path) {
  return runs_.Samples(path[1]);
}

HttpReply PageApi::Events(const HttpRequest& request, const Path&) {
  return runs_.Events(request);
}

}  // namespace folio
