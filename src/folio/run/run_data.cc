#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/corpus/prepare.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/train_tokenizer.h"
#include "folio/dist/group.h"
#include "folio/io/file.h"
#include "folio/io/guarded_directory.h"
#include "folio/run/automatic.h"
#include "folio/run/fine_tuning.h"
#include "folio/run/prepared_run.h"
#include "folio/run/watchdog.h"
#include "folio/text/encodings.h"
#include "folio/text/special_tokens.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// The file that holds what standard input gave, while the data is made.
constexpr char kStandardInputFile[] = ".input";

constexpr char kWhyHeldOut[] =
    "training measures the model on text that it does not learn from, and keeps what was best "
    "there";

// A run that is replaced takes what is in it along.
void RequireDataOutsideOf(const fs::path& run, const std::vector<std::string>& data) {
  const fs::path inside = fs::weakly_canonical(run);
  for (const std::string& path : data) {
    const fs::path from = fs::weakly_canonical(path).lexically_relative(inside);
    if (from.empty() || *from.begin() != kRunDataDir) continue;
    throw UsageError(fmt::format("--data: '{}' belongs to the run that is to be replaced", path),
                     "", "choose another --out, or move the data out of it");
  }
}

// The making of a run's data.
class DataMaker {
 public:
  DataMaker(RunSettings& settings, const TrainingRunOptions& options, RunStart& start,
            const RunRanks& ranks)
      : settings_(settings),
        config_(settings.config),
        options_(options),
        start_(start),
        ranks_(ranks) {}

  RunData Open();

 private:
  std::vector<std::string> GivenData() const;
  fs::path Parts() const { return made_.Parts(options_.out); }
  std::string DataDir(Workers* workers);
  std::string Prepare(const std::vector<std::string>& files, Workers* workers);
  TextOptions Texts() const { return {.field = config_.data.field, .raw = config_.data.raw}; }
  std::string TokenizerPlace() const;
  std::unique_ptr<Tokenizer> AskedTokenizer() const;
  void LearnTokenizer(const std::vector<std::string>& files, const fs::path& dir) const;
  void RequireTokenizer() const;

  RunSettings& settings_;
  const RunConfig& config_;
  const TrainingRunOptions& options_;
  RunStart& start_;
  const RunRanks& ranks_;
  RunData made_;
};

RunData DataMaker::Open() {
  if (!start_.resume && !options_.dry_run && ranks_.first()) {
    if (start_.overwrite) RequireDataOutsideOf(options_.out, GivenData());
    made_.new_run =
        std::make_unique<NewRun>(options_.out, start_.overwrite, std::move(start_.lock));
  }
  const std::string dir = ranks_.MakeTogether([&](Workers* workers) { return DataDir(workers); });
  made_.data = std::make_unique<Dataset>(dir, config_.model.vocab_size);
  const Dataset& data = *made_.data;
  if (data.val().size() == 0) {
    throw InputError(fmt::format("{}: nothing is held out", data.dir()), kWhyHeldOut,
                     "prepare the text again with --val-fraction 0.01, or more");
  }
  if (ranks_.group() != nullptr) RequireSame(*ranks_.group(), "data", FingerprintOf(data));
  // The first rank for all: the others have the same.
  if (ranks_.first() && data.bytes() <= options_.hashed_at_once) data.Verify();
  made_.tokenizer = LoadDataTokenizer(data);
  if (ranks_.first()) RequireTokenizer();
  return std::move(made_);
}

// The data that the caller named, or that the run was made of whose settings are read.
std::vector<std::string> DataMaker::GivenData() const {
  const std::string& file = options_.sources.file;
  if (!options_.data.empty() || start_.resume || file.empty()) return options_.data;
  const fs::path run = fs::absolute(file).parent_path();
  if (fs::exists(run / kRunDataDir)) return {(run / kRunDataDir).string()};
  if (fs::exists(run / kRunSourceFile)) return {ReadFile(run / kRunSourceFile, 1 << 16)};
  return {};
}

// Returns where the tokens are; makes them from text. Remembers the place for resuming.
std::string DataMaker::DataDir(Workers* workers) {
  const fs::path own = Parts() / kRunDataDir, source = Parts() / kRunSourceFile;
  const std::vector<std::string> given = GivenData();
  const bool is_dataset = given.size() == 1 && IsDataset(given[0]);
  // The run's own tokens, made from the text it began with, are not made again.
  if (start_.resume && !is_dataset) {
    if (fs::exists(own)) return own.string();
    if (given.empty()) return ReadFile(source, 1 << 16);
  }
  if (given.empty()) {
    throw UsageError("train needs --data DIR|FILE", "",
                     "give a text file, or a directory made by folio data prepare; folio data "
                     "stories makes a text to try");
  }
  if (is_dataset) {
    std::string dir = fs::absolute(given[0]).string();
    if (!options_.dry_run) WriteFileAtomically(source, dir);
    return dir;
  }
  for (const std::string& path : given) {
    if (!IsDataset(path)) continue;
    throw UsageError(fmt::format("--data: '{}' is a data set, and not the only one", path),
                     "tokens that were made before cannot be joined with more",
                     "name one data set, or texts only");
  }
  if (config_.data.val_fraction == 0) {
    throw UsageError("--val-fraction 0: training needs held-out text", kWhyHeldOut,
                     "hold a little out: --val-fraction 0.01");
  }
  if (options_.dry_run) {
    fs::path run = options_.out;
    run += ".dry-run";
    made_.new_run = std::make_unique<NewRun>(run, /*overwrite=*/true);
  }
  const TextFiles texts = FindTextFiles(given, Texts());
  if (!texts.left_out.empty()) ranks_.Note(texts.left_out);
  return Prepare(texts.files, workers);
}

