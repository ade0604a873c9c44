#include "folio/eval/perplexity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

#include "folio/base/strings.h"
#include "folio/base/utf8.h"
#include "folio/eval/predictions.h"
#include "folio/eval/result_file.h"
#include "folio/infer/token_probabilities.h"
#include "folio/io/json.h"
#include "folio/term/table.h"

namespace folio {
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
  std::string_view Bytes(int32_t id) const {
    return tokenizer_ != nullptr && id < tokenizer_->vocab_size() ? tokenizer_->TokenBytes(id)
                                                                  : std::string_view();
  }

  void Damaged() {
    if (hooks_.on_note) hooks_.on_note(DamagedNote(csv_path_));
    csv_->Stop();
  }

  void Add(const TextWindow& window, std::span<const Predicted> predicted) {
    TextPerplexity& sum = sums_[window.text];
    int64_t bytes = 0;
    for (const int32_t id : window.targets) bytes += std::ssize(Bytes(id));
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
      byte += std::ssize(Bytes(window.targets[i]));
      lines.remove_prefix(line.size());
    }
    Add(window, predicted);
    csv_->Accept();
    return true;
  }

  std::string RowHead(const TextWindow& window, size_t i, int64_t byte) const {
    const int32_t id = window.targets[i];
    return fmt::format("{},{},{},{},{},", window.document, window.begin + static_cast<int64_t>(i),
                       byte, id, CsvToken(Bytes(id)));
  }
  std::string Rows(const TextWindow& window, std::span<const Predicted> predicted) const {
    std::string rows;
    int64_t byte = window.byte;
    for (size_t i = 0; i < predicted.size(); ++i) {
      rows += RowHead(window, i, byte);
      rows += fmt::format("{},{}\n", predicted[i].nats, predicted[i].rank);
      byte += std::ssize(Bytes(window.targets[i]));
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

Json AsJson(const TextPerplexity& text) {
  Json json = {{"documents", text.documents},
               {"tokens", text.tokens},
               {"bytes", nullptr},
               {"words", nullptr},
               {"nats_per_token", text.nats_per_token()},
               {"perplexity", text.perplexity()},
               {"bits_per_byte", text.bits_per_byte()},
               {"word_perplexity", text.word_perplexity()}};
  if (text.bytes > 0) json["bytes"] = text.bytes;
  if (text.words > 0) json["words"] = text.words;
  return json;
}

// "-" for what is not known.
std::string Number(double value, int digits) {
  return std::isnan(value) ? "-" : fmt::format("{:.{}f}", value, digits);
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

std::string DescribePerplexity(const OpenedModel& model, std::span<const TextPerplexity> texts,
                               const WindowShape& shape, bool json) {
  const TextPerplexity total = TotalPerplexity(texts);
  if (json) {
    Json all = {{"schema", 1},
                {"model", model.path.string()},
                {"context", shape.context},
                {"stride", shape.stride},
                {"texts", Json::array()}};
    for (const TextPerplexity& text : texts) {
      Json one = {{"file", text.name}};
      one.update(AsJson(text));
      all["texts"].push_back(std::move(one));
    }
    all["total"] = AsJson(total);
    return all.dump() + "\n";
  }
  std::vector<TextPerplexity> listed(texts.begin(), texts.end());
  if (listed.size() > 1) listed.push_back(total);
  std::vector<std::vector<std::string>> rows;
  for (const TextPerplexity& text : listed) {
    rows.push_back({WithCommas(text.tokens), text.bytes > 0 ? WithCommas(text.bytes) : "-",
                    Number(text.nats_per_token(), 4), Number(text.perplexity(), 3),
                    Number(text.bits_per_byte(), 4), Number(text.word_perplexity(), 2), text.name});
  }
  return RenderTable(
      {">tokens", ">bytes", ">nats/token", ">perplexity", ">bits/byte", ">word perplexity", "text"},
      rows);
}

std::string CsvToken(std::string_view bytes) {
  std::string text = "\"";
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = DecodeUtf8(bytes, at);
    const std::string_view part = bytes.substr(at, c.length);
    at += c.length;
    if (c.status != Utf8Status::kValid || c.code < 0x20 || c.code == 0x7F) {
      for (const char byte : part) {
        if (byte == '\n')
          text += "\\n";
        else if (byte == '\t')
          text += "\\t";
        else if (byte == '\r')
          text += "\\r";
        else
          text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    } else if (c.code == '\\' || c.code == '"') {
      text += c.code == '"' ? "\"\"" : "\\\\";
    } else {
      text += part;
    }
  }
  return text + '"';
}

}  // namespace folio
