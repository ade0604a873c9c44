#include "folio/serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/hash.h"
#include "folio/base/log.h"
#include "folio/base/strings.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/serve/api_error.h"
#include "folio/serve/embeddings.h"
#include "folio/serve/generation_fields.h"
#include "folio/serve/page_files.h"

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
    hasher.Add({tensor.raw(), std::min(tensor.bytes(), kOfEach)});
  }
  return fmt::format("{}@{}", name, hasher.Hex().substr(0, 16));
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

}  // namespace

// An address of the service. No method: the answer looks at that.
struct Service::Route {
  const char *method, *path;
  HttpReply (Service::*answer)(const HttpRequest&);
  bool open = false;   // to whom has no key
  bool below = false;  // and whatever begins with it
};

const std::vector<Service::Route>& Service::Routes() {
  static const std::vector<Route> routes = {
      {"POST", "/v1/completions", &Service::Completion},
      {"POST", "/v1/chat/completions", &Service::Chat},
      {"POST", "/v1/embeddings", &Service::Embedding},
      {"POST", "/tokenize", &Service::Tokenize},
      {"POST", "/detokenize", &Service::Detokenize},
      {"GET", "/v1/models", &Service::Models, false, true},
      {"GET", "/health", &Service::Health, true},
      {"GET", "/metrics", &Service::Metrics},
      {"", "/api", &Service::Page, false, true},
  };
  return routes;
}

Service::Service(ServiceOptions options, std::function<void(const AccessLogEntry&)> log)
    : options_(WithMemory(std::move(options))),
      keys_(std::make_shared<const AccessKeys>(options_.access.keys)),
      log_(std::move(log)),
      page_(options_.page, options_.limits, models_, metrics_) {}

