#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "folio/cli/flags.h"
#include "folio/commands/inspect/inspect_input.h"
#include "folio/lesson/topics.h"

namespace folio {

// The flags that one topic of `folio explain` or another has.
enum ExplainFlag : unsigned {
  kExplainModel = 1,      // --model
  kExplainText = 2,       // --text
  kExplainLayer = 4,      // --layer
  kExplainHead = 8,       // --head
  kExplainForm = 16,      // --form, --seed, --rng, --dropout
  kExplainValues = 32,    // --values
  kExplainSampling = 64,  // --temperature, --top-k, --top-p, --seed
  kExplainPositions = 128,
  kExplainTokenizer = 256,
};

struct ExplainInput;

// What `folio explain NAME` does.
struct ExplainTopic {
  std::string name, summary, details;
  std::vector<std::string> examples;
  unsigned flags = 0;       // ExplainFlag
  std::string values = {};  // of --values if not given
  std::string text = {};    // of --text if not given
  bool model_required = false;
  Walk (*walk)(const ExplainInput& input) = nullptr;
};
const std::vector<ExplainTopic>& ExplainTopics();

// What was given.
struct ExplainInput {
  ModelFlags model;
  std::string text, values, tokenizer, form = "all", rng = "folio";
  std::optional<int64_t> layer, head, seed, positions, channels;
  double dropout = 0.5;
  SamplingOptions sampling{.temperature = 0.8, .top_k = 5, .top_p = 0.9};

  void Add(Flags& flags, const ExplainTopic& topic);
  // Throws a kUsage Error for flags that have no meaning beside the others.
  void Check(const ExplainTopic& topic) const;

  bool has_model() const { return !model.model.empty(); }
  // The numbers of --values, one at least. Throws a kUsage Error that names what is no number.
  std::vector<float> Values() const;
};

}  // namespace folio
