#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>

#include "folio/base/machine.h"
#include "folio/base/strings.h"
#include "folio/cli/compute_flags.h"
#include "folio/commands/commands.h"
#include "folio/commands/data/prepare_progress.h"
#include "folio/commands/preset_flag.h"
#include "folio/commands/train/train_report.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/io/file.h"
#include "folio/run/preview.h"
#include "folio/run/run_config.h"
#include "folio/run/run_directory.h"
#include "folio/term/signals.h"
#include "folio/train/precision.h"
#include "folio/train/trainer.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

class TrainCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "train",
            .summary = "train a model on text, or on prepared tokens",
            .group = "model",
            .details =
                "A text file is turned into tokens first. The run directory gets the settings,\n"
                "metrics.jsonl, loss.svg and two checkpoints: last/ to go on from, best/ with the\n"
                "lowest held-out loss. Ctrl-C stops after the current step and saves.",
            .examples = {"folio train --data input.txt --preset char-cpu --out runs/first",
                         "folio train --data input.txt --out runs/tiny --set model.n_layer=2 "
                         "--max-steps 500",
                         "folio train --resume --out runs/first --max-steps 4000"}};
  }

  void AddFlags(Flags& flags) override {
    flags.Value(Field{"data", &data_, "a text file, or a directory made by folio data prepare"},
                {.placeholder = "DIR|FILE"});
    flags.Value(Field{"out", &out_, "the run directory"}.WithFlag("-o,--out"),
                {.placeholder = "RUN", .required = true});
    AddPresetFlag(flags, &preset_);
    flags.Switch("--resume", &resume_, "go on from the last checkpoint of the run");
    flags.Switch("--overwrite", &overwrite_, "replace the run that is there");
    flags.Switch("--dry-run", &dry_run_,
                 "check the settings and the data, print the plan, and train nothing");
    simd_.Add(flags);
    flags.Settings(&settings_, {"train", "data", "log"});
  }

  int Run(const Context& context) override {
    CatchSignals();
    const fs::path run = out_;
    ReadSettings(context, run);
    UseThreads(config_.train.threads);
    simd_.Use();
    const auto backend = MakeBackend(config_.train.backend);
    // A run goes on in the format it began with, wherever that is.
    config_.train.dtype = TrainDtypeName(TrainDtype(config_.train, config_.model, *backend));
    std::optional<NewRun> new_run;
    if (!resume_ && !dry_run_) new_run.emplace(run, overwrite_);
    const Dataset data(DataDir(context, run), config_.model.vocab_size);
    const std::unique_ptr<Tokenizer> tokenizer = FitModelToData(data);
    TrainPreview preview(config_, *backend, ThisMachinesMemory());
    if (settings_.layer("model.n_embd") == Layer::kBuiltIn) {
      context.console.Note(
          "this is GPT-2's size; --preset char-cpu is one that trains in a minute");
    }
    if (dry_run_) {
      ShowDryRun(context.console, preview, data);
      return 0;
    }
    const std::string plan = preview.Plan();
    context.console.Note(plan.substr(0, plan.size() - 1));
    TrainReport report(context, config_, run, *backend, tokenizer.get());
    Trainer trainer(*backend, config_.model, config_.train, data, run, report.Hooks());
    if (resume_) trainer.Resume();
    // Not before: settings that the run refuses may not take the place of its own.
    WriteFileAtomically(run / kRunConfigFile, settings_.ToToml());
    preview.Probe(data.val().size(), trainer.step());
    if (new_run) new_run->Begun();
    report.Begin(trainer.step(), preview);
    const TrainResult result = trainer.Run();
    DrawLossFigure(run);
    report.End(result);
    return StopRequested() != 0 ? SignalExitStatus(StopRequested()) : 0;
  }

 private:
  void ReadSettings(const Context& context, const fs::path& run) {
    UsePreset(settings_, preset_);
    if (resume_) {
      if (!fs::exists(run / kLastDir)) {
        throw InputError(fmt::format("'{}' holds no run to resume", out_),
                         fmt::format("there is no {}", (run / kLastDir).string()),
                         "leave out --resume to begin one");
      }
      if (fs::exists(run / kRunConfigFile)) {
        settings_.ReadTomlFile(Layer::kProjectFile, run / kRunConfigFile);
      }
    }
    ConfigSources sources = context.sources;
    if (resume_) sources.discover = false;  // the run's own settings stand for the files' ones
    settings_.ReadSources(sources);
    settings_.Resolve();
    config_.train.context = ContextOf(config_.model, config_.train);
    config_.train.Validate("settings");
  }

  // Where the tokens are; makes them from a text file. Remembers the place for --resume.
  std::string DataDir(const Context& context, const fs::path& run) {
    const fs::path own = run / kRunDataDir, source = run / kRunSourceFile;
    // The run's own tokens, made from the text it began with, are not made again.
    if (resume_ && !fs::is_directory(data_)) {
      if (fs::exists(own)) return own.string();
      if (data_.empty()) return ReadFile(source, 1 << 16);
    }
    if (data_.empty()) {
      throw UsageError("train needs --data DIR|FILE", "",
                       "give a text file, or a directory made by folio data prepare; folio data "
                       "stories makes a text to try");
    }
    if (fs::is_directory(data_)) {
      std::string dir = fs::absolute(data_).string();
      if (!dry_run_) WriteFileAtomically(source, dir);
      return dir;
    }
    if (dry_run_) {
      throw UsageError("--dry-run needs prepared data", fmt::format("'{}' is a file", data_),
                       fmt::format("folio data prepare {} --out DIR", data_));
    }
    PrepareWithProgress({.files = {data_},
                         .tokenizer = config_.data.tokenizer,
                         .out = own.string(),
                         .val_fraction = config_.data.val_fraction,
                         .overwrite = true,
                         .keep_partial = false},
                        context);
    return own.string();
  }

  // Vocabulary and special tokens are the data's; returns its tokenizer, or null if it has none.
  std::unique_ptr<Tokenizer> FitModelToData(const Dataset& data) {
    GptConfig& model = config_.model;
    const int64_t V = data.info().vocab_size;
    if (V > 0) {
      const bool asked = settings_.layer("model.vocab_size") > Layer::kPreset;
      if (asked && model.vocab_size < V) {
        throw UsageError(
            fmt::format("{}: model.vocab_size is too small", settings_.origin("model.vocab_size")),
            fmt::format("it is {}, the data has {} tokens", model.vocab_size, V),
            fmt::format("set it to {} or more, or leave it out", V));
      }
      if (!asked) model.vocab_size = V;
    }
    std::unique_ptr<Tokenizer> tokenizer = LoadDataTokenizer(data);
    if (tokenizer != nullptr) {
      if (resume_) RequireSameTokenizer(fs::path(out_) / kLastDir, data, *tokenizer);
      model.bos_token_id = model.eos_token_id = tokenizer->end_of_text();
    }
    model.Validate("settings");
    return tokenizer;
  }

  void ShowDryRun(Console& console, TrainPreview& preview, const Dataset& data) const {
    preview.Probe(data.val().size(), resume_ ? SavedStep(fs::path(out_) / kLastDir) : 0);
    console.Result(console.json() ? preview.Event() + "\n"
                                  : preview.Plan() + preview.Estimate() + "\n");
  }

  std::string data_, out_, preset_;
  bool resume_ = false, overwrite_ = false, dry_run_ = false;
  RunConfig config_;
  Settings settings_{config_.Fields()};
  SimdFlag simd_;
};

}  // namespace

std::unique_ptr<Command> NewTrainCommand() {
  return std::make_unique<TrainCommand>();
}

}  // namespace folio
