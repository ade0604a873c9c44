#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/cli/program.h"
#include "folio/commands/commands.h"
#include "folio/commands/model_flags.h"
#include "folio/eval/cloze.h"
#include "folio/eval/perplexity.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/posix.h"
#include "folio/ranks/group.h"
#include "folio/report/report.h"

namespace folio {
namespace {

std::vector<Cell> CellsOf(const TextPerplexity& text) {
  const auto known = [](int64_t count) {
    return count > 0 ? Value::Commas(count) : Value("-", Json());
  };
  return {{"documents", "", text.documents},
          {"tokens", ">tokens", Value::Commas(text.tokens)},
          {"bytes", ">bytes", known(text.bytes)},
          {"words", "", known(text.words)},
          {"nats_per_token", ">nats/token", Value::Fixed(text.nats_per_token(), 4)},
          {"perplexity", ">perplexity", Value::Fixed(text.perplexity(), 3)},
          {"bits_per_byte", ">bits/byte", Value::Fixed(text.bits_per_byte(), 4)},
          {"word_perplexity", ">word perplexity", Value::Fixed(text.word_perplexity(), 2)}};
}

// The perplexities of the texts, and of all together.
Report PerplexityReport(const OpenedModel& model, std::span<const TextPerplexity> texts,
                        const WindowShape& shape) {
  ReportTable table{.key = "texts"};
  for (const TextPerplexity& text : texts) {
    table.rows.push_back(CellsOf(text));
    table.rows.back().push_back({"file", "text", text.name});
  }
  std::vector<Cell> total = CellsOf(TotalPerplexity(texts));
  const Json total_json = AsJson(total);
  if (texts.size() > 1) {
    for (Cell& cell : total) cell.key.clear();
    total.push_back({"", "text", "total"});
    table.rows.push_back(std::move(total));
  }
  return {.parts = {{.table = std::move(table)}},
          .data = {{"model", model.path.string()},
                   {"context", shape.context},
                   {"stride", shape.stride},
                   {"total", total_json}}};
}

Report ClozeReport(const OpenedModel& model, const std::string& file, const ClozeResult& result) {
  Report report{
      .data = {{"model", model.path.string()}, {"file", file}, {"items", result.acc.items}}};
  ReportTable table;
  for (const auto& [name, accuracy] :
       {std::pair("acc", &result.acc), std::pair("acc_norm", &result.acc_norm),
        std::pair("acc_token", &result.acc_token)}) {
    const double part = accuracy->part(), error = accuracy->standard_error();
    report.data[name] = part;
    report.data[std::string(name) + "_stderr"] = error;
    table.rows.push_back(
        {{"", "chosen by", name},
         {"", ">right", Value::Percent(part, 2)},
         {"", ">standard error", Value::Percent(error, 2)},
         {"", ">items", fmt::format("{} of {}", accuracy->right, accuracy->items)}});
  }
  report.parts.push_back({.table = std::move(table)});
  return report;
}

Report ComparisonReport(const OpenedModel& a, const OpenedModel& b, const ModelComparison& c,
                        const WindowShape& shape) {
  const double ratio = c.perplexity_b / c.perplexity_a;
  return {.parts =
              {{.facts = {{"tokens", "tokens", Value::Commas(c.tokens)},
                          {"kl",
                           "KL(A||B)",
                           {fmt::format("{:.6f} nats, at most {:.6f}", c.kl_mean, c.kl_max),
                            Json{{"mean", c.kl_mean},
                                 {"median", c.kl_median},
                                 {"p95", c.kl_95},
                                 {"p99", c.kl_99},
                                 {"max", c.kl_max}}}},
                          {"", "  50, 95, 99%",
                           fmt::format("{:.6f}, {:.6f}, {:.6f}", c.kl_median, c.kl_95, c.kl_99)},
                          {"same_top", "same likeliest token", Value::Percent(c.same_top, 3)},
                          {"", "perplexity",
                           fmt::format("{:.4f} and {:.4f}, ratio {:.6f}", c.perplexity_a,
                                       c.perplexity_b, ratio)},
                          {"perplexity_a", "", c.perplexity_a},
                          {"perplexity_b", "", c.perplexity_b},
                          {"perplexity_ratio", "", ratio},
                          {"log_probability_difference", "ln p of the right token",
                           Value::Fixed(c.log_probability_difference, 6).In(" nats difference")}}}},
          .data = {{"model_a", a.path.string()},
                   {"model_b", b.path.string()},
                   {"context", shape.context},
                   {"stride", shape.stride}}};
}

// The flags --dtype, --tokenizer, --load, --backend, --threads and --simd.
struct OpenFlags : ModelFlags {
  void Add(Flags& flags) {
    AddDtype(flags);
    AddTokenizerFlag(flags, &tokenizer, /*required=*/false);
    AddLoad(flags);
    AddCompute(flags);
  }

