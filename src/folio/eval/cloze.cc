#include "folio/eval/cloze.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/corpus/json_documents.h"
#include "folio/corpus/text_files.h"
#include "folio/eval/predictions.h"
#include "folio/eval/result_file.h"
#include "folio/infer/token_probabilities.h"
#include "folio/io/json.h"
#include "folio/term/table.h"

namespace folio {
namespace {

// EndingScore holds what a model says of an ending.
struct EndingScore {
  double log_probability = 0;
  int64_t tokens = 0, characters = 0;
};

struct Choices {
  size_t plain = 0, norm = 0, token = 0;
};

template <class Score>
size_t FirstLargest(const std::vector<EndingScore>& endings, Score&& score) {
  size_t best = 0;
  for (size_t e = 1; e < endings.size(); ++e) {
    if (score(endings[e]) > score(endings[best])) best = e;
  }
  return best;
}

Choices Choose(const std::vector<EndingScore>& endings) {
  return {.plain = FirstLargest(endings, [](const EndingScore& e) { return e.log_probability; }),
          .norm = FirstLargest(endings,
                               [](const EndingScore& e) {
                                 return e.log_probability / static_cast<double>(e.characters);
                               }),
          .token = FirstLargest(endings, [](const EndingScore& e) {
            return e.log_probability / static_cast<double>(e.tokens);
          })};
}

// An item that waits for the model.
struct WaitingItem {
  int64_t index = 0;
  size_t label = 0;
  std::vector<EndingScore> endings = {};
};

std::string ItemLine(const WaitingItem& item) {
  const Choices choices = Choose(item.endings);
  Json json = {{"index", item.index},           {"label", item.label},
               {"choice", choices.plain},       {"choice_norm", choices.norm},
               {"choice_token", choices.token}, {"endings", Json::array()}};
  for (const EndingScore& ending : item.endings) {
    json["endings"].push_back({{"log_probability", ending.log_probability},
                               {"tokens", ending.tokens},
                               {"characters", ending.characters}});
  }
  return json.dump() + "\n";
}

// 0 where the file can be read only once.
int64_t CountItems(const std::string& file, const TextOptions& options) {
  if (FindTextInput(file, options).once) return 0;
  int64_t items = 0;
  TextStream stream(file, options);
  ForJsonLines(stream, file, [&](std::string_view, const auto&) { ++items; });
  return items;
}

class ClozeMeter {
 public:
  ClozeMeter(const OpenedModel& model, const std::string& file, const ClozeOptions& options,
             const MeasureHooks& hooks)
      : model_(model),
        file_(file),
        options_(options),
        hooks_(hooks),
        predictor_(
            {{model.backend.get(), model.weights.get()}}, options.positions, /*numbers=*/1,
            [](Predictor::Rows rows, int32_t id, std::span<double> numbers) {
              numbers[0] = rows[0][static_cast<size_t>(id)] - LogSum(rows[0]);
            },
            options.group) {
    if (!predictor_.first()) return;
    progress_.unit = "item";
    progress_.total = CountItems(file, options.reading);
    if (options.out.empty()) return;
    out_.emplace(options.out, fmt::format("cloze 1 {} {} {}", static_cast<int>(options.text),
                                          ModelFingerprint(model), file));
  }

  Predictor& predictor() { return predictor_; }

  void Take(const ClozeItem& item) {
    std::vector<TextWindow> windows =
        ClozeWindows(item, *model_.tokenizer, model_.weights->config().n_positions);
    WaitingItem next{.index = items_++, .label = item.label};
    for (size_t e = 0; e < windows.size(); ++e) {
      next.endings.push_back({.tokens = std::ssize(windows[e].targets),
                              .characters = CountCharacters(item.endings[e])});
    }
    if (out_ && out_->resuming() && AddFromBefore(next)) return;
    for (const TextWindow& window : windows) positions_ += std::ssize(window.ids);
    std::ranges::move(windows, std::back_inserter(windows_));
    waiting_.push_back(std::move(next));
    // Enough that some are of like length.
    if (positions_ >= 4 * predictor_.positions()) Run();
  }

  ClozeResult Finish() {
    Run();
    if (items_ == 0) throw InputError(fmt::format("{}: empty", file_));
    if (out_ && out_->resuming()) Damaged();
    if (out_) out_->Commit();
    return result_;
  }

 private:
  void Damaged() {
    if (hooks_.on_note) hooks_.on_note(DamagedNote(options_.out));
    out_->Stop();
  }

