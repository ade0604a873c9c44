#include "folio/lesson/select_steps.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {
namespace {

void RequireStep(const Walkthrough& walk, const std::string& slug) {
  std::vector<std::string> slugs;
  for (const Step& step : walk.steps) {
    slugs.push_back(StepSlug(step));
    if (slugs.back() == slug) return;
  }
  std::ranges::sort(slugs);
  slugs.erase(std::unique(slugs.begin(), slugs.end()), slugs.end());
  throw UsageError("there is no step '" + slug + "'", "the steps are " + Join(slugs, ", "));
}

}  // namespace

std::string StepSlug(const Step& step) {
  std::string slug;
  for (const char c : step.name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) != 0) {
      slug += static_cast<char>(std::tolower(byte));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (slug.ends_with('-')) slug.pop_back();
  return slug;
}

Walkthrough SelectSteps(const Walkthrough& walk, std::span<const std::string> slugs) {
  if (slugs.empty()) return walk;
  for (const std::string& slug : slugs) RequireStep(walk, slug);
  Walkthrough selected{.topic = walk.topic, .title = walk.title};
  for (const Step& step : walk.steps) {
    if (std::ranges::find(slugs, StepSlug(step)) == slugs.end()) continue;
    selected.steps.push_back(step);
    selected.steps.back().section.clear();
  }
  return selected;
}

}  // namespace folio
