#pragma once

#include "folio/data/dataset.h"
#include "folio/formats/model_formats.h"
#include "folio/run/run_config.h"
#include "folio/text/tokenizer.h"

namespace folio {

// Training that starts from the parameters of a model (train.init).

// Makes the configuration of that model, its tokenizer and learning rates for going on from it
// settings of the layer of presets. Throws a kUsage Error where stronger settings would make it
// another model: dropout, a shorter n_positions and a larger vocab_size may be set. REQUIRES:
// settings are resolved, `found` is train.init.
void UseInitialModel(RunSettings& settings, const FoundModel& found);

// Throws a kUsage Error unless the data's tokenizer is that of the model, or has tokens beyond its
// own; null where nobody knows it. A model without a tokenizer takes any.
void RequireTokenizerOf(const FoundModel& model, const Dataset& data, const Tokenizer* tokenizer);

}  // namespace folio
