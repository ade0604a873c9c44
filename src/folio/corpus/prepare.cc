#include "folio/corpus/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "folio/base/clock.h"
#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/partial_dataset.h"
#include "folio/corpus/piece_encoder.h"
#include "folio/corpus/piece_window.h"
#include "folio/corpus/prepare_conversations.h"
#include "folio/corpus/prepare_plan.h"
#include "folio/data/shard_writer.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/term/signals.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/encodings.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

// A file that PrepareDataset writes: the tokenizer's and dataset.json, or one of tokens.
bool IsOurs(const std::string& name) {
  if (name == kDatasetFile || std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end()) {
    return true;
  }
  for (const std::string_view part : {"train", "val", "valid"}) {
    if (!name.starts_with(part) || !name.ends_with(".bin")) continue;
    const std::string between = name.substr(part.size(), name.size() - part.size() - 4);
    if (between.empty() || (between[0] == '_' && between.size() > 1 &&
                            between.find_first_not_of("0123456789", 1) == std::string::npos)) {
      return true;
    }
  }
  return false;
}

// Throws a kUsage Error if the options cannot be used, or if the target may not be replaced.
void CheckOptions(const PrepareOptions& options) {
  if (options.files.empty()) throw UsageError("no files to prepare", "", "name a text file");
  if (options.out.empty()) throw UsageError("no directory to write to", "", "name it with --out");
  if (!(options.val_fraction >= 0 && options.val_fraction < 1)) {
    throw UsageError(fmt::format("--val-fraction: {} is out of range", options.val_fraction),
                     "expected a number from 0 to below 1", "use --val-fraction 0.1");
  }
  if (options.val_split != "spread" && options.val_split != "tail") {
    throw UsageError(fmt::format("--val-split: unknown split '{}'", options.val_split),
                     "expected spread or tail", "use --val-split spread");
  }
  if (options.shard_tokens < 0) {
    throw UsageError(fmt::format("--shard-tokens: {} is out of range", options.shard_tokens),
                     "expected a number of tokens, or 0", "use --shard-tokens 100000000");
  }
  if (!FindTokenFormat(options.format)) {
    throw UsageError(fmt::format("--format: unknown format '{}'", options.format),
                     "expected folio or llmc", "use --format folio");
  }
  if (options.special != "allow" && options.special != "raise" && options.special != "ordinary") {
    throw UsageError(fmt::format("--special: unknown rule '{}'", options.special),
                     "expected allow, raise or ordinary", "use --special ordinary");
  }
  if (std::ranges::count(options.files, "-") > 1) {
    throw UsageError("standard input is read once", "- is named more than once");
  }
  if (options.raw && options.tokenizer != "bytes") {
    throw UsageError("--raw: only bytes can be taken as they are",
                     fmt::format("the tokenizer is {}", options.tokenizer),
                     "use --tokenizer bytes, or leave --raw out");
  }
  PartialDataset::Tidy(options.out);
  CheckReplaceable(options.out, "data set", options.overwrite, IsOurs);
}

// Returns all that decides what a data set will be, as JSON. `tokenizer` is null where the text
// decides.
std::string IdentityOf(const PrepareOptions& options, std::span<const TextInput> inputs,
                       const Tokenizer* tokenizer) {
  Json files = Json::array();
  for (const TextInput& input : inputs) {
    files.push_back({input.path, input.bytes, input.modified});
  }
  const Json json = {{"version", 3},
                     {"text", std::move(files)},
                     {"field", options.field},
                     {"raw", options.raw},
                     {"tokenizer", tokenizer == nullptr ? "char" : tokenizer->hash()},
                     {"val-fraction", options.val_fraction},
                     {"val-split", options.val_split},
                     {"special", options.special},
                     {"format", options.format},
                     {"shard-tokens", options.shard_tokens}};
  // Names need not be UTF-8; what differs in such bytes alone differs in length or time too.
  return json.dump();
}

TextOptions TextOptionsOf(const PrepareOptions& options) {
  return {.field = options.field, .raw = options.raw};
}

std::vector<TextInput> FindTextInputs(const PrepareOptions& options) {
  std::vector<TextInput> inputs;
  for (const std::string& file : options.files) {
    inputs.push_back(FindTextInput(file, TextOptionsOf(options), options.standard_input));
  }
  return inputs;
}

