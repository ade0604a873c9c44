#include "folio/run/automatic_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/bench/training.h"
#include "folio/data/conversations.h"
#include "folio/io/model_dir.h"
#include "folio/model_files/adapter_files.h"
#include "folio/run/preview.h"
#include "folio/train/config.h"
#include "folio/train/run_batches.h"
#include "folio/train/schedule.h"
#include "folio/train/train_cost.h"
#include "folio/train/train_step.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

std::vector<int64_t> AllPositions(const Dataset& data) {
  if (!data.info().chat) return {};
  std::vector<int64_t> all = PositionsOfConversations(data.train_chats());
  const std::vector<int64_t> held_out = PositionsOfConversations(data.val_chats());
  all.insert(all.end(), held_out.begin(), held_out.end());
  return all;
}

int64_t LongestOf(const std::vector<int64_t>& positions) {
  return positions.empty() ? 0 : std::ranges::max(positions);
}

// The positions that the longest conversation of a data set takes; 0 for texts.
int64_t LongestConversation(const Dataset& data) {
  return LongestOf(AllPositions(data));
}

// Returns a way to keep all conversations whole.
std::string WayOut(const RunSettings& settings, int64_t longest) {
  const GptConfig& model = settings.config.model;
  const bool chosen = settings.layers.origin("model.n_positions") == "preset automatic";
  if (chosen || longest <= model.n_positions) {
    return fmt::format("--context {} fits all of them", longest);
  }
  return settings.config.train.init.empty()
             ? fmt::format("--set model.n_positions={} fits all of them", longest)
             : "remove the long ones";
}

struct Size {
  int64_t layers, heads, channels, context;
};
constexpr Size kSizes[] = {{2, 2, 64, 64},   {3, 3, 96, 128},   {4, 4, 128, 128},
                           {4, 6, 192, 128}, {6, 4, 256, 256},  {6, 6, 384, 256},
                           {8, 8, 512, 256}, {12, 12, 768, 512}};

// A size is worthwhile if the model sees so many tokens for each of its parameters; one twice as
// large would learn less in the same time. J. Hoffmann et al., arXiv:2203.15556, find about 20 for
// models that see no token twice; small ones on small texts gain from being a little larger.
constexpr double kTokensPerParameter = 10;
// Parameters for each token of a text, beyond which a model memorises it.
constexpr double kParametersPerToken = 2;
constexpr double kTraining = 0.9;  // of the time; the rest is evaluations and files

// The time of a measurement.
constexpr double kMeasureSeconds = 0.2;

// The longest sequence that both parts of the data can fill.
int64_t LongestContext(const Dataset& data) {
  const int64_t shortest = std::min(data.train().size(), data.val().size());
  const auto room = static_cast<uint64_t>(std::max<int64_t>(2, shortest - 1));
  return static_cast<int64_t>(std::bit_floor(room));
}

// The longest sequence that is chosen for conversations.
constexpr int64_t kMostChosen = 2048;

struct Choice {
  Size size = kSizes[0];
  double tokens = 0;  // the number on which it can train in the time
};

// Floating-point operations a second of training such a model with sequences of T, measured for
// about as long as `flops` of them take.
double RateOf(const RunConfig& config, int64_t T, Backend& backend, double flops) {
  return MeasureTrainRate(backend,
                          {.model = config.model,
                           .train = config.train,
                           .T = T,
                           .pass = PassOptionsOf(config.train, config.model, backend)},
                          flops);
}

