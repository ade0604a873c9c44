#include "folio/serve/service.h"

#include <fmt/format.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/hash.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/model_files/config_json.h"
#include "folio/serve/page_files.h"
#include "folio/serve/page_model.h"
#include "folio/serve/request_fields.h"

namespace folio {
namespace {

// Returns an id made of a model's name, configuration and tokenizer, and of the first numbers of
// each of its tensors: no training leaves all of these as they are, and a large model need not be
// read for it.
std::string IdOf(const std::string& name, const OpenedModel& model) {
  constexpr size_t kOfEach = 256;  // bytes
  Hasher hasher;
  const auto add = [&](const std::string& text) { hasher.Add(std::as_bytes(std::span(text))); };
  add(GptConfigToJson(model.weights->config()));
  add(model.tokenizer->hash());
  for (const Tensor& tensor : model.weights->tensors()) {
    const auto block = static_cast<int64_t>(DtypeBlock(tensor.dtype()));
    const size_t bytes = DtypeBytes(tensor.dtype(), block);
    const auto blocks = static_cast<int64_t>((kOfEach + bytes - 1) / bytes);
    const HostCopy first(tensor.First({std::min(tensor.count(), blocks * block)}));
    hasher.Add({first.tensor().host_bytes(), std::min(tensor.bytes(), kOfEach)});
  }
  return fmt::format("{}@{}", name, hasher.Hex().substr(0, 16));
}

// Returns the memory that is free now beside what requests may still take; 0 where that is not
// known.
uint64_t FreeBeside(const MemoryBudget& requests) {
  const uint64_t free = ThisMachinesMemory().available;
  const auto kept = static_cast<uint64_t>(std::max<int64_t>(requests.bytes() - requests.used(), 0));
  return free == 0 ? 0 : free > kept ? free - kept : 1;
}

// A stream that keeps the model that it is written by.
std::shared_ptr<HttpStream> WithModel(std::shared_ptr<ServedModel> model,
                                      std::shared_ptr<HttpStream> stream) {
  struct Both {
    std::shared_ptr<ServedModel> model;
    std::shared_ptr<HttpStream> stream;  // goes first
  };
  HttpStream* const kept = stream.get();
  return {std::make_shared<Both>(Both{std::move(model), std::move(stream)}), kept};
}

ServiceOptions WithMemory(ServiceOptions options) {
  std::shared_ptr<MemoryBudget>& memory = options.limits.memory;
  if (memory == nullptr) {
    memory = std::make_shared<MemoryBudget>(MemoryBudget::DefaultBytes());
  }
  return options;
}

// A large answer has a share of the memory of all until it was sent.
void Hold(const std::shared_ptr<MemoryBudget>& memory, HttpReply& reply) {
  constexpr size_t kSmall = 64 << 10;
  const size_t bytes = reply.body.capacity();
  if (bytes <= kSmall) return;
  reply.held = std::make_shared<MemoryBudget::Share>(memory, static_cast<int64_t>(bytes));
}

// Tokenizes as other servers do: {"content"|"prompt": text} to {"tokens": ids}.
HttpReply AnswerTokens(const Call& call) {
  const ServedModel& model = call.model();
  const std::string key = call.fields.Find("content") != nullptr ? "content" : "prompt";
  const std::vector<int32_t> ids =
      model.tokenizer().Encode(call.fields.Text(key), "'" + key + "'", SpecialRule::Allow());
  HttpReply reply;
  JsonWriter json(reply.body);
  json.BeginObject().Key("tokens").Array(std::span(ids)).Key("count").Value(ids.size());
  json.Key("max_model_len").Value(model.config().n_positions);
  if (call.fields.Flag("with_pieces")) {
    json.Key("pieces").BeginArray();
    for (const int32_t id : ids) json.Text(TokenText(model.tokenizer(), id));
    json.EndArray();
  }
  json.EndObject();
  return reply;
}

HttpReply AnswerTextOfTokens(const Call& call) {
  const ServedModel& model = call.model();
  const Json* tokens = call.fields.Find("tokens");
  const std::vector<int32_t> ids =
      ReadTokenIds(tokens == nullptr ? Json() : *tokens, "tokens", model.config().vocab_size);
  const std::string text = BoundedTextOf(model.tokenizer(), ids, "tokens", call.limits);
  const MemoryBudget::Share memory(call.limits.memory,
                                   kMemoryOfText * static_cast<int64_t>(text.size()));
  HttpReply reply;
  JsonWriter json(reply.body);
  json.BeginObject().Key("content").Text(text).Key("prompt").Text(text).EndObject();
  return reply;
}

// Returns the reply to a request of another method than `method`, the one that an address takes (""
// where it takes all); nothing for a request that fits. Everything may be asked for its options.
std::optional<HttpReply> ReplyToOtherMethod(const HttpRequest& request, std::string_view method) {
  if (request.method == "OPTIONS") return HttpReply{.status = 204};
  const bool head = request.method == "HEAD" && method == "GET";
  if (method.empty() || request.method == method || head) return {};
  HttpReply reply = ApiError(405, fmt::format("this address supports only {}", method)).reply();
  reply.headers.emplace_back("Allow", method);
  return reply;
}

HttpReply AnswerHealth(const Call&) {
  return {.body = R"({"status":"ok"})"};
}

}  // namespace

// An address of the service. "*" stands for a name, "**" for all that follows.
struct Service::Route {
  enum Needs { kNothing, kModel, kModelOrFirst };  // a model that the request names, or one alone

