#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/corpus/pieces.h"
#include "folio/corpus/prepare.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/train_tokenizer.h"
#include "folio/io/file.h"
#include "folio/io/posix.h"
#include "folio/ranks/group.h"
#include "folio/run/automatic_settings.h"
#include "folio/run/prepared_run.h"
#include "folio/run/watchdog.h"
#include "folio/text/chat.h"
#include "folio/text/encodings.h"
#include "folio/text/special_tokens.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Returns the first rank's make(workers) on all ranks; meanwhile the others are its workers. One
// rank alone has null.
std::string MakeTogether(const RunRanks& ranks, const std::function<std::string(Workers*)>& make) {
  Group* const group = ranks.group();
  if (group == nullptr) return make(nullptr);
  std::string made;
  if (ranks.first()) {
    Workers workers(group);
    made = make(&workers);
  } else {
    PrepareAsWorker(*group);
  }
  return ranks.Share(made);
}

// The copy of standard input while the data is prepared.
constexpr char kStandardInputFile[] = ".input";

// The bytes of text from which a byte-level BPE learned from the text is worth it, and its size.
constexpr int64_t kMuchText = 20'000'000;
constexpr int64_t kChosenVocabulary = 4096;

constexpr char kWhyHeldOut[] =
    "training evaluates the model on held-out text and keeps the best checkpoint";

// Throws a kUsage Error for data inside the run, which would be removed with it.
void RequireDataOutsideOf(const fs::path& run, const std::vector<std::string>& data) {
  const fs::path inside = fs::weakly_canonical(run);
  for (const std::string& path : data) {
    const fs::path from = fs::weakly_canonical(path).lexically_relative(inside);
    if (from.empty() || *from.begin() != kRunDataDir) continue;
    throw UsageError(fmt::format("--data: '{}' belongs to the run to be replaced", path), "",
                     "choose another --out, or move the data out of it");
  }
}

TextOptions TextsOf(const PreparedRun& run) {
  return {.field = run.config().data.field, .raw = run.config().data.raw};
}

// data.tokenizer, where it lies now: that of a run that has not begun is not in its final place.
std::string TokenizerPlace(const PreparedRun& run) {
  const fs::path own = run.Parts() / kRunTokenizerDir;
  const bool waits = run.config().data.tokenizer == (run.options.out / kRunTokenizerDir).string();
  return waits && fs::exists(own) ? own.string() : run.config().data.tokenizer;
}

// data.tokenizer, which may be inside the initial model's file, with data.add_tokens.
// REQUIRES: it is not `char`, or there are such tokens.
std::unique_ptr<Tokenizer> AskedTokenizer(const PreparedRun& run) {
  const DataConfig& data = run.config().data;
  if (data.tokenizer == "char") {
    throw UsageError("--add-tokens: a tokenizer of kind char takes no special tokens", "",
                     "use --tokenizer bytes, or a byte-level BPE");
  }
  std::unique_ptr<Tokenizer> tokenizer = data.tokenizer == run.config().train.init
                                             ? FindModel(data.tokenizer).tokenizer
                                             : OpenTokenizer(TokenizerPlace(run));
  if (data.add_tokens.empty()) return tokenizer;
  return WithSpecialTokens(*tokenizer, Split(data.add_tokens, ','));
}

void LearnTokenizer(const PreparedRun& run, const std::vector<std::string>& files,
                    const fs::path& dir) {
  run.ranks.Note(
      fmt::format("training a tokenizer of {} tokens on the text", WithCommas(kChosenVocabulary)));
  TrainTokenizerOptions options{
      .files = files, .out = dir.string(), .overwrite = true, .texts = TextsOf(run)};
  options.trainer.vocab_size = kChosenVocabulary;
  TrainTokenizer(options);
}

// Makes the data and returns its directory.
std::string Prepare(PreparedRun& run, const std::vector<std::string>& files, Workers* workers) {
  const DataConfig& data = run.config().data;
  const fs::path tokenizer = run.Parts() / kRunTokenizerDir,
                 input = run.Parts() / kStandardInputFile;
  if (run.automatic && run.settings.layers.layer("data.tokenizer") == Layer::kBuiltIn) {
    // The text is read more than once, which standard input cannot be.
    std::vector<std::string> from = files;
    if (std::ranges::count(files, "-") > 0) {
      SaveStandardInput(input.string());
      std::ranges::replace(from, "-", input.string());
    }
    std::string name = "char";
    if (TextBytes(from, TextsOf(run), kMuchText) >= kMuchText) {
      LearnTokenizer(run, from, tokenizer);
      name = (run.options.out / kRunTokenizerDir).string();
    }
    const std::pair<std::string, std::string> chosen("data.tokenizer", name);
    run.settings.layers.UsePreset("automatic", {&chosen, 1});
    run.settings.Resolve();
  }
  PrepareOptions prepare = {.files = files,
                            .tokenizer = TokenizerPlace(run),
                            .out = (run.Parts() / kRunDataDir).string(),
                            .val_fraction = data.val_fraction,
                            .val_split = data.val_split,
                            .overwrite = true,
                            .field = data.field,
                            .chat_template = data.chat_template,
                            .raw = data.raw,
                            .standard_input = fs::exists(input) ? input.string() : "",
                            .keep_partial = false,
                            .workers = workers};
  const std::string& model = run.config().train.init;
  prepare.added_tokens = !data.add_tokens.empty();
  if ((!model.empty() && data.tokenizer == model) || prepare.added_tokens) {
    const std::unique_ptr<Tokenizer> extended = AskedTokenizer(run);
    CreateDirectories(tokenizer);
    extended->Save(tokenizer.string());
    prepare.tokenizer = tokenizer.string();
  }
  if (run.options.prepare) {
    run.options.prepare(prepare);
  } else {
    PrepareDataset(prepare);
  }
  internal::RemoveTree(input);
  return prepare.out;
}

