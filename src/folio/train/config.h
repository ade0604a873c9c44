#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/backend/backend.h"
#include "folio/base/fields.h"
#include "folio/model/context.h"
#include "folio/model/lora.h"

namespace folio {

inline constexpr int64_t kMaxMicroBatches = int64_t{1} << 24;

// The settings of training (keys `train.*`).
struct TrainConfig {
  std::string init = "";          // the model to start from; empty: new parameters
  std::string init_adapter = "";  // the directory of an adapter that is added to it; empty: none
  LoraConfig lora = {};           // adapters that are trained in its place (keys `lora.*`)
  int64_t batch_size = 12;        // B, sequences of one micro-batch
  int64_t context = 0;            // T; 0 means the model's n_positions
  int64_t grad_accumulation = 1;
  int64_t max_steps = 2000;
  // How often the data is read, which decides max_steps (run_batches.h); 0: max_steps decides.
  double epochs = 0;
  // The time of the whole run, as ParseSeconds reads it: the clock decides max_steps (schedule.h).
  // Empty: max_steps decides.
  std::string budget = "";

  double learning_rate = 1e-3;
  double min_lr = 1e-4;
  std::string schedule = "cosine";  // cosine | linear | constant | wsd
  int64_t warmup_steps = 100;
  int64_t decay_steps = 0;       // step at which min_lr is reached; 0 means max_steps
  double stable_fraction = 0.8;  // wsd: part of decay_steps before the decay begins

  double grad_clip = 1.0;  // 0 turns clipping off
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;

  std::string order = "random";    // random windows | epochs | windows: all of them
  int64_t eval_every = 250;        // 0: only at the end
  int64_t eval_batches = 20;       // 0: the whole held-out set
  int64_t train_eval_batches = 0;  // of the training part of an evaluation, at most; 0: as many
  int64_t eval_stride = 0;         // tokens between its windows' starts; 0: T
  int64_t first_eval_batches = 4;  // at most, before the first step; 0: as always
  int64_t checkpoint_every = 0;    // 0: with each evaluation
  std::string save = "model";      // model | adapter: what checkpoints of a run with adapters hold
  int64_t keep_last = 2;           // checkpoints, the newest; 1: no earlier one
  int64_t keep_every = 0;          // and those of multiples of so many steps; 0: none

  int64_t max_skipped_steps = 10;  // in a row; one more, and the run goes back
  int64_t max_rollbacks = 3;       // so often; one more is a divergence
  double spike_zscore = 0;         // 0: no step is a spike
  int64_t patience = 0;            // evaluations without a better loss; 0 for no limit
  int64_t max_tokens = 0;          // 0 for no limit
  std::string max_time = "";       // of this process, as ParseSeconds reads it; empty for no limit

  int64_t seed = 1337;
  std::string rng = "folio";   // folio | torch
  std::string dtype = "auto";  // auto | fp32 | bf16
  bool recompute = false;
  std::string backend = "cpu";
  bool check_numerics = false;
  int64_t threads = 0;                // 0: one on each core
  int64_t reduce_every = 1;           // micro-batches that are added up before they are sent
  std::string reduce_dtype = "fp32";  // fp32 | bf16: of gradients on their way to their sum
  int64_t tensor_parallel = 1;        // ranks that share each layer of the model

  std::vector<Field> Fields();
  // Throws a kUsage Error where settings do not fit each other.
  void Validate(const std::string& where) const;
  double max_seconds() const;     // max_time; infinite for no limit
  double budget_seconds() const;  // 0 for none
  int64_t decay_end() const { return decay_steps > 0 ? decay_steps : max_steps; }
  // The tokens that a step trains on, of all ranks. REQUIRES: context is set.
  int64_t tokens_per_step() const { return batch_size * grad_accumulation * context; }
  // Returns true if checkpoints contain only adapters.
  bool saves_adapters() const { return save == "adapter"; }
  // Returns true if the evaluation before the first step has at most first_eval_batches.
  bool first_eval_is_short() const {
    return first_eval_batches > 0 && max_steps > 0 && rng != "torch";
  }
};

// The settings of what a run logs while it trains (keys `log.*`).
struct LogConfig {
  int64_t every = 0;         // plain progress: a line each `every` steps too; 0: by time alone
  int64_t sample_every = 0;  // steps between samples; 0 for none
  int64_t sample_tokens = 100;
  std::string sample_prompt = "";
  bool tensorboard = false;
  int64_t layer_norms = 0;  // steps between them; 0 for none
  bool ranks = false;       // the time of each in every step

  std::vector<Field> Fields();
};

// The dtype that a run computes in, F32 or BF16: train.dtype, decided for this model and backend
// where it is "auto". Throws a kUsage Error where the backend has no BF16.
Dtype TrainDtype(const TrainConfig& train, const GptConfig& model, const Backend& backend);

// How a run's passes compute: TrainDtype, train.recompute and train.lora; `packed` for
// conversations.
PassOptions PassOptionsOf(const TrainConfig& train, const GptConfig& model, Backend& backend,
                          bool packed = false);

// train.reduce_dtype, to which gradients are rounded before they are added up.
Dtype ReduceDtype(const TrainConfig& train);

// A named set of settings: keys "section.name" and their values as they would be typed.
struct Preset {
  std::string name;
  std::string summary;
  std::vector<std::pair<std::string, std::string>> settings;
};

// gpt2, gpt2-medium, gpt2-large and gpt2-xl: the four sizes of A. Radford et al., "Language Models
// are Unsupervised Multitask Learners" (2019). char-cpu and char-gpu: small models of characters,
// with the settings of nanoGPT's two character-level runs. stories: the model of `make demo`.
// llama-tiny, qwen3-tiny and nanochat-tiny: models of that size with the layers of these families.
// debug: the smallest, which trains in a second.
std::span<const Preset> Presets();

// Throws a kUsage Error that names the nearest preset if there is none of this name.
const Preset& FindPreset(const std::string& name);

}  // namespace folio
