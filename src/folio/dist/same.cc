#include "folio/dist/same.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "folio/base/error.h"
#include "folio/base/strings.h"

namespace folio {

void RequireSame(Group& group, const std::string& what, const std::string& lines,
                 const std::string& help) {
  constexpr size_t kMostShown = 3;
  const std::vector<std::string> all = group.Gather(lines);
  for (int rank = 1; rank < group.size(); ++rank) {
    const std::string& others = all[static_cast<size_t>(rank)];
    if (others == all[0]) continue;
    const std::vector<std::string> had = Split(all[0], '\n'), has = Split(others, '\n');
    std::vector<std::string> differences;
    for (size_t i = 0; i < std::max(had.size(), has.size()); ++i) {
      const std::string was = i < had.size() ? had[i] : "nothing";
      const std::string is = i < has.size() ? has[i] : "nothing";
      if (was != is) differences.push_back(fmt::format("'{}' there, '{}' at rank 0", is, was));
    }
    const size_t more = differences.size() > kMostShown ? differences.size() - kMostShown : 0;
    differences.resize(differences.size() - more);
    throw UsageError(fmt::format("{} has other {} than the first rank", group.NameOf(rank), what),
                     Join(differences, "; ") + (more > 0 ? fmt::format("; and {} more", more) : ""),
                     help);
  }
}

}  // namespace folio