// The largest worthwhile size, for sequences of `context` tokens, or of a length that suits the
// size if that is 0.
Choice LargestWorthy(const RunConfig& config, int64_t context, const Dataset& data,
                     Backend& backend, double seconds) {
  std::optional<Choice> best;
  double rate = 1e10;
  const int64_t whole = std::min(LongestConversation(data), kMostChosen);
  const int64_t kv_heads = config.model.n_kv_head.value_or(1);
  for (Size size : kSizes) {
    if (size.heads % kv_heads != 0) continue;
    size.context =
        context > 0 ? context : std::max(whole, std::min(size.context, LongestContext(data)));
    RunConfig tried = config;
    tried.model.n_layer = size.layers;
    tried.model.n_head = size.heads;
    tried.model.n_embd = size.channels;
    tried.model.n_positions = size.context;
    if (data.info().vocab_size > 0) tried.model.vocab_size = data.info().vocab_size;
    const TrainFlops flops(tried.model, size.context, tried.train.lora);
    const auto parameters = static_cast<double>(flops.matrix_parameters);
    const bool by_heart =
        parameters > kParametersPerToken * static_cast<double>(data.train().size());
    if (best && by_heart) break;
    rate = RateOf(tried, size.context, backend, kMeasureSeconds * rate);
    const double tokens = seconds * rate / flops.per_token();
    if (best && tokens < kTokensPerParameter * parameters) break;
    best = Choice{size, tokens};
  }
  if (!best) {
    throw UsageError("settings: no automatic model size has such heads",
                     fmt::format("n_kv_head is {}, which does not divide their n_head", kv_heads),
                     "set n_head and n_embd, too");
  }
  return *best;
}

// Describes the time of the run, and, if it is not set, how to set it.
std::string TimeGiven(double seconds, const TrainConfig& train) {
  if (!train.budget.empty()) {
    return fmt::format("{} on this machine", HumanSeconds(train.budget_seconds()));
  }
  return fmt::format("about {} on this machine (use --budget 1h for a longer run)",
                     HumanSeconds(seconds));
}

// Values of settings by their keys, as texts.
class Chosen {
 public:
  template <class T>
  Chosen& Set(std::string key, const T& value) {
    values_.emplace_back(std::move(key), fmt::format("{}", value));
    return *this;
  }
  // Makes them a preset of that name, and resolves the settings.
  void Use(RunSettings& settings, const std::string& preset) const {
    settings.layers.UsePreset(preset, values_);
    settings.Resolve();
  }

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

// Returns true if a setting stronger than a preset gives the value.
bool Asked(const RunSettings& settings, const char* key) {
  return settings.layers.layer(key) > Layer::kPreset;
}

// The number of steps that was set, in steps or in epochs of the chosen batches.
std::optional<int64_t> AskedSteps(const RunSettings& settings, const Dataset& data) {
  const TrainConfig& train = settings.config.train;
  if (train.epochs > 0) return StepsOfEpochs(data, train);
  if (Asked(settings, "train.max_steps")) return train.max_steps;
  return {};
}

// The number of steps of the chosen batches that can be made in `seconds`.
double AffordableSteps(const RunConfig& config, Backend& backend, double seconds) {
  const TrainConfig& train = config.train;
  const double rate = RateOf(config, train.context, backend, kMeasureSeconds * 1e10);
  const auto tokens = static_cast<double>(train.tokens_per_step());
  return kTraining * seconds * rate /
         TrainFlops(config.model, train.context, train.lora).per_token() / tokens;
}

// Describes the choice and its duration: `time`, or how often the data is read if that is "".
std::string DescribeSteps(const TrainConfig& train, const Dataset& data, const std::string& time) {
  const double epochs = static_cast<double>(train.max_steps) / StepsPerEpoch(data, train);
  return fmt::format("automatic settings: {} steps of {} sequences of {} tokens, {}",
                     WithCommas(train.max_steps), train.batch_size, train.context,
                     time.empty() ? HowOften(epochs) + " over the text" : time);
}

bool IsOpen(const RunSettings& settings, const char* key) {
  return settings.layers.layer(key) == Layer::kBuiltIn;
}

}  // namespace

bool SizeIsOpen(const Settings& layers) {
  return std::ranges::all_of(
      std::array{"n_layer", "n_head", "n_embd", "n_positions"},
      [&](const std::string& key) { return layers.layer("model." + key) == Layer::kBuiltIn; });
}