  const char* method;
  std::string_view path;
  HttpReply (Service::*answer)(const Call&);
  Needs needs = kNothing;
  bool open = false;  // to whom has no key

  // Returns true for an address of the route; `names` are those that its stars stand for.
  bool IsAt(std::string_view asked, std::vector<std::string>& names) const {
    names.clear();
    for (std::string_view left = path;;) {
      const size_t star = std::min(left.find('*'), left.size());
      if (!asked.starts_with(left.substr(0, star))) return false;
      asked.remove_prefix(star);
      if (star == left.size()) return asked.empty();
      left.remove_prefix(star + 1);
      const bool all = left == "*";
      const std::string_view name = all ? asked : asked.substr(0, asked.find('/'));
      names.emplace_back(name);
      if (all) return true;
      asked.remove_prefix(name.size());
    }
  }
};

const std::vector<Service::Route>& Service::Routes() {
  using enum Route::Needs;
  using S = Service;
  static const std::vector<Route> routes = {
      {"POST", "/v1/completions", &S::By<AnswerCompletion>, kModel},
      {"POST", "/v1/chat/completions", &S::By<AnswerChat>, kModel},
      {"POST", "/v1/embeddings", &S::By<AnswerEmbedding>, kModel},
      {"POST", "/tokenize", &S::By<AnswerTokens>, kModel},
      {"POST", "/detokenize", &S::By<AnswerTextOfTokens>, kModel},
      {"GET", "/v1/models", &S::ListModels},
      {"GET", "/v1/models/**", &S::ListModels},
      {"GET", "/health", &S::By<AnswerHealth>, kNothing, /*open=*/true},
      {"GET", "/metrics", &S::Metrics},
      {"GET", "/api/info", &S::Info},
      {"GET", "/api/vocab", &S::By<AnswerVocabulary>, kModelOrFirst},
      {"POST", "/api/tokenize", &S::By<AnswerPageTokens>, kModelOrFirst},
      {"POST", "/api/generate", &S::By<AnswerPageText>, kModelOrFirst},
      {"POST", "/api/score", &S::By<AnswerScores>, kModelOrFirst},
      {"POST", "/api/trace", &S::MakeTrace, kModelOrFirst},
      {"GET", "/api/trace/*/thumbs", &S::ByTrace<AnswerThumbs>},
      {"GET", "/api/trace/*/attn/*/*", &S::ByTrace<AnswerHeadMap>},
      {"GET", "/api/trace/*/row", &S::ByTrace<AnswerRow>},
      {"GET", "/api/trace/*/scores", &S::ByTrace<AnswerHeadScores>},
      {"GET", "/api/trace/*/steps", &S::ByTrace<AnswerSteps>},
      {"GET", "/api/trace/*/lens", &S::ByTrace<AnswerLens>},
      {"GET", "/api/trace/*/logits", &S::ByTrace<AnswerLogits>},
      {"GET", "/api/trace/*/tensor/*", &S::ByTrace<AnswerTensor>},
      {"GET", "/api/embed/pca", &S::By<AnswerProjectedTokens>, kModelOrFirst},
      {"GET", "/api/embed/nn", &S::By<AnswerNeighbours>, kModelOrFirst},
      {"GET", "/api/wpe", &S::By<AnswerPositions>, kModelOrFirst},
      {"GET", "/api/runs", &S::ByRuns<&PageRuns::List>},
      {"GET", "/api/runs/*", &S::ByRuns<&PageRuns::One>},
      {"GET", "/api/runs/*/series", &S::ByRuns<&PageRuns::Series>},
      {"GET", "/api/runs/*/samples", &S::ByRuns<&PageRuns::Samples>},
      {"POST", "/api/runs/*/stop", &S::StopRun},
      {"POST", "/api/runs/*/open", &S::OpenRun},
      {"GET", "/api/events", &S::ByRuns<&PageRuns::Events>},
  };
  return routes;
}

Service::Service(ServiceOptions options, std::function<void(const AccessLogEntry&)> log)
    : options_(WithMemory(std::move(options))),
      keys_(std::make_shared<const AccessKeys>(options_.access.keys)),
      log_(std::move(log)),
      traces_(options_.page.traces),
      runs_(options_.page.runs, options_.page.streams, options_.page.version) {}

void Service::Add(const std::string& name, OpenedModel model) {
  if (std::ranges::any_of(AllModels(), [&](const auto& other) { return other->name == name; })) {
    throw UsageError(fmt::format("two models have the name '{}'", name),
                     "requests select a model by its name",
                     "give them names: --model small=DIR --model large=DIR");
  }
  std::shared_ptr<ServedModel> served = MakeServed(name, std::move(model));
  const std::lock_guard lock(models_mutex_);
  models_.push_back(std::move(served));
}

std::shared_ptr<ServedModel> Service::MakeServed(const std::string& name, OpenedModel model) const {
  model.RequireTokenizer();
  auto served = std::make_shared<ServedModel>();
  served->name = name;
  served->id = IdOf(name, model);
  served->model = std::move(model);
  served->created = static_cast<int64_t>(WallSeconds());
  served->scheduler = std::make_unique<Scheduler>(served->model, options_.scheduler);
  served->inspect_backend = MakeBackend(served->model.backend->name());
  served->floats = std::make_unique<FloatCopy>(
      *served->model.weights, served->inspect_backend->memory(), options_.page.traces.seconds,
      [memory = memory()] { return FreeBeside(*memory); });
  return served;
}

Service::Models Service::AllModels() const {
  const std::lock_guard lock(models_mutex_);
  return models_;
}

std::shared_ptr<const AccessKeys> Service::Keys() const {
  const std::lock_guard lock(keys_mutex_);
  return keys_;
}

void Service::SetKeys(AccessKeys keys) {
  auto shared = std::make_shared<const AccessKeys>(std::move(keys));
  const std::lock_guard lock(keys_mutex_);
  keys_.swap(shared);
}

std::string Service::Refused(const std::string& client, int status, const std::string& reason) {
  std::string id = NewRequestId();
  metrics_.AddRequest("refused", status);
  if (log_) {
    log_({.time = LogTime(), .id = id, .client = client, .status = status, .refusal = reason});
  }
  return id;
}

HttpReply Service::Answer(HttpRequest request) {
  const double begin = SteadySeconds();
  request.client =
      ClientAddress(options_.access.proxies, request.client, request.header("X-Forwarded-For"));
  request.id = RequestIdOf(request);
  std::vector<std::string> names;
  const auto route = std::ranges::find_if(
      Routes(), [&](const Route& one) { return one.IsAt(request.path, names); });
  const PageFile* const file = route == Routes().end() ? FindPageFile(request.path) : nullptr;
  HttpReply reply;
  try {
    request.key = CheckAccess(options_.access, *Keys(), request,
                              file != nullptr || (route != Routes().end() && route->open));
    if (file == nullptr && route == Routes().end()) {
      throw ApiError(404, fmt::format("there is nothing at '{}'", request.path.substr(0, 200)));
    }
    reply = file != nullptr ? AnswerPageFile(*file, request) : Dispatch(request, *route, names);
    Hold(options_.limits.memory, reply);
  } catch (const ApiError& error) {
    reply = error.reply();
  } catch (const Error& error) {
    reply = ApiError(error).reply();
  } catch (const std::bad_alloc&) {
    reply = ApiError(503, "not enough memory for this request; try again later").reply();
  } catch (const std::exception& error) {
    LogWarning(fmt::format("{} {}: {} ({})", UrlText(request.method), UrlText(request.path),
                           error.what(), request.id));
    reply = ApiError(500, "the request failed; see the log of the service").reply();
  }
  AddCorsHeaders(options_.access, request, reply);
  reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
  reply.headers.emplace_back("X-Request-Id", request.id);
  constexpr std::string_view kApi = "/api";
  const bool api = request.path == kApi || request.path.starts_with("/api/");
  const std::string endpoint(file != nullptr ? "page"
                             : api           ? kApi
                             : route == Routes().end()
                                 ? "other"
                                 : route->path.substr(0, route->path.find("/*")));
  AccessLogEntry told{.id = request.id,
                      .client = request.client,
                      .key = request.key,
                      .method = UrlText(request.method),
                      .path = UrlText(request.path)};
  auto answered = [this, begin, endpoint, told = std::move(told)](int status) mutable {
    told.status = status;
    told.seconds = SteadySeconds() - begin;
    metrics_.AddRequest(endpoint, told.status, told.key);
    metrics_.whole_request.Add(told.seconds);
    told.time = LogTime();
    if (log_) log_(told);
  };
  if (reply.stream != nullptr) {
    reply.ended = std::move(answered);
  } else {
    answered(reply.status);
  }
  return reply;
}

HttpReply Service::Dispatch(HttpRequest& request, const Route& route,
                            const std::vector<std::string>& names) {
  if (std::optional<HttpReply> reply = ReplyToOtherMethod(request, route.method)) return *reply;
  const RequestFields fields(request, options_.limits);
  if (route.needs == Route::kNothing) {
    return (this->*route.answer)({request, fields, names, nullptr, options_.limits, metrics_});
  }
  const std::shared_ptr<ServedModel> model =
      route.needs == Route::kModel ? ModelAsked(fields.Text("model"))
                                   : ModelNamed(fields.Text("model"), /*or_first=*/true);
  HttpReply reply =
      (this->*route.answer)({request, fields, names, model, options_.limits, metrics_});
  if (reply.stream != nullptr) reply.stream = WithModel(model, std::move(reply.stream));
  if (route.needs == Route::kModel) reply.headers.emplace_back(kModelHeader, UrlText(model->name));
  return reply;
}

// Returns the model for a request of OpenAI's interface. Clients name models of their own, "gpt-4",
// where the service was given one alone; that it answers in its place is said by kModelHeader.
std::shared_ptr<ServedModel> Service::ModelAsked(const std::string& name) const {
  const Models models = AllModels();
  std::vector<std::string> names;
  for (const auto& model : models) {
    if (model->name == name || model->id == name) return model;
    if (!model->of_run) names.push_back(model->name);
  }
  if (names.size() == 1 && (name.empty() || !options_.strict_model_names)) return models.front();
  if (name.empty() && names.size() > 1) {
    throw ApiError(
        400, fmt::format("'model' is missing: this service has the models {}", Join(names, ", ")),
        "model", "model_missing");
  }
  return ModelNamed(name, /*or_first=*/false);
}

// Returns the model of that name or id. The name may be missing where there is one model alone, and
// with `or_first` always.
std::shared_ptr<ServedModel> Service::ModelNamed(const std::string& name, bool or_first) const {
  const Models models = AllModels();
  if (name.empty() && (models.size() == 1 || (or_first && !models.empty()))) {
    return models.front();
  }
  std::vector<std::string> names;
  for (const auto& model : models) {
    if (model->name == name || model->id == name) return model;
    names.push_back(model->name);
  }
  throw ApiError(404,
                 fmt::format("there is no model '{}'; available: {}", name.substr(0, 200),
                             names.empty() ? "none" : Join(names, ", ")),
                 "model", "model_not_found");
}

HttpReply Service::StopRun(const Call& call) {
  runs_.RequireRunning(call.names[0]);
  if (!options_.page.stop_training) {
    throw ApiError(409,
                   "this run is trained by another process: press Ctrl-C there, or open the page "
                   "of folio train --serve",
                   "", "not_own_run");
  }
  options_.page.stop_training();
  return {.status = 202, .body = Json{{"run", call.names[0]}, {"stopping", true}}.dump()};
}

HttpReply Service::OpenRun(const Call& call) {
  try {
    return OpenCheckpoint(call);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kResource) throw;
    // Its message names paths, which a client must not see.
    LogWarning(fmt::format("{}: {}", error.what(), error.cause()));
    throw ApiError(500,
                   fmt::format("cannot open the checkpoint of run '{}'; see the log of the service",
                               call.names[0]),
                   "", "bad_checkpoint");
  }
}

