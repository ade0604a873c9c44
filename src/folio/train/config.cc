#include "folio/train/config.h"

#include <fmt/format.h>

#include <cmath>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/model/config.h"

namespace folio {

std::vector<Field> TrainConfig::Fields() {
  constexpr double kMany = 1e15;
  return {
      Field{"init", &init,
            "a model directory or a run to start from, with its parameters, sizes and tokenizer; "
            "empty: new parameters"}
          .WithFlag("--init"),
      Field{"init_adapter", &init_adapter,
            "the directory of an adapter (LoRA) whose weights are added to those of init first; "
            "empty: none"}
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
      Field{"budget", &budget,
            "time for the whole run, on this machine (30s, 10m, 8h): steps and decay follow the "
            "clock, and where nothing says how large the model is, that is chosen too"}
          .WithFlag("--budget"),
      Field{"learning_rate", &learning_rate, "highest learning rate", 0, 1e3}.WithFlag("--lr"),
      Field{"min_lr", &min_lr,
            "learning rate at the end of the decay; a tenth of learning_rate where that alone is "
            "set",
            0, 1e3},
      Field{"schedule", &schedule,
            "shape of the decay after the warm-up (wsd: warm-up, stable, decay)"}
          .Choices({"cosine", "linear", "constant", "wsd"}),
      Field{"warmup_steps", &warmup_steps, "steps over which the learning rate rises", 0, kMany},
      Field{"decay_steps", &decay_steps, "step at which min_lr is reached; 0 means max_steps", 0,
            kMany},
      Field{"stable_fraction", &stable_fraction, "wsd: part of decay_steps before the decay begins",
            0, 1},
      Field{"grad_clip", &grad_clip,
            "longest gradient (L2 norm over all parameters); 0 for no limit", 0, 1e9},
      Field{"weight_decay", &weight_decay, "AdamW's decay, on tensors of two or more dimensions", 0,
            1e3},
      Field{"beta1", &beta1, "AdamW's memory of the gradient", 0, 0.999999},
      Field{"beta2", &beta2, "AdamW's memory of the squared gradient", 0, 0.99999999},
      Field{"eps", &eps, "AdamW's epsilon", 0, 1},
      Field{"order", &order,
            "windows drawn at random; epochs that predict each token once; or epochs of all "
            "overlapping windows"}
          .Choices({"random", "epochs", "windows"}),
      Field{"eval_every", &eval_every, "steps between evaluations; 0 for one at the end only", 0,
            kMany}
          .WithFlag("--eval-every"),
      Field{"eval_batches", &eval_batches,
            "batches of an evaluation, as far as the held-out set has so many; 0 for all of it. "
            "Unless it is set, evaluations take a tenth of the run at most, as with eval_every",
            0, kMany},
      Field{"first_eval_batches", &first_eval_batches,
            "batches of the evaluation before the first step, if that is fewer; 0 for as many as "
            "always, as in runs with PyTorch's random numbers",
            0, kMany},
      Field{
          "eval_stride", &eval_stride,
          "tokens from one window of the whole held-out set to the next; 0 means the context. With "
          "fewer the windows overlap and the loss is the mean over every position of every window",
          0, 1 << 24},
      Field{"checkpoint_every", &checkpoint_every,
            "steps between checkpoints; 0: at each evaluation", 0, kMany},
      Field{"keep_last", &keep_last,
            "checkpoints to keep, the newest ones: one in last/, earlier ones in steps/, which a "
            "run goes back to if it has to",
            1, 1e6},
      Field{"keep_every", &keep_every,
            "keep the checkpoints of multiples of so many steps too; 0 for none", 0, kMany},
      Field{"max_skipped_steps", &max_skipped_steps,
            "steps in a row whose update may be left out because loss or gradient is not finite or "
            "a spike; one more, and the run goes back to a checkpoint from before them",
            0, kMany},
      Field{"max_rollbacks", &max_rollbacks,
            "how often a run may go back to a checkpoint and on with data that it has not seen; "
            "one more ends it as diverged",
            0, kMany},
      Field{"spike_zscore", &spike_zscore,
            "leave the update out where the loss, or the logarithm of the gradient's norm, is more "
            "than so many running standard deviations above its running mean; 0 for never",
            0, 1e6},
      Field{"patience", &patience,
            "end the run after so many evaluations in a row without a better held-out loss; 0 for "
            "never",
            0, kMany}
          .WithFlag("--patience"),
      Field{"max_tokens", &max_tokens, "end the run after this many tokens; 0 for no limit", 0,
            kMany},
      Field{"max_time", &max_time,
            "save and end the run before it has trained so long since it was started (90s, 8h, "
            "1h30m); empty for no limit"}
          .WithFlag("--max-time"),
      Field{"seed", &seed, "of every random number in the run", 0, 9e15}.WithFlag("--seed"),
      Field{"rng", &rng, "folio's random numbers, or PyTorch's for a run in lockstep with it"}
          .Choices({"folio", "torch"})
          .WithFlag("--rng"),
      Field{"dtype", &dtype,
            "number format of products and activations; weights, sums and losses are fp32 always; "
            "auto is bf16 where this machine multiplies it faster and the model has 64 channels or "
            "more (and the random numbers are folio's), else fp32"}
          .Choices({"auto", "fp32", "bf16"})
          .WithFlag("--dtype"),
      Field{"recompute", &recompute,
            "make cheap activations again in the backward: less memory, the same numbers"}
          .WithFlag("--recompute"),
      Field{"backend", &backend, "what computes"}
          .Choices({"cpu", "reference", "checked", "timed"})
          .WithFlag("--backend"),
      Field{"check_numerics", &check_numerics,
            "look at every number that an operation writes, and end the run at the first that is "
            "not finite, with the operation's name; slow"}
          .WithFlag("--check-numerics"),
      Field{"reduce_every", &reduce_every,
            "micro-batches in a row whose gradients a rank adds up before it sends them: that many "
            "times fewer bytes, for room for a gradient",
            1, static_cast<double>(kMaxMicroBatches)}
          .WithFlag("--reduce-every"),
      Field{"reduce_dtype", &reduce_dtype,
            "what gradients are rounded to before they are sent and added to the others'"}
          .Choices({"fp32", "bf16"})
          .WithFlag("--reduce-dtype"),
      Field{"tensor_parallel", &tensor_parallel,
            "ranks that share the heads and columns of each layer, and the vocabulary, for a model "
            "that is too large for one; the numbers are the same but for rounding",
            1, 1 << 16}
          .WithFlag("--tensor-parallel"),
      Field{"threads", &threads, "processors to use; 0 for one on each core", 0, kMaxThreads}
          .WithFlag("--threads"),
  };
}

double TrainConfig::max_seconds() const {
  return max_time.empty() ? HUGE_VAL : ParseSeconds(max_time, "train.max_time");
}

double TrainConfig::budget_seconds() const {
  return budget.empty() ? 0 : ParseSeconds(budget, "--budget");
}

void TrainConfig::Validate(const std::string& where) const {
  lora.Validate(where);
  static_cast<void>(max_seconds());
  static_cast<void>(budget_seconds());
  if (schedule != "constant" && min_lr > learning_rate) {
    throw UsageError(fmt::format("{}: train.min_lr is above train.learning_rate", where),
                     fmt::format("min_lr is {}, learning_rate is {}", min_lr, learning_rate),
                     "lower train.min_lr, or set train.schedule = \"constant\"");
  }
  if (grad_accumulation % reduce_every != 0) {
    throw UsageError(
        fmt::format("{}: train.reduce_every does not divide train.grad_accumulation", where),
        fmt::format("{} micro-batches do not go into sums of {}", grad_accumulation, reduce_every),
        fmt::format("set train.reduce_every to {}",
                    NearestDivisors(grad_accumulation, reduce_every)));
  }
  if (eval_stride > 0 && eval_batches > 0) {
    throw UsageError(
        fmt::format("{}: train.eval_stride needs the whole held-out set", where),
        fmt::format("train.eval_batches is {}: so many batches are drawn at random", eval_batches),
        "set train.eval_batches = 0, or leave train.eval_stride out");
  }
  if (context > 0 && eval_stride > context) {
    throw UsageError(fmt::format("{}: train.eval_stride leaves tokens out", where),
                     fmt::format("it is {}, windows have {} tokens", eval_stride, context),
                     fmt::format("set it to {} or less", context));
  }
}

std::vector<Field> LogConfig::Fields() {
  return {
      Field{"every", &every,
            "steps between lines where progress is not a terminal; 0: every few seconds", 0, 1e15}
          .WithFlag("--log-every"),
      Field{"sample_every", &sample_every,
            "steps between samples of what the model writes; 0 for none", 0, 1e15}
          .WithFlag("--sample-every"),
      Field{"sample_tokens", &sample_tokens, "tokens of a sample", 1, 1 << 20},
      Field{"sample_prompt", &sample_prompt,
            "how a sample begins, or on conversations what it answers; empty starts from the "
            "end-of-text token or a line break, or asks the first held-out question"},
      Field{"tensorboard", &tensorboard,
            "write RUN/tensorboard/, event files that TensorBoard reads"}
          .WithFlag("--tensorboard"),
      Field{"layer_norms", &layer_norms,
            "steps between norms of each block's gradient, update and weights in metrics.jsonl; 0 "
            "for none",
            0, 1e15},
      Field{"ranks", &ranks,
            "write the seconds that each rank computes in a step to metrics.jsonl"},
  };
}

}  // namespace folio
