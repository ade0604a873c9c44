#include "folio/eval/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/hash.h"
#include "folio/base/math.h"
#include "folio/base/signals.h"
#include "folio/base/thread_pool.h"
#include "folio/base/utf8.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/corpus/text_files.h"
#include "folio/data/dataset.h"
#include "folio/infer/token_probabilities.h"
#include "folio/io/byte_input.h"
#include "folio/model/config.h"
#include "folio/model/layers/head.h"
#include "folio/model_files/config_json.h"
#include "folio/text/encode_input.h"
#include "folio/text/unicode.h"

namespace folio {

WindowShape ChooseWindows(int64_t context, int64_t stride, int64_t n_positions) {
  if (context > n_positions) {
    throw UsageError(fmt::format("--context {}: longer than the model's context", context),
                     fmt::format("the context is {} tokens (n_positions)", n_positions),
                     "remove --context, or use a smaller value");
  }
  if (context == 0) context = n_positions;
  if (stride > context) {
    throw UsageError(
        fmt::format("--stride {}: longer than a window", stride),
        fmt::format("a window has {} tokens, and tokens between windows would be skipped", context),
        fmt::format("use 1 to {}", context));
  }
  return {.context = context, .stride = stride == 0 ? std::max<int64_t>(context / 2, 1) : stride};
}

WindowCutter::WindowCutter(const WindowShape& shape, OnWindow on_window)
    : shape_(shape), on_window_(std::move(on_window)) {
  FOLIO_CHECK(1 <= shape.stride && shape.stride <= shape.context, "windows that leave tokens out");
  const int64_t room = shape.context - std::ssize(shape.before);
  if (room < 1) {
    throw UsageError(fmt::format("a context of {} tokens leaves no room for a text", shape.context),
                     fmt::format("the tokenizer begins each text with {}", shape.before.size()),
                     fmt::format("use --context {} or more", shape.before.size() + 1));
  }
  shape_.stride = std::min(shape.stride, room);
}

size_t WindowCutter::Room() const {
  const auto context = static_cast<size_t>(shape_.context);
  return BeginsWith(held_, shape_.before) ? context : context - shape_.before.size();
}

void WindowCutter::Emit(size_t ids, size_t targets_end) {
  TextWindow window;
  const std::span<const int32_t> read = std::span<const int32_t>(held_).first(ids);
  if (!BeginsWith(read, shape_.before)) {
    window.ids.assign(shape_.before.begin(), shape_.before.end());
  } else if (next_ == 0) {
    next_ = 1;  // nothing comes before the first token of the text
  }
  const auto at = static_cast<std::ptrdiff_t>(next_ - base_);
  const auto end = static_cast<std::ptrdiff_t>(targets_end);
  if (at >= end) return;
  window.first = std::ssize(window.ids) + at - 1;
  window.ids.insert(window.ids.end(), read.begin(), read.end());
  window.targets.assign(held_.begin() + at, held_.begin() + end);
  window.begin = next_;
  next_ = base_ + end;
  on_window_(std::move(window));
}

void WindowCutter::Add(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    held_.push_back(id);
    for (size_t room = Room(); held_.size() > room; room = Room()) {
      Emit(room, room + 1);
      held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(shape_.stride));
      base_ += shape_.stride;
    }
  }
}

void WindowCutter::Finish() {
  Emit(held_.size(), held_.size());
  held_.clear();
  base_ = next_ = 0;
}

std::vector<TextWindow> CutWindows(std::span<const int32_t> ids, const WindowShape& shape) {
  std::vector<TextWindow> windows;
  WindowCutter cutter(shape, [&](TextWindow window) { windows.push_back(std::move(window)); });
  cutter.Add(ids);
  cutter.Finish();
  return windows;
}

void WordCounter::Add(std::string_view bytes) {
  held_ += bytes;
  const size_t end = CompleteUtf8Prefix(held_);
  for (size_t at = 0; at < end;) {
    const Utf8Char c = DecodeUtf8(held_, at);
    // Python's str.isspace: White_Space, and four separators of ASCII.
    const bool space = (c.code >= 0x1C && c.code <= 0x1F) || ClassOf(c.code) == CharClass::kSpace;
    runs_ += space && !in_space_;
    in_space_ = space;
    at += c.length;
  }
  held_.erase(0, end);
}

int64_t WordCounter::Finish() {
  const int64_t words = runs_ + 1;
  *this = {};
  return words;
}

