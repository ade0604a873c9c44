#include "folio/run/fine_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/text/encodings.h"
#include "folio/text/tokenizer_file.h"

namespace folio {
namespace {

namespace fs = std::filesystem;

// The settings of how matrices start, which they do not here.
constexpr std::array kNotOfAModel = {"init", "initializer_range", "init_zero_positions",
                                     "init_scaled_residuals"};
// The settings that the tokenizer of the data decides.
constexpr std::array kOfTheTokenizer = {"bos_token_id", "eos_token_id"};

bool IsDropout(GptConfig& config, const Field& field) {
  return std::ranges::any_of(GptConfig::DropoutRates(), [&](auto rate) {
    return field.value == Field::Value(&(config.*rate));
  });
}

[[noreturn]] void Refuse(const Settings& layers, const std::string& key, const std::string& had,
                         const std::string& asked, const std::string& help) {
  throw UsageError(fmt::format("{}: {} does not go with --init", layers.origin(key), key),
                   fmt::format("it is {}, that of the model {}", asked, had), help);
}

// `field` of the model, and the setting of that name, `asked`.
void RequireGoesTogether(const Settings& layers, GptConfig& model, const Field& field,
                         const GptConfig& asked_config, const Field& asked) {
  const std::string key = "model." + field.key;
  const std::string had = FieldText(field), wanted = FieldText(asked);
  if (layers.layer(key) <= Layer::kPreset || had == wanted || IsDropout(model, field)) return;
  if (field.key == "n_positions") {
    if (asked_config.n_positions < model.n_positions || !model.learned_positions()) return;
    Refuse(layers, key, had, wanted, "positions can be cut off, and no new ones be added");
  }
  if (field.key == "vocab_size") {
    if (asked_config.vocab_size > model.vocab_size) return;
    Refuse(layers, key, had, wanted, "tokens can be added, and none be taken off");
  }
  Refuse(layers, key, had, wanted,
         "leave it out: dropout, a shorter n_positions and a larger vocab_size can be set");
}

std::string OfTokens(const Tokenizer& tokenizer, const fs::path& where) {
  return fmt::format("{} has {} tokens of kind {}", where.string(),
                     WithCommas(tokenizer.vocab_size()), tokenizer.kind());
}

}  // namespace

void UseInitialModel(RunSettings& settings, const FoundModel& found) {
  Settings& layers = settings.layers;
  if (layers.layer("model.n_embd") == Layer::kPreset) {
    throw UsageError("--preset and --init do not go together", "both say which model is meant",
                     "leave one of them out");
  }
  GptConfig model = found.model.config;
  std::vector<std::pair<std::string, std::string>> values;
  const std::vector<Field> fields = model.Fields(), asked = settings.config.model.Fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    const auto is = [&](const char* key) { return field.key == key; };
    if (std::ranges::any_of(kNotOfAModel, is)) continue;
    if (!std::ranges::any_of(kOfTheTokenizer, is)) {
      RequireGoesTogether(layers, model, field, settings.config.model, asked[i]);
    }
    values.emplace_back("model." + field.key, FieldText(field));
  }
  if (found.tokenizer != nullptr) {
    const bool own_file = fs::exists(found.path / kTokenizerFile);
    values.emplace_back("data.tokenizer",
                        own_file ? found.path.string() : settings.config.train.init);
  }
  // A tenth of what models of this width begin with (automatic.cc), as A. Radford et al. (2018)
  // went on from GPT with 6.25e-5; adapters take several times as much (E. J. Hu et al., table 11).
  const double first = std::clamp(3e-3 * 128 / static_cast<double>(model.n_embd), 6e-4, 4e-3);
  const double rate = first / (settings.config.train.lora.on() ? 2 : 10);
  values.emplace_back("train.learning_rate", fmt::format("{:.3g}", rate));
  values.emplace_back("train.min_lr", fmt::format("{:.3g}", rate / 10));
  layers.UsePreset("--init", values);
  settings.Resolve();
}

void RequireTokenizerOf(const FoundModel& model, const Dataset& data, const Tokenizer* tokenizer) {
  const Tokenizer* own = model.tokenizer.get();
  if (tokenizer == nullptr || own == nullptr || own->hash() == tokenizer->hash()) return;
  bool same = own->vocab_size() <= tokenizer->vocab_size();
  for (int32_t id = 0; same && id < own->vocab_size(); ++id) {
    same = own->TokenBytes(id) == tokenizer->TokenBytes(id);
  }
  if (same && own->vocab_size() < tokenizer->vocab_size()) return;
  throw UsageError(
      fmt::format("{}: the data has another tokenizer than the model", data.dir()),
      fmt::format("{}; {}", OfTokens(*own, model.path), OfTokens(*tokenizer, data.dir())),
      "train on the text itself, or prepare it again with the model's tokenizer or one that adds "
      "tokens to it");
}

}  // namespace folio
