#include "folio/commands/generate/text_teller.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "folio/base/strings.h"
#include "folio/inspect/token_names.h"
#include "folio/io/json.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

std::string_view ReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

Json Probabilities(const GeneratedText& written, const Tokenizer* tokenizer) {
  const TokenNames names(tokenizer);
  Json all = Json::array();
  for (size_t i = 0; i < written.ids.size(); ++i) {
    Json token = names.AsJson(written.ids[i]);
    token["log_probability"] = written.probabilities[i].log_probability;
    token["likeliest"] = Json::array();
    for (const TokenProbability& one : written.probabilities[i].likeliest) {
      Json other = names.AsJson(one.id);
      other["log_probability"] = one.log_probability;
      token["likeliest"].push_back(std::move(other));
    }
    all.push_back(std::move(token));
  }
  return all;
}

}  // namespace

Json TextJson(const OpenedModel& model, const Prompt& prompt, size_t p, int64_t i,
              const std::string& text, const std::vector<int32_t>& ids) {
  Json json{{"schema", 1}, {"prompt_index", p}, {"index", i}};
  if (model.tokenizer != nullptr) {
    json["prompt"] = prompt.text;
    json["text"] = text;
  }
  json["prompt_ids"] = prompt.ids;
  json["ids"] = ids;
  return json;
}

std::string Speed(int64_t tokens, double seconds) {
  return fmt::format("{} tokens in {} ({} tokens/s)", WithCommas(tokens), HumanSeconds(seconds),
                     HumanCount(static_cast<double>(tokens) / seconds));
}

std::string Speed(int64_t tokens, const GenerateStats& stats) {
  if (stats.tokens == 0) return Speed(tokens, stats.prompt_seconds + stats.seconds);
  return fmt::format("{} tokens in {} ({} tokens/s)", WithCommas(tokens),
                     HumanSeconds(stats.seconds),
                     HumanCount(static_cast<double>(stats.tokens) / stats.seconds));
}

TextTeller::TextTeller(Console& console, const OpenedModel& model, const GenerateOptions& options)
    : console_(console), model_(model), options_(options), for_tokens_(ForTokens(model, options)) {}

TextRequest TextTeller::Begin(const Prompt& prompt, size_t p, int64_t i, uint64_t rng_stream,
                              std::string_view shown) {
  Text& text = texts_.emplace_back(Text{prompt, p, i});
  if (!console_.json()) Show(text, shown);
  if (model_.tokenizer != nullptr) {
    text.writer = std::make_unique<TextStreamer>(*model_.tokenizer, options_,
                                                 [this, &text](std::string_view more) {
                                                   if (!console_.json()) Show(text, more);
                                                   return StopRequested() == 0;
                                                 });
  }
  return {.prompt = prompt.ids,
          .options = for_tokens_,
          .rng_stream = rng_stream,
          .on_token = [this, &text](const NewToken& token) { return Take(text, token); },
          .on_end = [this, &text](FinishReason reason,
                                  const GenerateStats& stats) { End(text, reason, stats); }};
}

void TextTeller::Show(Text& text, std::string_view more) {
  if (&text == &texts_.front()) {
    Write(more);
  } else {
    text.held += more;
  }
}

void TextTeller::Write(std::string_view text) {
  console_.json() ? console_.Result(text) : console_.Bytes(text);
}

bool TextTeller::Take(Text& text, const NewToken& token) {
  if (text.writer) return text.writer->Take(token);
  text.written.ids.push_back(token.id);
  if (options_.likeliest) text.written.probabilities.push_back(token.probabilities);
  if (!console_.json()) Show(text, fmt::format(" {}", token.id));
  return StopRequested() == 0;
}

void TextTeller::End(Text& text, FinishReason reason, const GenerateStats& stats) {
  text.written.reason = reason;
  if (text.writer) text.written = text.writer->Finish(reason);
  stats_ = stats;
  tokens_ += std::ssize(text.written.ids);
  if (reason == FinishReason::kCancelled && std::exchange(cancelled_, true)) {
    texts_.remove_if([&](const Text& other) { return &other == &text; });
    return;
  }
  Show(text, console_.json() ? Line(text) : "\n");
  NoteStats(stats, std::ssize(text.written.ids));
  last_ = text.written;
  text.finished = true;
  while (!texts_.empty() && texts_.front().finished) {
    texts_.pop_front();
    if (!texts_.empty() && !cancelled_) Write(std::exchange(texts_.front().held, {}));
  }
}

std::string TextTeller::Line(const Text& text) const {
  Json json = TextJson(model_, text.prompt, text.p, text.i, text.written.text, text.written.ids);
  if (options_.likeliest) {
    json["probabilities"] = Probabilities(text.written, model_.tokenizer.get());
  }
  json["finish_reason"] = ReasonName(text.written.reason);
  json["seed"] = options_.sampling.seed;
  json["prompt_tokens"] = stats_.prompt_tokens;
  json["prompt_seconds"] = stats_.prompt_seconds;
  json["tokens"] = text.written.ids.size();
  json["seconds"] = stats_.seconds;
  return json.dump() + "\n";
}

void TextTeller::NoteStats(const GenerateStats& stats, int64_t tokens) {
  const int64_t P = model_.weights->config().n_positions;
  if (stats.dropped > 0) {
    console_.Note(fmt::format("the prompt is cut: the model sees the last {} of its {} tokens",
                              WithCommas(stats.prompt_tokens),
                              WithCommas(stats.prompt_tokens + stats.dropped)));
  }
  if (stats.slides > 0 && !std::exchange(told_of_sliding_, true)) {
    console_.Note(fmt::format(
        "the context is full at {} tokens: the oldest {} are forgotten and the other {} read "
        "again, {} for every {} tokens (--stride, --when-full stop)",
        WithCommas(P), WithCommas(stats.stride), WithCommas(P - stats.stride),
        HumanSeconds(stats.slide_seconds / static_cast<double>(stats.slides)),
        WithCommas(stats.stride)));
  }
  if (console_.verbosity() < 1 || stats.prompt_seconds == 0) return;
  std::string note = "prompt: " + Speed(stats.prompt_tokens, stats.prompt_seconds);
  if (stats.shared > 0) note += fmt::format(", {} of them known", WithCommas(stats.shared));
  if (tokens > 0) note += "; generation: " + Speed(tokens, stats);
  if (stats.proposed > 0) {
    note += fmt::format("; {} of {} guesses right, {} passes", WithCommas(stats.accepted),
                        WithCommas(stats.proposed), WithCommas(stats.passes));
  }
  console_.Note(note);
}

}  // namespace folio