namespace {

template <class Number>
void PutNumbers(std::span<const Number> numbers, std::string& text) {
  text.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

template <class Number>
void TakeNumbers(std::string_view& text, std::span<Number> numbers) {
  FOLIO_CHECK(numbers.size_bytes() <= text.size(), "ranks that measure different things");
  std::copy_n(text.data(), numbers.size_bytes(), reinterpret_cast<char*>(numbers.data()));
  text.remove_prefix(numbers.size_bytes());
}

// Appends the parts of a window that a rank needs to run it to `text`.
void PutWindow(const TextWindow& window, std::string& text) {
  const int64_t sizes[] = {std::ssize(window.ids), std::ssize(window.targets), window.first};
  PutNumbers<int64_t>(sizes, text);
  PutNumbers<int32_t>(window.ids, text);
  PutNumbers<int32_t>(window.targets, text);
}

TextWindow TakeWindow(std::string_view& text) {
  int64_t sizes[3];
  TakeNumbers<int64_t>(text, sizes);
  TextWindow window;
  window.first = sizes[2];
  window.ids.resize(static_cast<size_t>(sizes[0]));
  window.targets.resize(static_cast<size_t>(sizes[1]));
  TakeNumbers<int32_t>(text, window.ids);
  TakeNumbers<int32_t>(text, window.targets);
  return window;
}

// Stands for the numbers of a prediction whose logits are not finite, which the first rank reports.
constexpr double kNotFinite = std::numeric_limits<double>::quiet_NaN();

void RequireFinite(const TextWindow& window, std::span<const double> numbers, size_t each) {
  const auto found =
      std::ranges::find_if(numbers, [](double number) { return !std::isfinite(number); });
  if (found == numbers.end()) return;
  const int64_t target = (found - numbers.begin()) / static_cast<int64_t>(each);
  throw LogitsNotFinite(fmt::format("those that token {} of document {} is to be predicted by",
                                    window.begin + target, window.document));
}

}  // namespace

Predictor::Predictor(std::vector<const OpenedModel*> models, int64_t positions, size_t numbers,
                     Measure measure, Group* group)
    : models_(std::move(models)),
      positions_(positions),
      numbers_(numbers),
      measure_(std::move(measure)),
      workers_(group),
      limit_(std::numeric_limits<int64_t>::max()),
      passes_(models_.size()) {
  FOLIO_CHECK(!models_.empty(), "no model to measure");
  const int64_t V = models_[0]->weights->config().vocab_size;
  for (const OpenedModel* model : models_) {
    const GptConfig& config = model->weights->config();
    FOLIO_CHECK(config.vocab_size == V, "models of different vocabularies");
    if (!config.causal) {
      throw InputError("the model is bidirectional and cannot predict text",
                       "model.causal is false: each token attends to the tokens after it");
    }
    limit_ = std::min(limit_, config.n_positions);
    LogitRows& rows = logits_.emplace_back();
    const auto id = rows.plan.AddMirrored(
        "logits", Dtype::kF32,
        {LossChunkRows(limit_, V, Dtype::kF32, model->backend->preferences()), V});
    rows.plan.Place();
    rows.arena = Arena(rows.plan, model->backend->memory());
    rows.logits = rows.arena.GetMirror(rows.plan, id);
  }
}

// Depends on the window alone, so that its numbers do too.
int64_t Predictor::Padded(int64_t tokens) const {
  constexpr int64_t kStep = 64;
  return std::min(limit_, CeilDiv(tokens, kStep) * kStep);
}

// Returns the indices of the windows of each rank: the longest windows are given out first, each to
// the rank with the fewest tokens.
std::vector<std::vector<size_t>> Predictor::Divide(std::span<const TextWindow> windows) const {
  std::vector<size_t> order(windows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t w) { return Padded(std::ssize(windows[w].ids)); };
  std::ranges::stable_sort(order, std::greater(), length);
  std::vector<std::vector<size_t>> of_ranks(static_cast<size_t>(workers_.ranks()));
  std::vector<int64_t> tokens(of_ranks.size());
  for (const size_t w : order) {
    const auto least = static_cast<size_t>(std::ranges::min_element(tokens) - tokens.begin());
    of_ranks[least].push_back(w);
    tokens[least] += length(w);
  }
  return of_ranks;
}

std::vector<double> Predictor::Run(std::span<const TextWindow> windows) {
  std::vector<size_t> begins = {0};
  for (const TextWindow& window : windows) {
    begins.push_back(begins.back() + window.targets.size() * numbers_);
  }
  std::vector<double> all(begins.back());
  const auto numbers_of = [&](size_t w) {
    return std::span(all).subspan(begins[w], begins[w + 1] - begins[w]);
  };
  const std::vector<std::vector<size_t>> of_ranks = Divide(windows);
  std::vector<std::string> shares(of_ranks.size());
  for (size_t r = 1; r < of_ranks.size(); ++r) {
    for (const size_t w : of_ranks[r]) PutWindow(windows[w], shares[r]);
  }
  workers_.Scatter(std::move(shares));
  std::vector<Item> mine;
  for (const size_t w : of_ranks[0]) mine.push_back({&windows[w], numbers_of(w)});
  RunHere(mine);
  const std::vector<std::string> answers = workers_.Gather();
  for (size_t r = 1; r < of_ranks.size(); ++r) {
    std::string_view answer = answers[r];
    for (const size_t w : of_ranks[r]) TakeNumbers<double>(answer, numbers_of(w));
  }
  for (size_t w = 0; w < windows.size(); ++w) {
    RequireFinite(windows[w], numbers_of(w), numbers_);
  }
  return all;
}

void Predictor::Serve() {
  workers_.Serve([&](const std::string& text) {
    std::vector<TextWindow> windows;
    size_t count = 0;
    for (std::string_view rest = text; !rest.empty();) {
      windows.push_back(TakeWindow(rest));
      count += windows.back().targets.size() * numbers_;
    }
    std::vector<double> all(count);
    std::span<double> rest = all;
    std::vector<Item> items;
    for (const TextWindow& window : windows) {
      items.push_back({&window, rest.first(window.targets.size() * numbers_)});
      rest = rest.subspan(items.back().numbers.size());
    }
    RunHere(items);
    std::string answer;
    PutNumbers<double>(all, answer);
    return answer;
  });
}

void Predictor::RunHere(std::span<const Item> items) {
  std::map<int64_t, std::vector<Item>> by_length;
  for (const Item& item : items) by_length[Padded(std::ssize(item.window->ids))].push_back(item);
  for (const auto& [T, alike] : by_length) {
    const auto most = static_cast<size_t>(std::max<int64_t>(positions_ / T, 1));
    for (size_t begin = 0; begin < alike.size(); begin += most) {
      if (first()) ThrowIfStopRequested();  // the others follow it
      RunTogether(std::span(alike).subspan(begin, std::min(most, alike.size() - begin)), T);
    }
  }
}

void Predictor::RunTogether(std::span<const Item> items, int64_t T) {
  const int64_t B = std::ssize(items);
  std::vector<int32_t> ids(static_cast<size_t>(B * T));  // padded with any token
  for (size_t b = 0; b < items.size(); ++b) {
    std::ranges::copy(items[b].window->ids, ids.begin() + static_cast<int64_t>(b) * T);
  }
  for (size_t m = 0; m < models_.size(); ++m) {
    const GptWeights& weights = *models_[m]->weights;
    if (!passes_[m] || passes_[m]->B() != B || passes_[m]->T() != T) {
      passes_[m].reset();
      passes_[m] = std::make_unique<GptPass>(*models_[m]->backend, weights.config(), B, T,
                                             PassKind::kForward);
    }
    passes_[m]->Forward(weights.params(), ids);
  }
  const int64_t V = logits_[0].logits.host.dim(1), chunk = logits_.back().logits.host.dim(0);
  for (size_t b = 0; b < items.size(); ++b) {
    const TextWindow& window = *items[b].window;
    const int64_t row = static_cast<int64_t>(b) * T + window.first;
    const int64_t count = std::ssize(window.targets);
    for (int64_t begin = 0; begin < count; begin += chunk) {
      const int64_t rows = std::min(chunk, count - begin);
      for (size_t m = 0; m < models_.size(); ++m) {
        passes_[m]->Logits(models_[m]->weights->params(), row + begin, row + begin + rows,
                           logits_[m].logits.device.Slice(0, rows));
        logits_[m].logits.Slice(0, rows).Fetch();
      }
      ParallelFor(rows, [&](int64_t i, int) {
        std::vector<std::span<const float>> logits(models_.size());
        for (size_t m = 0; m < models_.size(); ++m) {
          logits[m] = {logits_[m].logits.host.host<float>() + i * V, static_cast<size_t>(V)};
        }
        const auto target = static_cast<size_t>(begin + i);
        const auto numbers = items[b].numbers.subspan(target * numbers_, numbers_);
        if (std::ranges::all_of(logits, AreFinite)) {
          measure_(logits, window.targets[target], numbers);
        } else {
          std::ranges::fill(numbers, kNotFinite);
        }
      });
    }
  }
}

ResultFile::ResultFile(const std::filesystem::path& path, const std::string& key,
                       std::function<void(const std::string& note)> on_note)
    : path_(path), on_note_(std::move(on_note)), file_(path, HashHex(key), /*worth_keeping=*/1) {
  if (file_.bytes() == 0) return;
  map_ = MappedFile(file_.path());
  before_ = {reinterpret_cast<const char*>(map_.bytes().data()), map_.bytes().size()};
  before_ = before_.substr(0, before_.rfind('\n') + 1);  // npos + 1 is 0
  if (before_.empty()) Stop();
}

std::string_view ResultFile::Next(size_t count) {
  looked_at_ = 0;
  for (; count > 0; --count) {
    const size_t end = before_.find('\n', looked_at_);
    if (end == before_.npos) return {};
    looked_at_ = end + 1;
  }
  return before_.substr(0, looked_at_);
}

void ResultFile::Accept() {
  before_.remove_prefix(looked_at_);
  accepted_ += static_cast<int64_t>(looked_at_);
  looked_at_ = 0;
  if (before_.empty()) Stop();
}

void ResultFile::Stop() {
  before_ = {};
  map_ = {};
  if (accepted_ < file_.bytes()) file_.Clear(accepted_);
}

void ResultFile::Add(std::string_view lines) {
  FOLIO_CHECK(!resuming(), "lines from before are not looked at");
  file_.Add(lines);
}

void ResultFile::StopDamaged() {
  if (on_note_) {
    on_note_(path_.string() +
             ": a part of the results of an earlier call is not valid and is measured again");
  }
  Stop();
}

void ResultFile::Commit() {
  if (resuming()) StopDamaged();
  file_.Commit();
}

std::string ModelFingerprint(const OpenedModel& model) {
  Hasher hasher;
  for (const Tensor& x : model.weights->tensors()) {
    const HostCopy copy(x);
    hasher.Add({static_cast<const std::byte*>(copy.tensor().host_bytes()), x.bytes()});
  }
  return GptConfigToJson(model.weights->config()) + hasher.Hex() +
         (model.tokenizer ? model.tokenizer->hash() : "") +
         std::string(model.backend->description());
}

namespace {

// The bytes of a token, as far as they are known.
std::string_view BytesOf(const Tokenizer* tokenizer, int32_t id) {
  const bool known = tokenizer != nullptr && id < tokenizer->vocab_size();
  return known ? tokenizer->TokenBytes(id) : std::string_view();
}

using OnWindows = std::function<void(std::span<const TextWindow> windows)>;

// Thrown after max_tokens have been read.
struct Enough {};

// Cuts the texts into windows and passes these on in batches.
class WindowReader {
 public:
  WindowReader(const Tokenizer* tokenizer, const ReadingOptions& options,
               const OnWindows& on_windows)
      : tokenizer_(tokenizer), options_(options), on_windows_(on_windows) {}

