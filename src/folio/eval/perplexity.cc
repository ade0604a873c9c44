#include "folio/eval/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <optional>
#include <utility>

#include "folio/base/check.h"
#include "folio/base/error.h"
#include "folio/base/hash.h"
#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/corpus/data_tokenizer.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/text_stream.h"
#include "folio/data/dataset.h"
#include "folio/eval/windows.h"
#include "folio/infer/token_probabilities.h"
#include "folio/io/json.h"
#include "folio/model/config.h"
#include "folio/term/token_streams.h"

namespace folio {

ResultFile::ResultFile(const std::filesystem::path& path, const std::string& key)
    : file_(path, HashHex(key), /*worth_keeping=*/1) {
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

std::string DamagedNote(const std::filesystem::path& path) {
  return path.string() +
         ": what an earlier call left of it does not fit from some place on; that part is measured "
         "again";
}

std::string ModelFingerprint(const OpenedModel& model) {
  Hasher hasher;
  for (const Tensor& x : model.weights->tensors()) {
    hasher.Add({static_cast<const std::byte*>(x.raw()), static_cast<size_t>(x.bytes())});
  }
  return GptConfigToJson(model.weights->config()) + hasher.Hex() +
         (model.tokenizer ? model.tokenizer->hash() : "") +
         std::string(model.backend->description());
}

std::string_view BytesOf(const Tokenizer* tokenizer, int32_t id) {
  const bool known = tokenizer != nullptr && id < tokenizer->vocab_size();
  return known ? tokenizer->TokenBytes(id) : std::string_view();
}

namespace {

// Thrown where max_tokens have been read.
struct Enough {};

// The windows of all texts on their way to who looks at them.
class WindowReader {
 public:
  WindowReader(const Tokenizer* tokenizer, const ReadingOptions& options,
               const OnWindows& on_windows)
      : tokenizer_(tokenizer),
        options_(options),
        on_windows_(on_windows),
        cutter_(options.shape, [this](TextWindow window) { Queue(std::move(window)); }) {}

  void Begin(size_t text) {
    text_ = text;
    totals_ = {};
    predicted_ = 0;
  }
  // Adds tokens of the document that is being read. Throws Enough.
  void Add(std::span<const int32_t> ids) {
    const auto room = static_cast<size_t>(options_.max_tokens - read_);
    const bool enough = options_.max_tokens > 0 && ids.size() >= room;
    if (enough) ids = ids.first(room);
    read_ += std::ssize(ids);
    AddPieces(ids);
    if (enough) throw Enough();
  }
  // Returns true where too few tokens are left of max_tokens for another text to be predicted.
  bool enough() const { return options_.max_tokens > 0 && options_.max_tokens - read_ < 2; }
  void EndDocument() {
    cutter_.Finish();
    ++totals_.documents;
    totals_.tokens += document_tokens_;
    totals_.bytes += document_bytes_;
    if (tokenizer_ != nullptr) totals_.words += words_.Finish();
    ++document_;
    ends_.clear();
    ends_begin_ = document_tokens_ = document_bytes_ = 0;
  }
  // Throws a kInput Error if nothing of the text was predicted.
  const TextTotals& End(const std::string& name) const {
    if (predicted_ > 0) return totals_;
    if (totals_.tokens == 0) {
      throw InputError(fmt::format("{}: empty", name), {}, "give a text of at least two tokens");
    }
    throw InputError(fmt::format("{}: nothing to predict", name),
                     totals_.documents > 1 ? "each document is a single token" : "a single token",
                     "give a text of at least two tokens");
  }
  void Flush() {
    if (!queue_.empty()) on_windows_(std::exchange(queue_, {}));
    queued_ = 0;
  }

 private:
  void AddPieces(std::span<const int32_t> ids) {
    // In pieces, so that windows need not be waited for.
    constexpr size_t kPiece = 4096;
    for (; !ids.empty(); ids = ids.subspan(std::min(ids.size(), kPiece))) {
      const auto piece = ids.subspan(0, std::min(ids.size(), kPiece));
      for (const int32_t id : piece) {
        ends_.push_back(document_bytes_ += std::ssize(BytesOf(tokenizer_, id)));
        if (tokenizer_ != nullptr) words_.Add(BytesOf(tokenizer_, id));
      }
      document_tokens_ += std::ssize(piece);
      cutter_.Add(piece);
    }
  }

  void Queue(TextWindow window) {
    // ends_[i]: behind token ends_begin_ + i of the document.
    const int64_t before = window.begin - 1 - ends_begin_;
    window.byte = ends_[static_cast<size_t>(before)];
    window.text = text_;
    window.document = document_;
    const int64_t last = before + std::ssize(window.targets);
    ends_.erase(ends_.begin(), ends_.begin() + last);
    ends_begin_ += last;
    predicted_ += std::ssize(window.targets);
    queued_ += std::ssize(window.ids);
    queue_.push_back(std::move(window));
    if (queued_ >= options_.positions) Flush();
  }

  const Tokenizer* tokenizer_;
  const ReadingOptions& options_;
  const OnWindows& on_windows_;
  WindowCutter cutter_;
  WordCounter words_;
  std::vector<TextWindow> queue_;
  int64_t queued_ = 0;  // tokens
  size_t text_ = 0;
  int64_t document_ = 0;  // of all texts
  int64_t document_tokens_ = 0, document_bytes_ = 0;
  std::vector<int64_t> ends_;  // bytes of the document up to each token
  int64_t ends_begin_ = 0;
  TextTotals totals_;
  int64_t predicted_ = 0;
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
    throw InputError(fmt::format("{}: tokens of another tokenizer than the model's", dir),
                     fmt::format("the data's has hash {}, the model's {}", hash, tokenizer->hash()),
                     "prepare the text with the model's tokenizer, or give the text itself");
  }
  std::vector<int32_t> ids;
  for (int64_t at = 0; at < data.val().size(); at += kPiece) {
    ids.resize(static_cast<size_t>(std::min(kPiece, data.val().size() - at)));
    data.val().Read(at, ids);
    const auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id >= vocab_size; });
    if (wrong != ids.end()) {
      throw InputError(fmt::format("{}: the model has no token {}", data.val().path(), *wrong),
                       fmt::format("its tokens are 0 to {}", vocab_size - 1));
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
    ForJsonDocuments(stream, path, options.text.field,
                     [&](const std::string& text, const std::string& where) {
                       ByteInput input = ByteInput::FromText(text, where);
                       encode(input);
                     });
  } else {
    ByteInput input = stream.AsInput();
    encode(input);
  }
}

}  // namespace

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