// Progress over both readings.
class Meter {
 public:
  Meter(const std::vector<PrepareSource>& sources, const PrepareHooks& hooks) : hooks_(hooks) {
    before_.push_back(0);
    for (const PrepareSource& source : sources) before_.push_back(before_.back() + source.bytes());
  }

  // The second reading begins at `place`.
  void BeginAt(const PreparePlace& place) {
    shown_ = Done(1, place);
    if (hooks_.going_on) hooks_.going_on(shown_);
  }

  // All before `place` was read for the `reading`th time, counted from 0.
  void Show(int reading, const PreparePlace& place) {
    const int64_t done = Done(reading, place);
    if (done == shown_) return;
    shown_ = done;
    if (hooks_.progress) hooks_.progress(done, 2 * before_.back());
  }

 private:
  int64_t Done(int reading, const PreparePlace& place) const {
    return reading * before_.back() + before_[place.source] + place.offset;
  }

  const PrepareHooks& hooks_;
  std::vector<int64_t> before_;  // bytes of the sources before each, and of all
  int64_t shown_ = 0;
};

// One making of a data set.
class Preparing {
 public:
  Preparing(const PrepareOptions& options, std::vector<TextInput> inputs, const PrepareHooks& hooks)
      : options_(options),
        hooks_(hooks),
        inputs_(std::move(inputs)),
        sizes_(Threads()),
        ranks_(options.workers),
        tokenizer_(FixedTokenizer(options.tokenizer)),
        partial_(options.out, IdentityOf(options, inputs_, tokenizer_.get())) {
    if (options.piece_bytes > 0) {
      sizes_.piece_bytes = options.piece_bytes;
      sizes_.window_bytes = 4 * options.piece_bytes;
    }
  }

  DatasetInfo Run() {
    if (!partial_.useless().empty()) NoteNewBeginning(partial_.useless());
    try {
      if (!TakeUp()) Begin();
      EncodeAll();
      return Complete();
    } catch (const Error& error) {
      // The files must change, and what was made of them is then of no use.
      if (error.kind() == ErrorKind::kInput || !GoesOn()) Abandon();
      throw;
    } catch (...) {
      if (!GoesOn()) Abandon();
      throw;
    }
  }

 private:
  // Any but `char`, which depends on the text.
  static std::unique_ptr<Tokenizer> FixedTokenizer(const std::string& name) {
    return name == "char" ? nullptr : OpenTokenizer(name);
  }

  void Note(const std::string& text) const {
    if (hooks_.note) hooks_.note(text);
  }

  void NoteNewBeginning(const std::string& why) const {
    Note(fmt::format("what an earlier run began is of no use ({}): beginning again", why));
  }

  TokenWidth Width() const { return WidthForVocab(tokenizer_->vocab_size()); }

  ShardLayout Layout(const char* part) const {
    return {part, Width(), *FindTokenFormat(options_.format), options_.shard_tokens};
  }

  void OpenWriters(const PrepareState& state) {
    train_.emplace(partial_.path(), Layout("train"), state.train);
    val_.emplace(partial_.path(), Layout("val"), state.val);
  }

  // Returns whether a later process can go on with what is there.
  bool GoesOn() const {
    return saved_ && options_.keep_partial &&
           std::ranges::none_of(inputs_, [](const TextInput& input) { return input.once; });
  }

  // Returns the path of the text of an input that had to be converted.
  std::string ConvertedPath(size_t input) const {
    return (partial_.path() / fmt::format("text_{:06}", input)).string();
  }

