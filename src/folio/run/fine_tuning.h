#pragma once

#include <filesystem>

#include "folio/data/dataset.h"
#include "folio/run/run_config.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Training that starts from the parameters of a model (train.init).

// Makes the configuration of that model, its tokenizer and learning rates for going on from it
// settings of the layer of presets. Throws a kInput Error if it is not there, and a kUsage Error
// where stronger settings would make it another model: dropout, a shorter n_positions and a larger
// vocab_size may be set. REQUIRES: settings are resolved, train.init is not empty.
void UseInitialModel(RunSettings& settings);

// Throws a kUsage Error unless the data's tokenizer is that of the model, or has tokens beyond its
// own; null where nobody knows it. A model without a tokenizer takes any.
void RequireTokenizerOf(const std::filesystem::path& model, const Dataset& data,
                        const Tokenizer* tokenizer);

}  // namespace folio
