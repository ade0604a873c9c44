// What a TrainingRun chooses and plans.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/io/file.h"
#include "folio/run/automatic.h"
#include "folio/run/preview.h"
#include "folio/run/run_directory.h"
#include "folio/run/training_run.h"
#include "folio/train/train_state.h"

namespace folio {

// Size and steps are open only where a run begins. Whoever says how many steps there are has no
// clock followed.
void TrainingRun::RequireBudgetGoesOn() {
  Settings& layers = settings_.layers;
  const bool budget = !config_.train.budget.empty();
  if (options_.resume && budget && layers.layer("train.budget") > Layer::kProjectFile) {
    throw UsageError("--budget is of a run that begins", "this one goes on",
                     "leave --budget out, and say with --max-steps how long to train");
  }
  automatic_ = (budget || options_.budget_seconds > 0) && !options_.resume && SizeIsOpen(layers);
  if (budget) options_.budget_seconds = config_.train.budget_seconds();
  if (layers.layer("train.max_steps") < Layer::kEnvironment) return;
  layers.Set(Layer::kFlag, "train.budget", "", layers.origin("train.max_steps"));
  settings_.Resolve();
}

// What is not said of size, steps and evaluations.
void TrainingRun::ChoosePlan() {
  const double whole = options_.budget_seconds, used = SteadySeconds() - began_;
  const double seconds = std::max(whole - used, whole / 10);  // it may all be gone already
  const bool steps_open = settings_.layers.layer("train.max_steps") <= Layer::kPreset;
  if (automatic_) {
    Note(ChooseSize(settings_, *data_, *backend_, seconds));
  } else if ((whole > 0 && initial_) || (!config_.train.budget.empty() && steps_open)) {
    Note(ChooseSteps(settings_, *data_, *backend_, seconds));
  }
  if (options_.resume) return;
  const int64_t context = config_.train.context;
  if (context == 0) config_.train.context = config_.model.n_positions;
  const std::string limited = LimitEvaluations(settings_, data_->val().size());
  if (!limited.empty()) Note(limited);
  config_.train.context = context;
}

// The clock has corrected how many steps there are: for whoever reads the settings of the run,
// where it is no trifle, or the `last` word.
void TrainingRun::FollowPlan(int64_t steps, bool last) {
  constexpr int64_t kTrifle = 20;  // one of so many
  config_.train.max_steps = steps;
  const int64_t change = std::abs(steps - told_steps_);
  if (change <= (last ? 0 : told_steps_ / kTrifle)) return;
  told_steps_ = steps;
  try {
    WriteFileAtomically(options_.out / kRunConfigFile, settings_.layers.ToToml());
  } catch (const Error& error) {
    LogWarning(fmt::format("{}: {}", error.what(), error.cause()));
  }
}

void TrainingRun::Probe(int64_t done) {
  preview_->Probe(done, options_.resume ? SavedBudgetSeconds(checkpoint_) : 0);
}

std::string TrainingRun::Plan(bool json) {
  Probe(options_.resume ? SavedStep(checkpoint_) : 0);
  if (json) return preview_->Event() + "\n" + RankPlan(json);
  return preview_->Plan() + RankPlan(json) + preview_->Estimate() + "\n";
}

}  // namespace folio
