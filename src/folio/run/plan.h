#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/machine.h"
#include "folio/data/dataset.h"
#include "folio/formats/model_formats.h"
#include "folio/io/json.h"
#include "folio/io/settings.h"
#include "folio/report/report.h"
#include "folio/run/run_config.h"
#include "folio/text/tokenizer.h"
#include "folio/train/plan.h"
#include "folio/train/run_log.h"

namespace folio {

// Every buffer of a training step in this shape, and the memory that it takes. Nothing is
// allocated.
Report BuffersReport(const TrainShape& shape);

// The work of a run that is still to do.
struct TrainWork {
  int64_t steps = 0, evaluations = 0;
  double flops = 0;             // of both
  double evaluation_flops = 0;  // of the evaluations, which go forward only
  double flops_per_token = 0;   // of training
};

// `done` steps of the run are behind it; train.context must be set. The held-out set has so many
// tokens.
TrainWork WorkAhead(const GptConfig& model, const TrainConfig& train, int64_t held_out_tokens,
                    int64_t done);

// The warning of a run that takes longer than a week whatever its text is, before anything is made
// of that: how long at the least, if all went as fast as matrix products do here, and what would
// mend it. "" for others. `rate` measures how many operations all ranks do in a second, and is
// asked only where it matters. REQUIRES: resolved settings of a run that has its size.
std::string LengthWarning(const RunSettings& settings, const std::function<double()>& rate);

// "about 3 times", for people: how often a text is read.
std::string HowOften(double epochs);

// The preview of a training run before it begins: its size, the memory it takes, and about how long
// it will take.
class TrainPreview {
 public:
  // train.context is set and train.dtype resolved; of so many ranks, this is one. Throws a
  // kResource Error where memory.total is too little, and warns where memory.available is. All must
  // outlive the preview.
  TrainPreview(const RunConfig& config, const Dataset& data, Backend& backend,
               const MachineMemory& memory, int ranks = 1);

  // A few lines about the run, then the memory plan.
  std::string Plan() const;

  // Takes a few steps of such a model on random tokens, for at most 2 s, and less where the run
  // itself will not take long. `done` steps of the run are behind it, and so many seconds of its
  // budget.
  void Probe(int64_t done, double gone);

  // The estimate after Probe: "about 31.0s: 2,000 steps, ..." for people.
  double EstimatedSeconds() const;
  std::string Estimate() const;
  Json Event() const;  // all of it
  const TrainWork& work() const { return work_; }

 private:
  bool TextEndsIt() const;

  const RunConfig& config_;
  const Dataset& data_;
  Backend& backend_;
  MachineMemory memory_;
  TrainShape shape_;
  MemoryBeside beside_;
  TrainWork work_;
  double epochs_ = 0;            // how often the run reads its data
  double seconds_left_ = 0;      // of the budget
  double flops_per_second_ = 0;  // of training steps, as Probe found them
};

// Settings for whoever gives a text and nothing else. They take the place of a preset: whatever
// else is set stays as it is.

// Returns whether nothing says how large the model is. After Settings::Resolve.
bool SizeIsOpen(const Settings& layers);

// The tokenizer for so many bytes of text: "char", or "" where a byte-level BPE learned from the
// text is worth it.
std::string ChooseTokens(int64_t text_bytes);
inline constexpr int64_t kChosenVocabulary = 4096;  // of that BPE
inline constexpr int64_t kMuchText = 20'000'000;    // bytes of text from which it is

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

// What to try next after a run that started from a model and hardly learned, lost what it had
// learned or got worse, in a sentence; "" for one that learned, or began with new parameters.
std::string AdviceAfter(const RunConfig& config, const TrainResult& result);

// Throws a kUsage Error unless the data's tokenizer is that of the model, or has tokens beyond its
// own; null where nobody knows it. A model without a tokenizer takes any.
void RequireTokenizerOf(const FoundModel& model, const Dataset& data, const Tokenizer* tokenizer);

}  // namespace folio