HttpReply Service::OpenCheckpoint(const Call& call) {
  constexpr size_t kMostOfRuns = 4;
  const std::lock_guard opening(opening_);  // one at a time
  const auto [checkpoint, step] = runs_.NewestCheckpoint(call.names[0]);
  const std::string of_run = call.names[0] + "@", name = fmt::format("{}{}", of_run, step);
  const Models models = AllModels();
  const auto known =
      std::ranges::find_if(models, [&](const auto& one) { return one->name == name; });
  const std::shared_ptr<ServedModel> served =
      known != models.end()
          ? *known
          : MakeServed(name, OpenModel(checkpoint, {.matrices = {.as_stored = true}}));
  if (known == models.end()) {
    served->of_run = true;
    const std::lock_guard lock(models_mutex_);
    // An earlier checkpoint of the run makes room, as the oldest of many does.
    auto gone = std::ranges::find_if(
        of_runs_, [&](const auto& model) { return model->name.starts_with(of_run); });
    if (gone == of_runs_.end() && of_runs_.size() == kMostOfRuns) gone = of_runs_.begin();
    if (gone != of_runs_.end()) {
      std::erase(models_, *gone);
      of_runs_.erase(gone);
    }
    models_.push_back(served);
    of_runs_.push_back(served);
  }
  return {.body = Json{{"model", served->name}, {"id", served->id}, {"step", step}}.dump()};
}