// Makes the data and returns its directory.
std::string DataMaker::Prepare(const std::vector<std::string>& files, Workers* workers) {
  const fs::path tokenizer = Parts() / kRunTokenizerDir, input = Parts() / kStandardInputFile;
  if (start_.automatic && settings_.layers.layer("data.tokenizer") == Layer::kBuiltIn) {
    // A text that is looked at before it is prepared is read more than once.
    std::vector<std::string> from = files;
    if (std::ranges::count(files, "-") > 0) {
      SaveStandardInput(input.string());
      std::ranges::replace(from, "-", input.string());
    }
    std::string name = ChooseTokens(TextBytes(from, Texts(), kMuchText));
    if (name.empty()) {
      LearnTokenizer(from, tokenizer);
      name = (options_.out / kRunTokenizerDir).string();
    }
    const std::pair<std::string, std::string> chosen("data.tokenizer", name);
    settings_.layers.UsePreset("automatic", {&chosen, 1});
    settings_.Resolve();
  }
  PrepareOptions prepare = {.files = files,
                            .tokenizer = TokenizerPlace(),
                            .out = (Parts() / kRunDataDir).string(),
                            .val_fraction = config_.data.val_fraction,
                            .val_split = config_.data.val_split,
                            .overwrite = true,
                            .field = config_.data.field,
                            .raw = config_.data.raw,
                            .standard_input = fs::exists(input) ? input.string() : "",
                            .keep_partial = false,
                            .workers = workers};
  const bool of_model = !config_.train.init.empty() && config_.data.tokenizer == config_.train.init;
  if (of_model || !config_.data.add_tokens.empty()) {
    const std::unique_ptr<Tokenizer> extended = AskedTokenizer();
    CreateDirectories(tokenizer);
    extended->Save(tokenizer.string());
    prepare.tokenizer = tokenizer.string();
    if (!config_.data.add_tokens.empty()) prepare.special = "allow";
  }
  if (ranks_.console() == nullptr) {
    PrepareDataset(prepare);
  } else {
    PrepareWithProgress(prepare, *ranks_.console(), options_.progress);
  }
  internal::RemoveTree(input);  // and if not now, with the rest of what has not begun
  return prepare.out;
}

// data.tokenizer, which names the place that the run's own will have once the run has begun.
std::string DataMaker::TokenizerPlace() const {
  const fs::path own = Parts() / kRunTokenizerDir;
  const bool waits = config_.data.tokenizer == (options_.out / kRunTokenizerDir).string();
  return waits && fs::exists(own) ? own.string() : config_.data.tokenizer;
}

// data.tokenizer, which may be that inside of the initial model's file, with data.add_tokens.
// REQUIRES: it is not `char`, or there are such tokens.
std::unique_ptr<Tokenizer> DataMaker::AskedTokenizer() const {
  const DataConfig& data = config_.data;
  if (data.tokenizer == "char") {
    throw UsageError("--add-tokens: a tokenizer of kind char takes no special tokens", "",
                     "use --tokenizer bytes, or a byte-level BPE");
  }
  std::unique_ptr<Tokenizer> tokenizer = data.tokenizer == config_.train.init
                                             ? FindModel(data.tokenizer).tokenizer
                                             : OpenTokenizer(TokenizerPlace());
  if (data.add_tokens.empty()) return tokenizer;
  return WithSpecialTokens(*tokenizer, Split(data.add_tokens, ','));
}

void DataMaker::LearnTokenizer(const std::vector<std::string>& files, const fs::path& dir) const {
  ranks_.Note(fmt::format("learning a vocabulary of {} tokens from the text",
                          WithCommas(kChosenVocabulary)));
  TrainTokenizerOptions options{
      .files = files, .out = dir.string(), .overwrite = true, .texts = Texts()};
  options.trainer.vocab_size = kChosenVocabulary;
  TrainTokenizer(options);
}

// A tokenizer that was asked for is the one that made the data, and so is a model's.
void DataMaker::RequireTokenizer() const {
  if (start_.initial) RequireTokenizerOf(*start_.initial, *made_.data, made_.tokenizer.get());
  const std::string& asked = config_.data.tokenizer;
  const bool added = !config_.data.add_tokens.empty();
  const auto given = [&](const char* key) { return settings_.layers.layer(key) >= Layer::kSet; };
  if ((!given("data.tokenizer") && !given("data.add_tokens")) || made_.tokenizer == nullptr) return;
  const bool same = !added && (asked == "char" || asked == "bytes")
                        ? made_.tokenizer->kind() == asked
                        : AskedTokenizer()->hash() == made_.tokenizer->hash();
  if (same) return;
  throw UsageError(fmt::format("--tokenizer {}{}: the data has another", asked,
                               added ? " --add-tokens " + config_.data.add_tokens : ""),
                   fmt::format("{} was made with a tokenizer of kind {}, hash {}",
                               made_.data->dir(), made_.tokenizer->kind(), made_.tokenizer->hash()),
                   "leave it out, or prepare the text again with it");
}

}  // namespace

RunData OpenRunData(RunSettings& settings, const TrainingRunOptions& options, RunStart& start,
                    const RunRanks& ranks) {
  return DataMaker(settings, options, start, ranks).Open();
}

}  // namespace folio