  // Joins the ranks that share the command's work, and applies --threads and --simd: call before
  // opening a model.
  Group& Use(Console& console, const std::string& command) const {
    Group& group = JoinRanks(console, command);
    compute.Use();
    RequireSameSimd(group);
    return group;
  }
};

// Tokens processed at once: `batch` windows of `context`, or with 0 the default.
int64_t BatchPositions(int64_t batch, int64_t context) {
  return batch > 0 ? batch * context : std::max(ReadingOptions().positions, context);
}

// The flags --context, --stride, --max-tokens, --batch, --special and --field.
class WindowFlags {
 public:
  void Add(Flags& flags) {
    flags.Value(
        Field{"context", &context_, "tokens in a window; 0: the context of the model", 0, 1e9});
    flags.Value(Field{"stride", &stride_,
                      "tokens from one window to the next; 0: half a window. Smaller values give "
                      "each token more context and take longer",
                      0, 1e9});
    flags.Value(Field{"max-tokens", &max_tokens_,
                      "read only this many tokens from the beginning of the texts; 0: all", 0,
                      1e15});
    flags.Value(Field{"batch", &batch_, "windows that are computed together; 0: about 2048 tokens",
                      0, 1e6});
    AddSpecialFlag(flags, &special_);
    flags.Value(Field{"field", &field_, "member that contains the text, in JSON lines"});
  }

  // The options for this many positions. Throws a kUsage Error if the flags do not fit them.
  ReadingOptions Options(int64_t n_positions) const {
    if (max_tokens_ == 1) {
      throw UsageError("--max-tokens 1: nothing to predict",
                       "the first token of a text is not predicted",
                       "give 2 or more, or 0 for all");
    }
    ReadingOptions options{.shape = ChooseWindows(context_, stride_, n_positions),
                           .max_tokens = max_tokens_,
                           .text = texts(),
                           .special = SpecialRule::Named(special_)};
    options.positions = BatchPositions(batch_, options.shape.context);
    return options;
  }

  TextOptions texts() const { return {.field = field_}; }

 private:
  int64_t context_ = 0, stride_ = 0, batch_ = 0, max_tokens_ = 0;
  std::string special_ = "raise", field_ = "text";
};

// Throws a kUsage Error unless all ranks measure the same: this model, and `what`, which describes
// the rest of the measurement.
void RequireSameModel(Group& group, const OpenedModel& model, const std::string& what) {
  if (group.alone()) return;
  RequireSame(group, "models", fmt::format("{}\n{}", ModelFingerprint(model), what));
}

// The texts to measure; reports what was left out of directories. Throws a kInput Error if there is
// a text but no `model` with a tokenizer.
std::vector<MeasuredText> FindTexts(const std::vector<std::string>& paths,
                                    const TextOptions& options, const OpenedModel& model,
                                    Console& console) {
  MeasuredTexts found = FindMeasuredTexts(paths, options);
  if (!found.left_out.empty()) console.Note(found.left_out);
  for (const MeasuredText& text : found.texts) {
    if (!text.data_set) model.RequireTokenizer(", or give one with --tokenizer");
  }
  return std::move(found.texts);
}

// Shows a progress bar, and a note on stderr if the work will take longer than a minute. Must
// outlive the functions that it returns.
class MeasureReport {
 public:
  // `max_tokens`: true if the command has this flag, which the note mentions.
  MeasureReport(const Context& context, bool max_tokens)
      : console_(context.console),
        max_tokens_(max_tokens),
        progress_(context.console, context.progress_mode),
        last_seconds_(SteadySeconds()) {
    hooks_.on_progress = [this](const MeasureProgress& progress) { Show(progress); };
    hooks_.on_note = [&console = context.console](const std::string& note) { console.Note(note); };
  }