  // source(i): the i-th input's, which must be converted.
  void OpenSources(const std::function<PrepareSource(size_t i)>& source) {
    sources_.clear();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TextInput& input = inputs_[i];
      sources_.push_back(input.form.converted
                             ? source(i)
                             : PrepareSource(input, TextOptionsOf(options_), input.file));
      if (!sources_.back().marked()) continue;
      Note(fmt::format("{}: left out the byte order mark at its beginning", input.path));
    }
    meter_.emplace(sources_, hooks_);
    NoteAlone(ranks_.Open(sources_, TextOptionsOf(options_)));
  }

  void NoteAlone(const std::string& why) const {
    if (!why.empty()) Note(why + ": the first rank prepares the data alone");
  }

  // Opens the sources that an earlier process has converted.
  void OpenConverted(const PrepareState& state) {
    size_t used = 0;
    OpenSources([&](size_t i) {
      const std::string text = ConvertedPath(i);
      std::error_code error;
      const auto bytes = static_cast<int64_t>(std::filesystem::file_size(text, error));
      if (error || used == state.converted.size() || bytes != state.converted[used++]) {
        throw InputError(fmt::format("{}: not as it was left", text));
      }
      return PrepareSource(inputs_[i], TextOptionsOf(options_), text);
    });
  }

  void ConvertAll() {
    int64_t before = 0;
    OpenSources([&](size_t i) {
      const auto progress = [&](int64_t bytes) {
        if (hooks_.converting) hooks_.converting(inputs_[i].path, before + bytes);
      };
      PrepareSource source =
          ConvertSource(inputs_[i], TextOptionsOf(options_), ConvertedPath(i), progress);
      const auto bytes = static_cast<int64_t>(std::filesystem::file_size(ConvertedPath(i)));
      before += bytes;
      state_.converted.push_back(bytes);
      return source;
    });
  }

  // Whatever is begun anew belongs to this process.
  void BeginPartial() {
    partial_.Begin();
    owned_ = true;
  }

  bool IsPlace(const PreparePlace& place) const {
    const bool behind_all = place.source == sources_.size() && place.offset == 0;
    return behind_all || (place.source < sources_.size() && place.offset >= 0 &&
                          place.offset <= sources_[place.source].bytes());
  }

  // Goes on with what was begun. False if there is nothing to go on with.
  bool TakeUp() {
    if (!partial_.found()) return false;
    try {
      PrepareState state = *partial_.found();
      OpenConverted(state);
      if (tokenizer_ == nullptr) tokenizer_ = LoadTokenizer(partial_.path().string());
      if (tokenizer_->hash() != state.tokenizer_hash || !IsPlace(state.next)) {
        throw InputError("it was changed");
      }
      OpenWriters(state);
      state_ = std::move(state);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInput) throw;
      NoteNewBeginning(error.what());
      if (options_.tokenizer == "char") tokenizer_.reset();
      return false;
    }
    owned_ = saved_ = true;
    Note("going on where an earlier run stopped");
    meter_->BeginAt(state_.next);
    return true;
  }

  void Begin() {
    CharSetBuilder characters;
    const bool collect = tokenizer_ == nullptr;
    const bool bytes = !collect && tokenizer_->kind() == "bytes";
    state_ = {};
    const bool convert =
        std::ranges::any_of(inputs_, [](const TextInput& input) { return input.form.converted; });
    if (convert) BeginPartial();
    ConvertAll();
    if (const std::string note = LineEndsNote(sources_); !options_.raw && !note.empty()) Note(note);
    state_.plan = MakePreparePlan(sources_, {options_.val_fraction, options_.val_split == "spread"},
                                  bytes ? PrepareUnit::kByte : PrepareUnit::kCharacter,
                                  collect ? &characters : nullptr, sizes_, ranks_,
                                  [&](const PreparePlace& place) { meter_->Show(0, place); });
    if (collect) tokenizer_ = characters.Build();
    state_.tokenizer_hash = tokenizer_->hash();
    if (!convert) BeginPartial();
    tokenizer_->Save(partial_.path().string());
    OpenWriters(state_);
    partial_.Save(state_);
    saved_ = true;
  }

  void EncodeAll() {
    using Tokens = std::vector<std::byte>;
    const SpecialRule rule = SpecialRule::Named(options_.special);
    PieceEncoder encoder(*tokenizer_, sources_, state_.plan.first, rule, Width());
    const CutRule cuts(*tokenizer_, options_.special != "ordinary");
    PieceCutter cutter(sources_, cuts, sizes_.piece_bytes, state_.plan.splits, state_.next);
    NoteAlone(ranks_.OpenTokenizer(partial_.path(), state_.tokenizer_hash, state_.plan.first,
                                   options_.special, Width()));
    int64_t unsaved = 0;
    ForPieces<Tokens>(
        cutter, sizes_, ranks_, PieceWork::kEncode,
        [&](const PreparePiece& piece, Tokens& tokens, int thread) {
          encoder.Encode(piece, tokens, thread);
        },
        [&](const PreparePiece& piece, const Tokens& tokens) {
          (piece.begin.val() ? *val_ : *train_).Append(tokens);
          unsaved += static_cast<int64_t>(tokens.size());
        },
        [&](const PreparePlace& place) {
          state_.next = place;
          if (unsaved >= options_.checkpoint_bytes) {
            Checkpoint();
            unsaved = 0;
          }
          ShowOrCheckpoint();
        });
    for (const PrepareSource& source : sources_) source.CheckUnchanged();
  }

  void Checkpoint() {
    state_.train = train_->Checkpoint();
    state_.val = val_->Checkpoint();
    partial_.Save(state_);
  }

  // Whoever is told of the progress may stop here.
  void ShowOrCheckpoint() {
    try {
      meter_->Show(1, state_.next);
    } catch (...) {
      if (options_.keep_partial) Checkpoint();
      throw;
    }
  }

  DatasetInfo Complete() {
    DatasetInfo info;
    info.width = Width();
    info.format = *FindTokenFormat(options_.format);
    info.vocab_size = tokenizer_->vocab_size();
    info.tokenizer_kind = tokenizer_->kind();
    info.tokenizer_hash = state_.tokenizer_hash;
    info.special = options_.special;
    info.documents = state_.plan.documents;
    info.text_bytes = state_.plan.text_bytes;
    info.val_blocks = state_.plan.blocks();
    for (const PrepareSource& source : sources_) {
      info.sources.push_back({source.path(), source.given_bytes()});
    }
    info.train_shards = train_->Finish();
    info.val_shards = val_->Finish();
    for (const TokenShard& shard : info.train_shards) info.train_tokens += shard.tokens;
    for (const TokenShard& shard : info.val_shards) info.val_tokens += shard.tokens;

    AtomicDirectory directory(options_.out);
    partial_.HandOver(info.train_shards, directory.path());
    partial_.HandOver(info.val_shards, directory.path());
    tokenizer_->Save(directory.path().string());
    WriteDatasetInfo(directory.path().string(), info);
    directory.Commit();
    partial_.Remove();
    return info;
  }

  void Abandon() {
    train_.reset();
    val_.reset();
    if (owned_) partial_.Remove();
  }

  const PrepareOptions& options_;
  const PrepareHooks& hooks_;
  std::vector<TextInput> inputs_;
  std::vector<PrepareSource> sources_;
  std::optional<Meter> meter_;
  WindowSizes sizes_;
  PieceRanks ranks_;
  std::unique_ptr<Tokenizer> tokenizer_;
  PartialDataset partial_;
  bool owned_ = false;  // partial_ was begun here, or gone on with
  bool saved_ = false;  // and says how far it is
  PrepareState state_;
  std::optional<ShardWriter> train_;
  std::optional<ShardWriter> val_;
};

}  // namespace

