#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "folio/infer/opened_model.h"
#include "folio/model/params.h"
#include "folio/serve/scheduler.h"

namespace folio {

// A model of a service: opened, with a tokenizer, and with what writes for its clients.
struct ServedModel {
  std::string name;
  // The id is the same for the same model by the same name, whenever and wherever it is served.
  std::string id;
  OpenedModel model;
  int64_t created = 0;  // seconds since 1970, of its files
  std::unique_ptr<Scheduler> scheduler;
  // The backend is for requests that look into the model while it writes: one at a time, which
  // holds `inspect_mutex`.
  std::unique_ptr<Backend> inspect_backend;
  std::mutex inspect_mutex;

  const GptConfig& config() const { return model.weights->config(); }
  ModelSummary summary() const { return ModelSummary(model.weights->table()); }
  const Tokenizer& tokenizer() const { return *model.tokenizer; }
};

}  // namespace folio
