#include "folio/commands/generate/writing.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/base/signals.h"
#include "folio/base/strings.h"
#include "folio/commands/model_flags.h"
#include "folio/infer/sampling_fields.h"
#include "folio/inspect/token_names.h"

namespace folio {
namespace {

std::vector<int32_t> AllIds(const std::vector<std::string>& lists, const std::string& flag,
                            int64_t V) {
  std::vector<int32_t> ids;
  for (const std::string& list : lists) {
    const std::vector<int32_t> some = ParseIds(list, flag, V);
    ids.insert(ids.end(), some.begin(), some.end());
  }
  return ids;
}

// Fields by the names of their flags.
std::vector<Field> Dashed(std::vector<Field> fields) {
  for (Field& field : fields) field.key = WithDashes(field.key);
  return fields;
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

std::vector<Field> SamplingFlags::Fields() {
  return Dashed(SamplingFields(options_, seed_));
}

void SamplingFlags::Add(Flags& flags) {
  flags.Group("how a token is chosen, in this order");
  flags.List("--logit-bias", &biases_, "values to add to the logits of tokens: 50256=-5,198=1",
             {.placeholder = "ID=X"});
  for (Field& field : Dashed(PenaltyFields(options_.penalties))) flags.Value(std::move(field));
  flags.List("--ban", &banned_, "token ids that are never chosen: 464,2068",
             {.placeholder = "IDS"});
  flags.List("--force", &forced_, "token ids that the text begins with", {.placeholder = "IDS"});
  flags.Switch("--greedy", &greedy_, "always choose the likeliest token");
  for (Field& field : Dashed(ChoiceFields(options_, seed_))) flags.Value(std::move(field));
  flags.Group("");
  flags_ = &flags;
  for (const Field& field : Dashed(SuggestedFields(options_))) {  // defaults from the model
    flags.Find("--" + field.key)->initial.clear();
  }
}

bool SamplingFlags::IsGiven(const Field& field) const {
  return !flags_->Find("--" + field.key)->given.empty() || (greedy_ && field.key == "temperature");
}

void SamplingFlags::UseDefaults(const OpenedModel& model, Writing writing, Console& console) {
  SamplingOptions defaults = DefaultSampling(model, writing);
  const std::vector<Field> from = SuggestedFields(defaults), to = Dashed(SuggestedFields(options_));
  if (greedy_) options_.temperature = 0;
  const bool greedy = IsGiven(to.front()) && options_.temperature == 0;
  bool counts = false;
  for (size_t i = 0; i < to.size(); ++i) {
    if (IsGiven(to[i])) continue;
    const bool cuts = to[i].key != "repetition-penalty";  // the likeliest token is never cut off
    counts = counts || (FieldText(from[i]) != FieldText(to[i]) && !(greedy && cuts));
    SetField(to[i], FieldText(from[i]), to[i].key);
  }
  if (counts) console.Note(DescribeSampling(model, options_));
}

std::vector<LogitBias> SamplingFlags::Biases() const {
  std::vector<LogitBias> biases;
  for (const std::string& list : biases_) {
    for (const std::string& one : Split(list, ',')) {
      const size_t equals = one.find('=');
      if (equals == one.npos) {
        throw UsageError(fmt::format("--logit-bias: '{}' is not ID=NUMBER", one), {},
                         "write the id of a token and the value to add: 50256=-5");
      }
      int64_t id = 0;
      double value = 0;
      SetField(Field{"id", &id, "", 0, 2147483647}, one.substr(0, equals), "--logit-bias: id");
      SetField(Field{"value", &value, "", -1000, 1000}, one.substr(equals + 1), "--logit-bias");
      biases.push_back({static_cast<int32_t>(id), value});
    }
  }
  return biases;
}

bool SamplingFlags::given() {
  const auto texts = [](SamplingFlags& flags) {
    std::vector<std::string> all;
    for (const Field& field : flags.Fields()) all.push_back(FieldText(field));
    return all;
  };
  SamplingFlags none;
  const bool lists = !biases_.empty() || !banned_.empty() || !forced_.empty();
  return lists || greedy_ || texts(*this) != texts(none);
}

SamplingOptions SamplingFlags::Options(int64_t V, Console& console) {
  if (std::exchange(greedy_, false)) options_.temperature = 0;
  if (!seed_) {
    seed_ = std::random_device{}();
    if (options_.temperature > 0) console.Note(fmt::format("seed {}", *seed_));
  }
  SamplingOptions options = options_;
  options.seed = static_cast<uint64_t>(*seed_);
  options.penalties.bias = Biases();
  options.banned = AllIds(banned_, "--ban", V);
  options.forced = AllIds(forced_, "--force", V);
  CheckSampling(options, V);
  return options;
}

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

TextTeller::TextTeller(Console& console, const OpenedModel& model, const GenerateOptions& options,
                       Draft* draft)
    : console_(console),
      model_(model),
      options_(options),
      for_tokens_(ForTokens(model, options)),
      draft_(draft) {}

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
          .draft = draft_,
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
  static constexpr const char* kReasons[] = {"length", "stop", "context", "cancelled"};
  Json json = TextJson(model_, text.prompt, text.p, text.i, text.written.text, text.written.ids);
  if (options_.likeliest) {
    json["probabilities"] = Probabilities(text.written, model_.tokenizer.get());
  }
  json["finish_reason"] = kReasons[static_cast<size_t>(text.written.reason)];
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
    console_.Note(fmt::format(
        "the prompt is longer than the context: only the last {} of its {} tokens are used",
        WithCommas(stats.prompt_tokens), WithCommas(stats.prompt_tokens + stats.dropped)));
  }
  if (stats.slides > 0 && !std::exchange(told_of_sliding_, true)) {
    console_.Note(fmt::format(
        "the context of {} tokens is full: the oldest {} are dropped and the other {} processed "
        "again, which takes {} per {} tokens (see --stride and --when-full stop)",
        WithCommas(P), WithCommas(stats.stride), WithCommas(P - stats.stride),
        HumanSeconds(stats.slide_seconds / static_cast<double>(stats.slides)),
        WithCommas(stats.stride)));
  }
  if (console_.verbosity() < 1 || stats.prompt_seconds == 0) return;
  std::string note = "prompt: " + Speed(stats.prompt_tokens, stats.prompt_seconds);
  if (stats.shared > 0) note += fmt::format(", {} of them cached", WithCommas(stats.shared));
  if (tokens > 0) note += "; generation: " + Speed(tokens, stats);
  if (stats.proposed > 0) {
    note += fmt::format("; {} of {} draft tokens accepted, {} passes", WithCommas(stats.accepted),
                        WithCommas(stats.proposed), WithCommas(stats.passes));
  }
  console_.Note(note);
}

}  // namespace folio