  // `before` is what each window begins with.
  void Begin(size_t text, std::span<const int32_t> before) {
    WindowShape shape = options_.shape;
    shape.before = before;
    cutter_.emplace(shape, [this](TextWindow window) { Queue(std::move(window)); });
    text_ = text;
    total_ = {};
    text_tokens_ = predicted_ = 0;
  }
  // Adds tokens of the current document. Throws Enough after max_tokens.
  void Add(std::span<const int32_t> ids) {
    // In pieces, so that windows need not be waited for.
    constexpr size_t kPiece = 4096;
    const auto room = static_cast<size_t>(options_.max_tokens - read_);
    const bool enough = options_.max_tokens > 0 && ids.size() >= room;
    if (enough) ids = ids.first(room);
    read_ += std::ssize(ids);
    for (; !ids.empty(); ids = ids.subspan(std::min(ids.size(), kPiece))) {
      const auto piece = ids.first(std::min(ids.size(), kPiece));
      for (const int32_t id : piece) {
        begins_.push_back(document_bytes_);
        document_bytes_ += std::ssize(BytesOf(tokenizer_, id));
        if (tokenizer_ != nullptr) words_.Add(BytesOf(tokenizer_, id));
      }
      text_tokens_ += std::ssize(piece);
      cutter_->Add(piece);
    }
    if (enough) throw Enough();
  }
  // Returns true where too few tokens are left of max_tokens for another text to be predicted.
  bool enough() const { return options_.max_tokens > 0 && options_.max_tokens - read_ < 2; }
  void EndDocument() {
    cutter_->Finish();
    ++total_.documents;
    if (tokenizer_ != nullptr) total_.words += words_.Finish();
    ++document_;
    begins_.clear();
    first_of_begins_ = document_bytes_ = 0;
  }
  // Throws a kInput Error if nothing of the text was predicted.
  TextPerplexity End(const std::string& name) {
    total_.name = name;
    if (predicted_ > 0) return std::move(total_);
    if (text_tokens_ == 0) {
      throw InputError(fmt::format("{}: empty", name), {}, "give a text of at least two tokens");
    }
    throw InputError(
        fmt::format("{}: nothing to predict", name),
        total_.documents > 1 ? "each document has a single token" : "it has a single token",
        "give a text of at least two tokens");
  }
  void Flush() {
    if (!queue_.empty()) on_windows_(std::exchange(queue_, {}));
    queued_ = 0;
  }

