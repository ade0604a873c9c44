
#include <cmath>
#include <cstring>
#include <memory>

#include "folio/api/batch_trainer.h"
#include "folio/c/handles.h"
#include "folio/io/json.h"

using folio::Guarded;
using folio::IdsArgument;
using folio::Json;
using folio::PathArgument;
using folio::RequireArgument;
using folio::RequireArguments;

folio_status folio_trainer_new(const folio_options* options, const folio_model* from,
                               folio_trainer** out, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(out, "out");
    const folio_options named = folio::OptionsArgument(options, folio_options::Kind::kTrain);
    auto trainer = std::make_unique<folio_trainer>();
    folio::Apply(named, trainer->settings);
    trainer->impl = std::make_unique<folio::BatchTrainer>(
        trainer->settings, from == nullptr ? nullptr : from->impl.get());
    *out = trainer.release();
  });
}

folio_status folio_trainer_info(const folio_trainer* trainer, folio_buffer* json,
                                folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{trainer, "trainer"}, {json, "json"}});
    const folio::BatchTrainer& trainer_impl = *trainer->impl;
    json->Set(
        Json{{"step", trainer_impl.step()},
             {"sequences", trainer_impl.B() * trainer->settings.config.train.grad_accumulation},
             {"sequences_at_a_time", trainer_impl.B()},
             {"context", trainer_impl.T()},
             {"config", folio::ConfigJson(trainer_impl.config())},
             {"tensors", folio::ParameterNames(trainer_impl.weights().table())}}
            .dump());
  });
}

folio_status folio_trainer_step(folio_trainer* trainer, const int32_t* inputs,
                                const int32_t* targets, size_t count, const folio_cancel* cancel,
                                folio_step* out, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(trainer, "trainer");
    if (out != nullptr) folio::RequireSize(out->size, sizeof(folio_step), "out", "folio_step");
    const folio::StepMetrics made =
        trainer->impl->Step(IdsArgument(inputs, count, "inputs"),
                            IdsArgument(targets, count, "targets"), folio::StopOf(cancel));
    if (out == nullptr) return;
    *out = {.size = sizeof(folio_step),
            .step = made.step,
            .loss = made.loss.value_or(NAN),
            .learning_rate = made.lr.value_or(NAN),
            .gradient_norm = made.grad_norm.value_or(NAN),
            .tokens_per_second = made.tokens_per_second.value_or(NAN),
            .skipped = made.skipped.empty() ? 0 : 1};
  });
}

folio_status folio_trainer_evaluate(folio_trainer* trainer, const int32_t* inputs,
                                    const int32_t* targets, size_t count,
                                    const folio_cancel* cancel, double* loss, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{trainer, "trainer"}, {loss, "loss"}});
    *loss = trainer->impl->Evaluate(IdsArgument(inputs, count, "inputs"),
                                    IdsArgument(targets, count, "targets"), folio::StopOf(cancel));
  });
}

folio_status folio_trainer_tensor(folio_trainer* trainer, const char* name, int32_t gradient,
                                  folio_tensor* out, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{trainer, "trainer"}, {name, "name"}});
    const bool asks_gradient = gradient != 0;
    const folio::Tensor tensor =
        asks_gradient ? trainer->impl->Gradient(name) : trainer->impl->Parameter(name);
    const std::string key = asks_gradient ? "gradient of " + std::string(name) : name;
    folio::SetTensor(out, trainer->tensors.Get(key, tensor, /*changes=*/true));
  });
}

folio_status folio_trainer_save(const folio_trainer* trainer, const char* directory,
                                const folio_tokenizer* tokenizer, folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(trainer, "trainer");
    PathArgument(directory, "directory");
    trainer->impl->Save(directory, tokenizer == nullptr ? nullptr : tokenizer->impl.get());
  });
}

folio_status folio_trainer_resume(folio_trainer* trainer, const char* directory,
                                  folio_error** error) {
  return Guarded(error, [&] {
    RequireArgument(trainer, "trainer");
    PathArgument(directory, "directory");
    trainer->impl->Resume(directory);
  });
}

folio_status folio_trainer_model(const folio_trainer* trainer, const folio_tokenizer* tokenizer,
                                 folio_model** out, folio_error** error) {
  return Guarded(error, [&] {
    RequireArguments({{trainer, "trainer"}, {out, "out"}});
    *out =
        folio::NewModel(trainer->impl->Snapshot(tokenizer == nullptr ? nullptr : tokenizer->impl));
  });
}

void folio_trainer_free(folio_trainer* trainer) {
  delete trainer;
}