void FollowEpochs(RunSettings& settings, const Dataset& data) {
  TrainConfig& train = settings.config.train;
  const bool chosen = settings.layers.layer("train.epochs") <= Layer::kPreset;  // with its steps
  if (train.epochs == 0 || chosen || !train.budget.empty()) return;
  if (settings.layers.layer("train.order") == Layer::kBuiltIn && train.rng != "torch") {
    Chosen().Set("train.order", "epochs").Use(settings, "follows train.epochs");
  }
  settings.layers.Set(Layer::kFlag, "train.max_steps", std::to_string(StepsOfEpochs(data, train)),
                      "follows train.epochs");
  settings.Resolve();
}

std::string ChooseSteps(RunSettings& settings, const Dataset& data, Backend& backend,
                        double seconds) {
  constexpr int64_t kTokensPerStep = 4096, kParts = 8, kFewSteps = 50;
  RunConfig& config = settings.config;
  TrainConfig& train = config.train;
  train.context = IsOpen(settings, "train.context")
                      ? std::min(config.model.n_positions,
                                 std::max(LongestContext(data), LongestConversation(data)))
                      : ContextOf(config.model, train);
  const int64_t T = train.context;
  const double worthwhile = WorthwhileEpochs(train) * static_cast<double>(data.train().size());
  if (IsOpen(settings, "train.batch_size")) {
    // A batch of a small text is a few sequences, so that there are some steps all the same.
    const auto most = static_cast<int64_t>(worthwhile / static_cast<double>(kFewSteps * T));
    train.batch_size = std::clamp<int64_t>(std::min(kTokensPerStep / T, most), 1, 32);
  }
  const double affordable = AffordableSteps(config, backend, seconds);
  const double enough = worthwhile / static_cast<double>(train.tokens_per_step());
  const int64_t steps = std::max(kParts, static_cast<int64_t>(std::min(affordable, enough)));
  Chosen()
      .Set("train.context", T)
      .Set("train.batch_size", train.batch_size)
      .Set("train.max_steps", steps)
      .Set("train.warmup_steps", std::min(train.warmup_steps, steps / 10))
      .Set("train.eval_every", std::max<int64_t>(1, steps / kParts))
      .Use(settings, "automatic");
  return DescribeSteps(train, data, enough < affordable ? "" : TimeGiven(seconds, train));
}

std::string ChooseSize(RunSettings& settings, const Dataset& data, Backend& backend,
                       double seconds) {
  constexpr int64_t kSteps = 4000, kParts = 8;
  RunConfig& config = settings.config;
  const auto [size, affordable] =
      LargestWorthy(config, Asked(settings, "train.context") ? config.train.context : 0, data,
                    backend, kTraining * seconds);
  const double epoch = static_cast<double>(data.train().size());
  const double tokens = std::min(affordable, WorthwhileEpochs(config.train) * epoch);
  const int64_t T = config.train.context = size.context;
  const int64_t B = config.train.batch_size =
      Asked(settings, "train.batch_size")
          ? config.train.batch_size
          : std::clamp<int64_t>(static_cast<int64_t>(tokens / static_cast<double>(kSteps * T)), 4,
                                64);
  int64_t steps = static_cast<int64_t>(tokens / static_cast<double>(B * T));
  const std::optional<int64_t> asked = AskedSteps(settings, data);
  steps = asked ? *asked : std::max(kParts, steps / kParts * kParts);
  const double epochs = tokens / epoch;
  const double dropout = epochs < 5 ? 0 : epochs < 15 ? 0.1 : 0.2;
  const double rate = std::clamp(3e-3 * 128 / static_cast<double>(size.channels), 6e-4, 4e-3);
  Chosen()
      .Set("model.n_layer", size.layers)
      .Set("model.n_head", size.heads)
      .Set("model.n_embd", size.channels)
      .Set("model.n_positions", size.context)
      .Set("model.bias", false)
      .Set("model.embd_pdrop", dropout)
      .Set("model.attn_pdrop", dropout)
      .Set("model.resid_pdrop", dropout)
      .Set("train.batch_size", B)
      .Set("train.max_steps", steps)
      .Set("train.learning_rate", fmt::format("{:.3g}", rate))
      .Set("train.min_lr", fmt::format("{:.3g}", rate / 10))
      .Set("train.warmup_steps", std::min<int64_t>(100, steps / 10))
      .Set("train.beta2", 0.99)
      .Set("train.eval_every", std::max<int64_t>(1, steps / kParts))
      .Set("log.sample_every", std::max<int64_t>(1, 2 * (steps / kParts)))
      .Set("log.sample_tokens", 200)
      .Use(settings, "automatic");
  return fmt::format(
      "automatic settings: {}, {} layers of {} channels, sequences of {} tokens, {} steps of {} "
      "sequences\nchosen for {} tokens of text and {}{}; override with --preset NAME or --set "
      "model.n_embd=N",
      data.info().tokenizer_kind == "char" ? "characters" : "tokens", size.layers, size.channels, T,
      WithCommas(steps), B, WithCommas(data.train().size() + data.val().size()),
      TimeGiven(seconds, config.train),
      tokens < affordable && !asked
          ? fmt::format(" (it is read {}, since more would not help)",
                        HowOften(static_cast<double>(steps * B * T) / epoch))
          : "");
}

