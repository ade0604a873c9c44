#include "folio/text/chat_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "folio/base/error.h"

namespace folio {
namespace {

bool IsAnswer(const Json& message) {
  return message.at("role") == Json("assistant");
}

size_t CommonBeginning(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

class AnswerFinder {
 public:
  AnswerFinder(const ChatTemplate& chat_template, const ChatInput& input, const RenderedChat& whole,
               std::span<const std::string> ends)
      : template_(chat_template), input_(input), whole_(whole), ends_(ends) {}

  TextRange Find(size_t message) const {
    const std::optional<TextRange> shown = ShownOf(message);
    const std::optional<size_t> begin = FindBegin(message, shown);
    if (!begin) {
      throw InputError(
          fmt::format("cannot find the answer of message {} in the rendered conversation",
                      message + 1),
          fmt::format("{} does not output it", template_.where()),
          "remove the conversation, or use --chat-template FILE with a template that marks answers "
          "with {% generation %}");
    }
    const size_t last = std::max(*begin, shown ? shown->end : 0);
    return {*begin, FindEnd(message, last)};
  }

 private:
  // The range from the first to the last character that a message produced.
  std::optional<TextRange> ShownOf(size_t message) const {
    std::optional<TextRange> shown;
    for (const MessageRange& part : whole_.of_messages) {
      if (part.message != message) continue;
      if (!shown) shown = part.range;
      shown->end = part.range.end;
    }
    return shown;
  }

  // The template's output for the first messages; nothing if it does not accept them alone.
  std::optional<RenderedChat> Beginning(size_t messages, bool ask) const {
    ChatInput part = input_;
    part.messages = Json::array();
    for (size_t i = 0; i < messages; ++i) part.messages.push_back(input_.messages[i]);
    part.add_generation_prompt = ask;
    try {
      return template_.Render(part);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  std::optional<size_t> FindBegin(size_t message, const std::optional<TextRange>& shown) const {
    const std::optional<RenderedChat> prompt = Beginning(message, /*ask=*/true);
    if (prompt && whole_.text.starts_with(prompt->text) &&
        (!shown || prompt->text.size() <= shown->begin)) {
      return prompt->text.size();
    }
    if (!shown) return std::nullopt;
    if (!prompt) return shown->begin;
    size_t before = 0;  // where the message before it ends
    for (const MessageRange& part : whole_.of_messages) {
      if (part.range.end <= shown->begin) before = std::max(before, part.range.end);
    }
    const size_t asked = prompt->of_messages.empty() ? 0 : prompt->of_messages.back().range.end;
    const std::string_view text = whole_.text, of_prompt = prompt->text;
    return before +
           CommonBeginning(text.substr(before, shown->begin - before), of_prompt.substr(asked));
  }

  size_t FindEnd(size_t message, size_t last) const {
    size_t next = whole_.text.size();  // where the next message begins
    for (const MessageRange& part : whole_.of_messages) {
      if (part.range.begin >= last) next = std::min(next, part.range.begin);
    }
    const std::string_view between = std::string_view(whole_.text).substr(last, next - last);
    for (const std::string& end : ends_) {
      const size_t at = end.empty() ? between.npos : between.find(end);
      if (at != between.npos) return last + at + end.size();
    }
    const std::optional<RenderedChat> turn = Beginning(message + 1, /*ask=*/false);
    const bool so = turn && whole_.text.starts_with(turn->text) && turn->text.size() >= last &&
                    turn->text.size() <= next;
    return so ? turn->text.size() : last;
  }

  const ChatTemplate& template_;
  const ChatInput& input_;
  const RenderedChat& whole_;
  std::span<const std::string> ends_;
};

// The parts between {% generation %} and its end that belong to learned messages.
std::vector<TextRange> LearnedOfMarked(const ChatInput& input, const RenderedChat& whole,
                                       const std::vector<bool>& learned) {
  std::vector<size_t> answers;
  for (size_t i = 0; i < input.messages.size(); ++i) {
    if (IsAnswer(input.messages[i])) answers.push_back(i);
  }
  const bool each_has_one = answers.size() == whole.generated.size();
  std::vector<TextRange> found;
  for (size_t i = 0; i < whole.generated.size(); ++i) {
    const TextRange& range = whole.generated[i];
    const auto said = std::ranges::find_if(whole.of_messages, [&](const MessageRange& part) {
      return part.range.begin < range.end && part.range.end > range.begin;
    });
    bool wanted = true;
    if (said != whole.of_messages.end()) {
      wanted = learned[said->message];
    } else if (each_has_one) {
      wanted = learned[answers[i]];
    }
    if (wanted) found.push_back(range);
  }
  return found;
}

}  // namespace

std::vector<TextRange> FindAnswers(const ChatTemplate& chat_template, const ChatInput& input,
                                   const RenderedChat& whole, const std::vector<bool>& learned,
                                   std::span<const std::string> ends) {
  if (!whole.generated.empty()) return LearnedOfMarked(input, whole, learned);
  const AnswerFinder finder(chat_template, input, whole, ends);
  std::vector<TextRange> answers;
  for (size_t i = 0; i < input.messages.size(); ++i) {
    if (IsAnswer(input.messages[i]) && learned[i]) answers.push_back(finder.Find(i));
  }
  return answers;
}

}  // namespace folio
