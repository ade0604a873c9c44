#include <functional>
#include <random>

#include "folio/c/handles.h"
#include "folio/infer/default_sampling.h"

using folio::GenerateArgument;
using folio::Guarded;
using folio::RequireArgument;
using folio::RequireArguments;

struct folio_batch {
  std::shared_ptr<const folio::Model> model;
  folio::Model::Texts texts;
};

namespace folio {

GenerateOptions GenerateArgument(const OpenedModel& model, const folio_options* options) {
  folio_options named = OptionsArgument(options, folio_options::Kind::kGenerate);
  if (named.defaults == "chat") {
    folio_options answer(folio_options::Kind::kGenerate);
    answer.generate = DefaultGeneration(model, Writing::kAnswer);
    for (const auto& [name, value] : named.given) answer.Set(name, value);
    named = std::move(answer);
  }
  named.generate.when_full = named.when_full == "stop" ? WhenFull::kStop : WhenFull::kSlide;
  named.generate.sampling.seed =
      named.seed ? static_cast<uint64_t>(*named.seed) : std::random_device{}();
  return named.generate;
}

}  // namespace folio

namespace {

using TextCallback = int (*)(void* user, const char* text, size_t length);

static_assert(static_cast<int>(folio::FinishReason::kLength) == FOLIO_END_LENGTH &&
              static_cast<int>(folio::FinishReason::kStop) == FOLIO_END_STOP &&
              static_cast<int>(folio::FinishReason::kContext) == FOLIO_END_CONTEXT &&
              static_cast<int>(folio::FinishReason::kCancelled) == FOLIO_END_CANCELLED);

std::function<bool(std::string_view)> Shown(TextCallback text, void* user) {
  if (text == nullptr) return {};
  return [text, user](std::string_view part) { return text(user, part.data(), part.size()) == 0; };
}

}  // namespace

folio_status folio_generate(const folio_model* model, const int32_t* ids, size_t count,
                            const folio_options* options, TextCallback text, void* user,
                            const folio_watch* watch, folio_buffer* whole, int32_t* end,
                            folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    folio::Watcher watcher(watch);
    const folio::GeneratedText written = model->impl->Write(
        folio::TextIdsArgument(ids, count), GenerateArgument(model->impl->opened(), options),
        Shown(text, user), watcher.stop(), watcher.on_read());
    if (whole != nullptr) whole->Set(written.text);
    if (end != nullptr) *end = static_cast<int32_t>(written.reason);
  });
}

folio_status folio_batch_new(const folio_model* model, int32_t texts, folio_batch** out,
                             folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{model, "model"}, {out, "out"}});
    *out = new folio_batch{model->impl, folio::Model::Texts(model->impl, texts)};
  });
}

folio_status folio_batch_add(folio_batch* batch, const int32_t* ids, size_t count,
                             const folio_options* options, TextCallback text,
                             void (*ended)(void* user, int32_t end), void* user, uint64_t* id,
                             folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(batch, "batch");
    const uint64_t number = batch->texts.Add(
        folio::TextIdsArgument(ids, count), GenerateArgument(batch->model->opened(), options),
        Shown(text, user), [ended, user](const folio::GeneratedText& written) {
          if (ended != nullptr) ended(user, static_cast<int32_t>(written.reason));
        });
    if (id != nullptr) *id = number;
  });
}

folio_status folio_batch_step(folio_batch* batch, int32_t* more, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{batch, "batch"}, {more, "more"}});
    *more = batch->texts.Step() ? 1 : 0;
  });
}

folio_status folio_batch_cancel(folio_batch* batch, uint64_t id, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(batch, "batch");
    batch->texts.Cancel(id);
  });
}

void folio_batch_free(folio_batch* batch) {
  delete batch;
}