  void Add(const WaitingItem& item) {
    const Choices choices = Choose(item.endings);
    for (const auto& [accuracy, choice] :
         {std::pair(&result_.acc, choices.plain), std::pair(&result_.acc_norm, choices.norm),
          std::pair(&result_.acc_token, choices.token)}) {
      ++accuracy->items;
      accuracy->right += choice == item.label;
    }
    ++progress_.done;
  }

  // Adds the item as an earlier call has measured it, and returns true; else nothing is taken from
  // that call any more. A line fits if its numbers give that line again.
  bool AddFromBefore(WaitingItem item) {
    const std::string_view line = out_->Next(1);
    try {
      const Json json = ParseJson(line, "line");
      const Json& endings = json.at("endings");
      for (size_t e = 0; e < item.endings.size(); ++e) {
        item.endings[e].log_probability = endings.at(e).at("log_probability").get<double>();
      }
      if (ItemLine(item) != line) throw JsonError("another item");
    } catch (const std::exception&) {  // of JSON, or of what it holds
      Damaged();
      return false;
    }
    Add(item);
    out_->Accept();
    return true;
  }

  void Run() {
    if (waiting_.empty()) return;
    const std::vector<double> log_probabilities = predictor_.Run(windows_);
    progress_.tokens += std::ssize(log_probabilities);
    auto next = log_probabilities.begin();
    std::string lines;
    for (WaitingItem& item : waiting_) {
      for (EndingScore& ending : item.endings) {
        for (int64_t i = 0; i < ending.tokens; ++i) ending.log_probability += *next++;
      }
      Add(item);
      if (out_) lines += ItemLine(item);
    }
    if (out_) out_->Add(lines);
    waiting_.clear();
    windows_.clear();
    positions_ = 0;
    if (hooks_.on_progress) hooks_.on_progress(progress_);
  }

  const OpenedModel& model_;
  const std::string& file_;
  const ClozeOptions& options_;
  const MeasureHooks& hooks_;
  Predictor predictor_;
  ClozeResult result_;
  MeasureProgress progress_;
  std::optional<ResultFile> out_;
  int64_t items_ = 0;
  std::vector<WaitingItem> waiting_;
  std::vector<TextWindow> windows_;  // of the items that wait, in order
  int64_t positions_ = 0;            // of those
};

}  // namespace

double ClozeAccuracy::standard_error() const {
  if (items < 2) return std::numeric_limits<double>::quiet_NaN();
  return std::sqrt(part() * (1 - part()) / static_cast<double>(items - 1));
}

ClozeResult MeasureCloze(const OpenedModel& model, const std::string& file,
                         const ClozeOptions& options, const MeasureHooks& hooks) {
  model.RequireTokenizer();
  if (options.group != nullptr && !options.group->first()) {
    ClozeMeter(model, file, options, hooks).predictor().Serve();
    return {};
  }
  TextStream stream(file, options.reading);
  std::string probe;
  if (!stream.form().json_lines) {
    throw InputError(stream.Read(probe, 1) == 0
                         ? fmt::format("{}: empty", file)
                         : fmt::format("{}: no questions of multiple choice", file),
                     "expected an object of JSON in each line",
                     "each line is {\"ctx\":\"...\",\"endings\":[\"...\",\"...\"],\"label\":0}");
  }
  ClozeMeter meter(model, file, options, hooks);
  ForJsonLines(stream, file, [&](std::string_view line, const auto& where) {
    meter.Take(ParseClozeItem(line, where, options.text));
  });
  return meter.Finish();
}

std::string DescribeCloze(const OpenedModel& model, const std::string& file,
                          const ClozeResult& result, bool json) {
  const std::pair<const char*, const ClozeAccuracy*> all[] = {
      {"acc", &result.acc}, {"acc_norm", &result.acc_norm}, {"acc_token", &result.acc_token}};
  if (json) {
    Json object = {
        {"schema", 1}, {"model", model.path.string()}, {"file", file}, {"items", result.acc.items}};
    for (const auto& [name, accuracy] : all) {
      object[name] = accuracy->part();
      object[std::string(name) + "_stderr"] = accuracy->standard_error();
    }
    return object.dump() + "\n";
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, accuracy] : all) {
    const double error = accuracy->standard_error();
    rows.push_back({name, fmt::format("{:.2f}%", 100 * accuracy->part()),
                    std::isnan(error) ? "-" : fmt::format("{:.2f}%", 100 * error),
                    fmt::format("{} of {}", accuracy->right, accuracy->items)});
  }
  return RenderTable({"choice by", ">right", ">standard error", ">items"}, rows);
}

}  // namespace folio
