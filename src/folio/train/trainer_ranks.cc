// What a Trainer has to do with other ranks.

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/hash.h"
#include "folio/base/log.h"
#include "folio/base/percentile.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

bool Asked(const std::function<bool()>& hook) {
  return hook && hook();
}

}  // namespace

// What this rank is asked for, or any: then all do the same at the same time.
void Trainer::Poll() {
  std::vector<uint8_t> flags = {Asked(hooks_.stop_requested), OutOfTime(),
                                flags_.checkpoint || Asked(hooks_.checkpoint_requested),
                                writer_.done(), writer_.writes_pieces()};
  if (group_ != nullptr) {
    for (const std::vector<uint8_t>& other : GatherNumbers(*group_, flags)) {
      for (size_t i = 0; i < flags.size(); ++i) flags[i] = flags[i] != 0 || other[i] != 0;
    }
  }
  flags_ = {flags[0] != 0, flags[1] != 0, flags[2] != 0, flags[3] != 0};
  if (flags[4] == 0) writer_.FinishPieces();
}

// How long each rank computed, and whether one holds up the others.
void Trainer::GatherSeconds(double seconds, StepMetrics& metrics) {
  std::vector<double> all;
  for (const std::vector<double>& rank : GatherNumbers(*group_, std::vector<double>{seconds})) {
    all.push_back(rank[0]);
  }
  if (first()) {
    for (const int slow : stragglers_.Add(all)) {
      LogWarning(
          fmt::format("{} is slow: {:.3f} s of computing a step, where the median of all is "
                      "{:.3f}; the others wait for it",
                      group_->NameOf(slow), all[static_cast<size_t>(slow)], Median(all)));
    }
  }
  if (hooks_.rank_seconds) metrics.rank_seconds = std::move(all);
}

// Ranks that have the same numbers go on having them; else a processor or memory is at fault.
void Trainer::RequireSameWeights() const {
  if (group_ == nullptr) return;
  const Tensor& flat = weights_.flat();
  const auto all =
      group_->GatherEqual(HashHex({reinterpret_cast<const char*>(flat.raw()), flat.bytes()}));
  for (int rank = 1; rank < group_->size(); ++rank) {
    const int with = rank % train_step_.tensor_communicator().size();  // the first with that part
    if (all[static_cast<size_t>(rank)] == all[static_cast<size_t>(with)]) continue;
    throw RuntimeError(
        fmt::format("{} has other weights than {} at step {}", group_->NameOf(rank),
                    with == 0 ? "the first rank" : group_->NameOf(with), state_.step),
        saved_step_ >= 0 ? fmt::format("the last good checkpoint is {} (step {})",
                                       (run_ / kLastDir).string(), saved_step_)
                         : "there is no checkpoint yet",
        "they should be the same to the last bit: look at the memory and processor "
        "of that machine, "
        "then go on with --resume");
  }
}

// For the others, if a rank is lost.
void Trainer::TellProgress() const {
  if (group_ == nullptr) return;
  group_->set_progress(fmt::format("in step {}; {}", state_.step,
                                   saved_step_ >= 0
                                       ? fmt::format("the last checkpoint is {} (step {})",
                                                     (run_ / kLastDir).string(), saved_step_)
                                       : "there is no checkpoint yet"));
}

}  // namespace folio
