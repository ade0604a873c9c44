#include "folio/train/checkpoint_writer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/log.h"
#include "folio/base/machine.h"
#include "folio/model/adapter.h"

namespace folio {
namespace {

void CopyBytes(const Tensor& from, const Tensor& to) {
  std::memcpy(to.raw(), from.raw(), from.bytes());
}

}  // namespace

struct CheckpointWriter::Copy {
  explicit Copy(const GptConfig& config)
      : weights(config),
        m(config, weights.dtype(), ParamPart::kTrained),
        v(config, weights.dtype(), ParamPart::kTrained) {}

  GptWeights weights, m, v;
};

CheckpointWriter::CheckpointWriter(Checkpoints checkpoints, const GptWeights& weights,
                                   const AdamW& optimizer, bool beside)
    : checkpoints_(std::move(checkpoints)),
      weights_(weights),
      optimizer_(optimizer),
      beside_(beside) {}

CheckpointWriter::~CheckpointWriter() = default;

// Whether there is a copy to write into, which is made at the first checkpoint and kept.
bool CheckpointWriter::MakeRoom() {
  if (!beside_) return false;
  if (copy_ != nullptr) return true;
  constexpr uint64_t kSpare = 4;  // parts of what is free that stay free
  const uint64_t bytes = weights_.flat().bytes() + optimizer_.m().bytes() + optimizer_.v().bytes();
  const uint64_t available = ThisMachinesMemory().available;
  beside_ = available == 0 || bytes <= available - available / kSpare;
  try {
    if (beside_) copy_ = std::make_unique<Copy>(weights_.config());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    beside_ = false;
  }
  if (!beside_) {
    LogWarning("no memory for a copy of weights and moments: training waits for each checkpoint");
  }
  return beside_;
}

void CheckpointWriter::Begin(const TrainState& state, bool best, bool last, int64_t previous) {
  began_ = SteadySeconds();
  under_way_ = {.step = state.step, .best = best, .last = last};
  const bool beside = MakeRoom();
  if (beside) {
    CopyBytes(weights_.flat(), copy_->weights.flat());
    CopyBytes(optimizer_.m(), copy_->m.flat());
    CopyBytes(optimizer_.v(), copy_->v.flat());
  }
  // Here, because it computes: the thread only writes.
  std::shared_ptr<const GptWeights> merged;
  if (weights_.config().lora.on()) merged = MergeAdapter(weights_);
  const auto write = [this, state, best, last, previous, merged, beside] {
    checkpoints_.Write({.weights = beside ? copy_->weights : weights_,
                        .merged = merged.get(),
                        .m = beside ? copy_->m.flat() : optimizer_.m(),
                        .v = beside ? copy_->v.flat() : optimizer_.v(),
                        .state = state},
                       best, last, previous);
  };
  written_ = std::async(beside ? std::launch::async : std::launch::deferred, write);
  if (!beside) written_.wait();
}

std::optional<CheckpointWriter::Written> CheckpointWriter::Poll() {
  if (!busy() || written_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return {};
  return Wait();
}

std::optional<CheckpointWriter::Written> CheckpointWriter::Wait() {
  if (!busy()) return {};
  Written written = *std::exchange(under_way_, std::nullopt);
  try {
    written_.get();
  } catch (...) {
    written.error = std::current_exception();
  }
  written.seconds = SteadySeconds() - began_;
  return written;
}

}  // namespace folio
