#include "folio/eval/cloze_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "folio/base/error.h"
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
    throw InputError(fmt::format("{}: no question of multiple choice", where()), std::move(cause),
                     kShape);
  };
  const Json json = ParseJson(line, where());
  const auto string_of = [&](std::string_view key) {
    const Json* member = json.find(key);
    if (member == nullptr || !member->is_string()) {
      refuse(fmt::format("it has no text \"{}\"", key));
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
    refuse("it has no array \"endings\" of two texts or more");
  }
  for (const Json& ending : *endings) {
    if (!ending.is_string()) refuse(fmt::format("the ending {} is no text", ending.dump()));
    item.endings.push_back(text == ClozeText::kHellaSwag ? CleanHellaSwag(ending.text())
                                                         : ending.text());
    if (item.endings.back().empty()) {
      refuse(fmt::format("ending {} is empty", item.endings.size() - 1));
    }
  }
  const Json* label = FindEither(json, "label", "gold");
  if (label == nullptr) refuse("it has no \"label\", the number of the right ending");
  int64_t number = -1;
  if (label->is_number_integer()) {
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
  const size_t context_tokens = tokenizer.EncodeOrdinary(context, item.where).size();
  std::vector<TextWindow> windows;
  for (size_t e = 0; e < item.endings.size(); ++e) {
    std::vector<int32_t> ids =
        tokenizer.EncodeOrdinary(context + between + " " + item.endings[e], item.where);
    size_t before = context_tokens;
    if (before == 0) {
      if (!tokenizer.end_of_text()) {
        throw InputError(fmt::format("{}: an empty context", item.where),
                         "the first token of an ending is predicted from nothing, and the model's "
                         "tokenizer has no token that stands between texts");
      }
      ids.insert(ids.begin(), *tokenizer.end_of_text());
      before = 1;
    }
    const int64_t tokens = std::ssize(ids) - static_cast<int64_t>(before);
    if (tokens < 1) {
      throw InputError(fmt::format("{}: ending {} has no token of its own", item.where, e),
                       "it becomes one with the context");
    }
    if (tokens > n_positions) {
      throw InputError(fmt::format("{}: ending {} is too long", item.where, e),
                       fmt::format("it has {} tokens, the model reads {}", tokens, n_positions));
    }
    TextWindow window;
    const auto split = ids.begin() + static_cast<std::ptrdiff_t>(before);
    window.targets.assign(split, ids.end());
    const int64_t left_out = std::max<int64_t>(std::ssize(ids) - 1 - n_positions, 0);
    window.ids.assign(ids.begin() + left_out, ids.end() - 1);
    window.first = static_cast<int64_t>(before) - 1 - left_out;
    window.begin = static_cast<int64_t>(before);
    windows.push_back(std::move(window));
  }
  return windows;
}

}  // namespace folio
