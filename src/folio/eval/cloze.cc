#include "folio/eval/cloze.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/corpus/text_files.h"
#include "folio/corpus/text_stream.h"
#include "folio/infer/token_probabilities.h"
#include "folio/io/json.h"

namespace folio {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";
constexpr const char* kShape =
    "each line is {\"ctx\":\"...\",\"endings\":[\"...\",\"...\"],\"label\":0}";

const Json* FindEither(const Json& json, std::string_view one, std::string_view other) {
  const Json* found = json.find(one);
  return found != nullptr ? found : json.find(other);
}

std::string ReplaceAll(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Python's str.capitalize of ASCII.
std::string Capitalized(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    char& c = text[i];
    if (i == 0 && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (i > 0 && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// Returns the tokens that a model reads before the text of a question.
std::vector<int32_t> BeginningOf(const Tokenizer& tokenizer, bool context,
                                 const std::string& where) {
  const std::span<const int32_t> before = tokenizer.before();
  if (context || !before.empty()) return {before.begin(), before.end()};
  if (tokenizer.end_of_text()) return {*tokenizer.end_of_text()};
  throw InputError(fmt::format("{}: the context is empty", where),
                   "there is nothing to predict the first token of an ending from: the tokenizer "
                   "has no end-of-text token");
}

}  // namespace

std::string CleanHellaSwag(std::string_view text) {
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == text.npos) return "";
  text = text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
  std::string clean = ReplaceAll(std::string(text), " [title]", ". ");
  for (size_t open = 0; (open = clean.find('[', open)) != clean.npos;) {
    const size_t close = clean.find(']', open);
    // In a regular expression "." is no line break.
    if (close == clean.npos || clean.find('\n', open) < close) {
      ++open;
    } else {
      clean.erase(open, close + 1 - open);
    }
  }
  return ReplaceAll(std::move(clean), "  ", " ");
}

ClozeItem ParseClozeItem(std::string_view line, const std::function<std::string()>& where,
                         ClozeText text) {
  const auto refuse = [&](std::string cause) {
    throw InputError(fmt::format("{}: not a multiple-choice question", where()), std::move(cause),
                     kShape);
  };
  const Json json = ParseJson(line, where());
  const auto string_of = [&](std::string_view key) {
    const Json* member = json.find(key);
    if (member == nullptr || !member->is_string()) {
      refuse(fmt::format("it has no string \"{}\"", key));
    }
    return member->text();
  };
  ClozeItem item;
  item.where = where();
  if (text == ClozeText::kHellaSwag) {
    std::string whole = string_of("activity_label") + ": ";
    whole += string_of("ctx_a") + " ";
    whole += Capitalized(string_of("ctx_b"));
    item.context = CleanHellaSwag(whole);
  } else {
    item.context = string_of(json.contains("ctx") ? "ctx" : "query");
  }
  const Json* endings = FindEither(json, "endings", "choices");
  if (endings == nullptr || !endings->is_array() || endings->size() < 2) {
    refuse("it has no array \"endings\" of two strings or more");
  }
  for (const Json& ending : *endings) {
    if (!ending.is_string()) refuse(fmt::format("ending {} is not a string", ending.dump()));
    item.endings.push_back(text == ClozeText::kHellaSwag ? CleanHellaSwag(ending.text())
                                                         : ending.text());
    if (item.endings.back().empty()) {
      refuse(fmt::format("ending {} is empty", item.endings.size() - 1));
    }
  }
  const Json* label = FindEither(json, "label", "gold");
  if (label == nullptr) refuse("it has no \"label\" with the number of the right ending");
  int64_t number = -1;
  if (label->is_number_integer() && label->get<double>() < 1e9) {
    number = label->get<int64_t>();
  } else if (label->is_string()) {
    const std::string& digits = label->text();
    const char* const end = digits.data() + digits.size();
    const auto [behind, bad] = std::from_chars(digits.data(), end, number);
    if (bad != std::errc() || behind != end) number = -1;
  }
  if (number < 0 || number >= std::ssize(item.endings)) {
    refuse(fmt::format("\"label\" is {}, the endings are 0 to {}", label->dump(),
                       item.endings.size() - 1));
  }
  item.label = static_cast<size_t>(number);
  return item;
}

std::vector<TextWindow> ClozeWindows(const ClozeItem& item, const Tokenizer& tokenizer,
                                     int64_t n_positions) {
  const size_t end = item.context.find_last_not_of(kWhiteSpace) + 1;  // 0 if there is nothing else
  const std::string context = item.context.substr(0, end);
  const std::string between = item.context.substr(end);
  const int64_t context_tokens = std::ssize(tokenizer.EncodeOrdinary(context, item.where));
  const std::vector<int32_t> beginning = BeginningOf(tokenizer, context_tokens > 0, item.where);
  std::vector<TextWindow> windows;
  for (size_t e = 0; e < item.endings.size(); ++e) {
    const std::vector<int32_t> ids =
        tokenizer.EncodeOrdinary(context + between + " " + item.endings[e], item.where);
    const int64_t tokens = std::ssize(ids) - context_tokens;
    if (tokens < 1) {
      throw InputError(fmt::format("{}: ending {} has no tokens", item.where, e),
                       "its characters become part of the last token of the context");
    }
    // The last token is not read, and of the context no more than fits.
    const int64_t room = n_positions - std::ssize(beginning) - (tokens - 1);
    if (room < 0 || (room == 0 && beginning.empty())) {
      throw InputError(
          fmt::format("{}: ending {} is too long", item.where, e),
          fmt::format("it has {} tokens, the context of the model {}", tokens, n_positions));
    }
    TextWindow window;
    window.ids = beginning;
    const auto split = ids.begin() + context_tokens;
    window.ids.insert(window.ids.end(), split - std::min(context_tokens, room), ids.end() - 1);
    window.targets.assign(split, ids.end());
    window.first = std::ssize(window.ids) - tokens;
    window.begin = context_tokens;
    windows.push_back(std::move(window));
  }
  return windows;
}

namespace {

// The prediction of an ending by a model.
struct EndingScore {
  double log_probability = 0;
  int64_t tokens = 0, characters = 0;
};

// The endings chosen by ln p, ln p per character and ln p per token: the first with the largest
// one.
std::array<size_t, 3> Choose(const std::vector<EndingScore>& endings) {
  std::array<size_t, 3> chosen = {};
  std::array<double, 3> best;
  for (size_t e = 0; e < endings.size(); ++e) {
    const auto& [sum, tokens, characters] = endings[e];
    const double scores[] = {sum, sum / static_cast<double>(characters),
                             sum / static_cast<double>(tokens)};
    for (size_t way = 0; way < chosen.size(); ++way) {
      if (e > 0 && !(scores[way] > best[way])) continue;
      best[way] = scores[way];
      chosen[way] = e;
    }
  }
  return chosen;
}

// An item that waits for the model.
struct WaitingItem {
  int64_t index = 0;
  size_t label = 0;
  std::vector<EndingScore> endings = {};
};

std::string ItemLine(const WaitingItem& item) {
  const auto [plain, norm, token] = Choose(item.endings);
  Json json = {{"index", item.index}, {"label", item.label},   {"choice", plain},
               {"choice_norm", norm}, {"choice_token", token}, {"endings", Json::array()}};
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
        hooks_(hooks),
        predictor_(
            {&model}, options.positions, /*numbers=*/1,
            [](Predictor::Rows rows, int32_t id, std::span<double> numbers) {
              numbers[0] = rows[0][static_cast<size_t>(id)] - LogSum(rows[0]);
            },
            options.group) {
    if (!predictor_.first()) return;
    progress_.unit = "item";
    progress_.total = CountItems(file, options.reading);
    if (options.out.empty()) return;
    out_.emplace(options.out,
                 fmt::format("cloze 1 {} {} {}", static_cast<int>(options.text),
                             ModelFingerprint(model), file),
                 hooks.on_note);
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
    // Enough windows for some of them to have similar lengths.
    if (positions_ >= 4 * predictor_.positions()) Run();
  }

  ClozeResult Finish() {
    Run();
    if (items_ == 0) throw InputError(fmt::format("{}: empty", file_));
    if (out_) out_->Commit();
    return result_;
  }

 private:
  void Add(const WaitingItem& item) {
    const std::array<size_t, 3> chosen = Choose(item.endings);
    ClozeAccuracy* const ways[] = {&result_.acc, &result_.acc_norm, &result_.acc_token};
    for (size_t way = 0; way < chosen.size(); ++way) {
      ++ways[way]->items;
      ways[way]->right += chosen[way] == item.label;
    }
    ++progress_.done;
  }

  // Adds the item as an earlier call has measured it, and returns true; if its line is damaged,
  // drops the rest of that call's and returns false. A line is valid if its numbers give the same
  // line.
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
      out_->StopDamaged();
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
  if (!IsFirst(options.group)) {
    ClozeMeter(model, file, options, hooks).predictor().Serve();
    return {};
  }
  TextStream stream(file, options.reading);
  std::string probe;
  if (!stream.form().json_lines) {
    throw InputError(stream.Read(probe, 1) == 0
                         ? fmt::format("{}: empty", file)
                         : fmt::format("{}: no multiple-choice questions", file),
                     "expected a JSON object in each line", kShape);
  }
  ClozeMeter meter(model, file, options, hooks);
  ForJsonLines(stream, file, [&](std::string_view line, const auto& where) {
    meter.Take(ParseClozeItem(line, where, options.text));
  });
  return meter.Finish();
}

}  // namespace folio
