#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "folio/c/handles.h"
#include "folio/io/json.h"
#include "folio/model/params.h"
#include "folio/model_files/checkpoint.h"
#include "folio/text/chat.h"
#include "folio/text/chat_json.h"

using folio::Guarded;
using folio::Json;
using folio::PathArgument;
using folio::RequireArgument;
using folio::RequireArguments;
using folio::RequireArray;
using folio::TextArgument;

namespace folio {

folio_model* NewModel(std::shared_ptr<const Model> model) {
  std::shared_ptr<const Tokenizer> tokenizer = model->opened().tokenizer;
  return new folio_model{std::move(model), {std::move(tokenizer)}};
}

Json ConfigJson(GptConfig config) {
  Json settings = Json::object();
  for (const Field& field : config.Fields()) {
    settings[field.key] = FieldJson(field);
  }
  return settings;
}

Json ParameterNames(const ParamTable& table) {
  Json names = Json::array();
  for (const ParamInfo& info : table.params()) names.push_back(info.name);
  return names;
}

}  // namespace folio

namespace {

std::vector<folio::ChatMessage> Messages(const char* const* roles, const char* const* texts,
                                         size_t count) {
  if (count == 0) throw folio::UsageError("texts: none", "expected at least one message");
  RequireArray(roles, count, sizeof(*roles), "roles");
  RequireArray(texts, count, sizeof(*texts), "texts");
  std::vector<folio::ChatMessage> messages;
  for (size_t i = 0; i < count; ++i) {
    RequireArgument(roles[i], fmt::format("roles[{}]", i));
    RequireArgument(texts[i], fmt::format("texts[{}]", i));
    const auto role = folio::FindChatRole(roles[i]);
    if (!role) {
      throw folio::UsageError(fmt::format("roles[{}]: unknown role '{}'", i, roles[i]),
                              "expected system, user, assistant or tool");
    }
    messages.push_back({*role, texts[i]});
  }
  return messages;
}

}  // namespace

folio_status folio_model_open(const char* path, const folio_options* options,
                              const folio_watch* watch, folio_model** out, folio_error** error) {
  return Guarded(error, [&] {
    PathArgument(path, "path");
    RequireArgument(out, "out");
    const folio_watch watching = folio::WatchArgument(watch);
    folio_options named = folio::OptionsArgument(options, folio_options::Kind::kOpen);
    named.open.matrices = folio::MatrixDtypeNamed(named.dtype);
    named.open.template_variables = folio::ParseTemplateVariables(named.template_variables);
    named.open.progress = [&](int64_t done, int64_t total) { folio::Tell(watching, done, total); };
    *out = folio::NewModel(std::make_shared<const folio::Model>(path, named.open));
  });
}

folio_status folio_model_info(const folio_model* model, folio_buffer* json, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {json, "json"}});
    const folio::OpenedModel& opened = model->impl->opened();
    const folio::GptConfig& config = model->impl->config();
    json->Set(Json{{"config", folio::ConfigJson(config)},
                   {"parameters", folio::ModelSummary(config).parameters()},
                   {"dtype", folio::MatrixDtypeOf(*opened.weights)},
                   {"path", opened.path.string()},
                   {"note", opened.note},
                   {"tensors", folio::ParameterNames(opened.weights->table())}}
                  .dump());
  });
}

folio_status folio_model_tensor(const folio_model* model, const char* name, folio_tensor* out,
                                folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {name, "name"}});
    const folio::GptWeights& weights = *model->impl->opened().weights;
    const auto tensors = folio::TensorsByName(weights);
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      throw folio::UsageError(fmt::format("there is no parameter '{}'", name), {},
                              "folio_model_info lists them");
    }
    folio::SetTensor(out, model->tensors.Get(name, *found->second, /*changes=*/false));
  });
}

folio_status folio_model_save(const folio_model* model, const char* path, const char* format,
                              const char* dtype, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    PathArgument(path, "path");
    RequireArguments({{format, "format"}, {dtype, "dtype"}});
    model->impl->Save(path, format, dtype);
  });
}

int64_t folio_model_vocab_size(const folio_model* model) {
  return model == nullptr ? 0 : model->impl->config().vocab_size;
}
int64_t folio_model_width(const folio_model* model) {
  return model == nullptr ? 0 : model->impl->config().n_embd;
}
int64_t folio_model_context(const folio_model* model) {
  return model == nullptr ? 0 : model->impl->config().n_positions;
}

const folio_tokenizer* folio_model_tokenizer(const folio_model* model) {
  return model == nullptr || model->tokenizer.impl == nullptr ? nullptr : &model->tokenizer;
}

folio_status folio_model_prompt(const folio_model* model, const char* text, size_t length,
                                folio_buffer* ids, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {ids, "ids"}});
    ids->Set(model->impl->Prompt(TextArgument(text, length)));
  });
}

folio_status folio_model_chat(const folio_model* model, const char* const* roles,
                              const char* const* texts, size_t count, folio_buffer* ids,
                              folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {ids, "ids"}});
    ids->Set(model->impl->Chat({.messages = Messages(roles, texts, count)}));
  });
}

folio_status folio_model_chat_json(const folio_model* model, const char* json, size_t length,
                                   folio_buffer* ids, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {ids, "ids"}});
    const Json conversation = folio::ParseJson(TextArgument(json, length, "json"), "json");
    ids->Set(model->impl->Chat(folio::ReadChatConversation(conversation)));
  });
}

void folio_model_free(folio_model* model) {
  delete model;
}