void Service::Add(const std::string& name, OpenedModel model) {
  if (std::ranges::any_of(models_, [&](const auto& other) { return other->name == name; })) {
    throw UsageError(fmt::format("two models are called '{}'", name),
                     "a request says by its name which it is for",
                     "name them: --model small=DIR --model large=DIR");
  }
  model.RequireTokenizer();
  auto served = std::make_unique<ServedModel>();
  served->name = name;
  served->id = IdOf(name, model);
  served->model = std::move(model);
  served->created = static_cast<int64_t>(WallSeconds());
  served->scheduler = std::make_unique<Scheduler>(served->model, options_.scheduler);
  served->inspect_backend = MakeBackend(served->model.backend->name());
  models_.push_back(std::move(served));
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
  const auto is_at = [&](const Route& route) {
    return request.path == route.path ||
           (route.below && request.path.starts_with(std::string(route.path) + "/"));
  };
  const auto route = std::ranges::find_if(Routes(), is_at);
  const PageFile* const file = route == Routes().end() ? FindPageFile(request.path) : nullptr;
  HttpReply reply;
  try {
    request.key = CheckAccess(options_.access, *Keys(), request,
                              file != nullptr || (route != Routes().end() && route->open));
    if (file == nullptr && route == Routes().end()) {
      throw ApiError(404, fmt::format("there is nothing at '{}'", request.path.substr(0, 200)));
    }
    reply = file != nullptr ? AnswerPageFile(*file, request) : Dispatch(request, *route);
    Hold(options_.limits.memory, reply);
  } catch (const ApiError& error) {
    reply = error.reply();
  } catch (const Error& error) {
    reply = ApiError(error).reply();
  } catch (const std::bad_alloc&) {
    reply = ApiError(503, "not enough memory for this request now").reply();
  } catch (const std::exception& error) {
    LogWarning(fmt::format("{} {}: {} ({})", UrlText(request.method), UrlText(request.path),
                           error.what(), request.id));
    reply = ApiError(500, "the request failed; the log says why").reply();
  }
  AddCorsHeaders(options_.access, request, reply);
  reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
  reply.headers.emplace_back("X-Request-Id", request.id);
  const std::string endpoint = file != nullptr           ? "page"
                               : route == Routes().end() ? "other"
                                                         : route->path;
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

HttpReply Service::Dispatch(const HttpRequest& request, const Route& route) {
  if (std::optional<HttpReply> reply = ReplyToOtherMethod(request, route.method)) return *reply;
  return (this->*route.answer)(request);
}

// The one that the request names; where there is one alone it need not.
ServedModel& Service::ModelOf(const RequestFields& fields) {
  const std::string name = fields.Text("model");
  if (name.empty() && models_.size() == 1) return *models_.front();
  for (const auto& model : models_) {
    if (model->name == name) return *model;
  }
  std::vector<std::string> names;
  for (const auto& model : models_) names.push_back(model->name);
  throw ApiError(404,
                 fmt::format("there is no model '{}'; this service has: {}", name.substr(0, 200),
                             names.empty() ? "none" : Join(names, ", ")),
                 "model", "model_not_found");
}

HttpReply Service::Models(const HttpRequest& request) {
  const auto json = [](const ServedModel& model) {
    return Json{{"id", model.name},
                {"object", "model"},
                {"created", model.created},
                {"owned_by", "folio"},
                {"max_model_len", model.config().n_positions}};
  };
  constexpr std::string_view kList = "/v1/models";
  if (request.path.size() > kList.size() + 1) {
    const std::string name = request.path.substr(kList.size() + 1);
    for (const auto& model : models_) {
      if (model->name == name) return {.body = json(*model).dump()};
    }
    throw ApiError(404, fmt::format("there is no model '{}'", name.substr(0, 200)), "model",
                   "model_not_found");
  }
  Json data = Json::array();
  for (const auto& model : models_) data.push_back(json(*model));
  return {.body = Json{{"object", "list"}, {"data", data}}.dump()};
}

HttpReply Service::Completion(const HttpRequest& request) {
  const RequestFields fields(request.body, options_.limits);
  return AnswerCompletion(ModelOf(fields), fields, request, options_.limits, metrics_);
}

HttpReply Service::Chat(const HttpRequest& request) {
  const RequestFields fields(request.body, options_.limits);
  return AnswerChat(ModelOf(fields), fields, request, options_.limits, metrics_);
}

HttpReply Service::Embedding(const HttpRequest& request) {
  const RequestFields fields(request.body, options_.limits);
  return AnswerEmbedding(ModelOf(fields), fields, request, options_.limits, metrics_);
}

// Tokenizes as other servers do: {"content"|"prompt": text} to {"tokens": ids}.
HttpReply Service::Tokenize(const HttpRequest& request) {
  const RequestFields fields(request.body, options_.limits);
  const ServedModel& model = ModelOf(fields);
  const std::string key = fields.Find("content") != nullptr ? "content" : "prompt";
  const std::vector<int32_t> ids =
      model.tokenizer().Encode(fields.Text(key), "'" + key + "'", SpecialRule::Allow());
  HttpReply reply;
  JsonWriter json(reply.body);
  json.BeginObject().Key("tokens").Array(std::span(ids)).Key("count").Value(ids.size());
  json.Key("max_model_len").Value(model.config().n_positions);
  if (fields.Flag("with_pieces")) {
    json.Key("pieces").BeginArray();
    for (const int32_t id : ids) json.Text(TokenText(model.tokenizer(), id));
    json.EndArray();
  }
  json.EndObject();
  return reply;
}

HttpReply Service::Detokenize(const HttpRequest& request) {
  const RequestFields fields(request.body, options_.limits);
  const ServedModel& model = ModelOf(fields);
  const Json* tokens = fields.Find("tokens");
  const std::vector<int32_t> ids =
      ReadTokenIds(tokens == nullptr ? Json() : *tokens, "tokens", model.config().vocab_size);
  const std::string text = BoundedTextOf(model.tokenizer(), ids, "tokens", options_.limits);
  const MemoryBudget::Share memory(options_.limits.memory,
                                   kMemoryOfText * static_cast<int64_t>(text.size()));
  HttpReply reply;
  JsonWriter(reply.body)
      .BeginObject()
      .Key("content")
      .Text(text)
      .Key("prompt")
      .Text(text)
      .EndObject();
  return reply;
}

HttpReply Service::Page(const HttpRequest& request) {
  return page_.Answer(request);
}

HttpReply Service::Health(const HttpRequest&) {
  return {.body = R"({"status":"ok"})"};
}

HttpReply Service::Metrics(const HttpRequest&) {
  int64_t running = 0, waiting = 0, slots = 0, queue = 0, cache = 0, used = 0;
  for (const auto& model : models_) {
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
          .body = metrics_.Text({gauge("texts_running", "texts that are written", running),
                                 gauge("texts_waiting", "texts that wait for a slot", waiting),
                                 gauge("slots", "texts that can be written at once", slots),
                                 gauge("queue", "texts that may wait", queue),
                                 gauge("cache_bytes", "of keys and values, at most", cache),
                                 gauge("cache_used_bytes", "of these, by running texts", used),
                                 gauge("request_memory_bytes", "of all requests, at most",
                                       options_.limits.memory->bytes()),
                                 gauge("request_memory_used_bytes", "of these, by requests now",
                                       options_.limits.memory->used())})};
}

}  // namespace folio
