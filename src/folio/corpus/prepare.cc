#include "folio/corpus/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/thread_pool.h"
#include "folio/corpus/conversation_lines.h"
#include "folio/corpus/partial_dataset.h"
#include "folio/corpus/pieces.h"
#include "folio/corpus/prepare_plan.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/text_stream.h"
#include "folio/data/conversation_table.h"
#include "folio/data/shard_writer.h"
#include "folio/io/file.h"
#include "folio/io/json.h"
#include "folio/io/model_dir.h"
#include "folio/text/char_tokenizer.h"
#include "folio/text/chat.h"
#include "folio/text/chat_encoder.h"
#include "folio/text/chat_template.h"
#include "folio/text/encodings.h"
#include "folio/text/special_tokens.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// Calls f(conversation, where) with each conversation, in order.
template <class F>
void ForConversations(std::span<const TextInput> inputs, F&& f) {
  for (const TextInput& input : inputs) {
    TextStream stream(input.file, {}, input.path);
    ForJsonLines(stream, input.path, [&](std::string_view line, const auto& where) {
      const std::string name = where();
      f(ReadConversation(ParseDataLine(line, name), name), name);
    });
  }
}

int64_t TextBytes(const Conversation& conversation) {
  int64_t bytes = 0;
  for (const ChatMessage& message : conversation.messages) bytes += std::ssize(message.content);
  return bytes;
}

// The result of the first reading of conversations: their counts, and their tokenizer.
struct Found {
  int64_t conversations = 0;
  int64_t text_bytes = 0;  // of the messages
  std::unique_ptr<Tokenizer> tokenizer;
  std::set<std::string> members = {};  // of messages, other than role and content
};

// Gives the tokenizer the template of that name, which is saved with it.
void TakeTemplate(const std::string& name, Tokenizer& tokenizer) {
  if (name.empty()) return;
  if (FindChatFormat(tokenizer)) {
    throw UsageError(fmt::format("--chat-template {}: the tokenizer has its own role tokens", name),
                     "conversations for its models are written with these tokens",
                     "remove --chat-template");
  }
  ChatSource source = tokenizer.chat_source();
  source.text = OpenChatTemplate(name)->source();
  source.where = name;
  tokenizer.set_chat_source(std::move(source));
}

Found ReadAll(const PrepareOptions& options, std::span<const TextInput> inputs,
              const PrepareHooks& hooks) {
  Found found;
  CharSetBuilder characters;
  const bool collect = options.tokenizer == "char";
  ForConversations(inputs, [&](const Conversation& conversation, const std::string& where) {
    found.text_bytes += TextBytes(conversation);
    ++found.conversations;
    if (hooks.converting) hooks.converting(inputs[0].path, found.text_bytes);
    if (collect) characters.BeginText(where);
    for (const ChatMessage& message : conversation.messages) {
      for (const auto& [key, value] : message.more.items()) found.members.insert(key);
      if (collect) characters.Add(message.content);
    }
    if (collect) characters.EndText();
  });
  std::unique_ptr<Tokenizer> plain =
      collect ? characters.Build() : OpenTokenizer(options.tokenizer);
  TakeTemplate(options.chat_template, *plain);
  // A model with a template knows its turns; for other models the tokens of turns are new.
  found.tokenizer = plain->chat_source().text.empty() ? WithChatTokens(*plain) : std::move(plain);
  return found;
}

// The fields of dataset.json that describe the tokens, of texts and of conversations.
DatasetInfo TokensInfo(const PrepareOptions& options, const Tokenizer& tokenizer) {
  DatasetInfo info;
  info.width = WidthForVocab(tokenizer.vocab_size());
  info.format = *FindTokenFormat(options.format);
  info.vocab_size = tokenizer.vocab_size();
  info.tokenizer_kind = tokenizer.kind();
  info.tokenizer_hash = tokenizer.hash();
  info.special = options.special;
  return info;
}