  const MeasureHooks& hooks() const { return hooks_; }
  void Finish() { progress_.Finish(); }

 private:
  void Show(const MeasureProgress& progress) {
    const double now = SteadySeconds(), seconds = now - last_seconds_;
    rate_.Add(static_cast<double>(progress.done - last_.done), seconds);
    if (seconds > 0) {
      tokens_per_second_ = static_cast<double>(progress.tokens - last_.tokens) / seconds;
    }
    last_seconds_ = now;
    last_ = progress;
    TellHowLong(progress);
    if (!progress_.Due()) return;
    ProgressState state{
        .unit = progress.unit, .done = progress.done, .total = progress.total, .fields = {}};
    if (progress.nats_per_token > 0) {
      const std::string perplexity = fmt::format("{:.4f}", std::exp(progress.nats_per_token));
      state.fields.push_back({"perplexity", perplexity, "perplexity " + perplexity});
    }
    const std::string speed = fmt::format("{:.0f}", tokens_per_second_);
    state.fields.push_back({"tokens_per_second", speed, speed + " tok/s"});
    if (progress.total > 0 && rate_.known()) {
      state.fields.push_back(rate_.EtaField(static_cast<double>(progress.total - progress.done)));
    }
    progress_.Show(state);
  }

  void TellHowLong(const MeasureProgress& progress) {
    constexpr double kLong = 60;
    if (told_ || progress.total == 0 || !rate_.known()) return;
    told_ = true;
    const double seconds = rate_.Eta(static_cast<double>(progress.total - progress.done));
    if (seconds < kLong) return;
    std::string note = fmt::format("this takes about {}", HumanSeconds(seconds));
    if (max_tokens_) {
      // Tokens of a minute, rounded to one digit.
      const double tokens = tokens_per_second_ * kLong,
                   unit = std::pow(10, std::floor(std::log10(tokens)));
      note += fmt::format("; --max-tokens {:.0f} measures only the beginning, in about a minute",
                          std::max(2.0, std::floor(tokens / unit) * unit));
    }
    progress_.Finish();
    console_.Note(note);
  }

