#include "folio/run/whole_conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"
#include "folio/data/conversations.h"

namespace folio {
namespace {

std::vector<int64_t> AllPositions(const Dataset& data) {
  if (!data.info().chat) return {};
  std::vector<int64_t> all = PositionsOfConversations(data.train(), *data.info().chat);
  const std::vector<int64_t> held_out = PositionsOfConversations(data.val(), *data.info().chat);
  all.insert(all.end(), held_out.begin(), held_out.end());
  return all;
}

int64_t LongestOf(const std::vector<int64_t>& positions) {
  return positions.empty() ? 0 : std::ranges::max(positions);
}

// The ways to leave all of them whole.
std::string WayOut(const RunSettings& settings, int64_t longest) {
  const GptConfig& model = settings.config.model;
  const bool chosen = settings.layers.origin("model.n_positions") == "preset automatic";
  if (chosen || longest <= model.n_positions) {
    return fmt::format("--context {} has room for all", longest);
  }
  return settings.config.train.init.empty()
             ? fmt::format("--set model.n_positions={} has room for all", longest)
             : "leave the long ones out";
}

}  // namespace

int64_t LongestConversation(const Dataset& data) {
  return LongestOf(AllPositions(data));
}

std::string RequireWholeConversations(const RunSettings& settings, const Dataset& data) {
  const std::vector<int64_t> all = AllPositions(data);
  const int64_t T = settings.config.train.context, longest = LongestOf(all);
  if (longest <= T) return "";
  const auto longer = std::ranges::count_if(all, [&](int64_t positions) { return positions > T; });
  const std::string cut = fmt::format(
      "{} of {} conversations are longer than a sequence of {} tokens, the longest "
      "takes {}",
      WithCommas(longer), WithCommas(std::ssize(all)), WithCommas(T), WithCommas(longest));
  const auto asked = [&](const char* key) { return settings.layers.layer(key) > Layer::kPreset; };
  if (asked("train.context") || asked("model.n_positions")) return cut + ": they are cut there";
  throw UsageError("conversations would be cut", cut,
                   fmt::format("{}; --context {} cuts them", WayOut(settings, longest), T));
}

}  // namespace folio