// The shape of the files of a part, "train" or "val".
ShardLayout LayoutOf(const char* part, const PrepareOptions& options, const Tokenizer& tokenizer) {
  return {part, WidthForVocab(tokenizer.vocab_size()), *FindTokenFormat(options.format),
          options.shard_tokens};
}

// Completes the files of both parts, and lists them in `info`.
void FinishParts(ShardWriter& train, ShardWriter& val, DatasetInfo& info) {
  info.train_shards = train.Finish();
  info.val_shards = val.Finish();
  for (const TokenShard& shard : info.train_shards) info.train_tokens += shard.tokens;
  for (const TokenShard& shard : info.val_shards) info.val_tokens += shard.tokens;
}

// Returns true if the files contain conversations. Throws a kInput Error if only some of them do.
bool AreConversations(std::span<const TextInput> inputs) {
  const auto conversations = [](const TextInput& input) { return input.form.conversations; };
  const auto some = std::ranges::find_if(inputs, conversations);
  const auto text = std::ranges::find_if_not(inputs, conversations);
  if (some == inputs.end() || text == inputs.end()) return some != inputs.end();
  throw InputError("conversations and plain texts cannot be mixed",
                   fmt::format("{} contains conversations, {} does not", some->path, text->path),
                   "prepare them as two data sets");
}

// The tokens of a conversation, followed by the token that separates conversations. It ends the
// last answer if no other token does.
struct ConversationTokens {
  std::vector<int32_t> ids;
  int64_t length = 0;  // without a separator that belongs to no conversation
  std::vector<AnswerTokens> answers = {};
};

ConversationTokens TokensOf(const ChatEncoder& encoder, const Tokenizer& tokenizer,
                            const Conversation& conversation, const std::string& where) {
  EncodedChat encoded;
  try {
    encoded = encoder.EncodeAnswers(tokenizer, conversation, where);
  } catch (const Error& error) {
    const std::string what = error.what();
    if (error.kind() != ErrorKind::kInput || what.starts_with(where)) throw;
    throw InputError(fmt::format("{}: {}", where, what), error.cause(), error.help());
  }
  ConversationTokens tokens{.ids = std::move(encoded.ids)};
  const bool at_end = !encoded.answers.empty() && encoded.answers.back().end == tokens.ids.size();
  if (const std::optional<int32_t> border = tokenizer.end_of_text()) {
    tokens.ids.push_back(*border);
    const bool ends = at_end && !encoded.ended;
    if (ends) ++encoded.answers.back().end;
    tokens.length = std::ssize(tokens.ids) - (ends ? 0 : 1);
  } else {
    tokens.length = std::ssize(tokens.ids);
  }
  for (const TokenRange& range : encoded.answers) {
    const auto begin = static_cast<uint32_t>(std::max<size_t>(range.begin, 1));
    if (begin < range.end) tokens.answers.push_back({begin, static_cast<uint32_t>(range.end)});
  }
  return tokens;
}

// Reports members of messages that do not become tokens.
void NoteConversations(const Found& found, const ChatEncoder& encoder, const PrepareHooks& hooks) {
  if (!hooks.note) return;
  for (const std::string& member : found.members) {
    if (encoder.ReadsMember(member)) continue;
    hooks.note(fmt::format("\"{}\" of messages is ignored: {}", member,
                           encoder.format() == nullptr ? "the chat template does not use it"
                                                       : "there is no chat template that uses it"));
  }
}