// Returns the directory of the tokens, which it prepares from text, and stores it for resuming.
std::string DataDir(PreparedRun& run, Workers* workers) {
  const fs::path own = run.Parts() / kRunDataDir, source = run.Parts() / kRunSourceFile;
  const std::vector<std::string> given = GivenData(run);
  const bool is_dataset = given.size() == 1 && IsDataset(given[0]);
  // The run's own tokens are not prepared again.
  if (run.resume && !is_dataset) {
    if (fs::exists(own)) return own.string();
    if (given.empty()) return ReadFile(source, 1 << 16);
  }
  if (given.empty()) {
    throw UsageError("train needs --data DIR|FILE", "",
                     "give a text file, or a directory written by folio data prepare; folio data "
                     "stories writes a text to try");
  }
  if (is_dataset) {
    std::string dir = fs::absolute(given[0]).string();
    if (!run.options.dry_run) WriteFileAtomically(source, dir);
    return dir;
  }
  for (const std::string& path : given) {
    if (!IsDataset(path)) continue;
    throw UsageError(
        fmt::format("--data: '{}' is a data set and cannot be combined with other data", path),
        "prepared tokens cannot be merged with other data", "give one data set, or only texts");
  }
  if (run.config().data.val_fraction == 0) {
    throw UsageError("--val-fraction 0: training needs held-out text", kWhyHeldOut,
                     "hold out a small part: --val-fraction 0.01");
  }
  if (run.options.dry_run) {
    fs::path aside = run.options.out;
    aside += ".dry-run";
    run.new_run = std::make_unique<NewRun>(aside, /*overwrite=*/true);
  }
  const TextFiles texts = FindTextFiles(given, TextsOf(run));
  if (!texts.left_out.empty()) run.ranks.Note(texts.left_out);
  return Prepare(run, texts.files, workers);
}

// Throws unless the data was prepared with the tokenizer that was set, and with that of the model.
void RequireTokenizer(const PreparedRun& run) {
  if (run.initial) RequireTokenizerOf(*run.initial, *run.data, run.tokenizer.get());
  const std::string& asked = run.config().data.tokenizer;
  const bool added = !run.config().data.add_tokens.empty();
  const auto given = [&](const char* key) { return run.settings.layers.layer(key) >= Layer::kSet; };
  if ((!given("data.tokenizer") && !given("data.add_tokens")) || run.tokenizer == nullptr) return;
  if (!added && (asked == "char" || asked == "bytes")) {
    if (run.tokenizer->kind() == asked) return;
  } else {
    const std::unique_ptr<Tokenizer> own = AskedTokenizer(run);
    const std::string hash = run.tokenizer->hash();
    // Conversations without a template have added the tokens of roles.
    if (own->hash() == hash || (run.data->info().chat && WithChatTokens(*own)->hash() == hash))
      return;
  }
  throw UsageError(fmt::format("--tokenizer {}{}: the data has a different tokenizer", asked,
                               added ? " --add-tokens " + run.config().data.add_tokens : ""),
                   fmt::format("{} was prepared with a tokenizer of kind {}, hash {}",
                               run.data->dir(), run.tokenizer->kind(), run.tokenizer->hash()),
                   "remove it, or prepare the text again with it");
}

}  // namespace

std::vector<std::string> GivenData(const PreparedRun& run) {
  const std::string& file = run.options.sources.file;
  if (!run.options.data.empty() || run.resume || file.empty()) return run.options.data;
  const fs::path other = fs::absolute(file).parent_path();
  if (fs::exists(other / kRunDataDir)) return {(other / kRunDataDir).string()};
  if (fs::exists(other / kRunSourceFile)) return {ReadFile(other / kRunSourceFile, 1 << 16)};
  return {};
}

void OpenData(PreparedRun& run) {
  if (!run.resume && !run.options.dry_run && run.ranks.first()) {
    if (run.overwrite) RequireDataOutsideOf(run.options.out, GivenData(run));
    run.new_run = std::make_unique<NewRun>(run.options.out, run.overwrite, std::move(run.lock));
  }
  const std::string dir =
      MakeTogether(run.ranks, [&](Workers* workers) { return DataDir(run, workers); });
  run.data = std::make_unique<Dataset>(dir, run.config().model.vocab_size);
  const Dataset& data = *run.data;
  if (data.val().size() == 0) {
    throw InputError(fmt::format("{}: nothing is held out", data.dir()), kWhyHeldOut,
                     "prepare the text again with --val-fraction 0.01, or more");
  }
  if (run.ranks.group() != nullptr) RequireSame(*run.ranks.group(), "data", FingerprintOf(data));
  // Only the first rank verifies the data, as the others have the same.
  if (run.ranks.first() && data.bytes() <= run.options.hashed_at_once) data.Verify();
  run.tokenizer = LoadDataTokenizer(data);
  if (run.ranks.first()) RequireTokenizer(run);
}

}  // namespace folio
