#pragma once

#include <memory>
#include <utility>

#include "folio/api/model.h"
#include "folio/backend/test_fenced_orders.h"
#include "folio/infer/opened_model.h"
#include "folio/model_files/stored_model.h"

namespace folio {

// A model of these weights in the memory of a backend. `source` must outlive it.
inline std::unique_ptr<Model> ModelOn(std::unique_ptr<Backend> backend, const GptWeights& source,
                                      std::shared_ptr<const Tokenizer> tokenizer) {
  OpenedModel opened{.backend = std::move(backend), .tokenizer = std::move(tokenizer)};
  opened.weights = MapWeights(AsStored(source), {}, {}, opened.backend->memory());
  return std::make_unique<Model>(std::move(opened));
}

}  // namespace folio
