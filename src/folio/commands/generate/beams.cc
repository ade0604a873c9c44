#include "folio/commands/generate/beams.h"

#include <algorithm>
#include <string>
#include <utility>

#include "folio/infer/text_streamer.h"
#include "folio/io/json.h"
#include "folio/term/signals.h"

namespace folio {
namespace {

std::string Line(const OpenedModel& model, const Prompt& prompt, size_t p, size_t i,
                 const BeamText& text) {
  Json json{{"schema", 1}, {"prompt_index", p}, {"index", i}};
  if (model.tokenizer != nullptr) {
    json["prompt"] = prompt.text;
    json["text"] = TextOf(*model.tokenizer, text.ids);
  }
  json["prompt_ids"] = prompt.ids;
  json["ids"] = text.ids;
  json["finish_reason"] = text.finished ? "stop" : "length";
  json["score"] = text.score;
  json["log_probability"] = text.log_probability;
  return json.dump() + "\n";
}

std::string Shown(const OpenedModel& model, const Prompt& prompt, const BeamText& text) {
  std::string shown = prompt.text;
  if (model.tokenizer != nullptr) return shown + TextOf(*model.tokenizer, text.ids) + "\n";
  for (const int32_t id : text.ids) shown += " " + std::to_string(id);
  return shown + "\n";
}

}  // namespace

void TellBeams(Console& console, const OpenedModel& model, const std::vector<Prompt>& prompts,
               BeamSearchOptions options, std::optional<Dtype> cache) {
  const GptConfig& config = model.weights->config();
  const GenerateOptions ends = ForTokens(model, {});
  options.stop_tokens = ends.stop_tokens;
  options.usable = ends.usable;
  int64_t pages = 0;
  for (const Prompt& prompt : prompts) {
    pages = std::max(pages, BeamSearchPages(config, std::ssize(prompt.ids), options));
  }
  Decoder decoder(*model.backend, *model.weights, {.cache = cache, .pages = pages});
  for (size_t p = 0; p < prompts.size() && StopRequested() == 0; ++p) {
    const std::vector<BeamText> texts = BeamSearch(decoder, prompts[p].ids, options);
    for (size_t i = 0; i < texts.size(); ++i) {
      if (console.json()) {
        console.Result(Line(model, prompts[p], p, i, texts[i]));
      } else {
        console.Bytes((p + i > 0 ? "\n" : "") + Shown(model, prompts[p], texts[i]));
      }
    }
  }
}

}  // namespace folio