std::string LimitEvaluations(RunSettings& settings, int64_t held_out_tokens) {
  constexpr double kMost = 0.1;
  constexpr int64_t kFewBatches = 4;
  constexpr int64_t kCurve = 12;  // evaluations that show how a run went
  TrainConfig& train = settings.config.train;
  const TrainConfig before = train;
  const bool batches = !Asked(settings, "train.eval_batches") && train.eval_stride == 0;
  const bool every = !Asked(settings, "train.eval_every");
  const bool training = batches && !Asked(settings, "train.train_eval_batches");
  if (train.rng == "torch" || train.max_steps == 0) return "";
  const auto too_many = [&] {
    const TrainWork work = WorkAhead(settings.config.model, train, held_out_tokens, 0);
    return work.evaluation_flops > kMost * work.flops;
  };
  const auto all = [&] { return EvaluationSizeOf(train, held_out_tokens).val; };
  const auto of_training = [&] { return EvaluationSizeOf(train, held_out_tokens).train; };
  // Makes evaluations rarer, unless fewer than `left` would remain after the first.
  const auto rarer = [&](int64_t left) {
    const int64_t next = train.eval_every + std::max<int64_t>(1, train.eval_every / 4);
    if (!every || train.eval_every == 0 || train.max_steps / next < left) return false;
    train.eval_every = next;
    return true;
  };
  // Shortens evaluations first, to a few batches, then makes them rarer, as long as there is a
  // curve, then does whatever else is possible.
  while (too_many()) {
    if (batches && all() > kFewBatches) {
      train.eval_batches = std::max(kFewBatches, all() / 2);
    } else if (training && of_training() > 1) {
      train.train_eval_batches = of_training() / 2;
    } else if (!rarer(kCurve)) {
      if (batches && all() > 1) {
        train.eval_batches = all() / 2;
      } else if (!rarer(1)) {
        // A model's progress is seen only beside an evaluation before it.
        if (!every || train.eval_every == 0 || !train.init.empty()) break;
        train.eval_every = 0;
      }
    }
  }
  if (train.eval_batches == before.eval_batches && train.eval_every == before.eval_every &&
      train.train_eval_batches == before.train_eval_batches) {
    return "";
  }
  const int64_t left = all();
  Chosen()
      .Set("train.eval_batches", train.eval_batches)
      .Set("train.train_eval_batches", train.train_eval_batches)
      .Set("train.eval_every", train.eval_every)
      .Use(settings, "a tenth of the run");
  return fmt::format(
      "evaluations: {} batch{}{}, at most a tenth of the run time", left, left == 1 ? "" : "es",
      train.eval_every == 0 ? " at the end"
                            : fmt::format(" every {} steps", WithCommas(train.eval_every)));
}