 private:
  void Queue(TextWindow window) {
    const int64_t at = window.begin - first_of_begins_;
    window.byte = begins_[static_cast<size_t>(at)];
    window.text = text_;
    window.document = document_;
    const int64_t done = at + std::ssize(window.targets);
    begins_.erase(begins_.begin(), begins_.begin() + done);
    first_of_begins_ += done;
    predicted_ += std::ssize(window.targets);
    queued_ += std::ssize(window.ids);
    queue_.push_back(std::move(window));
    if (queued_ >= options_.positions) Flush();
  }

  const Tokenizer* tokenizer_;
  const ReadingOptions& options_;
  const OnWindows& on_windows_;
  std::optional<WindowCutter> cutter_;  // of the text
  WordCounter words_;
  std::vector<TextWindow> queue_;
  int64_t queued_ = 0;  // tokens
  size_t text_ = 0;
  int64_t document_ = 0;  // of all texts
  int64_t document_bytes_ = 0;
  // Bytes of the document before its tokens from one on.
  std::vector<int64_t> begins_;
  int64_t first_of_begins_ = 0;
  TextPerplexity total_;  // its documents and words
  int64_t text_tokens_ = 0, predicted_ = 0;
  int64_t read_ = 0;  // tokens of all texts
};

void ReadDataSet(const std::string& dir, const Tokenizer* tokenizer, int64_t vocab_size,
                 WindowReader& reader) {
  constexpr int64_t kPiece = int64_t{1} << 16;
  const Dataset data(dir, vocab_size);
  std::string hash = data.info().tokenizer_hash;
  if (hash.empty()) {
    const std::unique_ptr<Tokenizer> own = LoadDataTokenizer(data);
    if (own != nullptr) hash = own->hash();
  }
  if (tokenizer != nullptr && !hash.empty() && hash != tokenizer->hash()) {
    throw InputError(
        fmt::format("{}: prepared with a different tokenizer than the model's", dir),
        fmt::format("that of the data has hash {}, that of the model {}", hash, tokenizer->hash()),
        "prepare the text with the model's tokenizer, or give the text directly");
  }
  std::vector<int32_t> ids;
  for (int64_t at = 0; at < data.val().size(); at += kPiece) {
    ids.resize(static_cast<size_t>(std::min(kPiece, data.val().size() - at)));
    data.val().Read(at, ids);
    const auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id >= vocab_size; });
    if (wrong != ids.end()) {
      throw InputError(fmt::format("{}: the model has no token {}", data.val().path(), *wrong),
                       fmt::format("the token ids are 0 to {}", vocab_size - 1));
    }
    reader.Add(ids);
  }
  reader.EndDocument();
}