  Console& console_;
  bool max_tokens_, told_ = false;
  Progress progress_;
  RateMeter rate_;
  double last_seconds_;
  MeasureProgress last_;
  double tokens_per_second_ = 0;
  MeasureHooks hooks_;
};

class EvalPerplexityCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "eval perplexity",
        .summary = "measure how well a model predicts texts of any length",
        .group = "model",
        .details =
            "Reads all texts that folio data prepare accepts, and data directories, of which the "
            "held-out part is used. Every token except the first of a document is predicted once: "
            "a window of --context tokens moves over the text in steps of --stride, so that after "
            "the first window each token has at least context - stride tokens before it. A stride "
            "equal to the context measures as training does; a shorter one gives the lower numbers "
            "that are usually quoted for models.\n\nIf the tokenizer begins texts with a token "
            "(<s>), each window of a text begins with it, so the first token of a document is "
            "predicted too. Held-out parts of data directories are read unchanged.\n\nnats/token "
            "is the mean of -ln p, perplexity its exponential, bits/byte the sum in bits divided "
            "by the bytes of the predicted tokens, and word perplexity that of lm-eval: per word "
            "of the text, separated by white space. With --csv a row is written for each token, "
            "and an interrupted command continues where it stopped.",
        .examples = {"folio eval perplexity --model runs/tour stories.txt",
                     "folio eval perplexity -m gpt2 wikitext/ --stride 512 --csv tokens.csv",
                     "folio eval perplexity -m runs/tour data/stories --stride 256 --json"}};
  }

  void AddFlags(Flags& flags) override {
    AddModelFlag(flags, &open_.model, true);
    flags.Positionals("FILE", &files_,
                      "texts or data, or directories of such; - for standard input",
                      {.required = true});
    AddAdapterFlag(flags, &open_.adapter);
    windows_.Add(flags);
    flags.Value(Field{"csv", &csv_, "write a row for each token"}, {.placeholder = "FILE"});
    open_.Add(flags);
  }

  int Run(const Context& context) override {
    RequireFileName("--csv", csv_);
    CatchSignals();
    Group& group = open_.Use(context.console, "folio eval perplexity");
    const OpenedModel model = open_.Open(context.console);
    const ReadingOptions reading = windows_.Options(model.weights->config().n_positions);
    RequireSameModel(group, model, csv_);
    const PerplexityOptions options{.reading = reading, .csv = csv_, .group = &group};
    if (!group.first()) {
      MeasurePerplexity(model, {}, options);
      return 0;
    }
    const auto texts = FindTexts(files_, windows_.texts(), model, context.console);
    MeasureReport report(context, /*max_tokens=*/true);
    const GuardedDirectory inside(open_.model);  // links of the run are not followed
    const auto measured = MeasurePerplexity(model, texts, options, report.hooks());
    report.Finish();
    ShowReport(context.console, PerplexityReport(model, measured, reading.shape), -1);
    return 0;
  }

 private:
  std::vector<std::string> files_;
  std::string csv_;
  WindowFlags windows_;
  OpenFlags open_;
};

class EvalClozeCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "eval cloze",
        .summary = "measure how often a model chooses the right ending",
        .group = "model",
        .details =
            "Each line of FILE is a multiple-choice question in the format of HellaSwag: "
            "{\"ctx\":\"...\",\"endings\":[\"...\",...],\"label\":0}, or with \"query\", "
            "\"choices\" and \"gold\". Context and ending are joined with a space and encoded "
            "together, after the token that begins texts, and the tokens of the ending are scored. "
            "acc chooses the ending with the largest sum of ln p, acc_norm divides it by the "
            "number of characters (both as lm-eval), acc_token by the number of tokens (llm.c's "
            "acc_norm).\n\n--text hellaswag formats the items of HellaSwag's files as lm-eval "
            "does: with the activity before them and without text in brackets. With --out a line "
            "is written for each item, and an interrupted command continues where it stopped.",
        .examples = {"folio eval cloze --model gpt2 hellaswag_val.jsonl",
                     "folio eval cloze -m gpt2 hellaswag_val.jsonl --text hellaswag "
                     "--out items.jsonl"}};
  }

  void AddFlags(Flags& flags) override {
    AddModelFlag(flags, &open_.model, true);
    flags.Positional(Field{"FILE", &file_, "JSON lines; - for standard input"}, {.required = true});
    AddAdapterFlag(flags, &open_.adapter);
    flags.Value(
        Field{"text", &text_, "format of contexts and endings"}.Choices({"plain", "hellaswag"}));
    flags.Value(Field{"batch", &batch_,
                      "compute as many tokens together as this many windows of the model's context "
                      "have; 0: about 2048",
                      0, 1e6});
    flags.Value(Field{"out", &out_, "write a line for each item"}, {.placeholder = "FILE"});
    open_.Add(flags);
  }

  int Run(const Context& context) override {
    RequireFileName("--out", out_);
    CatchSignals();
    Group& group = open_.Use(context.console, "folio eval cloze");
    const OpenedModel model = open_.Open(context.console);
    model.RequireTokenizer(", or give one with --tokenizer");
    RequireSameModel(group, model, out_);
    const ClozeOptions options{
        .text = text_ == "hellaswag" ? ClozeText::kHellaSwag : ClozeText::kAsIs,
        .positions = BatchPositions(batch_, model.weights->config().n_positions),
        .out = out_,
        .group = &group};
    if (!group.first()) {
      MeasureCloze(model, file_, options);
      return 0;
    }
    const GuardedDirectory inside(open_.model);  // links of the run are not followed
    MeasureReport report(context, /*max_tokens=*/false);
    const ClozeResult result = MeasureCloze(model, file_, options, report.hooks());
    report.Finish();
    ShowReport(context.console, ClozeReport(model, file_, result), -1);
    return 0;
  }

 private:
  std::string file_, text_ = "plain", out_;
  int64_t batch_ = 0;
  OpenFlags open_;
};

class EvalCompareCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {
        .name = "eval compare",
        .summary = "measure how far one model's predictions are from another's",
        .group = "model",
        .details =
            "Both models must have the same vocabulary; they read the same windows of the texts "
            "(see folio eval perplexity). Reports over all predicted tokens: mean, quantiles and "
            "maximum of KL(A||B) in nats; how often the likeliest token is the same; both "
            "perplexities and their ratio; and the mean difference of ln p of the correct token.",
        .examples = {"folio eval compare runs/tour tour-q8.gguf stories.txt",
                     "folio eval compare runs/tour runs/tour --dtype-b int4 stories.txt",
                     "folio eval compare gpt2 gpt2 --adapter-b my-adapter stories.txt"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Positional(Field{"MODEL-A", &model_a_, "a run, a model directory or a model file"},
                     {.required = true});
    flags.Positional(Field{"MODEL-B", &model_b_, "the model to compare with it"},
                     {.required = true});
    flags.Positionals("FILE", &files_,
                      "texts or data, or directories of such; - for standard input",
                      {.required = true});
    windows_.Add(flags);
    open_.Add(flags);
    flags.Value(Field{"adapter", &adapter_a_, "an adapter (LoRA) to add to the weights of MODEL-A"},
                {.placeholder = "DIR"});
    flags.Value(Field{"adapter-b", &adapter_b_, "one for MODEL-B"}, {.placeholder = "DIR"});
    flags.Value(Field{"dtype-b", &dtype_b_, "of MODEL-B, if not --dtype"}, {.placeholder = "NAME"});
  }

  int Run(const Context& context) override {
    CatchSignals();
    Group& group = open_.Use(context.console, "folio eval compare");
    const OpenedModel a = open_.Open(context.console, model_a_, adapter_a_);
    if (!dtype_b_.empty()) open_.dtype = dtype_b_;
    const OpenedModel b = open_.Open(context.console, model_b_, adapter_b_);
    RequireComparable(a, b);
    const ReadingOptions reading = windows_.Options(
        std::min(a.weights->config().n_positions, b.weights->config().n_positions));
    RequireSameModel(group, a, "A");
    RequireSameModel(group, b, "B");
    if (!group.first()) {
      CompareModels(a, b, {}, reading, {}, &group);
      return 0;
    }
    const auto texts =
        FindTexts(files_, windows_.texts(), a.tokenizer || !b.tokenizer ? a : b, context.console);
    MeasureReport report(context, /*max_tokens=*/true);
    const ModelComparison comparison = CompareModels(a, b, texts, reading, report.hooks(), &group);
    report.Finish();
    ShowReport(context.console, ComparisonReport(a, b, comparison, reading.shape), -1);
    return 0;
  }

 private:
  std::string model_a_, model_b_, adapter_a_, adapter_b_, dtype_b_;
  std::vector<std::string> files_;
  WindowFlags windows_;
  OpenFlags open_;
};

}  // namespace

CommandList EvalCommands() {
  return CommandsOf<EvalPerplexityCommand, EvalClozeCommand, EvalCompareCommand>();
}

}  // namespace folio
