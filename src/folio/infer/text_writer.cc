#include "folio/infer/text_writer.h"

#include <utility>

#include "folio/infer/stop_strings.h"
#include "folio/text/chat.h"
#include "folio/text/streaming_decoder.h"

namespace folio {

namespace {

std::string Shown(const Tokenizer& tokenizer, int32_t id, StreamingDecoder& decoder) {
  constexpr char kUnknown[] = "\xEF\xBF\xBD";
  return id < tokenizer.vocab_size() ? decoder.Add(id) : decoder.Add(kUnknown);
}

}  // namespace

std::vector<int32_t> PromptTokens(const Tokenizer& tokenizer, std::string_view prompt,
                                  std::string_view where) {
  if (!prompt.empty()) return tokenizer.Encode(prompt, where, SpecialRule::Allow());
  if (tokenizer.end_of_text()) return {*tokenizer.end_of_text()};
  std::vector<int32_t> line_break;
  tokenizer.EncodePrefix("\n", line_break);
  return line_break.empty() ? std::vector<int32_t>{0} : line_break;
}

std::string TextOf(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  StreamingDecoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : ids) text += Shown(tokenizer, id, decoder);
  return text + decoder.Flush();
}

std::vector<bool> IdsWithTokens(const Tokenizer& tokenizer) {
  std::vector<bool> with(static_cast<size_t>(tokenizer.vocab_size()));
  for (size_t id = 0; id < with.size(); ++id) {
    with[id] = !tokenizer.TokenBytes(static_cast<int32_t>(id)).empty();
  }
  return with;
}

WrittenText WriteText(Generator& generator, const Tokenizer& tokenizer,
                      const std::vector<int32_t>& prompt, GenerateOptions options,
                      uint64_t sequence, const std::function<bool(std::string_view)>& on_text) {
  if (tokenizer.end_of_text()) options.stop_tokens.push_back(*tokenizer.end_of_text());
  if (const auto chat = FindChatFormat(tokenizer)) options.stop_tokens.push_back(chat->end);
  options.usable = IdsWithTokens(tokenizer);
  StopStrings stops(std::exchange(options.stop_strings, {}));
  WrittenText written;
  StreamingDecoder decoder(tokenizer);
  const auto show = [&](const std::string& text) {
    written.text += text;
    return text.empty() || on_text(text);
  };
  bool wanted = true;
  written.reason = generator.Generate(prompt, options, sequence, [&](int32_t id) {
    written.ids.push_back(id);
    if (options.likeliest) written.probabilities.push_back(generator.probabilities());
    const std::string text = Shown(tokenizer, id, decoder);
    const bool early =
        std::cmp_less_equal(written.ids.size(), options.sampling.penalties.min_tokens);
    wanted = show(early ? text : stops.Add(text));
    return wanted && !stops.found();
  });
  if (wanted) show(stops.Add(decoder.Flush()) + stops.Flush());
  if (wanted && stops.found()) written.reason = FinishReason::kStop;
  return written;
}

}  // namespace folio
