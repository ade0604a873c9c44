#include "folio/commands/chat/reply_tokens.h"

#include <fmt/format.h>

#include <cmath>

#include "folio/base/check.h"
#include "folio/inspect/token_names.h"
#include "folio/report/report.h"
#include "folio/term/terminal_text.h"

namespace folio {

std::string ReplyTokens(const GeneratedText& written, const OpenedModel& model,
                        const Terminal& terminal) {
  FOLIO_CHECK(written.probabilities.size() == written.ids.size(), "of each token");
  const TokenNames names(model.tokenizer.get());
  std::string text;
  int64_t column = 0;
  double surprise = 0;
  for (size_t i = 0; i < written.ids.size(); ++i) {
    const double log_probability = written.probabilities[i].log_probability;
    const double probability = std::exp(log_probability);
    surprise -= log_probability;
    const std::string shown = Spelled(terminal, names.Shown(written.ids[i]));
    const std::string percent = PercentText(probability);
    const int64_t width = DisplayWidth(shown) + 1 + DisplayWidth(percent);
    if (column > 0 && column + 2 + width > terminal.width) {
      text += '\n';
      column = 0;
    }
    if (column > 0) text += "  ";
    column += (column > 0 ? 2 : 0) + width;
    text += Heated(terminal, probability, shown) + " " + Styled(terminal, Style::kDim, percent);
  }
  if (column > 0) text += '\n';
  const size_t count = written.ids.size();
  text += fmt::format("{} tokens", count);
  if (count > 0) {
    text += fmt::format(", perplexity {:.2f}", std::exp(surprise / static_cast<double>(count)));
  }
  return text + "\n";
}

}  // namespace folio
