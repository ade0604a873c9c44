#include "folio/train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/model/adapters.h"
#include "folio/model/config.h"
#include "folio/tensor/dtype.h"

namespace folio {

std::vector<Field> TrainConfig::Fields() {
  constexpr double kMany = 1e15;
  return {
      Field{"init", &init,
            "a model to start from: its parameters, sizes and tokenizer are used; empty: new "
            "parameters"}
          .WithFlag("--init"),
      Field{"init_adapter", &init_adapter,
            "the directory of a LoRA adapter to merge into the weights of init first; empty: none"}
          .WithFlag("--adapter"),
      Field{"batch_size", &batch_size, "sequences in a micro-batch", 1, 1 << 24}.WithFlag(
          "--batch"),
      Field{"context", &context, "tokens in a sequence; 0 means the model's n_positions", 0,
            1 << 24}
          .WithFlag("--context"),
      Field{"grad_accumulation", &grad_accumulation, "micro-batches in a step", 1,
            static_cast<double>(kMaxMicroBatches)}
          .WithFlag("--grad-accumulation"),
      Field{"max_steps", &max_steps, "stop after this many steps", 0, kMany}.WithFlag(
          "--max-steps"),
      Field{"epochs", &epochs,
            "number of passes over the data, which sets max_steps; 0: train for max_steps", 0, 1e6}
          .WithFlag("--epochs"),
      Field{"budget", &budget,
            "time for the whole run (30s, 10m, 8h): steps and decay follow the clock, and the size "
            "of the model is chosen too unless something sets it"}
          .WithFlag("--budget"),
      Field{"learning_rate", &learning_rate, "highest learning rate", 0, 1e3}.WithFlag("--lr"),
      Field{"min_lr", &min_lr,
            "learning rate at the end of the decay; if only learning_rate is set, a tenth of it", 0,
            1e3},
      Field{"schedule", &schedule,
            "shape of the decay after the warm-up (wsd: warm-up, stable, decay)"}
          .Choices({"cosine", "linear", "constant", "wsd"}),
      Field{"warmup_steps", &warmup_steps, "steps over which the learning rate rises", 0, kMany},
      Field{"decay_steps", &decay_steps, "step at which min_lr is reached; 0 means max_steps", 0,
            kMany},
      Field{"stable_fraction", &stable_fraction,
            "wsd: fraction of decay_steps before the decay begins", 0, 1},
      Field{"grad_clip", &grad_clip, "maximum gradient norm (L2 over all parameters); 0: no limit",
            0, 1e9},
      Field{"weight_decay", &weight_decay,
            "weight decay of AdamW, for tensors of two or more dimensions", 0, 1e3},
      Field{"beta1", &beta1, "AdamW's beta1", 0, 0.999999},
      Field{"beta2", &beta2, "AdamW's beta2", 0, 0.99999999},
      Field{"eps", &eps, "AdamW's epsilon", 0, 1},
      Field{"order", &order,
            "order of windows: drawn at random; epochs that predict each token once; or epochs of "
            "all overlapping windows"}
          .Choices({"random", "epochs", "windows"}),
      Field{"eval_every", &eval_every, "steps between evaluations; 0 evaluates only at the end", 0,
            kMany}
          .WithFlag("--eval-every"),
      Field{"eval_batches", &eval_batches,
            "maximum number of held-out batches in an evaluation; 0: all. If it is not set, it and "
            "eval_every are chosen so that evaluations take at most a tenth of the run",
            0, kMany},
      Field{"train_eval_batches", &train_eval_batches,
            "maximum number of training batches in an evaluation; 0: as many as held-out batches",
            0, kMany},
      Field{"first_eval_batches", &first_eval_batches,
            "maximum number of batches in the evaluation before the first step; 0: as in other "
            "evaluations (always with PyTorch's random numbers)",
            0, kMany},
      Field{"eval_stride", &eval_stride,
            "tokens from one window of the whole held-out set to the next; 0 means the context. If "
            "windows overlap, the loss is the mean over all positions of all windows",
            0, 1 << 24},
      Field{"checkpoint_every", &checkpoint_every,
            "steps between checkpoints; 0: at each evaluation", 0, kMany},
      Field{"save", &save,
            "contents of checkpoints if adapters are trained: the whole model with the adapters "
            "merged into it, or only the adapters, with path and hash of the model of init, which "
            "is still needed"}
          .Choices({"model", "adapter"})
          .WithFlag("--save"),
      Field{"keep_last", &keep_last,
            "number of newest checkpoints to keep: one in last/, earlier ones in steps/, to which "
            "a run returns if necessary",
            1, 1e6},
      Field{"keep_every", &keep_every,
            "also keep the checkpoint of every multiple of this many steps; 0: none", 0, kMany},
      Field{"max_skipped_steps", &max_skipped_steps,
            "maximum number of consecutive steps that are skipped because loss or gradient is not "
            "finite or a spike; after one more, the run returns to a checkpoint before them",
            0, kMany},
      Field{"max_rollbacks", &max_rollbacks,
            "maximum number of returns to a checkpoint, after which the run continues with new "
            "data; one more ends the run as diverged",
            0, kMany},
      Field{"spike_zscore", &spike_zscore,
            "skip a step if the loss, or the logarithm of the gradient norm, is more than this "
            "many running standard deviations above its running mean; 0: never",
            0, 1e6},
      Field{"patience", &patience,
            "end the run after this many evaluations in a row without a better held-out loss; 0: "
            "never",
            0, kMany}
          .WithFlag("--patience"),
      Field{"max_tokens", &max_tokens, "end the run after this many tokens; 0: no limit", 0, kMany},
      Field{
          "max_time", &max_time,
          "save and end the run after this time since its start (90s, 8h, 1h30m); empty: no limit"}
          .WithFlag("--max-time"),
      Field{"seed", &seed, "seed of all random numbers of the run", 0, 9e15}.WithFlag("--seed"),
      Field{"rng", &rng, "random numbers of folio, or those of PyTorch to reproduce its runs"}
          .Choices({"folio", "torch"})
          .WithFlag("--rng"),
      Field{"dtype", &dtype,
            "number format of products and activations; weights, sums and losses are always fp32; "
            "auto is bf16 if this machine multiplies it faster and the model has 64 channels or "
            "more (and the random numbers are folio's), else fp32"}
          .Choices({"auto", "fp32", "bf16"})
          .WithFlag("--dtype"),
      Field{"recompute", &recompute,
            "recompute cheap activations in the backward pass: less memory, the same results"}
          .WithFlag("--recompute"),
      Field{"backend", &backend, "backend"}.Choices(BackendNames()).WithFlag("--backend"),
      Field{"check_numerics", &check_numerics,
            "check all results of each operation, and end the run at the first that is not finite, "
            "with the name of the operation; slow"}
          .WithFlag("--check-numerics"),
      Field{"reduce_every", &reduce_every,
            "micro-batches in a row whose gradients a rank adds before it sends them: that many "
            "times fewer bytes, at the cost of memory for one gradient",
            1, static_cast<double>(kMaxMicroBatches)}
          .WithFlag("--reduce-every"),
      Field{"reduce_dtype", &reduce_dtype,
            "number format in which gradients are sent to other ranks"}
          .Choices({"fp32", "bf16"})
          .WithFlag("--reduce-dtype"),
      Field{"tensor_parallel", &tensor_parallel,
            "ranks that share the heads and columns of each layer, and the vocabulary, for a model "
            "that is too large for one rank; results differ only by rounding",
            1, 1 << 16}
          .WithFlag("--tensor-parallel"),
      Field{"threads", &threads, "threads to use; 0: one for each core", 0, kMaxThreads}.WithFlag(
          "--threads"),
  };
}

double TrainConfig::max_seconds() const {
  return max_time.empty() ? HUGE_VAL : ParseSeconds(max_time, "train.max_time");
}

double TrainConfig::budget_seconds() const {
  return budget.empty() ? 0 : ParseSeconds(budget, "--budget");
}

void TrainConfig::Validate(const std::string& where) const {
  ValidateTargets(lora, where);
  static_cast<void>(max_seconds());
  static_cast<void>(budget_seconds());
  if (saves_adapters() && !lora.on()) {
    throw UsageError(fmt::format("{}: train.save = adapter needs --lora", where),
                     "lora.rank is 0: all parameters are trained",
                     "train adapters with --lora RANK, or remove --save");
  }
  if (schedule != "constant" && min_lr > learning_rate) {
    throw UsageError(fmt::format("{}: train.min_lr is above train.learning_rate", where),
                     fmt::format("min_lr is {}, learning_rate is {}", min_lr, learning_rate),
                     "lower train.min_lr, or set train.schedule = \"constant\"");
  }
  if (grad_accumulation % reduce_every != 0) {
    throw UsageError(
        fmt::format("{}: train.reduce_every does not divide train.grad_accumulation", where),
        fmt::format("{} micro-batches do not divide into groups of {}", grad_accumulation,
                    reduce_every),
        fmt::format("set train.reduce_every to {}",
                    NearestDivisors(grad_accumulation, reduce_every)));
  }
  if (eval_stride > 0 && eval_batches > 0) {
    throw UsageError(
        fmt::format("{}: train.eval_stride needs the whole held-out set", where),
        fmt::format("train.eval_batches is {}: batches are drawn at random", eval_batches),
        "set train.eval_batches = 0, or remove train.eval_stride");
  }
  if (context > 0 && eval_stride > context) {
    throw UsageError(fmt::format("{}: train.eval_stride skips tokens", where),
                     fmt::format("it is {}, windows have {} tokens", eval_stride, context),
                     fmt::format("set it to {} or less", context));
  }
}

std::vector<Field> LogConfig::Fields() {
  return {
      Field{"every", &every,
            "steps between log lines if progress is not shown on a terminal; 0: a line every few "
            "seconds",
            0, 1e15}
          .WithFlag("--log-every"),
      Field{"sample_every", &sample_every, "steps between samples of the model's text; 0: none", 0,
            1e15}
          .WithFlag("--sample-every"),
      Field{"sample_tokens", &sample_tokens, "number of tokens in a sample", 1, 1 << 20},
      Field{"sample_prompt", &sample_prompt,
            "beginning of a sample, or with conversations the message to answer; empty: the "
            "end-of-text token or a line break, or the first held-out question"},
      Field{"tensorboard", &tensorboard, "write event files for TensorBoard to RUN/tensorboard/"}
          .WithFlag("--tensorboard"),
      Field{"layer_norms", &layer_norms,
            "steps between records of the norms of each block's gradient, update and weights in "
            "metrics.jsonl; 0: none",
            0, 1e15},
      Field{"ranks", &ranks, "write the computing time of each rank and step to metrics.jsonl"},
  };
}

Dtype TrainDtype(const TrainConfig& train, const GptConfig& model, const Backend& backend) {
  if (train.dtype == DtypeSetting(Dtype::kF32)) return Dtype::kF32;
  if (train.dtype == DtypeSetting(Dtype::kBF16)) {
    if (!backend.Supports(Dtype::kBF16)) {
      throw UsageError(fmt::format("backend {} does not compute in bf16", backend.name()), "",
                       "use --dtype fp32, or --backend cpu");
    }
    return Dtype::kBF16;
  }
  FOLIO_CHECK(train.dtype == "auto", "no such train.dtype");
  // In narrower models rounding and packing cost more time than bfloat16 products gain: measured,
  // one of 128 channels trains in half the time.
  constexpr int64_t kFewestChannels = 64;
  // A run in lockstep with PyTorch is compared with float32 numbers.
  if (train.rng == "torch" || model.n_embd < kFewestChannels) return Dtype::kF32;
  return backend.PreferredDtype();
}

PassOptions PassOptionsOf(const TrainConfig& train, const GptConfig& model, Backend& backend,
                          bool packed) {
  const PassOptions options{.dtype = TrainDtype(train, model, backend),
                            .recompute = train.recompute,
                            .packed = packed,
                            .lora = train.lora};
  return options.On(backend);
}

Dtype ReduceDtype(const TrainConfig& train) {
  return train.reduce_dtype == DtypeSetting(Dtype::kBF16) ? Dtype::kBF16 : Dtype::kF32;
}

namespace {

using Settings = decltype(Preset::settings);

// Settings as they are typed after --set, with spaces between.
Settings Typed(const std::string& text) {
  Settings settings;
  for (const std::string& word : Split(text, ' ')) {
    const size_t equals = word.find('=');
    settings.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return settings;
}

Preset Gpt2(const std::string& name, const std::string& parameters, int layers, int heads,
            int channels) {
  return {name,
          fmt::format("GPT-2 with {} parameters: {} layers, {} heads, {} channels", parameters,
                      layers, heads, channels),
          Typed(fmt::format("model.vocab_size=50257 model.n_positions=1024 model.n_embd={} "
                            "model.n_layer={} model.n_head={} model.bos_token_id=50256 "
                            "model.eos_token_id=50256 train.batch_size=12 "
                            "train.grad_accumulation=40 train.max_steps=600000 "
                            "train.decay_steps=600000 train.learning_rate=6e-4 train.min_lr=6e-5 "
                            "train.warmup_steps=2000 train.beta1=0.9 train.beta2=0.95 "
                            "train.weight_decay=0.1 train.grad_clip=1 train.eval_every=1000 "
                            "train.eval_batches=200",
                            channels, layers, heads))};
}

// A model of characters whose settings are these but for what `own` says. The data decides how many
// characters there are; tinyshakespeare has 65.
Preset Char(const std::string& name, const std::string& summary, const std::string& own) {
  Preset preset{name, summary,
                Typed("model.vocab_size=65 model.n_layer=4 model.n_head=4 model.n_embd=128 "
                      "model.n_positions=64 model.bias=false model.embd_pdrop=0 model.attn_pdrop=0 "
                      "model.resid_pdrop=0 train.batch_size=12 train.max_steps=2000 "
                      "train.decay_steps=2000 train.learning_rate=1e-3 train.min_lr=1e-4 "
                      "train.warmup_steps=100 train.beta1=0.9 train.beta2=0.99 "
                      "train.weight_decay=0.1 train.grad_clip=1 train.eval_every=250 "
                      "train.eval_batches=20 data.tokenizer=char")};
  if (own.empty()) return preset;
  for (const auto& [key, value] : Typed(own)) {
    const auto found = std::ranges::find(preset.settings, key, &Settings::value_type::first);
    if (found == preset.settings.end()) {
      preset.settings.emplace_back(key, value);
    } else {
      found->second = value;
    }
  }
  return preset;
}

constexpr const char* kStories =
    "model.n_positions=128 train.batch_size=8 train.max_steps=3600 train.decay_steps=3600 "
    "train.learning_rate=4e-3 train.eval_every=400";

// A small model of what people's decoders have in common, trained as `stories`.
Preset Modern(const std::string& name, const std::string& family, const std::string& own) {
  return Char(name, "characters, a small " + family,
              fmt::format("{} model.norm=rms model.position_embedding=rotary {}", kStories, own));
}

}  // namespace

std::span<const Preset> Presets() {
  const std::string kGated =
      "model.mlp=gated model.activation_function=silu model.n_inner=384 model.n_kv_head=2";
  static const std::vector<Preset>& presets = *new std::vector<Preset>{
      Gpt2("gpt2", "124M", 12, 12, 768),
      Gpt2("gpt2-medium", "355M", 24, 16, 1024),
      Gpt2("gpt2-large", "774M", 36, 20, 1280),
      Gpt2("gpt2-xl", "1558M", 48, 25, 1600),
      Char("char-cpu", "characters, trains in a minute on two cores: 4 layers, 128 channels", ""),
      Char("char-gpu", "characters, a larger model: 6 layers, 384 channels, dropout 0.2",
           "model.n_layer=6 model.n_head=6 model.n_embd=384 model.n_positions=256 "
           "model.embd_pdrop=0.2 model.attn_pdrop=0.2 model.resid_pdrop=0.2 train.batch_size=64 "
           "train.max_steps=5000 train.decay_steps=5000 train.eval_batches=200"),
      // A minute on two cores takes it from noise to sentences.
      Char("stories", "characters, for the built-in stories: 4 layers, 128 channels", kStories),
      // Its blocks have as many parameters as those of `stories`.
      Modern("llama-tiny", "Llama: gated feed-forward layers, shared key and value heads", kGated),
      // Heads are wider than C / H, as in the published ones.
      Modern("qwen3-tiny",
             "Qwen 3: like llama-tiny, with wider heads and normalised queries and keys",
             kGated + " model.head_dim=64 model.qk_norm=head model.rope_theta=1e6 "
                      "model.layer_norm_epsilon=1e-6"),
      Modern("nanochat-tiny", "nanochat: ReLU squared, value embeddings, smear",
             "model.norm=rms_no_weight model.activation_function=relu2 model.qk_norm=after_rotary "
             "model.qk_scale=1.2 model.rope_theta=1e5 model.layer_norm_epsilon=1e-6 "
             "model.logit_cap=15 model.tie_word_embeddings=false model.embedding_norm=true "
             "model.smear=true model.residual_lambdas=true model.value_embeddings=true "
             "model.backout=true model.init=nanochat"),
      // To see that data and settings are right, before a run that takes longer, and every number
      // of a step on one page: B 2, T 8, C 4, H 2, F 4.
      Char("debug", "characters, trains in a second: 2 layers, 4 channels, for tests",
           "model.n_layer=2 model.n_head=2 model.n_embd=4 model.n_positions=8 train.batch_size=2 "
           "train.max_steps=100 train.decay_steps=100 train.learning_rate=1e-2 train.min_lr=1e-3 "
           "train.warmup_steps=10 train.eval_every=50 train.eval_batches=5 model.n_inner=4"),
  };
  return presets;
}

const Preset& FindPreset(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  const std::string nearest = Nearest(name, names);
  throw UsageError(
      fmt::format("there is no preset '{}'", name), "available presets: " + Join(names, ", "),
      nearest.empty() ? "choose one of them" : fmt::format("did you mean '{}'?", nearest));
}

}  // namespace folio
