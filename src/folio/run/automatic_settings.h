#pragma once

#include <cstdint>
#include <string>

#include "folio/backend/backend.h"
#include "folio/data/dataset.h"
#include "folio/formats/model_formats.h"
#include "folio/io/settings.h"
#include "folio/run/run_config.h"
#include "folio/text/tokenizer.h"
#include "folio/train/run_log.h"

namespace folio {

// Settings that are chosen for a text if they are not set. They are a preset: other settings are
// stronger.

// Returns true if no setting gives the size of the model. REQUIRES: Settings::Resolve.
bool SizeIsOpen(const Settings& layers);

// Sets size, steps and their rates, so that training takes about `seconds` on this machine,
// including the measurement of its speed; returns two lines about the choice and its reasons. The
// run is shorter if the text would be read too often. REQUIRES: resolved settings, which it
// resolves again.
std::string ChooseSize(RunSettings& settings, const Dataset& data, Backend& backend,
                       double seconds);

// Sets steps likewise for a model whose size is set, and perhaps its batch and context.
std::string ChooseSteps(RunSettings& settings, const Dataset& data, Backend& backend,
                        double seconds);

// Sets train.max_steps to the steps of train.epochs, if that is set and there is no budget.
// REQUIRES: resolved settings with train.context, which it resolves again.
void FollowEpochs(RunSettings& settings, const Dataset& data);

// Makes evaluations shorter, and then fewer, until they take at most a tenth of the run, as far as
// train.eval_batches and train.eval_every are not set; returns a line about it, or "" if they stay
// unchanged. REQUIRES: resolved settings with train.context, which it resolves again.
std::string LimitEvaluations(RunSettings& settings, int64_t held_out_tokens);

// Returns a sentence about the conversations that are truncated to sequences of train.context
// tokens, a length that was set; "" if there are none. Throws a kUsage Error if the length was not
// set. REQUIRES: resolved settings.
std::string RequireWholeConversations(const RunSettings& settings, const Dataset& data);

// Training that starts from the parameters of a model (train.init).

// Sets, as a preset, the configuration and tokenizer of that model, and the rates for training all
// of its parameters or adapters (lora.rank). Throws a kUsage Error if stronger settings would make
// it another model: only dropout, a shorter n_positions and a larger vocab_size may be set.
// REQUIRES: settings are resolved, `found` is train.init.
void UseInitialModel(RunSettings& settings, const FoundModel& found);

// Sets, as a preset, epochs, steps, batch and context, so that training takes at most `seconds` (0
// for no limit) unless its length is set; returns a line about it. REQUIRES: UseInitialModel;
// resolved settings, which it resolves again.
std::string ChooseFineTuning(RunSettings& settings, const Dataset& data, Backend& backend,
                             double seconds);

// Returns advice, in a sentence, after a run that started from a model and hardly learned, became
// worse later or became worse than the model; "" for other runs.
std::string AdviceAfter(const RunConfig& config, const TrainResult& result);

// Throws a kUsage Error unless the data's tokenizer is that of the model, or has additional tokens.
// Does nothing if either is not known (null).
void RequireTokenizerOf(const FoundModel& model, const Dataset& data, const Tokenizer* tokenizer);

}  // namespace folio
