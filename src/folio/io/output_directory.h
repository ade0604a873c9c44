#pragma once

#include <functional>
#include <string>

namespace folio {

// Throws a kUsage Error unless `out` may become a directory of some kind, a "data set" or a
// "tokenizer": it is not there, or empty, or an earlier one of the kind and `overwrite`. One that
// holds a file for which `is_part` (of its name) is false is something else and never replaced.
void CheckReplaceable(const std::string& out, const std::string& kind, bool overwrite,
                      const std::function<bool(const std::string& name)>& is_part);

}  // namespace folio