HttpReply Service::ListModels(const Call& call) {
  const auto json = [](const ServedModel& model) {
    return Json{{"id", model.name},
                {"object", "model"},
                {"created", model.created},
                {"owned_by", "folio"},
                {"max_model_len", model.config().n_positions}};
  };
  if (!call.names.empty() && !call.names[0].empty()) {
    return {.body = json(*ModelNamed(call.names[0], false)).dump()};
  }
  Json data = Json::array();
  for (const auto& model : AllModels()) data.push_back(json(*model));
  return {.body = Json{{"object", "list"}, {"data", data}}.dump()};
}

HttpReply Service::Info(const Call& call) {
  Json names = Json::array(), features = Json::array();
  Json sampling = GenerationFieldsOf({}), chat_sampling;
  const Models models = AllModels();
  for (const auto& model : models) names.push_back(model->name);
  const PageOptions& page = options_.page;
  Json json{{"version", page.version}, {"build", page.build}, {"model", nullptr}};
  if (!models.empty()) {
    const auto named = ModelNamed(call.fields.Text("model"), /*or_first=*/true);
    const ServedModel& model = *named;
    json["backend"] = model.inspect_backend->description();
    json["model"] = PageModelJson(model);
    sampling = GenerationFieldsOf(DefaultGeneration(model.model, Writing::kText));
    if (model.config().causal) features.push_back("generate");
    if (model.config().causal && model.model.FindChat()) {
      features.push_back("chat");
      chat_sampling = GenerationFieldsOf(DefaultGeneration(model.model, Writing::kAnswer));
    }
    for (const char* feature : {"score", "trace", "embed"}) features.push_back(feature);
  }
  if (!runs_.empty()) features.push_back("runs");
  if (page.stop_training) features.push_back("stop");
  json.update({{"models", names},
               {"sampling", sampling},
               {"chat_sampling", chat_sampling},
               {"limits", Json{{"traces", page.traces.traces},
                               {"trace_bytes", page.traces.bytes},
                               {"trace_seconds", page.traces.seconds},
                               {"score_tokens", kMostScoredTokens},
                               {"top", kMostPageTop},
                               {"events", page.streams}}},
               {"features", features}});
  return {.body = json.dump()};
}

