#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "folio/c/handles.h"
#include "folio/infer/text_streamer.h"
#include "folio/io/json.h"
#include "folio/model/params.h"
#include "folio/text/chat.h"
#include "folio/text/chat_encoder.h"

using folio::Guarded;
using folio::Json;
using folio::RequireArgument;
using folio::TextArgument;

namespace folio {

FinishReason SharedModel::Run(TextRequest request, const folio_cancel* cancel) {
  const Computing alone(*this);
  if (texts == nullptr) texts = std::make_unique<DecodeBatch>(*opened.backend, *opened.weights);
  FinishReason reason = FinishReason::kCancelled;
  request.on_end = [&](FinishReason of, const GenerateStats&) { reason = of; };
  const DecodeBatch::Id id = texts->Add(std::move(request));
  try {
    do {
      if (IsRequested(cancel)) texts->Cancel(id);
    } while (texts->Step());
  } catch (...) {  // nothing is to be asked of it any more
    texts.reset();
    throw;
  }
  return reason;
}

}  // namespace folio

namespace {

// A value of a configuration as JSON: what its text says.
Json ValueOf(const folio::Field& field) {
  return std::visit([](const auto* value) -> Json { return Json(*value); }, field.value);
}

std::vector<folio::ChatMessage> Messages(const char* const* roles, const char* const* texts,
                                         size_t count) {
  if (count == 0) throw folio::UsageError("a conversation of no messages");
  RequireArgument(roles, "roles");
  RequireArgument(texts, "texts");
  std::vector<folio::ChatMessage> messages;
  for (size_t i = 0; i < count; ++i) {
    RequireArgument(roles[i], fmt::format("roles[{}]", i));
    RequireArgument(texts[i], fmt::format("texts[{}]", i));
    const auto role = folio::FindChatRole(roles[i]);
    if (!role) {
      throw folio::UsageError(fmt::format("roles[{}]: no role '{}'", i, roles[i]),
                              "expected system, user or assistant");
    }
    messages.push_back({*role, texts[i]});
  }
  return messages;
}

}  // namespace

folio_status folio_model_open(const char* path, const folio_options* options, folio_model** out,
                              folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(path, "path");
    RequireArgument(out, "out");
    folio_options named = folio::OptionsArgument(options, folio_options::Kind::kOpen);
    named.open.matrices = folio::MatrixDtypeNamed(named.dtype);
    auto model = std::make_shared<folio::SharedModel>(folio::OpenModel(path, named.open));
    const std::shared_ptr<const folio::Tokenizer> tokenizer(model, model->opened.tokenizer.get());
    *out = new folio_model{std::move(model), {tokenizer}};
  });
}

folio_status folio_model_info(const folio_model* model, folio_buffer* json, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    RequireArgument(json, "json");
    const folio::OpenedModel& opened = model->of->opened;
    folio::GptConfig config = model->of->config();
    Json settings = Json::object();
    for (const folio::Field& field : config.Fields()) settings[field.key] = ValueOf(field);
    json->Set(Json{{"config", std::move(settings)},
                   {"parameters", folio::ModelSummary(config).parameters()},
                   {"dtype", folio::MatrixDtypeOf(*opened.weights)},
                   {"path", opened.path.string()},
                   {"note", opened.note}}
                  .dump());
  });
}

int64_t folio_model_vocab_size(const folio_model* model) {
  return model == nullptr ? 0 : model->of->config().vocab_size;
}
int64_t folio_model_width(const folio_model* model) {
  return model == nullptr ? 0 : model->of->config().n_embd;
}
int64_t folio_model_context(const folio_model* model) {
  return model == nullptr ? 0 : model->of->config().n_positions;
}

const folio_tokenizer* folio_model_tokenizer(const folio_model* model) {
  return model == nullptr || model->tokenizer.of == nullptr ? nullptr : &model->tokenizer;
}

folio_status folio_model_prompt(const folio_model* model, const char* text, size_t length,
                                folio_buffer* ids, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    RequireArgument(ids, "ids");
    ids->Set(folio::PromptTokens(model->of->opened.RequireTokenizer(), TextArgument(text, length),
                                 "text"));
  });
}

folio_status folio_model_chat(const folio_model* model, const char* const* roles,
                              const char* const* texts, size_t count, folio_buffer* ids,
                              folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    RequireArgument(ids, "ids");
    const folio::OpenedModel& opened = model->of->opened;
    const folio::Tokenizer& tokenizer = opened.RequireTokenizer();
    const std::optional<folio::ChatEncoder> chat = opened.FindChat();
    if (!chat) {
      throw folio::UsageError(
          fmt::format("{}: not a model for conversations", opened.path.string()), opened.chat_help,
          "open one with a chat template, or give the option chat_template");
    }
    std::vector<int32_t> asked;
    chat->Encode(tokenizer, Messages(roles, texts, count), /*ask=*/true, "texts", asked);
    ids->Set(asked);
  });
}

void folio_model_free(folio_model* model) {
  delete model;
}