std::string RequireWholeConversations(const RunSettings& settings, const Dataset& data) {
  const std::vector<int64_t> all = AllPositions(data);
  const int64_t T = settings.config.train.context, longest = LongestOf(all);
  if (longest <= T) return "";
  const auto longer = std::ranges::count_if(all, [&](int64_t positions) { return positions > T; });
  const std::string cut = fmt::format(
      "{} of {} conversations are longer than a sequence of {} tokens; the longest has {}",
      WithCommas(longer), WithCommas(std::ssize(all)), WithCommas(T), WithCommas(longest));
  if (Asked(settings, "train.context") || Asked(settings, "model.n_positions"))
    return cut + "; they are truncated";
  throw UsageError("conversations would be truncated", cut,
                   fmt::format("{}; --context {} truncates them", WayOut(settings, longest), T));
}

namespace {

// The settings of initialisation, which a trained model does not need.
constexpr std::array kNotOfAModel = {"init", "initializer_range", "init_zero_positions",
                                     "init_scaled_residuals"};
// The settings that the tokenizer of the data decides.
constexpr std::array kOfTheTokenizer = {"bos_token_id", "eos_token_id"};

bool IsDropout(GptConfig& config, const Field& field) {
  return std::ranges::any_of(GptConfig::DropoutRates(), [&](auto rate) {
    return field.value == Field::Value(&(config.*rate));
  });
}

[[noreturn]] void Refuse(const Settings& layers, const std::string& key, const std::string& had,
                         const std::string& asked, const std::string& help) {
  throw UsageError(fmt::format("{}: {} cannot be used with --init", layers.origin(key), key),
                   fmt::format("it is {}, but {} in the model", asked, had), help);
}

// `field` of the model, and the setting of that name, `asked`.
void RequireGoesTogether(const Settings& layers, GptConfig& model, const Field& field,
                         const GptConfig& asked_config, const Field& asked) {
  const std::string key = "model." + field.key;
  const std::string had = FieldText(field), wanted = FieldText(asked);
  if (layers.layer(key) <= Layer::kPreset || had == wanted || IsDropout(model, field)) return;
  if (field.key == "n_positions") {
    if (asked_config.n_positions < model.n_positions || !model.learned_positions()) return;
    Refuse(layers, key, had, wanted, "positions can be removed, but not added");
  }
  if (field.key == "vocab_size") {
    if (asked_config.vocab_size > model.vocab_size) return;
    Refuse(layers, key, had, wanted, "tokens can be added, but not removed");
  }
  Refuse(layers, key, had, wanted,
         "remove it: only dropout, a shorter n_positions and a larger vocab_size can be set");
}

// --- Defaults of fine-tuning. scripts/finetune_defaults.py measures what these values teach and
// what they make a model forget.

// A way of fine-tuning. The rates are the highest ones for a model of kRateChannels, of which
// narrow ones bear many times more, and wide ones little less; never more than `highest`.
// Conversations, of which the answers alone are learned, bear more than texts do.
struct FineTuning {
  double text_rate, chat_rate, highest, weight_decay;
};
constexpr FineTuning kFull = {
    .text_rate = 4e-5, .chat_rate = 8e-5, .highest = 1.5e-3, .weight_decay = 0.01};
constexpr FineTuning kAdapters = {
    .text_rate = 2e-4, .chat_rate = 3e-4, .highest = 4e-3, .weight_decay = 0};
constexpr double kRateChannels = 576, kNarrowExponent = 1.65, kWideExponent = 0.5;
// At every rank, so that a rate means the same at all of them (scale = alpha / rank).
constexpr double kAdapterAlpha = 32;
constexpr const char* kAdapterTargets = "all-linear";

// Data of at most so many tokens is read so often. A text that is learned already only drives out
// more.
struct Reading {
  double tokens, epochs;
};
constexpr Reading kTextEpochs[] = {{8e3, 8}, {2.5e4, 2}, {HUGE_VAL, 1}};
constexpr Reading kChatEpochs[] = {{8e3, 5}, {5e4, 3}, {1e6, 2}, {HUGE_VAL, 1}};

// Data is cut into so many steps, of between so many tokens, and a step into sequences of so many
// at most (conversations stay whole): in short ones the beginnings are learned above all, which are
// the least of a text's own.
constexpr double kFineTuningSteps = 64;
constexpr int64_t kFewestTokens = 512, kMostTokens = 2048, kLongestSequence = 512;
constexpr int64_t kFewestSteps = 8, kCurvePoints = 16;  // evaluations of a run
constexpr int64_t kWarmupPart = 20, kLongestWarmup = 100;

const FineTuning& WayOf(const TrainConfig& train) {
  return train.lora.on() ? kAdapters : kFull;
}

// Sets the rates of a run, of which `rate` is the highest for a model of kRateChannels.
void SetRates(const GptConfig& model, const FineTuning& way, double rate, Chosen& chosen) {
  const double wider = static_cast<double>(model.n_embd) / kRateChannels;
  const double exponent = wider < 1 ? kNarrowExponent : kWideExponent;
  const double highest = std::min(way.highest, rate / std::pow(wider, exponent));
  chosen.Set("train.learning_rate", fmt::format("{:.2g}", highest))
      .Set("train.min_lr", fmt::format("{:.2g}", highest / 10));
}

std::string OfTokens(const Tokenizer& tokenizer, const std::filesystem::path& where) {
  return fmt::format("{} has {} tokens of kind {}", where.string(),
                     WithCommas(tokenizer.vocab_size()), tokenizer.kind());
}

}  // namespace

