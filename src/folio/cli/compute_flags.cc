#include "folio/cli/compute_flags.h"

#include "folio/base/error.h"
#include "folio/base/simd_targets.h"
#include "folio/base/thread_pool.h"

namespace folio {

void SimdFlag::Add(Flags& flags) {
  flags.Value(Field{"simd", &name_, "instruction set to use instead of the best"}.Suggestions(
                  SimdTargets()),
              {.placeholder = "NAME"});
}

void SimdFlag::Use() const {
  if (!name_.empty()) ForceSimdTarget(name_);
}

void ComputeFlags::Add(Flags& flags) {
  flags.Value(
      Field{"threads", &threads_, "threads to use; 0 for one on each core", 0, kMaxThreads});
  simd_.Add(flags);
}

void ComputeFlags::Use() const {
  UseThreads(threads_);
  simd_.Use();
}

void AddModelFlag(Flags& flags, std::string* model, bool required) {
  flags.Value(
      Field{"model", model, "a run, a model directory or a model file"}.WithFlag("-m,--model"),
      {.placeholder = "DIR", .required = required});
}

void AddAdapterFlag(Flags& flags, std::string* adapter) {
  flags.Value(Field{"adapter", adapter,
                    "an adapter (LoRA) for the model, as PEFT saves it, to add to its weights"},
              {.placeholder = "DIR"});
}

void RequireModelFor(const std::string& adapter, const std::string& model) {
  if (adapter.empty() || !model.empty()) return;
  throw UsageError("--adapter needs --model", "an adapter is added to the weights of a model",
                   "add --model, with the one that the adapter was trained for");
}

void AddBackendFlag(Flags& flags, std::string* backend) {
  flags.Value(Field{"backend", backend, "what computes"}.Choices({"cpu", "reference"}));
}

void LoadFlag::Add(Flags& flags) {
  flags.Value(Field{"load", &name_,
                    "map: weights are read from the file when they are looked at; read: at once, "
                    "which is faster from network disks"}
                  .Choices({"map", "read"}));
}

void UseThreads(int64_t threads) {
  if (threads > 0) SetThreads(static_cast<int>(threads));
}

}  // namespace folio