void ReadText(const std::string& path, const Tokenizer& tokenizer, const ReadingOptions& options,
              WindowReader& reader) {
  const auto encode = [&](ByteInput& input) {
    EncodeInput(tokenizer, input, options.special,
                [&](std::string_view, std::span<const int32_t> ids) { reader.Add(ids); });
    reader.EndDocument();
  };
  TextStream stream(path, options.text);
  if (stream.form().json_lines) {
    ForJsonDocuments(stream, path, options.text.document(),
                     [&](const std::string& text, const std::string& where) {
                       ByteInput input = ByteInput::FromText(text, where);
                       encode(input);
                     });
  } else {
    ByteInput input = stream.AsInput();
    encode(input);
  }
}

// Calls `on_windows` with the windows of the texts in order, also with those of several texts at
// once. `tokenizer` may be null if all are data sets; then bytes and words are 0. Returns the
// documents and words of each text that was read.
std::vector<TextPerplexity> ReadWindows(std::span<const MeasuredText> texts,
                                        const Tokenizer* tokenizer, int64_t vocab_size,
                                        const ReadingOptions& options,
                                        const OnWindows& on_windows) {
  WindowReader reader(tokenizer, options, on_windows);
  std::vector<TextPerplexity> read;
  for (size_t i = 0; i < texts.size() && !reader.enough(); ++i) {
    // Prepared data is read as it is trained on.
    FOLIO_CHECK(texts[i].data_set || tokenizer != nullptr, "a text without a tokenizer");
    reader.Begin(i, texts[i].data_set ? std::span<const int32_t>() : tokenizer->before());
    try {
      if (texts[i].data_set) {
        ReadDataSet(texts[i].name, tokenizer, vocab_size, reader);
      } else {
        ReadText(texts[i].name, *tokenizer, options, reader);
      }
    } catch (const Enough&) {
      reader.EndDocument();
    }
    read.push_back(reader.End(texts[i].name));
  }
  reader.Flush();
  return read;
}

