#include "folio/infer/text_streamer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/utf8.h"
#include "folio/infer/opened_model.h"
#include "folio/text/chat.h"
#include "folio/text/streaming.h"

namespace folio {
namespace {

std::string Shown(const Tokenizer& tokenizer, int32_t id, StreamingDecoder& decoder) {
  constexpr char kUnknown[] = "\xEF\xBF\xBD";
  return id < tokenizer.vocab_size() ? decoder.Add(id) : decoder.Add(kUnknown);
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty()) {
      throw UsageError("a stop string is empty", "every text would end at once",
                       "remove it, or give a string");
    }
    if (ReplaceInvalidUtf8(stop) != stop) {
      throw UsageError(fmt::format("the stop string '{}' is not UTF-8", ReplaceInvalidUtf8(stop)),
                       "texts are UTF-8, so it would never match");
    }
    longest_ = std::max(longest_, stop.size());
  }
}

std::string StopStrings::Add(std::string_view text) {
  if (found_) return "";
  held_ += text;
  size_t begin = held_.size(), end = held_.npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == held_.npos) continue;
    const size_t last = at + stop.size();
    if (last < end || (last == end && at < begin)) {
      begin = at;
      end = last;
    }
  }
  found_ = end != held_.npos;
  const size_t shown = found_ ? begin : held_.size() - Beginning();
  std::string out = held_.substr(0, shown);
  held_.erase(0, found_ ? held_.npos : shown);
  return out;
}

std::string StopStrings::Flush() {
  return std::exchange(held_, {});
}

size_t StopStrings::Beginning() const {
  const std::string_view held = held_;
  for (size_t size = std::min(held.size(), longest_); size > 0; --size) {
    const std::string_view end = held.substr(held.size() - size);
    if (std::ranges::any_of(stops_, [&](const auto& stop) { return stop.starts_with(end); })) {
      return size;
    }
  }
  return 0;
}

std::vector<int32_t> PromptTokens(const Tokenizer& tokenizer, std::string_view prompt,
                                  std::string_view where) {
  std::vector<int32_t> ids;
  if (!prompt.empty()) ids = tokenizer.Encode(prompt, where, SpecialRule::Allow());
  ids = tokenizer.WithBeginning(std::move(ids));
  if (!ids.empty()) return ids;
  if (tokenizer.end_of_text()) return {*tokenizer.end_of_text()};
  tokenizer.EncodePrefix("\n", ids);
  return ids.empty() ? std::vector<int32_t>{0} : ids;
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

TextStreamer::TextStreamer(const Tokenizer& tokenizer, const GenerateOptions& options,
                           std::function<bool(std::string_view)> on_text)
    : tokenizer_(tokenizer),
      on_text_(std::move(on_text)),
      min_tokens_(options.sampling.penalties.min_tokens),
      keep_probabilities_(options.likeliest.has_value()),
      stops_(options.stop_strings),
      decoder_(std::make_unique<StreamingDecoder>(tokenizer)) {}

TextStreamer::~TextStreamer() = default;

bool TextStreamer::Show(const std::string& text) {
  written_.text += text;
  return text.empty() || on_text_(text);
}

bool TextStreamer::Take(const NewToken& token) {
  written_.ids.push_back(token.id);
  if (keep_probabilities_) written_.probabilities.push_back(token.probabilities);
  const std::string text = Shown(tokenizer_, token.id, *decoder_);
  const bool early = std::cmp_less_equal(written_.ids.size(), min_tokens_);
  wanted_ = Show(early ? text : stops_.Add(text));
  return wanted_ && !stops_.found();
}

GeneratedText TextStreamer::Finish(FinishReason reason) {
  written_.reason = reason;
  if (wanted_) Show(stops_.Add(decoder_->Flush()) + stops_.Flush());
  if (wanted_ && stops_.found()) written_.reason = FinishReason::kStop;
  return std::move(written_);
}

GenerateOptions ForTokens(const GptConfig& config, const Tokenizer* tokenizer,
                          const ChatEncoder* chat, GenerateOptions options) {
  const auto stop_at = [&](int64_t end) {
    if (end < config.vocab_size) options.stop_tokens.push_back(static_cast<int32_t>(end));
  };
  if (config.eos_token_id) stop_at(*config.eos_token_id);
  std::ranges::for_each(config.more_eos_token_ids, stop_at);
  if (chat != nullptr) std::ranges::for_each(chat->ends(), stop_at);
  if (tokenizer == nullptr) return options;
  const auto specials = tokenizer->special_tokens();
  const auto named =
      std::ranges::find(specials, tokenizer->chat_source().eos_token, &SpecialToken::text);
  if (named != specials.end()) stop_at(named->id);
  const std::optional<int32_t> end = tokenizer->end_of_text();
  if (end && *end < tokenizer->known_tokens()) stop_at(*end);
  options.usable = IdsWithTokens(*tokenizer);
  if (const auto roles = FindChatFormat(*tokenizer)) {
    stop_at(roles->end);
    for (const ChatRole role : {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant}) {
      options.usable[static_cast<size_t>(roles->RoleToken(role))] = false;
    }
  }
  options.stop_strings.clear();
  return options;
}

GenerateOptions ForTokens(const OpenedModel& model, GenerateOptions options) {
  return ForTokens(model.weights->config(), model.tokenizer.get(),
                   model.chat ? &*model.chat : nullptr, std::move(options));
}

GeneratedText GenerateText(Generator& generator, const Tokenizer& tokenizer,
                           const std::vector<int32_t>& prompt, const GenerateOptions& options,
                           uint64_t rng_stream,
                           const std::function<bool(std::string_view)>& on_text,
                           const ChatEncoder* chat) {
  TextStreamer writer(tokenizer, options, on_text);
  const FinishReason reason =
      generator.Generate(prompt, ForTokens(generator.config(), &tokenizer, chat, options),
                         rng_stream, [&](const NewToken& token) { return writer.Take(token); });
  return writer.Finish(reason);
}

}  // namespace folio
