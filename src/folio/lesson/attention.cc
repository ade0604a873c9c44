#include <algorithm>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/lesson/attention_forms.h"

namespace folio {
namespace {

struct Form {
  const char* name;
  void (*walk)(const AttentionTopic& topic, Backend& backend, Walk& walk);
};

constexpr Form kForms[] = {
    {"no-weights", WalkNoWeights}, {"single-head", WalkSingleHead},
    {"causal", WalkCausal},        {"stacked", WalkStacked},
    {"split", WalkSplit},          {"cross", WalkCross},
    {"grouped", WalkGrouped},
};

}  // namespace

std::vector<std::string> AttentionForms() {
  std::vector<std::string> names;
  for (const Form& form : kForms) names.emplace_back(form.name);
  return names;
}

Walk ExplainAttention(Backend& backend, const AttentionTopic& topic) {
  const std::vector<std::string> names = AttentionForms();
  if (topic.form && std::ranges::find(names, *topic.form) == names.end()) {
    throw UsageError("unknown form of attention '" + *topic.form + "'", {},
                     "one of " + Join(names, ", "));
  }
  Walk walk{.topic = "attention",
            .title = "Attention, step by step",
            .intro =
                "Six tokens, “Your journey starts with one step”, each a vector of three "
                "numbers. Attention makes a new vector for each token out of all of them. "
                "Each form below adds one idea to the one before it; every number was "
                "computed just now by the code that models run on."};
  for (const Form& form : kForms) {
    if (!topic.form || *topic.form == form.name) form.walk(topic, backend, walk);
  }
  return walk;
}

}  // namespace folio