// The progress before anything is done, with the total of all texts, of which max_tokens are read.
MeasureProgress ProgressOver(std::span<const MeasuredText> texts, int64_t max_tokens) {
  MeasureProgress progress{.unit = std::ranges::all_of(texts, &MeasuredText::data_set) ? "token"
                                                                                       : "byte"};
  bool known = true;
  for (const MeasuredText& text : texts) {
    known = known && text.size > 0 && text.data_set == (progress.unit == "token");
    progress.total += text.size;
  }
  if (!known) progress.total = 0;
  // A token is a byte at least.
  const bool cut = max_tokens > 0 && (!known || max_tokens < progress.total);
  if (cut) progress = {.total = max_tokens, .unit = "token"};
  return progress;
}

// The token's bytes in double quotes, as a field of CSV without line breaks: \n, \t, \r, \\, and
// \x07 for other control characters and for what is not UTF-8.
std::string CsvToken(std::string_view bytes) {
  static const std::map<char, std::string> kEscapes = {
      {'\n', "\\n"}, {'\t', "\\t"}, {'\r', "\\r"}, {'\\', "\\\\"}, {'"', "\"\""}};
  std::string text = "\"";
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = DecodeUtf8(bytes, at);
    const bool shown = c.status == Utf8Status::kValid && c.code >= 0x20 && c.code != 0x7F;
    for (const char byte : bytes.substr(at, c.length)) {
      const auto escape = kEscapes.find(byte);
      if (escape != kEscapes.end()) {
        text += escape->second;
      } else if (shown) {
        text += byte;
      } else {
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    at += c.length;
  }
  return text + '"';
}

constexpr std::string_view kCsvHead = "document,index,byte,id,token,nats,rank\n";

struct Predicted {
  double nats = 0;
  int64_t rank = 0;  // from 1
};

std::string PerplexityKey(const OpenedModel& model, std::span<const MeasuredText> texts,
                          const ReadingOptions& options) {
  const WindowShape& shape = options.shape;
  std::string key = fmt::format("perplexity 1 {} {} {} {} {}", shape.context, shape.stride,
                                options.text.document(), options.text.raw, ModelFingerprint(model));
  if (options.max_tokens > 0) key += fmt::format(" of {}", options.max_tokens);
  for (const MeasuredText& text : texts) key += '\n' + text.name;
  return key;
}

// "2.5,17\n" behind a row's other fields. Doubles are written so that they read back the same.
std::optional<Predicted> ParsePredicted(std::string_view text) {
  Predicted one;
  const char* const end = text.data() + text.size();
  const auto [comma, bad_nats] = std::from_chars(text.data(), end, one.nats);
  if (bad_nats != std::errc() || comma == end || *comma != ',') return {};
  const auto [behind, bad_rank] = std::from_chars(comma + 1, end, one.rank);
  if (bad_rank != std::errc() || std::string_view(behind, end) != "\n") return {};
  if (!std::isfinite(one.nats)) return {};
  return one;
}

// A call of MeasurePerplexity: runs windows, adds up, writes rows and reports progress.
class PerplexityMeter {
 public:
  PerplexityMeter(const OpenedModel& model, std::span<const MeasuredText> texts,
                  const PerplexityOptions& options, const MeasureHooks& hooks)
      : tokenizer_(model.tokenizer.get()),
        hooks_(hooks),
        predictor_(
            {&model}, options.reading.positions,
            /*numbers=*/2,
            [ranked = !options.csv.empty()](Predictor::Rows rows, int32_t id,
                                            std::span<double> numbers) {
              numbers[0] = LogSum(rows[0]) - rows[0][static_cast<size_t>(id)];
              if (ranked) numbers[1] = static_cast<double>(RankOf(rows[0], id) + 1);
            },
            options.group),
        sums_(texts.size()),
        progress_(ProgressOver(texts, options.reading.max_tokens)) {
    if (options.csv.empty() || !predictor_.first()) return;
    csv_.emplace(options.csv, PerplexityKey(model, texts, options.reading), hooks.on_note);
    if (csv_->Next(1) == kCsvHead) {
      csv_->Accept();
    } else {
      if (csv_->resuming()) csv_->StopDamaged();
      csv_->Add(kCsvHead);
    }
  }

  Predictor& predictor() { return predictor_; }

  void Take(std::span<const TextWindow> windows) {
    while (!windows.empty() && csv_ && csv_->resuming()) {
      if (AddFromBefore(windows.front())) windows = windows.subspan(1);
    }
    if (windows.empty()) return;
    const std::vector<double> numbers = predictor_.Run(windows);
    auto number = numbers.begin();
    for (const TextWindow& window : windows) {
      std::vector<Predicted> predicted(window.targets.size());
      for (Predicted& one : predicted) {
        one.nats = *number++;
        one.rank = static_cast<int64_t>(*number++);
      }
      Add(window, predicted);
      progress_.tokens += std::ssize(predicted);
      if (csv_) csv_->Add(Rows(window, predicted));
    }
    if (hooks_.on_progress) hooks_.on_progress(progress_);
  }

  std::vector<TextPerplexity> Finish(std::vector<TextPerplexity> read) {
    if (csv_) csv_->Commit();
    for (size_t i = 0; i < read.size(); ++i) {
      read[i].tokens = sums_[i].tokens;
      read[i].bytes = sums_[i].bytes;
      read[i].nats = sums_[i].nats;
    }
    return read;
  }

 private:
  void Add(const TextWindow& window, std::span<const Predicted> predicted) {
    TextPerplexity& sum = sums_[window.text];
    int64_t bytes = 0;
    for (const int32_t id : window.targets) bytes += std::ssize(BytesOf(tokenizer_, id));
    for (const Predicted& one : predicted) {
      sum.nats += one.nats;
      all_nats_ += one.nats;
    }
    sum.bytes += bytes;
    sum.tokens += std::ssize(predicted);
    all_tokens_ += std::ssize(predicted);
    progress_.done += progress_.unit == "token" ? std::ssize(predicted) : bytes;
    progress_.nats_per_token = all_nats_ / static_cast<double>(all_tokens_);
  }

  // Adds the predictions of the window that an earlier call has measured, and returns true; if they
  // are damaged or missing, drops the rest of that call's and returns false.
  bool AddFromBefore(const TextWindow& window) {
    std::string_view lines = csv_->Next(window.targets.size());
    if (lines.empty()) {  // it stopped in the middle of the window
      csv_->Stop();
      return false;
    }
    std::vector<Predicted> predicted;
    int64_t byte = window.byte;
    for (size_t i = 0; i < window.targets.size(); ++i) {
      const std::string_view line = lines.substr(0, lines.find('\n') + 1);
      const std::string head = RowHead(window, i, byte);
      const auto one =
          line.starts_with(head) ? ParsePredicted(line.substr(head.size())) : std::nullopt;
      if (!one) {
        csv_->StopDamaged();
        return false;
      }
      predicted.push_back(*one);
      byte += std::ssize(BytesOf(tokenizer_, window.targets[i]));
      lines.remove_prefix(line.size());
    }
    Add(window, predicted);
    csv_->Accept();
    return true;
  }

  std::string RowHead(const TextWindow& window, size_t i, int64_t byte) const {
    const int32_t id = window.targets[i];
    return fmt::format("{},{},{},{},{},", window.document, window.begin + static_cast<int64_t>(i),
                       byte, id, CsvToken(BytesOf(tokenizer_, id)));
  }
  std::string Rows(const TextWindow& window, std::span<const Predicted> predicted) const {
    std::string rows;
    int64_t byte = window.byte;
    for (size_t i = 0; i < predicted.size(); ++i) {
      rows += RowHead(window, i, byte);
      rows += fmt::format("{},{}\n", predicted[i].nats, predicted[i].rank);
      byte += std::ssize(BytesOf(tokenizer_, window.targets[i]));
    }
    return rows;
  }

  const Tokenizer* tokenizer_;
  const MeasureHooks& hooks_;
  Predictor predictor_;
  std::vector<TextPerplexity> sums_;
  int64_t all_tokens_ = 0;
  double all_nats_ = 0;
  MeasureProgress progress_;
  std::optional<ResultFile> csv_;
};

// The numbers of a prediction.
enum : size_t { kDivergence, kNatsA, kNatsB, kSameTop, kCompared };

void ComparePrediction(Predictor::Rows rows, int32_t id, std::span<double> numbers) {
  const auto at = static_cast<size_t>(id);
  const double log_sum_a = LogSum(rows[0]), log_sum_b = LogSum(rows[1]);
  numbers[kDivergence] = Divergence(rows[0], log_sum_a, rows[1], log_sum_b);
  numbers[kNatsA] = log_sum_a - rows[0][at];
  numbers[kNatsB] = log_sum_b - rows[1][at];
  numbers[kSameTop] = LikeliestToken(rows[0]) == LikeliestToken(rows[1]) ? 1 : 0;
}

}  // namespace

