#include "folio/serve/float_copy.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/strings.h"
#include "folio/infer/opened_model.h"
#include "folio/model_files/checkpoint.h"
#include "folio/serve/http.h"
#include "folio/tensor/memory_plan.h"

namespace folio {
namespace {

// In the host's memory a copy views the parameters that are there as it needs them.
uint64_t BytesOfCopy(const GptWeights& weights, const Memory& memory) {
  uint64_t all = 0, copied = 0;
  for (const Tensor& tensor : weights.tensors()) {
    const uint64_t bytes = sizeof(float) * static_cast<uint64_t>(tensor.count());
    all += bytes;
    if (tensor.dtype() != Dtype::kF32 || &tensor.memory() != &memory) copied += bytes;
  }
  return memory.on_host() || copied == 0 ? copied : all;
}

}  // namespace

FloatCopy::FloatCopy(const GptWeights& weights, Memory& memory, double seconds,
                     std::function<uint64_t()> free)
    : source_(weights),
      memory_(memory),
      bytes_(BytesOfCopy(weights, memory)),
      seconds_(seconds),
      free_(std::move(free)) {
  if (bytes_ == 0) weights_ = Weights(&weights, [](const GptWeights*) {});
}

FloatCopy::~FloatCopy() {
  EndThread();
}

uint64_t FloatCopy::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return weights_ != nullptr ? bytes_ : 0;
}

void FloatCopy::Touch() {
  const std::lock_guard lock(mutex_);
  used_ = SteadySeconds();
}

FloatCopy::Weights FloatCopy::Get() {
  const std::lock_guard making(making_);
  {
    const std::lock_guard lock(mutex_);
    used_ = SteadySeconds();
    if (weights_ != nullptr) return weights_;
  }
  const uint64_t free = free_();
  if (free > 0 && bytes_ > free) {
    throw ApiError(
        503,
        fmt::format(
            "this needs a float32 copy of the model, which is stored as {}: {} of memory, {} free",
            MatrixDtypeOf(source_), HumanBytes(bytes_), HumanBytes(free)),
        "", "needs_memory");
  }
  EndThread();
  const std::vector<HostCopy> copies(source_.tensors().begin(), source_.tensors().end());
  std::vector<Tensor> tensors;
  for (const HostCopy& one : copies) tensors.push_back(one.tensor());
  const GptWeights on_host(source_.table(), std::move(tensors), nullptr);
  Weights copy = MapWeights(AsStored(on_host), {}, {}, memory_);
  const std::lock_guard lock(mutex_);
  weights_ = copy;
  used_ = SteadySeconds();
  stopped_ = false;
  thread_ = std::thread([this] { DropUnused(); });
  return copy;
}

void FloatCopy::DropUnused() {
  std::unique_lock lock(mutex_);
  for (double left = seconds_; left > 0; left = used_ + seconds_ - SteadySeconds()) {
    if (stop_.wait_for(lock, std::chrono::duration<double>(left), [this] { return stopped_; })) {
      return;
    }
  }
  weights_ = nullptr;
}

void FloatCopy::EndThread() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace folio