std::vector<TextTotals> ReadWindows(std::span<const MeasuredText> texts, const Tokenizer* tokenizer,
                                    int64_t vocab_size, const ReadingOptions& options,
                                    const OnWindows& on_windows) {
  WindowReader reader(tokenizer, options, on_windows);
  std::vector<TextTotals> totals;
  for (size_t i = 0; i < texts.size() && !reader.enough(); ++i) {
    reader.Begin(i);
    try {
      if (texts[i].data_set) {
        ReadDataSet(texts[i].name, tokenizer, vocab_size, reader);
      } else {
        FOLIO_CHECK(tokenizer != nullptr, "a text without a tokenizer");
        ReadText(texts[i].name, *tokenizer, options, reader);
      }
    } catch (const Enough&) {
      reader.EndDocument();
    }
    totals.push_back(reader.End(texts[i].name));
  }
  reader.Flush();
  return totals;
}

namespace {

constexpr std::string_view kCsvHead = "document,index,byte,id,token,nats,rank\n";

struct Predicted {
  double nats = 0;
  int64_t rank = 0;  // from 1
};

std::string PerplexityKey(const OpenedModel& model, std::span<const MeasuredText> texts,
                          const ReadingOptions& options) {
  const WindowShape& shape = options.shape;
  std::string key = fmt::format("perplexity 1 {} {} {} {} {}", shape.context, shape.stride,
                                options.text.field, options.text.raw, ModelFingerprint(model));
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

// One call: takes windows, adds up, writes rows, tells.
class PerplexityMeter {
 public:
  PerplexityMeter(const OpenedModel& model, std::span<const MeasuredText> texts,
                  const PerplexityOptions& options, const MeasureHooks& hooks)
      : tokenizer_(model.tokenizer.get()),
        hooks_(hooks),
        predictor_(
            {{model.backend.get(), model.weights.get()}}, options.reading.positions,
            /*numbers=*/2,
            [ranked = !options.csv.empty()](Predictor::Rows rows, int32_t id,
                                            std::span<double> numbers) {
              numbers[0] = LogSum(rows[0]) - rows[0][static_cast<size_t>(id)];
              if (ranked) numbers[1] = static_cast<double>(RankOf(rows[0], id) + 1);
            },
            options.group),
        sums_(texts.size()),
        progress_(ProgressOver(texts, options.reading.max_tokens)),
        csv_path_(options.csv) {
    if (csv_path_.empty() || !predictor_.first()) return;
    csv_.emplace(csv_path_, PerplexityKey(model, texts, options.reading));
    if (csv_->Next(1) == kCsvHead) {
      csv_->Accept();
    } else {
      if (csv_->resuming()) Damaged();
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

  std::vector<TextPerplexity> Finish(std::span<const MeasuredText> texts,
                                     std::span<const TextTotals> totals) {
    if (csv_ && csv_->resuming()) Damaged();
    if (csv_) csv_->Commit();
    sums_.resize(totals.size());
    for (size_t i = 0; i < totals.size(); ++i) {
      sums_[i].name = texts[i].name;
      sums_[i].documents = totals[i].documents;
      sums_[i].words = totals[i].words;
    }
    return std::move(sums_);
  }

 private:
  void Damaged() {
    if (hooks_.on_note) hooks_.on_note(DamagedNote(csv_path_));
    csv_->Stop();
  }

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

  // Adds the predictions of the window as an earlier call has measured them, and returns true; else
  // nothing is taken from that call any more.
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
        Damaged();
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
  std::filesystem::path csv_path_;
  std::optional<ResultFile> csv_;
};

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

}  // namespace

double TextPerplexity::perplexity() const {
  return std::exp(nats_per_token());
}

double TextPerplexity::bits_per_byte() const {
  if (bytes == 0) return std::numeric_limits<double>::quiet_NaN();
  return nats / std::numbers::ln2 / static_cast<double>(bytes);
}

double TextPerplexity::word_perplexity() const {
  if (words == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::exp(nats / static_cast<double>(words));
}

MeasureProgress ProgressOver(std::span<const MeasuredText> texts, int64_t max_tokens) {
  MeasureProgress progress{.unit = "token"};
  for (const MeasuredText& text : texts) {
    if (!text.data_set) progress.unit = "byte";
  }
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

std::vector<TextPerplexity> MeasurePerplexity(const OpenedModel& model,
                                              std::span<const MeasuredText> texts,
                                              const PerplexityOptions& options,
                                              const MeasureHooks& hooks) {
  PerplexityMeter meter(model, texts, options, hooks);
  if (options.group != nullptr && !options.group->first()) {
    meter.predictor().Serve();
    return {};
  }
  ReadingOptions reading = options.reading;
  reading.positions = meter.predictor().positions();
  const std::vector<TextTotals> totals =
      ReadWindows(texts, model.tokenizer.get(), model.weights->config().vocab_size, reading,
                  [&](std::span<const TextWindow> windows) { meter.Take(windows); });
  return meter.Finish(texts, totals);
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

}  // namespace folio
