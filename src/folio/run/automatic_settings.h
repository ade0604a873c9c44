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

// Settings that are chosen for a text where nobody sets them. They take the place of a preset: what
// is set stays as it is.

// Returns whether no setting says how large the model is. REQUIRES: Settings::Resolve.
bool SizeIsOpen(const Settings& layers);

// Sets, as a preset would, size, steps and the rates that go with them, so that training takes
// about `seconds` on this machine, of which some go into measuring it; and says in two lines what
// it chose and why. Text that would be read too often makes the run shorter. REQUIRES: resolved
// settings, which it resolves again.
std::string ChooseSize(RunSettings& settings, const Dataset& data, Backend& backend,
                       double seconds);

// Sets steps likewise for a model whose size is set, and perhaps its batch and context.
std::string ChooseSteps(RunSettings& settings, const Dataset& data, Backend& backend,
                        double seconds);

// Makes train.max_steps what train.epochs says, if that is set and no clock is followed, of the
// batches of the settings. REQUIRES: resolved settings with train.context, which it resolves again.
void FollowEpochs(RunSettings& settings, const Dataset& data);

// Makes evaluations so short, and then so few, that they take a tenth of the run at most, as far as
// nobody set train.eval_batches and train.eval_every; says so in a line, or "" where they stay.
// REQUIRES: resolved settings with train.context, which it resolves again.
std::string LimitEvaluations(RunSettings& settings, int64_t held_out_tokens);

// A conversation that is longer than a sequence, of train.context tokens, loses its end: in
// sequences of a length that somebody asked for, and then this says how many do, else "". Throws a
// kUsage Error where the length was only chosen for them. REQUIRES: resolved settings.
std::string RequireWholeConversations(const RunSettings& settings, const Dataset& data);

// Training that starts from the parameters of a model (train.init).

// Makes the configuration of that model, its tokenizer, and what goes on from it with the rates
// that suit all parameters or adapters (lora.rank), settings of the layer of presets. Throws a
// kUsage Error where stronger settings would make it another model: dropout, a shorter n_positions
// and a larger vocab_size may be set. REQUIRES: settings are resolved, `found` is train.init.
void UseInitialModel(RunSettings& settings, const FoundModel& found);

// Sets, as a preset would, how often the data is read, its steps, batch and context, so that
// training takes `seconds` at most where nobody says how long, 0 for no limit; and says so in a
// line. REQUIRES: UseInitialModel; resolved settings, which it resolves again.
std::string ChooseFineTuning(RunSettings& settings, const Dataset& data, Backend& backend,
                             double seconds);

// Returns advice, in a sentence, after a run that started from a model and hardly learned, lost
// what it had learned or got worse; "" for a run that learned, or began with new parameters.
std::string AdviceAfter(const RunConfig& config, const TrainResult& result);

// Throws a kUsage Error unless the data's tokenizer is that of the model, or has tokens beyond its
// own; null where nobody knows it. A model without a tokenizer takes any.
void RequireTokenizerOf(const FoundModel& model, const Dataset& data, const Tokenizer* tokenizer);

}  // namespace folio
