#include "folio/infer/opened_model.h"

#include <fmt/format.h>

#include "folio/base/error.h"
#include "folio/model/checkpoint.h"
#include "folio/text/encodings.h"

namespace folio {

const Tokenizer& OpenedModel::RequireTokenizer(const std::string& or_else) const {
  if (tokenizer == nullptr) {
    throw InputError(fmt::format("{}: no tokenizer", dir.string()),
                     "text becomes tokens by the tokenizer.json that lies beside a model",
                     "put the model's tokenizer there" + or_else);
  }
  return *tokenizer;
}

OpenedModel OpenModel(const std::filesystem::path& dir, const std::string& backend) {
  OpenedModel model;
  model.dir = FindModelDir(dir);
  model.weights = LoadModel(model.dir);
  if (!TokenizerFiles(model.dir.string()).empty()) {
    model.tokenizer = LoadTokenizer(model.dir.string());
    const int64_t V = model.weights->config().vocab_size;
    if (model.tokenizer->vocab_size() > V) {
      throw InputError(fmt::format("{}: tokenizer and model do not fit", model.dir.string()),
                       fmt::format("the tokenizer has {} tokens, the model {}",
                                   model.tokenizer->vocab_size(), V));
    }
  }
  model.backend = MakeBackend(backend);
  return model;
}

}  // namespace folio
