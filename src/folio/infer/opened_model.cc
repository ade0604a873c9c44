#include "folio/infer/opened_model.h"

#include <fmt/format.h>

#include <utility>

#include "folio/base/error.h"
#include "folio/formats/model_formats.h"
#include "folio/text/encodings.h"

namespace folio {

const Tokenizer& OpenedModel::RequireTokenizer(const std::string& or_else) const {
  if (tokenizer == nullptr) {
    throw InputError(
        fmt::format("{}: no tokenizer", path.string()),
        "text becomes tokens by the tokenizer.json that lies beside a model",
        (tokenizer_help.empty() ? "put the model's tokenizer there" : tokenizer_help) + or_else);
  }
  return *tokenizer;
}

namespace {

void RequireFit(const OpenedModel& model) {
  const int64_t V = model.weights->config().vocab_size;
  if (model.tokenizer->vocab_size() <= V) return;
  throw InputError(
      fmt::format("{}: tokenizer and model do not fit", model.path.string()),
      fmt::format("the tokenizer has {} tokens, the model {}", model.tokenizer->vocab_size(), V));
}

// Nothing else than the model's own, if it has one, would make sense of its tokens.
void TakeTokenizer(OpenedModel& model, std::unique_ptr<Tokenizer> tokenizer) {
  if (model.tokenizer != nullptr && model.tokenizer->hash() != tokenizer->hash()) {
    throw UsageError(fmt::format("{}: the model has another tokenizer", model.path.string()),
                     fmt::format("its own has hash {}, the one given {}", model.tokenizer->hash(),
                                 tokenizer->hash()),
                     "leave out --tokenizer");
  }
  model.tokenizer = std::move(tokenizer);
  RequireFit(model);
}

}  // namespace

OpenedModel OpenModel(const std::filesystem::path& path, const OpenOptions& options) {
  FoundModel found = FindModel(path, options.loading);
  OpenedModel model{.path = found.path, .weights = MapWeights(found.model)};
  model.tokenizer = std::move(found.tokenizer);
  model.tokenizer_help = std::move(found.tokenizer_help);
  if (model.tokenizer != nullptr) RequireFit(model);
  if (!options.tokenizer.empty()) TakeTokenizer(model, OpenTokenizer(options.tokenizer));
  model.backend = MakeBackend(options.backend);
  return model;
}

}  // namespace folio
