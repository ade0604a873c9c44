#include "folio/commands/generate/sampling_flags.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "folio/base/error.h"
#include "folio/base/fields.h"
#include "folio/base/strings.h"
#include "folio/commands/model_flags.h"

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

}  // namespace

std::vector<Field> SamplingFlags::Penalties() {
  PenaltyOptions& of = options_.penalties;
  return {
      {"repetition-penalty", &of.repetition, "above 1: less likely if in prompt or text", 0.01,
       100},
      {"presence-penalty", &of.presence, "taken off the logit of a token that was written", -100,
       100},
      {"frequency-penalty", &of.frequency, "the same for each time that it was written", -100, 100},
      {"no-repeat-ngram", &of.no_repeat_ngram, "no n tokens in a row come twice; 0 for any", 0,
       1e9},
      {"min-tokens", &of.min_tokens, "the text does not end before so many tokens", 0, 1e12}};
}

std::vector<Field> SamplingFlags::Choice() {
  SamplingOptions& of = options_;
  return {
      {"temperature", &of.temperature, "below 1 plays safe, above 1 dares; 0 is --greedy", 0, 1e6},
      {"top-k", &of.top_k, "of the k likeliest and equals of the last; 0 for all", 0, 1e9},
      {"top-p", &of.top_p, "of the likeliest that reach probability p", 1e-9, 1},
      {"min-p", &of.min_p, "of those with at least p times the likeliest's", 0, 1},
      {"typical", &of.typical, "of those near the expected surprise, up to p", 1e-9, 1},
      {"seed", &seed_, "of the choices; a random one if not given", 0, 9e15}};
}

std::vector<Field> SamplingFlags::Fields() {
  std::vector<Field> fields = Penalties();
  for (Field& field : Choice()) fields.push_back(std::move(field));
  return fields;
}

void SamplingFlags::Add(Flags& flags) {
  flags.Group("how a token is chosen, in this order");
  flags.List("--logit-bias", &biases_, "added to a token's logit: 50256=-5,198=1",
             {.placeholder = "ID=X"});
  for (Field& field : Penalties()) flags.Value(std::move(field));
  flags.List("--ban", &banned_, "tokens never to choose: 464,2068", {.placeholder = "IDS"});
  flags.List("--force", &forced_, "tokens that the text begins with", {.placeholder = "IDS"});
  flags.Switch("--greedy", &greedy_, "always take the likeliest token");
  for (Field& field : Choice()) flags.Value(std::move(field));
  flags.Group("");
}

std::vector<LogitBias> SamplingFlags::Biases() const {
  std::vector<LogitBias> biases;
  for (const std::string& list : biases_) {
    for (const std::string& one : Split(list, ',')) {
      const size_t equals = one.find('=');
      if (equals == one.npos) {
        throw UsageError(fmt::format("--logit-bias: '{}' is not ID=NUMBER", one), {},
                         "write a token's id and what is added: 50256=-5");
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

}  // namespace folio