std::vector<TextPerplexity> MeasurePerplexity(const OpenedModel& model,
                                              std::span<const MeasuredText> texts,
                                              const PerplexityOptions& options,
                                              const MeasureHooks& hooks) {
  PerplexityMeter meter(model, texts, options, hooks);
  if (!IsFirst(options.group)) {
    meter.predictor().Serve();
    return {};
  }
  ReadingOptions reading = options.reading;
  reading.positions = meter.predictor().positions();
  return meter.Finish(
      ReadWindows(texts, model.tokenizer.get(), model.weights->config().vocab_size, reading,
                  [&](std::span<const TextWindow> windows) { meter.Take(windows); }));
}

MeasuredTexts FindMeasuredTexts(const std::vector<std::string>& paths, const TextOptions& options) {
  MeasuredTexts found;
  for (const std::string& path : paths) {
    if (IsDataset(path)) {
      const Dataset data(path);
      found.texts.push_back({.name = path, .data_set = true, .size = data.val().size()});
      continue;
    }
    const TextFiles files = FindTextFiles({path}, options);
    found.left_out += (found.left_out.empty() || files.left_out.empty() ? "" : "\n");
    found.left_out += files.left_out;
    for (const std::string& file : files.files) {
      const TextInput input = FindTextInput(file, options);
      const bool plain = !input.form.converted && !input.form.json_lines;
      found.texts.push_back({.name = file, .size = plain ? input.bytes : 0});
    }
  }
  return found;
}