void UseInitialModel(RunSettings& settings, const FoundModel& found) {
  Settings& layers = settings.layers;
  if (layers.layer("model.n_embd") == Layer::kPreset) {
    throw UsageError("--preset and --init cannot be used together", "both give the model",
                     "remove one of them");
  }
  GptConfig model = found.model.config;
  Chosen values;
  const std::vector<Field> fields = model.Fields(), asked = settings.config.model.Fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    const auto is = [&](const char* key) { return field.key == key; };
    if (std::ranges::any_of(kNotOfAModel, is)) continue;
    if (!std::ranges::any_of(kOfTheTokenizer, is)) {
      RequireGoesTogether(layers, model, field, settings.config.model, asked[i]);
    }
    values.Set("model." + field.key, FieldText(field));
  }
  if (found.tokenizer != nullptr) {
    const bool own_file = std::filesystem::exists(found.path / kTokenizerFile);
    values.Set("data.tokenizer", own_file ? found.path.string() : settings.config.train.init);
  }
  const FineTuning& way = WayOf(settings.config.train);
  SetRates(model, way, way.text_rate, values);
  values.Set("train.weight_decay", way.weight_decay);
  values.Set("train.beta2", "0.999");  // a long memory of large gradients keeps steps small
  if (settings.config.train.lora.on()) {
    values.Set("lora.alpha", kAdapterAlpha).Set("lora.targets", kAdapterTargets);
  }
  values.Set("train.first_eval_batches", 0);  // the first evaluation shows what was learned
  values.Use(settings, "--init");
}

std::string ChooseFineTuning(RunSettings& settings, const Dataset& data, Backend& backend,
                             double seconds) {
  RunConfig& config = settings.config;
  TrainConfig& train = config.train;
  const auto tokens = static_cast<double>(data.train().size());
  const bool in_steps = train.epochs == 0 && Asked(settings, "train.max_steps");
  if (train.epochs == 0 && !in_steps) {
    const std::span<const Reading> rows =
        data.info().chat ? std::span<const Reading>(kChatEpochs) : kTextEpochs;
    train.epochs = std::ranges::find_if(rows, [&](const Reading& row) {
                     return tokens <= row.tokens;
                   })->epochs;
  }
  const double epochs = in_steps ? 1 : train.epochs;
  const int64_t step_tokens = static_cast<int64_t>(
      std::clamp<double>(tokens * epochs / kFineTuningSteps, kFewestTokens, kMostTokens));
  if (IsOpen(settings, "train.context")) {
    const int64_t longest =
        std::min(std::min(LongestContext(data), kLongestSequence),
                 static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(step_tokens))));
    train.context =
        std::min(config.model.n_positions, std::max(longest, LongestConversation(data)));
  } else {
    train.context = ContextOf(config.model, train);
  }
  if (IsOpen(settings, "train.batch_size")) {
    train.batch_size =
        std::max<int64_t>(1, step_tokens / (train.context * train.grad_accumulation));
  }
  if (IsOpen(settings, "train.order")) train.order = "epochs";
  const double epoch = StepsPerEpoch(data, train);
  int64_t steps = in_steps ? train.max_steps : StepsOfEpochs(data, train);
  std::string time;
  if (!in_steps && !Asked(settings, "train.epochs")) {
    steps = std::max(kFewestSteps, steps);
    const double affordable = seconds > 0 ? AffordableSteps(config, backend, seconds) : HUGE_VAL;
    if (affordable < static_cast<double>(steps)) {
      steps = std::max(kFewestSteps, static_cast<int64_t>(affordable));
      time = TimeGiven(seconds, train);
    }
    // With a budget they are the most that the clock may make of it.
    if (train.budget.empty()) train.epochs = static_cast<double>(steps) / epoch;
  }
  Chosen chosen;
  if (data.info().chat) {
    SetRates(config.model, WayOf(train), WayOf(train).chat_rate, chosen);
  }
  chosen.Set("train.context", train.context)
      .Set("train.batch_size", train.batch_size)
      .Set("train.order", train.order)
      .Set("train.epochs", fmt::format("{:.6g}", train.epochs))
      .Set("train.max_steps", steps)
      .Set("train.warmup_steps", std::min(steps / kWarmupPart, kLongestWarmup))
      .Set("train.eval_every", std::max<int64_t>(1, steps / kCurvePoints))
      .Use(settings, "automatic");
  return DescribeSteps(train, data, time);
}

