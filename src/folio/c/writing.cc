#include <functional>
#include <map>
#include <random>

#include "folio/c/handles.h"
#include "folio/infer/text_streamer.h"

using folio::DecodeBatch;
using folio::Guarded;
using folio::RequireArgument;

struct folio_batch {
  std::shared_ptr<folio::SharedModel> model;
  std::unique_ptr<DecodeBatch> batch;
  std::map<uint64_t, std::unique_ptr<folio::TextStreamer>> writers = {};  // of texts that go on
  uint64_t added = 0;

  // Throws a kUsage Error after a step that failed.
  DecodeBatch& Working() const {
    if (batch == nullptr) {
      throw folio::UsageError("batch: a step has failed, its texts are gone", {},
                              "make another batch");
    }
    return *batch;
  }
};

namespace {

using TextCallback = int (*)(void* user, const char* text, size_t length);

static_assert(static_cast<int>(folio::FinishReason::kLength) == FOLIO_END_LENGTH &&
              static_cast<int>(folio::FinishReason::kStop) == FOLIO_END_STOP &&
              static_cast<int>(folio::FinishReason::kContext) == FOLIO_END_CONTEXT &&
              static_cast<int>(folio::FinishReason::kCancelled) == FOLIO_END_CANCELLED);

folio::GenerateOptions GenerateArgument(const folio_options* options) {
  folio_options named = folio::OptionsArgument(options, folio_options::Kind::kGenerate);
  named.generate.when_full =
      named.when_full == "stop" ? folio::WhenFull::kStop : folio::WhenFull::kSlide;
  named.generate.sampling.seed =
      named.seed ? static_cast<uint64_t>(*named.seed) : std::random_device{}();
  return named.generate;
}

std::function<bool(std::string_view)> Shown(TextCallback text, void* user) {
  return [text, user](std::string_view part) {
    return text == nullptr || text(user, part.data(), part.size()) == 0;
  };
}

// A text of `model` to be written with `options`, by `writer`.
folio::TextRequest RequestOf(const folio::OpenedModel& model, std::span<const int32_t> ids,
                             const folio::GenerateOptions& options, folio::TextStreamer& writer,
                             uint64_t rng_stream) {
  return {.prompt = {ids.begin(), ids.end()},
          .options = ForTokens(model, options),
          .rng_stream = rng_stream,
          .on_token = [&writer](const folio::NewToken& token) { return writer.Take(token); }};
}

}  // namespace

folio_status folio_generate(const folio_model* model, const int32_t* ids, size_t count,
                            const folio_options* options, TextCallback text, void* user,
                            const folio_cancel* cancel, folio_buffer* whole, int32_t* end,
                            folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    folio::SharedModel& of = *model->of;
    const folio::GenerateOptions asked = GenerateArgument(options);
    folio::TextStreamer writer(of.opened.RequireTokenizer(), asked, Shown(text, user));
    const folio::FinishReason reason = of.Run(
        RequestOf(of.opened, folio::IdsArgument(ids, count), asked, writer, /*rng_stream=*/0),
        cancel);
    const folio::GeneratedText written = writer.Finish(reason);
    if (whole != nullptr) whole->Set(written.text);
    if (end != nullptr) *end = static_cast<int32_t>(written.reason);
  });
}

folio_status folio_batch_new(const folio_model* model, int32_t texts, folio_batch** out,
                             folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(model, "model");
    RequireArgument(out, "out");
    folio::OpenedModel& opened = model->of->opened;
    opened.RequireTokenizer();
    const folio::Computing alone(*model->of);
    *out = new folio_batch{
        model->of, std::make_unique<DecodeBatch>(*opened.backend, *opened.weights,
                                                 folio::DecodeBatchOptions{.texts = texts})};
  });
}

folio_status folio_batch_add(folio_batch* batch, const int32_t* ids, size_t count,
                             const folio_options* options, TextCallback text,
                             void (*ended)(void* user, int32_t end), void* user, uint64_t* id,
                             folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(batch, "batch");
    const folio::Computing alone(*batch->model);
    const folio::GenerateOptions asked = GenerateArgument(options);
    const uint64_t number = batch->added;
    auto writer = std::make_unique<folio::TextStreamer>(*batch->model->opened.tokenizer, asked,
                                                        Shown(text, user));
    folio::TextRequest request =
        RequestOf(batch->model->opened, folio::IdsArgument(ids, count), asked, *writer, number);
    request.on_end = [batch, number, ended, user](folio::FinishReason reason,
                                                  const folio::GenerateStats&) {
      const auto node = batch->writers.extract(number);
      const folio::GeneratedText written = node.mapped()->Finish(reason);
      if (ended != nullptr) ended(user, static_cast<int32_t>(written.reason));
    };
    batch->writers.emplace(number, std::move(writer));
    try {
      const DecodeBatch::Id of = batch->Working().Add(std::move(request));
      if (id != nullptr) *id = of;
    } catch (...) {
      batch->writers.erase(number);
      throw;
    }
    ++batch->added;
  });
}

folio_status folio_batch_step(folio_batch* batch, int32_t* more, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(batch, "batch");
    RequireArgument(more, "more");
    const folio::Computing alone(*batch->model);
    try {
      *more = batch->Working().Step() ? 1 : 0;
    } catch (...) {
      batch->batch.reset();
      batch->writers.clear();
      throw;
    }
  });
}

folio_status folio_batch_cancel(folio_batch* batch, uint64_t id, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(batch, "batch");
    const folio::Computing alone(*batch->model);
    batch->Working().Cancel(id);
  });
}

void folio_batch_free(folio_batch* batch) {
  delete batch;
}