HttpReply Service::Metrics(const Call&) {
  int64_t running = 0, waiting = 0, slots = 0, queue = 0, cache = 0, used = 0, floats = 0;
  for (const auto& model : AllModels()) {
    floats += static_cast<int64_t>(model->floats->used_bytes());
    running += model->scheduler->running();
    waiting += model->scheduler->waiting();
    slots += model->scheduler->options().slots;
    queue += model->scheduler->options().queue;
    cache += model->scheduler->cache_bytes();
    used += model->scheduler->used_cache_bytes();
  }
  const auto gauge = [](const char* name, const char* help, int64_t value) {
    return ServiceMetrics::Gauge{name, help, static_cast<double>(value)};
  };
  return {.type = "text/plain; version=0.0.4",
          .body = metrics_.Text(
              {gauge("texts_running", "texts being generated", running),
               gauge("texts_waiting", "texts waiting for a slot", waiting),
               gauge("slots", "maximum number of texts generated at once", slots),
               gauge("queue", "maximum number of waiting texts", queue),
               gauge("cache_bytes", "maximum bytes of keys and values", cache),
               gauge("cache_used_bytes", "bytes of keys and values in use by running texts", used),
               gauge("float_copy_bytes", "bytes of float32 copies of models", floats),
               gauge("request_memory_bytes", "maximum bytes of all requests",
                     options_.limits.memory->bytes()),
               gauge("request_memory_used_bytes", "bytes in use by requests",
                     options_.limits.memory->used())})};
}