std::string AdviceAfter(const RunConfig& config, const TrainResult& result) {
  constexpr double kHardly = 0.05;  // of the loss at the beginning
  constexpr double kRisen = 0.02;   // of the best loss
  constexpr double kRateFactor = 3;
  const TrainConfig& train = config.train;
  if (train.init.empty() || !result.first_val_loss || !result.evaluation || result.step == 0) {
    return "";
  }
  const double before = *result.first_val_loss, after = result.evaluation->val_loss;
  const std::string lower = fmt::format("--lr {:.2g}", train.learning_rate / kRateFactor);
  if (result.best_val_loss && after > (1 + kRisen) * *result.best_val_loss) {
    return fmt::format(
        "held-out loss rose from {:.4f} at step {} to {:.4f}; best/ contains the model of that "
        "step; next time, try fewer epochs (--max-steps {}) or {}",
        *result.best_val_loss, WithCommas(result.best_step), after, result.best_step, lower);
  }
  if (after > before) {
    return fmt::format(
        "held-out loss rose from {:.4f} to {:.4f}: the model did not improve; next time, try {}",
        before, after, lower);
  }
  if (result.stopped || before - after >= kHardly * before) return "";
  std::string next = fmt::format("--lr {:.2g}", train.learning_rate * kRateFactor);
  LoraConfig all = train.lora;
  all.targets = kAdapterTargets;
  ResolveTargets(all, config.model, "settings");
  if (train.lora.on() && all != train.lora) {
    next += fmt::format(" or --set lora.targets={}", kAdapterTargets);
  }
  return fmt::format(
      "held-out loss hardly changed, from {:.4f} to {:.4f}; next time, try {}, or more epochs",
      before, after, next);
}

void RequireTokenizerOf(const FoundModel& model, const Dataset& data, const Tokenizer* tokenizer) {
  const Tokenizer* own = model.tokenizer.get();
  if (tokenizer == nullptr || own == nullptr || own->hash() == tokenizer->hash()) return;
  bool same = own->vocab_size() <= tokenizer->vocab_size();
  for (int32_t id = 0; same && id < own->vocab_size(); ++id) {
    same = own->TokenBytes(id) == tokenizer->TokenBytes(id);
  }
  if (same && own->vocab_size() < tokenizer->vocab_size()) return;
  throw UsageError(
      fmt::format("{}: the data was prepared with a different tokenizer than the model's",
                  data.dir()),
      fmt::format("{}; {}", OfTokens(*own, model.path), OfTokens(*tokenizer, data.dir())),
      "train on the text directly, or prepare it again with the model's tokenizer or one that adds "
      "tokens to it");
}

}  // namespace folio