DatasetInfo PrepareDataset(const PrepareOptions& options, const PrepareHooks& hooks) {
  CheckOptions(options);
  std::vector<TextInput> inputs = FindTextInputs(options);
  if (AreConversations(inputs)) return PrepareConversations(options, inputs, hooks);
  return Preparing(options, std::move(inputs), hooks).Run();
}

DatasetInfo PrepareWithProgress(const PrepareOptions& options, Console& console,
                                ProgressMode mode) {
  Progress progress(console, mode);
  RateMeter rate(/*warm_up=*/0);
  double last_seconds = SteadySeconds();
  int64_t last_done = 0;
  PrepareHooks hooks;
  hooks.note = [&](const std::string& text) { console.Note(text); };
  hooks.progress = [&](int64_t done, int64_t total) {
    ThrowIfStopRequested();
    const double now = SteadySeconds();
    rate.Add(static_cast<double>(done - last_done), now - last_seconds);
    last_seconds = now;
    last_done = done;
    if (!progress.Due()) return;
    const double eta = rate.Eta(static_cast<double>(total - done));
    progress.Show(
        {"bytes",
         done,
         total,
         {{"bytes_per_second", fmt::format("{:.0f}", rate.rate()),
           fmt::format("{}/s", HumanBytes(rate.rate()))},
          {"eta_seconds", fmt::format("{:.0f}", eta), fmt::format("eta {}", HumanSeconds(eta))}}});
  };
  hooks.converting = [&](const std::string& path, int64_t bytes) {
    ThrowIfStopRequested();
    if (!progress.Due()) return;
    progress.Show({"unpacked_bytes", bytes, 0, {{"file", path, path}}});
  };
  hooks.going_on = [&](int64_t done) { last_done = done; };
  return PrepareDataset(options, hooks);
}

}  // namespace folio