namespace {

std::string Url(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

// Bodies that come and requests that are answered share one budget of memory.
HttpLimits WithMemory(HttpLimits limits, const std::shared_ptr<MemoryBudget>& memory) {
  limits.memory = memory;
  return limits;
}

}  // namespace

// Returns freed memory to the system: large pieces at once, and of the others, which the allocator
// keeps for each group of threads, a few. Else what requests had stays in each group that one of
// their threads is in.
void ReturnFreedMemory() {
#if defined(__GLIBC__)
  constexpr int kLarge = 128 << 10, kKept = 1 << 20, kGroups = 2;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, kKept);
  mallopt(M_ARENA_MAX, kGroups);
#endif
}

BackgroundServer::BackgroundServer(Service& service, const std::string& host, int port,
                                   const HttpLimits& limits)
    : server_([&service](HttpRequest request) { return service.Answer(std::move(request)); },
              WithMemory(limits, service.memory()),
              [&service](const std::string& client, int status, const std::string& reason) {
                return service.Refused(client, status, reason);
              }),
      port_(server_.Bind(host, port)),
      url_(Url(host, port_)) {}

BackgroundServer::~BackgroundServer() {
  Stop();
}

void BackgroundServer::Begin() {
  thread_ = std::thread([this] { server_.Serve(); });
}

void BackgroundServer::Stop() {
  server_.Stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace folio
