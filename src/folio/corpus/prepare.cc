#include "folio/corpus/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/partial_dataset.h"
#include "folio/corpus/piece_encoder.h"
#include "folio/corpus/piece_window.h"
#include "folio/corpus/prepare_options.h"
#include "folio/corpus/prepare_plan.h"
#include "folio/io/file.h"
#include "folio/text/byte_tokenizer.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/encodings.h"

namespace folio {
namespace {

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
  Preparing(const PrepareOptions& options, const PrepareHooks& hooks)
      : options_(options),
        hooks_(hooks),
        sources_(options.files.begin(), options.files.end()),
        meter_(sources_, hooks),
        sizes_(Threads()),
        tokenizer_(FixedTokenizer(options.tokenizer)),
        partial_(options.out, PrepareIdentity(options, sources_, tokenizer_.get())) {
    if (options.piece_bytes > 0) {
      sizes_.piece_bytes = options.piece_bytes;
      sizes_.window_bytes = 4 * options.piece_bytes;
    }
  }

  DatasetInfo Run() {
    if (!partial_.useless().empty()) {
      NoteNewBeginning(partial_.useless());
    }
    if (!TakeUp()) Begin();
    try {
      EncodeAll();
      return Complete();
    } catch (const Error& error) {
      // The files must change, and what was made of them is then of no use.
      if (error.kind() == ErrorKind::kInput || !options_.keep_partial) Abandon();
      throw;
    } catch (...) {
      if (!options_.keep_partial) Abandon();
      throw;
    }
  }

 private:
  // Any but `char`, which depends on the text.
  static std::unique_ptr<Tokenizer> FixedTokenizer(const std::string& name) {
    if (name == "char") return nullptr;
    if (name == "bytes") return std::make_unique<ByteTokenizer>();
    return OpenTokenizer(name);
  }

  void Note(const std::string& text) const {
    if (hooks_.note) hooks_.note(text);
  }

  void NoteNewBeginning(const std::string& why) const {
    Note(fmt::format("what an earlier run began is of no use ({}): beginning again", why));
  }

  TokenWidth Width() const { return WidthForVocab(tokenizer_->vocab_size()); }

  ShardLayout Layout(const char* part) const {
    const TokenFormat format = *FindTokenFormat(options_.format);
    if (format == TokenFormat::kLlmC && Width() != TokenWidth::k16) {
      throw UsageError(
          "--format llmc: the vocabulary is too large",
          fmt::format("llm.c's files hold ids below 65536, the tokenizer has {} tokens",
                      tokenizer_->vocab_size()),
          "use --format folio");
    }
    return {part, Width(), format, options_.shard_tokens};
  }

  void OpenWriters(const PrepareState& state) {
    train_.emplace(partial_.path(), Layout("train"), state.train);
    val_.emplace(partial_.path(), Layout("val"), state.val);
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
    Note("going on where an earlier run stopped");
    meter_.BeginAt(state_.next);
    return true;
  }

  void Begin() {
    CharSetBuilder characters;
    const bool collect = tokenizer_ == nullptr;
    if (!collect) Layout("train");  // complains early
    const bool bytes = !collect && tokenizer_->kind() == "bytes";
    state_ = {};
    state_.plan = MakePreparePlan(sources_, options_.val_fraction,
                                  bytes ? PrepareUnit::kByte : PrepareUnit::kCharacter,
                                  collect ? &characters : nullptr, sizes_,
                                  [&](const PreparePlace& place) { meter_.Show(0, place); });
    if (collect) tokenizer_ = characters.Build();
    state_.tokenizer_hash = tokenizer_->hash();
    Layout("train");
    partial_.Begin();
    tokenizer_->Save(partial_.path().string());
    OpenWriters(state_);
    partial_.Save(state_);
  }

  void EncodeAll() {
    using Tokens = std::vector<std::byte>;
    const SpecialRule rule = SpecialRule::Named(options_.special);
    PieceEncoder encoder(*tokenizer_, sources_, state_.plan.first, rule, Width());
    const CutRule cuts(*tokenizer_, options_.special != "ordinary");
    PieceCutter cutter(sources_, cuts, sizes_.piece_bytes, state_.plan.split, state_.next);
    int64_t unsaved = 0;
    ForPieces<Tokens>(
        cutter, sizes_,
        [&](const PreparePiece& piece, Tokens& tokens, int thread) {
          encoder.Encode(piece, tokens, thread);
        },
        [&](const PreparePiece& piece, const Tokens& tokens) {
          (piece.begin.val ? *val_ : *train_).Append(tokens);
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
      meter_.Show(1, state_.next);
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
    for (const PrepareSource& source : sources_) {
      info.sources.push_back({source.path(), source.bytes()});
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
    partial_.Remove();
  }

  const PrepareOptions& options_;
  const PrepareHooks& hooks_;
  std::vector<PrepareSource> sources_;
  Meter meter_;
  WindowSizes sizes_;
  std::unique_ptr<Tokenizer> tokenizer_;
  PartialDataset partial_;
  PrepareState state_;
  std::optional<ShardWriter> train_;
  std::optional<ShardWriter> val_;
};

}  // namespace

DatasetInfo PrepareDataset(const PrepareOptions& options, const PrepareHooks& hooks) {
  CheckPrepareOptions(options);
  return Preparing(options, hooks).Run();
}

}  // namespace folio