TextPerplexity TotalPerplexity(std::span<const TextPerplexity> texts) {
  TextPerplexity total{.name = "total"};
  for (const TextPerplexity& text : texts) {
    total.documents += text.documents;
    total.tokens += text.tokens;
    total.bytes += text.bytes;
    total.words += text.words;
    total.nats += text.nats;
  }
  return total;
}

void RequireComparable(const OpenedModel& a, const OpenedModel& b) {
  const auto refuse = [&](std::string cause) {
    throw InputError(fmt::format("{} and {} cannot be compared", a.path.string(), b.path.string()),
                     std::move(cause),
                     "only models that predict the same tokens can be compared; for others compare "
                     "the bits/byte of folio eval perplexity");
  };
  const int64_t V_a = a.weights->config().vocab_size, V_b = b.weights->config().vocab_size;
  if (V_a != V_b) refuse(fmt::format("the vocabularies have {} and {} tokens", V_a, V_b));
  if (a.tokenizer == nullptr || b.tokenizer == nullptr) return;
  if (a.tokenizer->hash() == b.tokenizer->hash()) return;
  refuse(fmt::format("the tokenizers are different: hashes {} and {}", a.tokenizer->hash(),
                     b.tokenizer->hash()));
}

ModelComparison CompareModels(const OpenedModel& a, const OpenedModel& b,
                              std::span<const MeasuredText> texts, const ReadingOptions& options,
                              const MeasureHooks& hooks, Group* group) {
  RequireComparable(a, b);
  Predictor predictor({&a, &b}, options.positions, kCompared, ComparePrediction, group);
  if (!predictor.first()) {
    predictor.Serve();
    return {};
  }
  ReadingOptions reading = options;
  reading.positions = predictor.positions();
  const Tokenizer* tokenizer = a.tokenizer ? a.tokenizer.get() : b.tokenizer.get();
  ModelComparison result;
  std::vector<double> divergences;
  double nats_a = 0, nats_b = 0, kl = 0, differences = 0;
  int64_t same = 0;
  MeasureProgress progress = ProgressOver(texts, options.max_tokens);
  const auto take = [&](std::span<const TextWindow> windows) {
    const std::vector<double> compared = predictor.Run(windows);
    for (auto one = compared.begin(); one != compared.end(); one += kCompared) {
      divergences.push_back(one[kDivergence]);
      kl += one[kDivergence];
      result.kl_max = std::max(result.kl_max, one[kDivergence]);
      nats_a += one[kNatsA];
      nats_b += one[kNatsB];
      differences += std::abs(one[kNatsA] - one[kNatsB]);
      same += one[kSameTop] != 0;
    }
    for (const TextWindow& window : windows) {
      for (const int32_t id : window.targets) {
        progress.done += progress.unit == "token" ? 1 : std::ssize(BytesOf(tokenizer, id));
      }
      progress.tokens += std::ssize(window.targets);
    }
    progress.nats_per_token = nats_a / static_cast<double>(progress.tokens);
    if (hooks.on_progress) hooks.on_progress(progress);
  };
  ReadWindows(texts, tokenizer, a.weights->config().vocab_size, reading, take);
  const auto N = static_cast<double>(divergences.size());
  result.tokens = std::ssize(divergences);
  result.kl_mean = kl / N;
  result.kl_median = Percentile(divergences, 0.5);
  result.kl_95 = Percentile(divergences, 0.95);
  result.kl_99 = Percentile(std::move(divergences), 0.99);
  result.same_top = static_cast<double>(same) / N;
  result.perplexity_a = std::exp(nats_a / N);
  result.perplexity_b = std::exp(nats_b / N);
  result.log_probability_difference = differences / N;
  return result;
}

}  // namespace folio