// PrepareDataset for conversations. Throws a kUsage Error if special is allow or raise: messages
// are ordinary text.
DatasetInfo PrepareConversations(const PrepareOptions& options, std::span<const TextInput> inputs,
                                 const PrepareHooks& hooks) {
  if (options.special != "ordinary") {
    throw UsageError(fmt::format("--special {} cannot be used with conversations", options.special),
                     "the contents of messages are ordinary text", "remove --special");
  }
  const Found found = ReadAll(options, inputs, hooks);
  const Tokenizer& tokenizer = *found.tokenizer;
  const ChatEncoder encoder = FindChatEncoder(tokenizer).value();
  NoteConversations(found, encoder, hooks);
  const int64_t all = found.conversations;
  const int64_t held_out =
      all - static_cast<int64_t>((1 - options.val_fraction) * static_cast<double>(all));
  const auto is_held_out = [&](int64_t i) {
    if (options.val_split == "tail") return i >= all - held_out;
    return (i + 1) * held_out / all > i * held_out / all;  // evenly spread, including the last
  };

  DatasetInfo info = TokensInfo(options, tokenizer);
  info.chat.emplace();
  if (!encoder.ends().empty()) info.chat->end = encoder.ends().front();
  info.documents = found.conversations;
  info.text_bytes = found.text_bytes;
  info.val_blocks = options.val_split == "tail" ? std::min<int64_t>(held_out, 1) : held_out;
  for (const TextInput& input : inputs) info.sources.push_back({input.path, input.bytes});

  AtomicDirectory directory(options.out);
  ShardWriter train(directory.path(), LayoutOf("train", options, tokenizer));
  ShardWriter val(directory.path(), LayoutOf("val", options, tokenizer));
  ConversationTable train_table, val_table;
  int64_t number = 0, done = 0;
  std::vector<std::byte> bytes;
  ForConversations(inputs, [&](const Conversation& conversation, const std::string& where) {
    const ConversationTokens tokens = TokensOf(encoder, tokenizer, conversation, where);
    bytes.clear();
    AppendTokenBytes(tokens.ids, info.width, bytes);
    const bool held = is_held_out(number++);
    (held ? val : train).Append(bytes);
    (held ? val_table : train_table)
        .Add(tokens.length, std::ssize(tokens.ids) - tokens.length, tokens.answers);
    done += TextBytes(conversation);
    if (hooks.progress) hooks.progress(done, found.text_bytes);
  });
  if (number != found.conversations) throw ChangedWhileRead(inputs[0].path);
  FinishParts(train, val, info);
  WriteConversations(directory.path().string(), train_table, val_table, info);
  tokenizer.Save(directory.path().string());
  WriteDatasetInfo(directory.path().string(), info);
  directory.Commit();
  return info;
}

// Returns true for the name of a file that PrepareDataset writes: the tokenizer's, dataset.json, a
// table of conversations or a file of tokens.
bool IsOurs(const std::string& name) {
  if (name == kTrainAnswersFile || name == kValAnswersFile) return true;
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
  const auto require = [](bool good, const std::string& what, const std::string& cause,
                          const std::string& help = "") {
    if (!good) throw UsageError(what, cause, help);
  };
  require(!options.files.empty(), "no input files", "", "give a text file");
  require(!options.out.empty(), "no output directory", "", "give it with --out");
  require(options.val_fraction >= 0 && options.val_fraction < 1,
          fmt::format("--val-fraction: {} is out of range", options.val_fraction),
          "expected a number from 0 to below 1", "use --val-fraction 0.1");
  require(options.val_split == "spread" || options.val_split == "tail",
          fmt::format("--val-split: unknown split '{}'", options.val_split),
          "expected spread or tail", "use --val-split spread");
  require(options.shard_tokens >= 0,
          fmt::format("--shard-tokens: {} is out of range", options.shard_tokens),
          "expected a number of tokens, or 0", "use --shard-tokens 100000000");
  require(FindTokenFormat(options.format).has_value(),
          fmt::format("--format: unknown format '{}'", options.format), "expected folio or llmc",
          "use --format folio");
  require(options.special == "allow" || options.special == "raise" || options.special == "ordinary",
          fmt::format("--special: unknown value '{}'", options.special),
          "expected allow, raise or ordinary", "use --special ordinary");
  require(std::ranges::count(options.files, "-") <= 1, "standard input can be read only once",
          "- is given more than once");
  require(!options.raw || options.tokenizer == "bytes", "--raw works only with the tokenizer bytes",
          fmt::format("the tokenizer is {}", options.tokenizer),
          "use --tokenizer bytes, or remove --raw");
  PartialDataset::Tidy(options.out);
  CheckReplaceable(options.out, "data set", options.overwrite, IsOurs);
}

// Returns everything that determines a data set, as JSON. `tokenizer` is null if the text
// determines it.
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
  // Names need not be UTF-8: files whose names differ only in such bytes differ in length or time.
  return json.dump();
}

// The preparation of one data set of texts.
class Preparing {
 public:
  Preparing(const PrepareOptions& options, std::vector<TextInput> inputs, const PrepareHooks& hooks)
      : options_(options),
        hooks_(hooks),
        texts_{.field = options.field, .raw = options.raw},
        inputs_(std::move(inputs)),
        sizes_(Threads()),
        ranks_(options.workers),
        tokenizer_(options.tokenizer == "char" ? nullptr : OpenTokenizer(options.tokenizer)),
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
      // The files must be changed, so the work on them is useless.
      if (error.kind() == ErrorKind::kInput || !GoesOn()) Abandon();
      throw;
    } catch (...) {
      if (!GoesOn()) Abandon();
      throw;
    }
  }

 private:
  void Note(const std::string& text) const {
    if (hooks_.note) hooks_.note(text);
  }

  void NoteNewBeginning(const std::string& why) const {
    Note(fmt::format("cannot continue an earlier run ({}): starting again", why));
  }

  void OpenWriters(const PrepareState& state) {
    train_.emplace(partial_.path(), LayoutOf("train", options_, *tokenizer_), state.train);
    val_.emplace(partial_.path(), LayoutOf("val", options_, *tokenizer_), state.val);
  }

  // Returns true if a later process can continue the work.
  bool GoesOn() const {
    return saved_ && options_.keep_partial &&
           std::ranges::none_of(inputs_, [](const TextInput& input) { return input.once; });
  }

  // The path of the converted text of an input.
  std::string ConvertedPath(size_t input) const {
    return (partial_.path() / fmt::format("text_{:06}", input)).string();
  }

  // Opens the texts of all inputs. Converted texts are those of an earlier process, `left`, or are
  // made now if it is null.
  void OpenSources(const PrepareState* left) {
    sources_.clear();
    before_ = {0};
    int64_t converted = 0;
    for (size_t i = 0, used = 0; i < inputs_.size(); ++i) {
      const TextInput& input = inputs_[i];
      const std::string text = ConvertedPath(i);
      if (!input.form.converted) {
        sources_.emplace_back(input, texts_, input.file);
      } else if (left != nullptr) {
        std::error_code error;
        const auto bytes = static_cast<int64_t>(fs::file_size(text, error));
        if (error || used == left->converted.size() || bytes != left->converted[used++]) {
          throw InputError(fmt::format("{}: modified since it was written", text));
        }
        sources_.emplace_back(input, texts_, text);
      } else {
        sources_.push_back(ConvertSource(input, texts_, text, [&](int64_t bytes) {
          if (hooks_.converting) hooks_.converting(input.path, converted + bytes);
        }));
        state_.converted.push_back(static_cast<int64_t>(fs::file_size(text)));
        converted += state_.converted.back();
      }
      before_.push_back(before_.back() + sources_.back().bytes());
      if (!sources_.back().marked()) continue;
      Note(fmt::format("{}: byte order mark removed", input.path));
    }
    NoteAlone(ranks_.Open(sources_, texts_));
  }

  void NoteAlone(const std::string& why) const {
    if (!why.empty()) Note(why + ": only the first rank prepares the data");
  }

  // The number of bytes read when reading number `reading`, from 0, has reached `place`.
  int64_t Done(int reading, const PreparePlace& place) const {
    return reading * before_.back() + before_[place.source] + place.offset;
  }

  void Show(int reading, const PreparePlace& place) {
    const int64_t done = Done(reading, place);
    if (done == shown_) return;
    shown_ = done;
    if (hooks_.progress) hooks_.progress(done, 2 * before_.back());
  }

  // A directory that is begun here belongs to this process.
  void BeginPartial() {
    partial_.Begin();
    owned_ = true;
  }

  bool IsPlace(const PreparePlace& place) const {
    const bool behind_all = place.source == sources_.size() && place.offset == 0;
    return behind_all || (place.source < sources_.size() && place.offset >= 0 &&
                          place.offset <= sources_[place.source].bytes());
  }

  // Continues earlier work. Returns false if there is none.
  bool TakeUp() {
    if (!partial_.found()) return false;
    try {
      PrepareState state = *partial_.found();
      OpenSources(&state);
      if (tokenizer_ == nullptr) tokenizer_ = LoadTokenizer(partial_.path().string());
      if (tokenizer_->hash() != state.tokenizer_hash || !IsPlace(state.next)) {
        throw InputError("the state was modified");
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
    Note("continuing where an earlier run stopped");
    shown_ = Done(1, state_.next);
    if (hooks_.going_on) hooks_.going_on(shown_);
    return true;
  }

  void Begin() {
    CharSetBuilder characters;
    const bool collect = tokenizer_ == nullptr;
    state_ = {};
    const bool convert =
        std::ranges::any_of(inputs_, [](const TextInput& input) { return input.form.converted; });
    if (convert) BeginPartial();
    OpenSources(nullptr);
    if (const std::string note = LineEndsNote(sources_); !options_.raw && !note.empty()) Note(note);
    MakePlan(collect ? &characters : nullptr);
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
    const TokenWidth width = WidthForVocab(tokenizer_->vocab_size());
    const SpecialRule rule = SpecialRule::Named(options_.special);
    PieceEncoder encoder(*tokenizer_, sources_, state_.plan.first, rule, width);
    const CutRule cuts(*tokenizer_, options_.special != "ordinary");
    PieceCutter cutter(sources_, cuts, sizes_.piece_bytes, state_.plan.splits, state_.next);
    NoteAlone(ranks_.OpenTokenizer(partial_.path(), state_.tokenizer_hash, state_.plan.first,
                                   options_.special, width));
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
          try {
            Show(1, place);
          } catch (...) {  // the hook may stop the work
            if (options_.keep_partial) Checkpoint();
            throw;
          }
        });
    for (const PrepareSource& source : sources_) source.CheckUnchanged();
  }

  void Checkpoint() {
    state_.train = train_->Checkpoint();
    state_.val = val_->Checkpoint();
    partial_.Save(state_);
  }

  // Reads all sources. `characters`, if not null, gets all text, in order; then only this rank
  // reads. Throws a kInput Error if there would be no training text.
  //
  // The training text has int((1 - val_fraction) * units) units; there is no split if those are
  // all. With `tail` there is one split, behind these units. With `spread` there are up to 64
  // blocks of held-out text, of at least 512 units, each behind an equal share of the training
  // text. Blocks begin and end with documents no longer than a block, or else with lines that end
  // nearby. If a text is too short for two blocks its end is held out.
  void MakePlan(CharSetBuilder* characters) {
    const bool bytes = characters == nullptr && tokenizer_->kind() == "bytes";
    const PrepareUnit unit = bytes ? PrepareUnit::kByte : PrepareUnit::kCharacter;
    PreparePlan& plan = state_.plan;
    TextCounter counter(sources_, unit, /*collect=*/characters != nullptr);
    PlanMaker maker(sources_, unit, characters);
    PieceRanks alone(nullptr);
    const CutRule characters_only;
    PieceCutter cutter(sources_, characters_only, sizes_.piece_bytes, {});
    ForPieces<TextCounts>(
        cutter, sizes_, characters == nullptr ? ranks_ : alone,
        bytes ? PieceWork::kCountBytes : PieceWork::kCountCharacters,
        [&](const PreparePiece& piece, TextCounts& counts, int thread) {
          counter.Count(piece, counts, thread);
        },
        [&](const PreparePiece& piece, const TextCounts& counts) {
          maker.Take(piece, counts, plan);
        },
        [&](const PreparePlace& place) { Show(0, place); });
    const auto train_units =
        static_cast<int64_t>(static_cast<double>(plan.units) * (1 - options_.val_fraction));
    if (train_units == 0) {
      throw InputError(fmt::format("{}: too short", sources_.front().path()),
                       fmt::format("none of the {} {} would be left for training", plan.units,
                                   bytes ? "bytes" : "characters"),
                       "use more text, or a smaller --val-fraction");
    }
    if (train_units < plan.units) {
      plan.splits = maker.FindAll(plan.units, train_units, options_.val_split == "spread");
    }
  }

  DatasetInfo Complete() {
    DatasetInfo info = TokensInfo(options_, *tokenizer_);
    info.documents = state_.plan.documents;
    info.text_bytes = state_.plan.text_bytes;
    info.val_blocks = state_.plan.blocks();
    for (const PrepareSource& source : sources_) {
      info.sources.push_back({source.path(), source.given_bytes()});
    }
    FinishParts(*train_, *val_, info);
    AtomicDirectory directory(options_.out);
    partial_.HandOver(info.train_shards, directory.path());
    partial_.HandOver(info.val_shards, directory.path());
    tokenizer_->Save(directory.path().string());
    WriteDatasetInfo(directory.path().string(), info);
    directory.Commit();
    partial_.Remove();
    if (state_.plan.documents > 1 && !tokenizer_->end_of_text()) {
      Note(
          "documents are not separated: the tokenizer has no end-of-text token; --add-tokens "
          "'<|endoftext|>' adds one");
    }
    return info;
  }

  void Abandon() {
    train_.reset();
    val_.reset();
    if (owned_) partial_.Remove();
  }

  const PrepareOptions& options_;
  const PrepareHooks& hooks_;
  TextOptions texts_;
  std::vector<TextInput> inputs_;
  std::vector<PrepareSource> sources_;
  std::vector<int64_t> before_;  // bytes of the sources before each one, and of all
  int64_t shown_ = 0;            // the progress that was shown last, in bytes of both readings
  WindowSizes sizes_;
  PieceRanks ranks_;
  std::unique_ptr<Tokenizer> tokenizer_;
  PartialDataset partial_;
  bool owned_ = false;  // partial_ was begun or continued here
  bool saved_ = false;  // partial_ has a saved state
  PrepareState state_;
  std::optional<ShardWriter> train_;
  std::optional<ShardWriter> val_;
};

}  // namespace

DatasetInfo PrepareDataset(const PrepareOptions& options, const PrepareHooks& hooks) {
  CheckOptions(options);
  std::vector<TextInput> inputs;
  for (const std::string& file : options.files) {
    inputs.push_back(
        FindTextInput(file, {.field = options.field, .raw = options.raw}, options.standard_input));
  }
  for (const TextInput& input : inputs) {
    if (hooks.note && !input.form.choice.empty()) {
      hooks.note(fmt::format("{}: {}", input.path, input.form.choice));
      break;  // the other files are probably alike
    }
  }
  if (AreConversations(inputs)) return PrepareConversations(options, inputs, hooks);
  if (!options.chat_template.empty()) {
    throw UsageError(fmt::format("--chat-template {}: the files contain no conversations",
                                 options.chat_template),
                     {}, "remove it");
  }
  PrepareOptions texts = options;
  if (options.added_tokens) texts.special = "allow";
  return Preparing(texts, std::move(inputs), hooks).Run();
}

}  // namespace folio
